//! Calls, made and served.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use exonet::call::{
    CallId, Failure, Reply as CoreReply, ReplyStatus, Request as CoreRequest, Serving as CoreServing,
};
use exonet::error::CallError;
use exonet::{NodeId, Peer as CorePeer};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::args::{bytes, duration, name, priority};
use crate::fault::Fault;
use crate::node::Inner;
use crate::op::{Operation, work};
use crate::runtime::Held;

/// The largest body of a failure, in bytes.
const SAID: u64 = 16 << 20;

/// How a call is made.
pub(crate) struct Options<'a> {
    pub(crate) timeout: Option<f64>,
    pub(crate) priority: Option<&'a str>,
    pub(crate) early: Option<bool>,
}

/// See `Node.call`.
pub(crate) fn call(
    runtime: &Handle,
    peer: &CorePeer,
    method: &Bound<'_, PyAny>,
    body: Option<&Bound<'_, PyAny>>,
    options: &Options<'_>,
) -> PyResult<Operation> {
    let body = body.map(|body| bytes("body", body)).transpose()?.unwrap_or_default();
    let mut call = peer.call(name("method", method)?, body);
    if let Some(seconds) = options.timeout {
        call = call.deadline(duration("timeout", seconds)?);
    }
    if let Some(text) = options.priority {
        call = call.priority(priority(text)?);
    }
    if let Some(early) = options.early {
        call = call.early(early);
    }
    let call = async move {
        let pending = match call.start().await {
            Ok(pending) => pending,
            Err(error) => return Err(fault(error).await),
        };
        match pending.await {
            Ok(reply) => whole(reply).await,
            Err(error) => Err(fault(error).await),
        }
    };
    Ok(Operation::new(runtime, "Node.call()", work(call, Reply::give)))
}

/// A reply and its complete body.
pub(crate) async fn whole(mut reply: CoreReply) -> Result<(CallId, Bytes), Fault> {
    let body = reply.body.bytes(u64::MAX).await?;
    Ok((reply.id, body))
}

/// A failure, with its body.
pub(crate) async fn fault(mut error: CallError) -> Fault {
    let said = match &mut error {
        CallError::Failed { body, .. } => body.bytes(SAID).await.unwrap_or_default(),
        _ => Bytes::new(),
    };
    Fault::of_call(&error, &said)
}

/// The answer to a call.
#[pyclass(frozen, module = "exonet")]
pub(crate) struct Reply {
    id: CallId,
    body: Py<PyBytes>,
}

impl Reply {
    pub(crate) fn give(py: Python<'_>, (id, body): (CallId, Bytes)) -> PyResult<Py<Self>> {
        Py::new(py, Self { id, body: PyBytes::new(py, &body).unbind() })
    }
}

#[pymethods]
impl Reply {
    /// The content.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body.clone_ref(py)
    }

    /// The call's name at both ends, which no other call ever has.
    #[getter]
    fn id(&self) -> String {
        self.id.to_string()
    }

    fn __bytes__(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<Reply: {} bytes>", self.body.as_bytes(py).len())
    }
}

/// The answer to a call.
type Answered = Result<Bytes, Failure>;

/// A call that Python has to answer.
struct Asked {
    caller: NodeId,
    id: CallId,
    method: Bytes,
    body: Bytes,
    answer: oneshot::Sender<Answered>,
}

/// A call that has to be answered. If it is dropped without an answer, its caller gets `CallFailed`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Request {
    caller: NodeId,
    id: CallId,
    method: Bytes,
    body: Py<PyBytes>,
    answer: Mutex<Option<oneshot::Sender<Answered>>>,
}

impl Request {
    fn answer(&self, py: Python<'_>, answer: Answered) -> bool {
        let sender = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| sender.is_some_and(|sender| sender.send(answer).is_ok()))
    }
}

#[pymethods]
impl Request {
    /// The id of the caller, which is proven.
    #[getter]
    fn caller(&self) -> String {
        self.caller.to_string()
    }

    /// The permanent name of the call at both ends: the key under which an external effect is made only once.
    #[getter]
    fn id(&self) -> String {
        self.id.to_string()
    }

    /// The name of the method that was called.
    #[getter]
    fn method(&self) -> String {
        String::from_utf8_lossy(&self.method).into_owned()
    }

    /// The content.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body.clone_ref(py)
    }

    /// Answers the call. False: it was answered before, or the caller no longer waits.
    fn _reply(&self, body: &Bound<'_, PyAny>) -> PyResult<bool> {
        let reply = if body.is_none() { Bytes::new() } else { name("the reply", body)? };
        Ok(self.answer(body.py(), Ok(reply)))
    }

    /// Answers the call with a failure. False: as for `_reply`.
    fn _fail(&self, status: u32, body: &Bound<'_, PyAny>) -> PyResult<bool> {
        let failure = Failure::new(status, name("the body of a failure", body)?);
        Ok(self.answer(body.py(), Err(failure)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "<Request {:?} from {}: {} bytes>",
            self.method(),
            self.caller.short(),
            self.body.as_bytes(py).len()
        )
    }
}

/// A method that is served in native code: Python takes its calls.
#[pyclass(frozen, module = "exonet._native", weakref)]
pub(crate) struct Calls {
    runtime: Handle,
    serving: Mutex<Option<Held<CoreServing>>>,
    asked: Held<Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Asked>>>>,
}

/// Serves a method: its calls wait in a queue of at most `concurrency` calls.
pub(crate) fn serve(
    inner: &Arc<Inner>,
    method: Bytes,
    concurrency: usize,
    timeout: Option<f64>,
) -> PyResult<Calls> {
    let (queue, asked) = mpsc::unbounded_channel();
    let handler = move |request: CoreRequest| answer(queue.clone(), request);
    let mut serve = inner.node.serve(method, handler).concurrency(concurrency);
    if let Some(seconds) = timeout {
        serve = serve.timeout(duration("timeout", seconds)?);
    }
    let _context = inner.runtime.enter();
    let serving = serve.start().map_err(Fault::from)?;
    Ok(Calls {
        runtime: inner.runtime.clone(),
        serving: Mutex::new(Some(Held::new(serving))),
        asked: Held::new(Arc::new(tokio::sync::Mutex::new(asked))),
    })
}

async fn answer(queue: mpsc::UnboundedSender<Asked>, mut request: CoreRequest) -> Answered {
    let body = request.body.bytes(u64::MAX).await?;
    let (answer, answered) = oneshot::channel();
    let CoreRequest { caller, id, method, .. } = request;
    // If the queue is closed, or the request is dropped, the answer is a failure.
    let _ = queue.send(Asked { caller, id, method, body, answer });
    answered.await.unwrap_or_else(|_| Err(ReplyStatus::FAILED.into()))
}

#[pymethods]
impl Calls {
    /// Waits for calls: a list of at least one and at most `max` `Request` objects. Raises `Closed` when the method is
    /// no longer served.
    fn next_many(&self, max: usize) -> PyResult<Operation> {
        let asked = Arc::clone(self.asked.get()?);
        let next = async move {
            let mut all = Vec::new();
            let taken = asked.lock().await.recv_many(&mut all, max.max(1)).await;
            if taken == 0 { Err(Fault::closed()) } else { Ok(all) }
        };
        let give = |py: Python<'_>, all: Vec<Asked>| {
            let request = |asked: Asked| {
                let Asked { caller, id, method, body, answer } = asked;
                let body = PyBytes::new(py, &body).unbind();
                Py::new(py, Request { caller, id, method, body, answer: Mutex::new(Some(answer)) })
            };
            let all: PyResult<Vec<_>> = all.into_iter().map(request).collect();
            Ok(PyList::new(py, all?)?.unbind())
        };
        Ok(Operation::new(&self.runtime, "Calls.next_many()", work(next, give)))
    }

    /// Takes no new calls, and waits until those that run have been answered, for `timeout` seconds at most. Returns
    /// how many still run.
    #[pyo3(signature = (timeout=5.0))]
    fn stop(&self, timeout: f64) -> PyResult<Operation> {
        let timeout = duration("timeout", timeout)?;
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        let serving = serving.map(Held::take).transpose()?;
        let stop = async move {
            Ok(match serving {
                Some(serving) => serving.stop(timeout).await,
                None => 0,
            })
        };
        let give = |py: Python<'_>, left: usize| Ok(left.into_pyobject(py)?.unbind());
        Ok(Operation::new(&self.runtime, "Serving.stop()", work(stop, give)))
    }
}
