//! Received messages.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::{Bytes, BytesMut};
use exonet::receive::Received as CoreReceived;
use exonet::session::SessionMessage;
use exonet::{Delivery as CoreDelivery, MessageId, NodeId, Priority};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::answer;
use crate::args::{self, Treatment, duration, priority_name};
use crate::fault::Fault;
use crate::node::Inner;
use crate::op::Operation;
use crate::runtime::Held;

/// A delivery whose body is being assembled. If the waiting task is cancelled, the next one continues with it.
pub(crate) struct Assembly<'a> {
    inner: &'a Inner,
    begun: Option<Begun>,
}

/// The part of a body that has arrived.
pub(crate) struct Begun {
    delivery: CoreDelivery,
    body: BytesMut,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(inner: &'a Inner, delivery: CoreDelivery) -> Self {
        Self { inner, begun: Some(Begun { delivery, body: BytesMut::new() }) }
    }

    pub(crate) const fn resume(inner: &'a Inner, begun: Begun) -> Self {
        Self { inner, begun: Some(begun) }
    }

    /// The complete message.
    pub(crate) async fn whole(mut self) -> Result<Taken, Fault> {
        let Some(begun) = &mut self.begun else { return Err(Fault::closed()) };
        if let Some(body) = begun.delivery.body().as_whole().cloned() {
            let delivery = self.begun.take().map(|begun| begun.delivery);
            return delivery.map(|delivery| Taken::of_delivery(delivery, body)).ok_or_else(Fault::closed);
        }
        loop {
            match begun.delivery.body_mut().chunk().await {
                Ok(Some(chunk)) => begun.body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => {
                    self.begun = None;
                    return Err(error.into());
                }
            }
        }
        let begun = self.begun.take();
        begun.map(|begun| Taken::of_delivery(begun.delivery, begun.body.freeze())).ok_or_else(Fault::closed)
    }
}

impl Drop for Assembly<'_> {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.inner.put_back(begun);
        }
    }
}

/// The guard of a message.
pub(crate) enum Guard {
    Message(Box<CoreDelivery>),
    Session(Box<SessionMessage>),
}

impl From<CoreDelivery> for Guard {
    fn from(delivery: CoreDelivery) -> Self {
        Self::Message(Box::new(delivery))
    }
}

impl From<SessionMessage> for Guard {
    fn from(message: SessionMessage) -> Self {
        Self::Session(Box::new(message))
    }
}

/// A message that is handed out, and not yet an object of Python.
pub(crate) struct Taken {
    guard: Guard,
    head: Head,
    attempt: u32,
    body: Bytes,
}

/// The properties of a message except for its body.
struct Head {
    id: MessageId,
    tag: Bytes,
    priority: Priority,
}

impl Head {
    fn sender(&self) -> NodeId {
        self.id.sender
    }
}

impl Taken {
    pub(crate) fn of_delivery(delivery: CoreDelivery, body: Bytes) -> Self {
        let head = Head { id: delivery.id(), tag: delivery.tag().clone(), priority: delivery.priority() };
        Self { head, attempt: delivery.attempt(), body, guard: delivery.into() }
    }

    pub(crate) fn of_session(message: SessionMessage) -> Self {
        let head = Head { id: message.id(), tag: Bytes::new(), priority: Priority::Normal };
        let (attempt, body) = (message.attempt(), message.body().clone());
        Self { head, attempt, body, guard: message.into() }
    }

    pub(crate) fn give(self, py: Python<'_>, inner: &Arc<Inner>) -> PyResult<Py<Delivery>> {
        let Self { guard, head, attempt, body } = self;
        let (guard, inner) = (Mutex::new(Some(Held::new(guard))), Held::new(Arc::downgrade(inner)));
        Py::new(py, Delivery { guard, inner, head, attempt, body, made: PyOnceLock::new() })
    }
}

/// A received message, which is delivered only when `ack()` succeeds. If it is dropped before, it is handed out again.
///
/// As a context manager it is acknowledged at the end of the block, and handed out again if the block raises.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Delivery {
    guard: Mutex<Option<Held<Guard>>>,
    /// A delivery does not keep its node going.
    inner: Held<Weak<Inner>>,
    head: Head,
    attempt: u32,
    body: Bytes,
    made: PyOnceLock<Py<PyBytes>>,
}

impl Delivery {
    fn guard(&self) -> Result<Option<Guard>, Fault> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        guard.map(Held::take).transpose()
    }

    /// The guard, to deal with the message.
    pub(crate) fn open(&self) -> Result<Guard, Fault> {
        self.guard()?.ok_or_else(|| {
            Fault::usage(
                "this delivery has been dealt with already: it is acknowledged, rejected or put off once",
            )
        })
    }

    /// Undoes [`Self::open`].
    pub(crate) fn put_back(&self, guard: Guard) {
        *self.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Held::new(guard));
    }

    fn inner(&self) -> Result<Arc<Inner>, Fault> {
        self.inner.get()?.upgrade().ok_or_else(Fault::closed)
    }

    fn is_open(&self) -> bool {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

#[pymethods]
impl Delivery {
    /// The content.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.made.get_or_init(py, || PyBytes::new(py, &self.body).unbind()).clone_ref(py)
    }

    /// The content, as a buffer.
    #[getter]
    fn view(&self, py: Python<'_>) -> PyResult<Py<PyMemoryView>> {
        Ok(PyMemoryView::from(self.body(py).bind(py))?.unbind())
    }

    /// The id of the sender, which is proven: pass it to `node.send` to answer.
    #[getter]
    fn sender(&self) -> String {
        self.head.sender().to_string()
    }

    /// The permanent name of the message at both ends: the key under which an external effect is made only once.
    #[getter]
    fn id(&self) -> String {
        self.head.id.to_string()
    }

    /// The tag, for dispatch, as text; bytes that are not UTF-8 are replaced: see `tag_bytes`.
    #[getter]
    fn tag(&self) -> String {
        String::from_utf8_lossy(&self.head.tag).into_owned()
    }

    /// The tag as it was sent.
    #[getter]
    fn tag_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.head.tag).unbind()
    }

    /// The priority from the sender: "urgent", "normal", "low" or "bulk".
    #[getter]
    const fn priority(&self) -> &'static str {
        priority_name(self.head.priority)
    }

    /// The number of times that the message was handed out, starting at 1.
    #[getter]
    const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether it may have been handed out before: the application may have to find out, by the `id`, what it did with
    /// it then.
    #[getter]
    const fn redelivered(&self) -> bool {
        self.attempt > 1
    }

    /// Acknowledges the message: from here on it is delivered. A sender that asked for `confirm="processed"` is told
    /// the status.
    ///
    /// Raises `NotDelivered` if the record of the message died meanwhile: it must not be acted on.
    #[pyo3(signature = (status=0))]
    fn ack(&self, py: Python<'_>, #[pyo3(from_py_with = args::status)] status: u32) -> PyResult<()> {
        let guard = self.open()?;
        let acked = py.detach(|| match guard {
            Guard::Message(delivery) => delivery.ack_with(status),
            Guard::Session(message) => message.ack_with(status),
        });
        Ok(acked.map_err(Fault::from)?)
    }

    /// Acknowledges the message like `ack()`, and sends an answer to its sender, in one step: both happen, or neither,
    /// also if the process is killed. Returns the `Receipt` of the answer. The arguments are those of `Node.send`. On a
    /// thread without an event loop: `delivery.answer(body).wait()`. A message of a session is answered by
    /// `Session.answer`.
    ///
    /// Raises `AnswerError` if the answer was not sent: then this delivery is as it was, and may be acknowledged, rejected
    /// or put off, or answered with something else. Raises `NotDelivered` like `ack()`. If cancelled, nothing was sent, and
    /// the message is handed out again; on a node that forces its journal to the disk, both may have happened.
    #[pyo3(signature = (body, *, tag=None, priority=None, deadline=None, confirm=None, early=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn answer(
        slf: &Bound<'_, Self>,
        body: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        priority: Option<&str>,
        deadline: Option<f64>,
        confirm: Option<&str>,
        early: Option<bool>,
    ) -> PyResult<Operation> {
        let message = Treatment { tag, priority, deadline, confirm, early }.message(body)?;
        answer::answer(slf, &slf.get().inner()?, message)
    }

    /// Acknowledges the message, and sends another one to any peer, in one step: everything else is as for `answer()`. With
    /// a `state_dir`, messages go through a chain of nodes without a loss or a repetition, whichever of them is killed.
    #[pyo3(signature = (to, body, *, tag=None, priority=None, deadline=None, confirm=None, early=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn ack_and_send(
        slf: &Bound<'_, Self>,
        to: &Bound<'_, PyAny>,
        body: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        priority: Option<&str>,
        deadline: Option<f64>,
        confirm: Option<&str>,
        early: Option<bool>,
    ) -> PyResult<Operation> {
        let message = Treatment { tag, priority, deadline, confirm, early }.message(body)?;
        let inner = slf.get().inner()?;
        answer::ack_and_send(slf, &inner, inner.peer(to)?, message)
    }

    /// Rejects the message for good: its sender is told REJECTED, and the first 200 bytes of the reason. The node
    /// keeps the message as a dead letter.
    #[pyo3(signature = (reason="", status=0))]
    fn reject(
        &self,
        py: Python<'_>,
        reason: &str,
        #[pyo3(from_py_with = args::status)] status: u32,
    ) -> PyResult<()> {
        let guard = self.open()?;
        py.detach(|| match guard {
            Guard::Message(delivery) => delivery.reject_with(status, reason),
            Guard::Session(message) => message.reject_with(status, reason),
        });
        Ok(())
    }

    /// Hands the message out again, `seconds` from now at the earliest. It counts as an attempt.
    fn retry_after(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let wait = duration("seconds", seconds)?;
        let guard = self.open()?;
        py.detach(|| match guard {
            Guard::Message(delivery) => delivery.retry_after(wait),
            Guard::Session(message) => message.retry_after(wait),
        });
        Ok(())
    }

    /// Hands the message out again now, as when it is dropped.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let guard = self.guard()?;
        py.detach(|| drop(guard));
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        match (kind.is_none(), self.is_open()) {
            (_, false) => {}
            (true, true) => self.ack(py, 0)?,
            (false, true) => self.release(py)?,
        }
        Ok(false)
    }

    fn __len__(&self) -> usize {
        self.body.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Delivery from {}: {} bytes, tag {:?}>",
            self.head.sender().short(),
            self.body.len(),
            self.tag()
        )
    }
}

/// A message that was delivered when it was received. `Node.at_most_once()` returns these.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Received {
    head: Head,
    body: Py<PyBytes>,
}

impl Received {
    /// A message whose body is complete.
    pub(crate) fn give(py: Python<'_>, received: CoreReceived, body: &[u8]) -> PyResult<Py<Self>> {
        let head = Head { id: received.id, tag: received.tag, priority: received.priority };
        Py::new(py, Self { head, body: PyBytes::new(py, body).unbind() })
    }
}

#[pymethods]
impl Received {
    /// The content.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body.clone_ref(py)
    }

    /// The id of the sender, which is proven.
    #[getter]
    fn sender(&self) -> String {
        self.head.sender().to_string()
    }

    /// The permanent name of the message at both ends.
    #[getter]
    fn id(&self) -> String {
        self.head.id.to_string()
    }

    /// The tag, for dispatch, as text.
    #[getter]
    fn tag(&self) -> String {
        String::from_utf8_lossy(&self.head.tag).into_owned()
    }

    /// The tag as it was sent.
    #[getter]
    fn tag_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        PyBytes::new(py, &self.head.tag).unbind()
    }

    /// The priority from the sender: "urgent", "normal", "low" or "bulk".
    #[getter]
    const fn priority(&self) -> &'static str {
        priority_name(self.head.priority)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let len = self.body.as_bytes(py).len();
        format!("<Received from {}: {len} bytes, tag {:?}>", self.head.sender().short(), self.tag())
    }
}
