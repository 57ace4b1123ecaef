//! Streams: messages in order.

use std::sync::Arc;

use exonet::stream::{Stream as CoreStream, StreamListener as CoreListener, StreamReceiver, StreamSender};
use exonet::{Delivery as CoreDelivery, Receipt as CoreReceipt};
use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::answer;
use crate::args::Treatment;
use crate::delivery::{Delivery, Taken};
use crate::fault::Fault;
use crate::node::Inner;
use crate::op::{Operation, Work, work};
use crate::receipt::Receipt;
use crate::runtime::Held;

/// A stream with a peer: messages in order, in both directions. Dropping it ends neither direction: another handle
/// continues at the same place.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct Stream {
    sender: Held<Arc<Mutex<StreamSender>>>,
    reader: Reader,
    peer: String,
    name: String,
}

/// A delivery whose body is complete, as those of streams are.
async fn taken(mut delivery: CoreDelivery) -> Result<Taken, Fault> {
    let body = match delivery.body().as_whole() {
        Some(body) => body.clone(),
        None => delivery.body_mut().bytes(u64::MAX).await?,
    };
    Ok(Taken::of_delivery(delivery, body))
}

async fn next(receiver: Arc<Mutex<Option<StreamReceiver>>>) -> Result<Option<Taken>, Fault> {
    let mut receiver = receiver.lock().await;
    let Some(receiver) = receiver.as_mut() else { return Ok(None) };
    match receiver.recv().await? {
        Some(delivery) => taken(delivery).await.map(Some),
        None => Ok(None),
    }
}

/// Makes a `Delivery` of a message, and None of the end.
pub(crate) fn giver(
    inner: &Arc<Inner>,
) -> impl FnOnce(Python<'_>, Option<Taken>) -> PyResult<Py<PyAny>> + Send + 'static {
    let inner = Arc::clone(inner);
    move |py, taken| taken.map_or_else(|| Ok(py.None()), |taken| taken.give(py, &inner).map(Py::into_any))
}

/// A step of `async for`: the next message, or the end of the loop.
pub(crate) fn step(
    inner: &Arc<Inner>,
    next: impl Future<Output = Result<Option<Taken>, Fault>> + Send + 'static,
) -> Operation {
    let step = async move { next.await?.ok_or_else(Fault::end).map(Some) };
    Operation::of_for(&inner.runtime, "async for", work(step, giver(inner)))
}

/// Reads one direction of a stream.
pub(crate) struct Reader {
    inner: Held<Arc<Inner>>,
    /// None: the stream was stopped.
    receiver: Held<Arc<Mutex<Option<StreamReceiver>>>>,
}

impl Reader {
    pub(crate) fn new(inner: &Arc<Inner>, receiver: StreamReceiver) -> Self {
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        Self { inner: Held::new(Arc::clone(inner)), receiver: Held::new(receiver) }
    }

    /// The method `name`, which waits for the next message.
    pub(crate) fn recv(&self, name: &'static str) -> PyResult<Operation> {
        let (inner, next) = (self.inner.get()?, next(Arc::clone(self.receiver.get()?)));
        Ok(Operation::new(&inner.runtime, name, work(next, giver(inner))))
    }

    /// A step of `async for`.
    pub(crate) fn step(&self) -> PyResult<Operation> {
        Ok(step(self.inner.get()?, next(Arc::clone(self.receiver.get()?))))
    }
}

impl Stream {
    pub(crate) fn give(py: Python<'_>, inner: &Arc<Inner>, stream: CoreStream) -> PyResult<Py<Self>> {
        let (peer, name) =
            (stream.peer().id().to_string(), String::from_utf8_lossy(stream.name()).into_owned());
        let (sender, receiver) = stream.split();
        let (sender, reader) = (Held::new(Arc::new(Mutex::new(sender))), Reader::new(inner, receiver));
        Py::new(py, Self { sender, reader, peer, name })
    }

    fn receipt(
        &self,
        name: &'static str,
        queue: impl Future<Output = Result<CoreReceipt, Fault>> + Send + 'static,
    ) -> PyResult<Operation> {
        let runtime = self.reader.inner.get()?.runtime.clone();
        let handle = runtime.clone();
        let give = move |py: Python<'_>, receipt| Receipt::give(py, handle, receipt);
        Ok(Operation::new(&runtime, name, work(queue, give)))
    }
}

#[pymethods]
impl Stream {
    /// The id of the peer at the other end.
    #[getter]
    fn peer(&self) -> &str {
        &self.peer
    }

    /// The name of the stream.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Sends a message after all earlier ones of this stream. Returns its `Receipt`. Two tasks that send take turns.
    #[pyo3(signature = (body, *, deadline=None, confirm=None))]
    fn send(
        &self,
        body: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        confirm: Option<&str>,
    ) -> PyResult<Operation> {
        let message = Treatment::in_stream(deadline, confirm).message(body)?;
        let sender = Arc::clone(self.sender.get()?);
        self.receipt("Stream.send()", async move { Ok(sender.lock().await.send(message).await?) })
    }

    /// Acknowledges a delivery like `Delivery.answer`, and sends a message in this stream, in one step. Returns its
    /// `Receipt`. The delivery may be of this stream, of another, or of none.
    #[pyo3(signature = (delivery, body, *, deadline=None, confirm=None))]
    fn ack_and_send(
        &self,
        delivery: &Bound<'_, Delivery>,
        body: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        confirm: Option<&str>,
    ) -> PyResult<Operation> {
        let message = Treatment::in_stream(deadline, confirm).message(body)?;
        let (sender, delivery) = (Arc::clone(self.sender.get()?), delivery.clone().unbind());
        self.receipt("Stream.ack_and_send()", async move {
            let mut sender = sender.lock().await;
            let sent = sender.ack_and_send(answer::message_of(delivery.get())?, message).await;
            answer::settle(delivery, sent)
        })
    }

    /// Ends this direction after all messages that were sent in it. The `Receipt` tells when the peer's application
    /// has received the end.
    fn close(&self) -> PyResult<Operation> {
        let sender = Arc::clone(self.sender.get()?);
        self.receipt("Stream.close()", async move { Ok(sender.lock().await.close().await?) })
    }

    /// Gives up the messages of this direction that have not left, and ends the direction.
    fn reset(&self) -> PyResult<Operation> {
        let sender = Arc::clone(self.sender.get()?);
        self.receipt("Stream.reset()", async move { Ok(sender.lock().await.reset().await?) })
    }

    /// Waits for the next message: a `Delivery`, or None at the end of the stream. A message is handed out when the
    /// one before it has been acknowledged, rejected or put off.
    ///
    /// Raises `StreamMissing` and `StreamContinues` once, and continues when called again; `StreamReset` and
    /// `StreamBroken` for good.
    fn recv(&self) -> PyResult<Operation> {
        self.reader.recv("Stream.recv()")
    }

    /// Stops receiving: messages that arrive until the stream ends are rejected, with this reason.
    #[pyo3(signature = (reason=""))]
    fn stop(&self, reason: &str) -> PyResult<Operation> {
        let Reader { inner, receiver } = &self.reader;
        let (receiver, reason) = (Arc::clone(receiver.get()?), reason.to_owned());
        let stop = async move {
            if let Some(receiver) = receiver.lock().await.take() {
                receiver.stop(reason);
            }
            Ok(())
        };
        Ok(Operation::new(&inner.get()?.runtime, "Stream.stop()", work(stop, |py, ()| Ok(py.None()))))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        self.reader.step()
    }

    fn __repr__(&self) -> String {
        format!("<Stream {:?} with {}>", self.name, self.peer)
    }
}

/// Accepts the streams of one name, from all peers: `node.stream_listener(name)`.
#[pyclass(frozen, module = "exonet", weakref)]
pub(crate) struct StreamListener {
    inner: Held<Arc<Inner>>,
    listener: Held<Arc<CoreListener>>,
}

impl StreamListener {
    pub(crate) fn new(inner: &Arc<Inner>, listener: CoreListener) -> Self {
        Self { inner: Held::new(Arc::clone(inner)), listener: Held::new(Arc::new(listener)) }
    }

    fn next(&self) -> PyResult<Work> {
        let (inner, listener) = (Arc::clone(self.inner.get()?), Arc::clone(self.listener.get()?));
        let accept = async move { Ok(listener.accept().await?) };
        Ok(work(accept, move |py, stream| Stream::give(py, &inner, stream)))
    }
}

#[pymethods]
impl StreamListener {
    /// Waits for the next stream of the name.
    fn accept(&self) -> PyResult<Operation> {
        Ok(Operation::new(&self.inner.get()?.runtime, "StreamListener.accept()", self.next()?))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        Ok(Operation::of_for(&self.inner.get()?.runtime, "async for", self.next()?))
    }
}
