//! Sessions: conversations that outlive connections.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use exonet::Session as CoreSession;
use exonet::session::{SessionBuilder, SessionListener as CoreListener, SessionReceiver, SessionSender};
use pyo3::prelude::*;
use tokio::sync::{Mutex, Notify};

use crate::answer;
use crate::args::{Treatment, duration};
use crate::delivery::{Delivery, Taken};
use crate::fault::Fault;
use crate::node::Inner;
use crate::op::{Operation, Work, work};
use crate::receipt::Receipt;
use crate::runtime::Held;
use crate::stream::{giver, step};

/// The two directions of a session. None: the handle was given up.
struct Halves {
    sender: Mutex<Option<SessionSender>>,
    receiver: Mutex<Option<SessionReceiver>>,
    /// The handle is given up: a task that receives releases it.
    is_over: AtomicBool,
    over: Notify,
}

fn over() -> Fault {
    Fault::new("SessionError", "this handle on the session has been given up: open or accept another")
}

impl Halves {
    async fn next(&self) -> Result<Option<Taken>, Fault> {
        let ends = self.over.notified();
        if self.is_over.load(Ordering::Acquire) {
            return Err(over());
        }
        let next = async {
            let mut receiver = self.receiver.lock().await;
            let receiver = receiver.as_mut().ok_or_else(over)?;
            Ok(receiver.recv().await?.map(Taken::of_session))
        };
        tokio::select! {
            next = next => next,
            () = ends => Err(over()),
        }
    }

    /// Both directions, when no task uses them.
    async fn whole(&self) -> Result<CoreSession, Fault> {
        self.is_over.store(true, Ordering::Release);
        self.over.notify_waiters();
        let (mut receiver, mut sender) = (self.receiver.lock().await, self.sender.lock().await);
        let (receiver, sender) = (receiver.take().ok_or_else(over)?, sender.take().ok_or_else(over)?);
        CoreSession::unsplit(sender, receiver).map_err(|_| over())
    }
}

/// One end of a session: `await node.session(peer, name)`, or `await node.accept_session()`. If it is dropped, the
/// session is aborted, unless it has ended or its node is closed first.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Session {
    inner: Held<Arc<Inner>>,
    halves: Held<Arc<Halves>>,
    id: String,
    name: String,
    peer: String,
    is_client: bool,
}

impl Session {
    pub(crate) fn give(py: Python<'_>, inner: &Arc<Inner>, session: CoreSession) -> PyResult<Py<Self>> {
        let (id, peer, is_client) =
            (session.id().to_string(), session.peer().id().to_string(), session.is_client());
        let name = String::from_utf8_lossy(session.name()).into_owned();
        let (sender, receiver) = session.split();
        let halves = Halves {
            sender: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            is_over: AtomicBool::new(false),
            over: Notify::new(),
        };
        let (inner, halves) = (Held::new(Arc::clone(inner)), Held::new(Arc::new(halves)));
        Py::new(py, Self { inner, halves, id, name, peer, is_client })
    }

    fn operation(&self, name: &'static str, work: Work) -> PyResult<Operation> {
        Ok(Operation::new(&self.inner.get()?.runtime, name, work))
    }

    /// An action on both directions that ends the handle.
    fn last<F>(
        &self,
        name: &'static str,
        act: impl FnOnce(CoreSession) -> F + Send + 'static,
    ) -> PyResult<Operation>
    where
        F: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        let halves = Arc::clone(self.halves.get()?);
        let last = async move { act(halves.whole().await?).await };
        self.operation(name, work(last, |py, ()| Ok(py.None())))
    }
}

#[pymethods]
impl Session {
    /// The id of the session, for `node.attach_session`.
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    /// The name of the session.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The id of the peer at the other end.
    #[getter]
    fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether this end has opened the session.
    #[getter]
    const fn is_client(&self) -> bool {
        self.is_client
    }

    /// Sends a message of any size after all earlier ones of this session. Returns its `Receipt`.
    #[pyo3(signature = (body, *, deadline=None, confirm=None))]
    fn send(
        &self,
        body: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        confirm: Option<&str>,
    ) -> PyResult<Operation> {
        let message = Treatment::in_stream(deadline, confirm).message(body)?;
        let halves = Arc::clone(self.halves.get()?);
        let send = async move {
            let mut sender = halves.sender.lock().await;
            Ok(sender.as_mut().ok_or_else(over)?.send(message).await?)
        };
        let runtime = self.inner.get()?.runtime.clone();
        self.operation("Session.send()", work(send, move |py, receipt| Receipt::give(py, runtime, receipt)))
    }

    /// Acknowledges a delivery of a session like `Delivery.answer`, and sends a message of any size in this session, in one
    /// step. Returns its `Receipt`.
    #[pyo3(signature = (delivery, body, *, deadline=None, confirm=None))]
    fn answer(
        &self,
        delivery: &Bound<'_, Delivery>,
        body: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        confirm: Option<&str>,
    ) -> PyResult<Operation> {
        let message = Treatment::in_stream(deadline, confirm).message(body)?;
        let (halves, delivery) = (Arc::clone(self.halves.get()?), delivery.clone().unbind());
        let answer = async move {
            let mut sender = halves.sender.lock().await;
            let Some(sender) = sender.as_mut() else { return Err(answer::refused(delivery, over())) };
            let answered = sender.answer(answer::session_message_of(delivery.get())?, message).await;
            answer::settle(delivery, answered)
        };
        let runtime = self.inner.get()?.runtime.clone();
        let give = move |py: Python<'_>, receipt| Receipt::give(py, runtime, receipt);
        self.operation("Session.answer()", work(answer, give))
    }

    /// Waits for the next message: a `Delivery`, or None when the peer has closed the session and everything was
    /// received.
    ///
    /// Raises `SessionMissing` once, and continues when called again; `SessionEnded` for good.
    fn recv(&self) -> PyResult<Operation> {
        let halves = Arc::clone(self.halves.get()?);
        let next = async move { halves.next().await };
        self.operation("Session.recv()", work(next, giver(self.inner.get()?)))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        let halves = Arc::clone(self.halves.get()?);
        Ok(step(self.inner.get()?, async move { halves.next().await }))
    }

    /// Sends nothing more: the peer's application is told so after all earlier messages. The `Receipt` tells when it
    /// has been told.
    fn finish(&self) -> PyResult<Operation> {
        let halves = Arc::clone(self.halves.get()?);
        let finish = async move {
            let mut sender = halves.sender.lock().await;
            Ok(sender.as_mut().ok_or_else(over)?.close().await?)
        };
        let runtime = self.inner.get()?.runtime.clone();
        self.operation(
            "Session.finish()",
            work(finish, move |py, receipt| Receipt::give(py, runtime, receipt)),
        )
    }

    /// Ends the session: nothing more is sent, and messages that were sent get `timeout` seconds at most to settle.
    /// Messages that the peer sends from now on are rejected. Raises `SessionAway` if not all were settled in time.
    #[pyo3(signature = (timeout=5.0))]
    fn close(&self, timeout: f64) -> PyResult<Operation> {
        let timeout = duration("timeout", timeout)?;
        self.last("Session.close()", move |session| async move { Ok(session.close(timeout).await?) })
    }

    /// Ends the session now: messages that have not left are cancelled, and those that the peer sends are rejected.
    fn abort(&self) -> PyResult<Operation> {
        self.last("Session.abort()", |session| async move {
            session.abort();
            Ok(())
        })
    }

    /// Refuses a session that a peer has opened, and tells it why.
    #[pyo3(signature = (reason=""))]
    fn refuse(&self, reason: &str) -> PyResult<Operation> {
        let reason = reason.to_owned();
        self.last("Session.refuse()", |session| async move {
            session.refuse(reason);
            Ok(())
        })
    }

    /// Gives the handle up, and leaves the session as it is: for `node.attach_session`, or for `node.accept_session`,
    /// which returns it again when the peer sends a message.
    fn detach(&self) -> PyResult<Operation> {
        self.last("Session.detach()", |session| async move {
            session.detach();
            Ok(())
        })
    }

    fn __repr__(&self) -> String {
        format!("<Session {:?} {} with {}>", self.name, self.id, self.peer)
    }
}

/// The limits of a session.
pub(crate) struct Limits {
    pub(crate) idle: Option<f64>,
    pub(crate) life: Option<f64>,
    pub(crate) longest: Option<usize>,
}

impl Limits {
    pub(crate) fn of(&self, mut builder: SessionBuilder) -> Result<SessionBuilder, Fault> {
        if let Some(seconds) = self.idle {
            builder = builder.idle(duration("idle", seconds)?);
        }
        if let Some(seconds) = self.life {
            builder = builder.life(duration("life", seconds)?);
        }
        if let Some(bytes) = self.longest {
            builder = builder.longest(bytes);
        }
        Ok(builder)
    }
}

/// Accepts the sessions of one name, from all peers: `node.session_listener(name)`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct SessionListener {
    inner: Held<Arc<Inner>>,
    listener: Held<Arc<CoreListener>>,
}

impl SessionListener {
    pub(crate) fn new(inner: &Arc<Inner>, listener: CoreListener) -> Self {
        Self { inner: Held::new(Arc::clone(inner)), listener: Held::new(Arc::new(listener)) }
    }

    fn next(&self) -> PyResult<Work> {
        let (inner, listener) = (Arc::clone(self.inner.get()?), Arc::clone(self.listener.get()?));
        let accept = async move { Ok(listener.accept().await?) };
        Ok(work(accept, move |py, session| Session::give(py, &inner, session)))
    }
}

#[pymethods]
impl SessionListener {
    /// Waits for the next session of the name.
    fn accept(&self) -> PyResult<Operation> {
        Ok(Operation::new(&self.inner.get()?.runtime, "SessionListener.accept()", self.next()?))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        Ok(Operation::of_for(&self.inner.get()?.runtime, "async for", self.next()?))
    }
}
