//! The node.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use exonet::send::{OpenMessage, Status};
use exonet::session::SessionId;
use exonet::stats::Stats;
use exonet::{Allow, Builder, Carrier, Durability, Node as CoreNode, NodeId, Peer as CorePeer, PeerAddr};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use tokio::runtime::Handle;

use crate::args::{self, Treatment, duration};
use crate::call;
use crate::delivery::{Assembly, Begun, Taken};
use crate::fault::Fault;
use crate::group::{self, Group};
use crate::op::{Operation, Work, work};
use crate::peer::{self, Peer};
use crate::receive::AtMostOnce;
use crate::runtime::{self, Held};
use crate::session::{Limits, Session, SessionListener};
use crate::stream::{Stream, StreamListener};

/// The number of peers that are cached by the text that names them.
const KNOWN: usize = 4_096;

/// The longest message, unless the application says otherwise, in bytes: a body is put together in memory.
const LONGEST: u64 = 64 << 20;

/// A running node, and the state that Python objects share with it.
pub(crate) struct Inner {
    pub(crate) node: CoreNode,
    pub(crate) runtime: Handle,
    /// Peers by the text that names them.
    peers: Mutex<HashMap<String, CorePeer>>,
    /// Deliveries whose bodies were being assembled when the waiting task was cancelled.
    begun: Mutex<Vec<Begun>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// The peer for an address, an id or a `Peer`.
    pub(crate) fn peer(&self, to: &Bound<'_, PyAny>) -> PyResult<CorePeer> {
        if let Ok(peer) = to.cast::<Peer>() {
            return Ok(peer.get().core()?.clone());
        }
        // A `blocking.Peer` has one of these.
        if let Ok(native) = to.getattr("_peer")
            && let Ok(peer) = native.cast::<Peer>()
        {
            return Ok(peer.get().core()?.clone());
        }
        let Ok(text) = to.cast::<PyString>() else {
            let text = format!("a peer is a text ID@HOST:PORT or a Peer, not {}", to.get_type());
            return Err(Fault::new("ArgumentTypeError", text).raise(to.py()));
        };
        let text = text.to_cow()?;
        let mut peers = locked(&self.peers);
        if let Some(peer) = peers.get(&*text) {
            return Ok(peer.clone());
        }
        let address: PeerAddr = text.parse().map_err(Fault::from)?;
        let peer = self.node.peer(address);
        if peers.len() >= KNOWN {
            peers.clear();
        }
        peers.insert(text.into_owned(), peer.clone());
        Ok(peer)
    }

    /// Keeps a delivery that is partly read for the next receiving task.
    pub(crate) fn put_back(&self, begun: Begun) {
        locked(&self.begun).push(begun);
    }

    /// The next message, whole.
    pub(crate) async fn next(&self) -> Result<Taken, Fault> {
        let begun = locked(&self.begun).pop();
        let assembly = match begun {
            Some(begun) => Assembly::resume(self, begun),
            None => Assembly::new(self, self.node.recv().await?),
        };
        assembly.whole().await
    }

    /// The next messages: waits for the first, then takes those that have arrived completely.
    async fn next_many(&self, most: usize) -> Result<Vec<Taken>, Fault> {
        let mut all = vec![self.next().await?];
        while all.len() < most {
            let Some(delivery) = self.node.try_recv() else { break };
            match delivery.body().as_whole().cloned() {
                Some(body) => all.push(Taken::of_delivery(delivery, body)),
                None => {
                    // The next call reads it.
                    drop(Assembly::new(self, delivery));
                    break;
                }
            }
        }
        Ok(all)
    }
}

/// A message that is not settled, as returned by `close()` and `flush()`.
#[pyclass(frozen, get_all, module = "exonet")]
pub(crate) struct Open {
    /// The id of the receiver.
    peer: String,
    /// The size of the body, in bytes.
    size: u64,
    /// "queued" or "in doubt".
    status: &'static str,
}

#[pymethods]
impl Open {
    fn __repr__(&self) -> String {
        format!("<Open: {} bytes to {}, {}>", self.size, self.peer, self.status)
    }
}

pub(crate) fn open_messages(py: Python<'_>, open: Vec<OpenMessage>) -> PyResult<Py<PyList>> {
    let open = open.into_iter().map(|message| Open {
        peer: message.peer.to_string(),
        size: message.size,
        status: if matches!(message.status, Status::Queued) { "queued" } else { "in doubt" },
    });
    let open: PyResult<Vec<_>> = open.map(|open| Py::new(py, open)).collect();
    Ok(PyList::new(py, open?)?.unbind())
}

/// A node: it sends and receives messages, each exactly once. It is a key; addresses are hints.
///
/// The base of `exonet.Node`, which has the documentation.
#[pyclass(frozen, subclass, weakref, dict, module = "exonet._native", name = "NodeBase")]
pub(crate) struct Node {
    builder: Mutex<Option<Builder>>,
    inner: OnceLock<Held<Arc<Inner>>>,
}

impl Node {
    pub(crate) fn inner(&self) -> Result<&Arc<Inner>, Fault> {
        match self.inner.get() {
            Some(inner) => inner.get(),
            None => Err(Fault::usage(
                "the node has not been started: use `async with exonet.Node(...) as node:`, or `await node.start()`",
            )),
        }
    }

    fn operation(&self, name: &'static str, work: Work) -> PyResult<Operation> {
        Ok(Operation::new(&self.inner()?.runtime, name, work))
    }

    fn next(&self) -> PyResult<Work> {
        let (inner, giver) = (Arc::clone(self.inner()?), Arc::clone(self.inner()?));
        let next = async move { inner.next().await };
        Ok(work(next, move |py, taken: Taken| taken.give(py, &giver)))
    }
}

/// Parses the peers that may talk to a node.
fn allow(value: Option<&Bound<'_, PyAny>>) -> PyResult<Allow> {
    let Some(value) = value else { return Ok(Allow::only([])) };
    if let Ok(text) = value.cast::<PyString>() {
        return match &*text.to_cow()? {
            "anyone" => Ok(Allow::anyone()),
            text => Err(Fault::usage(format!(
                "allow must be \"anyone\", a list of node ids, or a function, not {text:?}: put a single id into a list"
            ))
            .raise(value.py())),
        };
    }
    if value.is_callable() {
        let question = value.clone().unbind();
        return Ok(Allow::ask(move |id, address| {
            let answer = Python::try_attach(|py| {
                let answer = question.call1(py, (id.to_string(), address.to_string()));
                answer.and_then(|answer| answer.bind(py).is_truthy()).unwrap_or_else(|error| {
                    error.write_unraisable(py, Some(question.bind(py)));
                    false
                })
            });
            answer.unwrap_or(false)
        }));
    }
    let mut ids = Vec::new();
    for id in value.try_iter()? {
        let id = id?;
        let text = id
            .cast::<PyString>()
            .map_err(|_| Fault::usage("allow must be \"anyone\", a list of node ids, or a function"))?;
        ids.push(node_id(&text.to_cow()?)?);
    }
    Ok(Allow::only(ids))
}

/// The id of a node, given as an id or as an address that contains one.
pub(crate) fn node_id(text: &str) -> Result<NodeId, Fault> {
    Ok(text.parse::<PeerAddr>()?.id)
}

fn durability(text: &str) -> Result<Durability, Fault> {
    let wrong = || {
        let text =
            format!("durability must be \"memory\", \"process\", \"batched=MS\" or \"sync\", not {text:?}");
        Fault::usage(text)
    };
    match text {
        "memory" => Ok(Durability::Memory),
        "process" => Ok(Durability::Process),
        "sync" => Ok(Durability::Sync),
        _ => {
            let ms = text.strip_prefix("batched=").and_then(|ms| ms.parse().ok()).ok_or_else(wrong)?;
            Ok(Durability::Batched(Duration::from_millis(ms)))
        }
    }
}

fn carrier(text: &str) -> Result<Carrier, Fault> {
    match text {
        "udp" => Ok(Carrier::Udp),
        "tcp" => Ok(Carrier::Tcp),
        "auto" => Ok(Carrier::Auto),
        _ => Err(Fault::usage(format!("carrier must be \"udp\", \"tcp\" or \"auto\", not {text:?}"))),
    }
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (*, allow=None, bind=None, state_dir=None, durability=None, carrier=None, attempts=None,
        doubt_timeout=None, keepalive=None, idle_timeout=None, early=None, tell_refused=None, max_message=None,
        queued_messages=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        allow: Option<&Bound<'_, PyAny>>,
        bind: Option<&str>,
        state_dir: Option<std::path::PathBuf>,
        durability: Option<&str>,
        carrier: Option<&str>,
        #[pyo3(from_py_with = args::attempts)] attempts: Option<u32>,
        doubt_timeout: Option<f64>,
        keepalive: Option<f64>,
        idle_timeout: Option<f64>,
        early: Option<bool>,
        tell_refused: Option<bool>,
        #[pyo3(from_py_with = args::max_message)] max_message: Option<u64>,
        #[pyo3(from_py_with = args::queued_messages)] queued_messages: Option<usize>,
    ) -> PyResult<Self> {
        let mut builder = CoreNode::builder(self::allow(allow)?);
        builder = builder.limits(|limits| {
            limits.message = max_message.unwrap_or(LONGEST);
            limits.queued_messages = queued_messages.unwrap_or(limits.queued_messages);
        });
        if let Some(address) = bind {
            builder = builder.bind(address);
        }
        if let Some(path) = state_dir {
            builder = builder.state_dir(path);
        }
        if let Some(text) = durability {
            builder = builder.durability(self::durability(text)?);
        }
        if let Some(text) = carrier {
            builder = builder.carrier(self::carrier(text)?);
        }
        if let Some(most) = attempts {
            builder = builder.attempts(NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN));
        }
        if let Some(seconds) = doubt_timeout {
            builder = builder.doubt_timeout(duration("doubt_timeout", seconds)?);
        }
        if let Some(seconds) = keepalive {
            builder = builder.keepalive(duration("keepalive", seconds)?);
        }
        if let Some(seconds) = idle_timeout {
            builder = builder.idle_timeout(duration("idle_timeout", seconds)?);
        }
        if let Some(early) = early {
            builder = builder.early(early);
        }
        if let Some(tell) = tell_refused {
            builder = builder.tell_refused(tell);
        }
        Ok(Self { builder: Mutex::new(Some(builder)), inner: OnceLock::new() })
    }

    /// Starts the node, and returns it. `async with` starts it by itself.
    fn start(slf: &Bound<'_, Self>) -> PyResult<Operation> {
        let runtime = runtime::handle()?;
        let builder = locked(&slf.get().builder).take();
        let builder =
            builder.ok_or_else(|| Fault::usage("the node has been started already: make another Node"))?;
        let (node, handle) = (slf.clone().unbind(), runtime.clone());
        let build = async move { Ok(builder.build().await?) };
        let give = move |py: Python<'_>, core: CoreNode| {
            let inner =
                Inner { node: core, runtime: handle, peers: Mutex::default(), begun: Mutex::default() };
            let _ = node.get().inner.set(Held::new(Arc::new(inner)));
            Ok(node.clone_ref(py))
        };
        Ok(Operation::new(&runtime, "Node.start()", work(build, give)))
    }

    /// Whether the node has been started.
    #[getter]
    fn is_started(&self) -> bool {
        self.inner.get().is_some()
    }

    /// The id of this node: its public key.
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.inner()?.node.id().to_string())
    }

    /// The address of this node on the same machine: ID@HOST:PORT. Other machines need another host.
    #[getter]
    fn address(&self) -> PyResult<String> {
        Ok(self.inner()?.node.peer_addr().to_string())
    }

    /// The local address of the socket: host and port.
    #[getter]
    fn local_address(&self) -> PyResult<(String, u16)> {
        let address = self.inner()?.node.local_addr();
        Ok((address.ip().to_string(), address.port()))
    }

    /// The ids of the peers that are known at the moment.
    fn peers(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let inner = self.inner()?;
        Ok(py.detach(|| inner.node.peers()).iter().map(ToString::to_string).collect())
    }

    /// Figures about the node, by their names: what it has counted since it started, and what it holds now.
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let inner = self.inner()?;
        let stats = py.detach(|| inner.node.stats());
        let figures = PyDict::new(py);
        for figure in Stats::FIGURES {
            figures.set_item(figure.metric, (figure.of)(&stats))?;
        }
        Ok(figures.unbind())
    }

    /// Changes which peers may talk to this node, like `allow` of `Node(...)`.
    fn set_allow(&self, py: Python<'_>, allow: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (inner, allow) = (self.inner()?, self::allow(allow)?);
        py.detach(|| inner.node.set_allow(allow));
        Ok(())
    }

    /// A handle on a peer: an address ID@HOST:PORT, or only an id if this node has heard of the peer.
    fn peer(&self, py: Python<'_>, to: &Bound<'_, PyAny>) -> PyResult<Py<Peer>> {
        let inner = self.inner()?;
        Peer::make(py, inner, inner.peer(to)?)
    }

    /// Sends a message: waits for room in the peer's queue, then queues it. Returns its `Receipt`.
    ///
    /// `body` is bytes, or any object with a buffer. `tag`, a text or bytes of at most 255 bytes, is for dispatch at
    /// the receiver. `priority` is "urgent", "normal", "low" or "bulk". `deadline` is the number of seconds from now
    /// within which the message may leave. `confirm` says what a successful outcome means: that the application has
    /// the message ("delivered") or that it has acted on it ("processed"). With `early=False` the message waits for
    /// the channel.
    ///
    /// If cancelled, nothing has been queued; on a node that forces its journal to the disk the message may still be
    /// sent.
    #[pyo3(signature = (to, body, *, tag=None, priority=None, deadline=None, confirm=None, early=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn send(
        &self,
        to: &Bound<'_, PyAny>,
        body: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        priority: Option<&str>,
        deadline: Option<f64>,
        confirm: Option<&str>,
        early: Option<bool>,
    ) -> PyResult<Operation> {
        let inner = self.inner()?;
        let message = Treatment { tag, priority, deadline, confirm, early }.message(body)?;
        Ok(peer::send(&inner.runtime, inner.peer(to)?, message))
    }

    /// Sends several bodies at once, in as few packets as possible and with one receipt: the fastest way to send many
    /// messages. Returns a `BatchReceipt`.
    ///
    /// If cancelled, some may have been queued. Raises `SendError` with the attribute `sent`.
    fn send_many(&self, to: &Bound<'_, PyAny>, bodies: &Bound<'_, PyAny>) -> PyResult<Operation> {
        let inner = self.inner()?;
        peer::send_many(&inner.runtime, inner.peer(to)?, bodies)
    }

    /// Waits for the next message: a `Delivery`. If cancelled, no message is lost. Any number of tasks may wait: each
    /// message goes to one at a time.
    ///
    /// Raises `Closed` when the node is closed and no message waits.
    fn recv(&self) -> PyResult<Operation> {
        self.operation("Node.recv()", self.next()?)
    }

    /// Waits for messages: a list of at least one and at most `max` `Delivery` objects.
    #[pyo3(signature = (max=256))]
    fn recv_many(&self, #[pyo3(from_py_with = args::max)] max: usize) -> PyResult<Operation> {
        let (inner, giver) = (Arc::clone(self.inner()?), Arc::clone(self.inner()?));
        let next = async move { inner.next_many(max).await };
        let give = move |py: Python<'_>, all: Vec<Taken>| {
            let all: PyResult<Vec<_>> = all.into_iter().map(|taken| taken.give(py, &giver)).collect();
            Ok(PyList::new(py, all?)?.unbind())
        };
        self.operation("Node.recv_many()", work(next, give))
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(&self) -> PyResult<Operation> {
        Ok(Operation::of_for(&self.inner()?.runtime, "async for", self.next()?))
    }

    /// Receives messages without a guard: each is delivered when it is returned, whatever happens to it then. The
    /// fastest way to receive, for messages that may be lost if the process dies while it handles them.
    fn at_most_once(&self) -> PyResult<AtMostOnce> {
        Ok(AtMostOnce::new(self.inner()?))
    }

    /// Calls a method of a peer, and waits for its `Reply`. A call is a message that is answered, and that runs at
    /// most once.
    ///
    /// `timeout` is the number of seconds to wait for the reply. Without it, the call waits until its outcome is
    /// known. If cancelled, the call is given up: it is withdrawn if it has not left, else it may run.
    ///
    /// Raises a `CallError`, whose `has_not_run` says whether the call may safely be made again.
    #[pyo3(signature = (to, method, body=None, *, timeout=None, priority=None, early=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn call(
        &self,
        to: &Bound<'_, PyAny>,
        method: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        priority: Option<&str>,
        early: Option<bool>,
    ) -> PyResult<Operation> {
        let inner = self.inner()?;
        call::call(
            &inner.runtime,
            &inner.peer(to)?,
            method,
            body,
            &call::Options { timeout, priority, early },
        )
    }

    /// Serves a method in native code: see `method`.
    #[pyo3(signature = (method, concurrency, timeout))]
    fn _serve(
        &self,
        method: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = args::concurrency)] concurrency: usize,
        timeout: Option<f64>,
    ) -> PyResult<call::Calls> {
        call::serve(self.inner()?, args::name("method", method)?, concurrency, timeout)
    }

    /// A handle on the stream of this name with a peer, of 1 to 255 bytes. Nothing is sent before there is a message.
    fn stream(&self, py: Python<'_>, to: &Bound<'_, PyAny>, name: &Bound<'_, PyAny>) -> PyResult<Py<Stream>> {
        let inner = self.inner()?;
        let stream = inner.peer(to)?.stream(args::name("name", name)?).map_err(Fault::from)?;
        Stream::give(py, inner, stream)
    }

    /// Waits for the next stream that a peer has begun, or continues: a `Stream`.
    fn accept_stream(&self) -> PyResult<Operation> {
        let inner = Arc::clone(self.inner()?);
        let node = inner.node.clone();
        let accept = async move { Ok(node.accept_stream().await?) };
        self.operation(
            "Node.accept_stream()",
            work(accept, move |py, stream| Stream::give(py, &inner, stream)),
        )
    }

    /// Accepts the streams of one name: from now on `accept_stream` does not return them.
    fn stream_listener(&self, name: &Bound<'_, PyAny>) -> PyResult<StreamListener> {
        let inner = self.inner()?;
        let listener = inner.node.stream_listener(args::name("name", name)?).map_err(Fault::from)?;
        Ok(StreamListener::new(inner, listener))
    }

    /// Opens a session of this name, of 1 to 200 bytes, with a peer: a `Session`. It does not wait for the server.
    ///
    /// It ends after `idle` seconds of silence (24 h by default; 0: never), and after `life` seconds in total (never
    /// by default).
    /// `longest` is the longest message that this end receives, in bytes (16 MiB by default).
    #[pyo3(signature = (to, name, *, idle=None, life=None, longest=None))]
    fn session(
        &self,
        to: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        idle: Option<f64>,
        life: Option<f64>,
        #[pyo3(from_py_with = args::longest)] longest: Option<usize>,
    ) -> PyResult<Operation> {
        let inner = Arc::clone(self.inner()?);
        let builder = inner.peer(to)?.session(args::name("name", name)?).map_err(Fault::from)?;
        let builder = Limits { idle, life, longest }.of(builder)?;
        let open = async move { Ok(builder.open().await?) };
        self.operation("Node.session()", work(open, move |py, session| Session::give(py, &inner, session)))
    }

    /// Attaches to a session in which this node already takes part, since this process or a former one of its
    /// identity.
    fn attach_session(
        &self,
        py: Python<'_>,
        to: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        id: &str,
    ) -> PyResult<Py<Session>> {
        let inner = self.inner()?;
        let id: SessionId = id.parse().map_err(|error| Fault::usage(format!("{error}")))?;
        let builder = inner.peer(to)?.session(args::name("name", name)?).map_err(Fault::from)?;
        let _context = inner.runtime.enter();
        Session::give(py, inner, builder.attach(id).map_err(Fault::from)?)
    }

    /// The sessions in which this node takes part, including those of former processes of this identity: the peer's
    /// id, the session's id, and its name.
    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<(String, String, String)>> {
        let inner = self.inner()?;
        let all = py.detach(|| inner.node.sessions());
        let line = |(peer, id, name): (NodeId, SessionId, bytes::Bytes)| {
            (peer.to_string(), id.to_string(), String::from_utf8_lossy(&name).into_owned())
        };
        Ok(all.into_iter().map(line).collect())
    }

    /// Waits for the next session that a peer opens, or that this identity had accepted in a former process. Returns a
    /// `Session`.
    fn accept_session(&self) -> PyResult<Operation> {
        let inner = Arc::clone(self.inner()?);
        let node = inner.node.clone();
        let accept = async move { Ok(node.accept_session().await?) };
        self.operation(
            "Node.accept_session()",
            work(accept, move |py, session| Session::give(py, &inner, session)),
        )
    }

    /// Accepts the sessions of one name: from now on `accept_session` does not return them.
    fn session_listener(&self, name: &Bound<'_, PyAny>) -> PyResult<SessionListener> {
        let inner = self.inner()?;
        let listener = inner.node.session_listener(args::name("name", name)?).map_err(Fault::from)?;
        Ok(SessionListener::new(inner, listener))
    }

    /// A group of peers, to which messages are sent together. `patience` is the least number of seconds that a
    /// balanced message waits at a member before another member is tried.
    #[pyo3(signature = (members, *, patience=None))]
    fn group(&self, members: &Bound<'_, PyAny>, patience: Option<f64>) -> PyResult<Group> {
        let inner = self.inner()?;
        group::group(inner, members, patience)
    }

    /// Waits until all messages that were sent so far are settled, for `timeout` seconds at most. Returns a list of
    /// those that are still open.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, timeout: Option<f64>) -> PyResult<Operation> {
        let inner = Arc::clone(self.inner()?);
        let timeout = timeout.map(|seconds| duration("timeout", seconds)).transpose()?;
        let flush = async move { Ok(inner.node.flush(timeout).await) };
        self.operation("Node.flush()", work(flush, open_messages))
    }

    /// Ends the node: refuses new work, waits until all is settled and peers have been told, for `timeout` seconds at
    /// most, then stops. Returns a list of the messages that are still open: their receipts say KEPT, CANCELLED or
    /// UNKNOWN.
    #[pyo3(signature = (timeout=5.0))]
    fn close(&self, timeout: f64) -> PyResult<Operation> {
        let inner = Arc::clone(self.inner()?);
        let timeout = duration("timeout", timeout)?;
        let close = async move {
            // In a separate task, so that it continues if its caller stops waiting.
            let closing = tokio::spawn(async move { inner.node.close(timeout).await });
            Ok(closing.await.unwrap_or_default())
        };
        self.operation("Node.close()", work(close, open_messages))
    }

    /// The messages that a former life of this identity had sent and not settled: pairs of an `Open` and its
    /// `Receipt`, once. It is empty without a journal.
    fn recovered(&self, py: Python<'_>) -> PyResult<Vec<(Py<PyAny>, Py<PyAny>)>> {
        let inner = self.inner()?;
        let left = py.detach(|| inner.node.recovered());
        let pair = |(open, receipt)| {
            let open = open_messages(py, vec![open])?.bind(py).get_item(0)?.unbind();
            let receipt = crate::receipt::Receipt::give(py, inner.runtime.clone(), receipt)?;
            Ok((open, receipt.into_any()))
        };
        left.into_iter().map(pair).collect()
    }

    fn __repr__(&self) -> String {
        match self.inner() {
            Ok(inner) => format!("<Node {}>", inner.node.peer_addr()),
            Err(_) => "<Node, not started>".to_owned(),
        }
    }
}
