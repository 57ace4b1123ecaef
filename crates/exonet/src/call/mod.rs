//! Calls: messages that get a reply. [`Peer::call`] makes them, and [`Node::serve`](crate::Node::serve) answers them.
//!
//! A call runs at most once, even if the network fails or either end crashes. It ends with its [`Reply`], or with a
//! [`CallError`].

pub(crate) mod desk;
pub(crate) mod serve;
pub(crate) mod status;
#[cfg(feature = "tower")]
pub(crate) mod tower;
#[cfg(feature = "serde")]
pub(crate) mod typed;

pub use exonet_proto::node::CallId;
pub use serve::{Handler, Request, Serve, Serving};
pub use status::{Answer, Failure, ReplyStatus};
#[cfg(feature = "tower")]
pub use tower::{CallService, ServiceHandler};
#[cfg(feature = "serde")]
pub use typed::{TypedCall, TypedPending};

use core::fmt;
use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{CancelError, Early, MessageKey, Outcome, Outgoing, Priority, Status};
use exonet_proto::{Mono, NodeId, Traceparent};
use tokio::io::AsyncRead;
use tokio::time::timeout;
use tracing::Span;
use tracing::field::{Empty, display};

use crate::engine::{Engine, Phase};
use crate::error::{CallError, SendError, SendFromError, Why};
use crate::peer::Peer;
use crate::receive::body::Body;
use crate::send::line::wait_for_room;
use crate::send::message::{current_trace, drop_empty};
use crate::send::permit::Permit;
use crate::send::receipt::Receipt;
use crate::send::receipts::{Settled, SlotIndex};
use crate::send::writer::BodyWriter;
use crate::shared::Shared;

/// The reply to a call.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The id of the call: the same at both ends, and never used again.
    pub id: CallId,
    /// The body. A large one arrives while the application reads it. If the application drops it before its end, the
    /// rest does not come.
    pub body: Body,
}

/// Where the body of a call comes from.
enum Content {
    Whole(Bytes),
    From { len: u64, reader: Box<dyn AsyncRead + Send + Unpin> },
}

/// A call that is not yet made. [`Peer::call`] creates it; await it, or call [`Self::start`], to make the call.
#[must_use = "a call is made by `.await` or `.start().await`"]
pub struct Call {
    peer: Peer,
    options: Options,
    content: Content,
}

/// The properties of a call without its body.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) method: Bytes,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Duration>,
    pub(crate) early: Early,
    pub(crate) traceparent: Option<Traceparent>,
}

impl Options {
    pub(crate) fn new(method: Bytes) -> Self {
        let (priority, early) = (Priority::default(), Early::default());
        Self { method, priority, deadline: None, early, traceparent: None }
    }

    /// The span of the call. It gets the id of the call when the call ends.
    fn span(&self, peer: NodeId) -> Span {
        let span = tracing::info_span!("call", peer = Empty, method = Empty, id = Empty);
        if !span.is_disabled() {
            span.record("peer", display(peer.short()));
            span.record("method", display(String::from_utf8_lossy(&self.method)));
        }
        span
    }

    fn head(self, body: Bytes, now: Mono) -> Outgoing {
        let deadline = self.deadline.map(|deadline| now + deadline);
        let trace = self.traceparent.or_else(current_trace).map(Box::new);
        let Self { method, priority, early, .. } = self;
        let (tag, body) = (drop_empty(method), drop_empty(body));
        Outgoing { tag, body, priority, deadline, early, trace, ..Outgoing::default() }
    }
}

impl Peer {
    /// Calls a method of the peer: sends a message that gets a reply. The call runs at the peer at most once, even if
    /// the network fails or either end crashes. The name of the method has at most 255 bytes; the body may have any
    /// size.
    ///
    /// ```
    /// # use exonet::{Allow, Node, call::{Failure, Request}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let _serving = bob.serve("greet", |mut request: Request| async move {
    ///     let name = request.body.bytes(1024).await?;
    ///     Ok::<_, Failure>(format!("hello, {}", String::from_utf8_lossy(&name)))
    /// }).start()?;
    ///
    /// let mut reply = alice.peer(bob.peer_addr()).call("greet", "alice").await?;
    /// assert_eq!(reply.body.bytes(1024).await?, "hello, alice");
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(&self, method: impl Into<Bytes>, body: impl Into<Bytes>) -> Call {
        let content = Content::Whole(body.into());
        Call { peer: self.clone(), options: Options::new(method.into()), content }
    }

    /// Like [`Self::call`], with a body of `len` bytes that the call reads from `reader` while it goes on, in bounded
    /// memory.
    pub fn call_from(
        &self,
        method: impl Into<Bytes>,
        len: u64,
        reader: impl AsyncRead + Send + Unpin + 'static,
    ) -> Call {
        let content = Content::From { len, reader: Box::new(reader) };
        Call { peer: self.clone(), options: Options::new(method.into()), content }
    }
}

impl Call {
    /// How long after its start the call is wanted. If the call has not left by then, it ends
    /// [Expired](CallError::Expired), and certainly does not run. If it has left, it ends
    /// [Unknown](CallError::Unknown), unless its reply has already arrived. Default: the caller waits until the
    /// outcome is known, even if the peer is dead; see [`Builder::doubt_timeout`](crate::Builder::doubt_timeout).
    pub fn deadline(mut self, from_now: Duration) -> Self {
        self.options.deadline = Some(from_now);
        self
    }

    /// The priority: which message goes first when several wait.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.priority = priority;
        self
    }

    /// Whether the call may leave together with the opening of a channel: see
    /// [`Builder::early`](crate::Builder::early). Then a first call takes one round trip, if the two clocks agree.
    pub fn early(mut self, early: bool) -> Self {
        self.options.early = if early { Early::Yes } else { Early::No };
        self
    }

    /// The trace that the call belongs to, as in W3C Trace Context. The handler finds it in [`Request::traceparent`].
    /// With the feature `opentelemetry`, the default is the trace of the span in which the application makes the
    /// call.
    pub fn traceparent(mut self, parent: Traceparent) -> Self {
        self.options.traceparent = Some(parent);
        self
    }

    /// Waits for room in the peer's queue, makes the call, and returns a handle on it. Awaiting the [`Call`] has
    /// the same effect as starting it and awaiting the handle.
    ///
    /// Cancel-safe: if the application drops the future early, the call has not been made.
    ///
    /// # Errors
    /// [`CallError::Refused`], or [`CallError::Expired`] if the deadline passed first. In both cases the call has not
    /// been made.
    pub async fn start(self) -> Result<PendingCall, CallError> {
        let Self { peer, options, content } = self;
        let (shared, to) = (peer.shared(), peer.id());
        let (began, deadline) = (shared.clock().mono(), options.deadline);
        let (body, stream, reader) = match content {
            Content::Whole(body) => (body, None, None),
            Content::From { len, reader } => (Bytes::new(), Some(len), Some(reader)),
        };
        let span = options.span(to);
        let mut head = Some(options.head(body, began));
        let made = async {
            peer.look_up().await?;
            // In a tight loop of calls, this lets the driver run on the same thread.
            tokio::task::coop::consume_budget().await;
            let queue = || {
                let hints = peer.hints();
                shared.step(|engine, now| engine.call(now, to, &hints, &mut head, stream))
            };
            wait_for_room(shared, to, queue).await
        };
        let (slot, key) = match deadline {
            None => made.await?,
            Some(deadline) => timeout(deadline, made).await.map_err(|_| CallError::Expired)??,
        };
        let mut call = PendingCall::new(shared, to, slot, key, span);
        if let (Some(len), Some(mut reader)) = (stream, reader) {
            let mut writer = BodyWriter::new(Arc::clone(shared), key, Some(len));
            call.feed = Some(Box::pin(async move { writer.copy(&mut reader).await }));
        }
        Ok(call)
    }
}

impl IntoFuture for Call {
    type Output = Result<Reply, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start().await?.await })
    }
}

impl Permit {
    /// Makes a call without waiting: see [`Peer::call`].
    ///
    /// # Errors
    /// The errors of [`Self::send`].
    pub fn call(self, method: impl Into<Bytes>, body: impl Into<Bytes>) -> Result<PendingCall, SendError> {
        self.call_as(Options::new(method.into()), body.into())
    }

    pub(crate) fn call_as(self, options: Options, body: Bytes) -> Result<PendingCall, SendError> {
        let (shared, to, hints) = (&self.shared, self.to.id, self.shared.names.known(&self.to));
        let span = options.span(to);
        let mut head = Some(options.head(body, shared.clock().mono()));
        let redeem = |engine: &mut Engine, now| engine.redeem_call(now, to, &hints, &mut head, None);
        let (slot, key) = shared.step(redeem)?;
        Ok(PendingCall::new(shared, to, slot, key, span))
    }
}

/// A future that reads the body of a call and sends it.
type Feed = Pin<Box<dyn Future<Output = Result<(), SendFromError>> + Send>>;

/// A call that has been made: a future that resolves to its reply, or to a [`CallError`].
///
/// If the application drops it, the node gives the call up. A call that has not left is withdrawn; a call that has
/// left may run, and its reply is discarded.
#[must_use = "a call that is dropped is given up"]
pub struct PendingCall {
    span: Span,
    began: Mono,
    receipt: Receipt,
    shared: Arc<Shared>,
    key: MessageKey,
    to: NodeId,
    feed: Option<Feed>,
    given_up: bool,
    ended: bool,
}

impl PendingCall {
    fn new(shared: &Arc<Shared>, to: NodeId, slot: SlotIndex, key: MessageKey, span: Span) -> Self {
        let began = shared.clock().mono();
        let (shared, receipt) = (Arc::clone(shared), Receipt::new(Arc::clone(shared), slot));
        Self { span, began, receipt, shared, key, to, feed: None, given_up: false, ended: false }
    }

    /// The id of the call at both ends, once the call has left. An application can use it as a key to find out
    /// whether the call had an effect.
    pub fn id(&self) -> Option<CallId> {
        self.receipt.id().map(|id| CallId { caller: id.sender, s: id.s })
    }

    /// The state of the call. It is in doubt from the time it leaves until it ends.
    pub fn status(&self) -> Status {
        self.receipt.status()
    }

    /// Withdraws the call if it has not left: it ends [Cancelled](CallError::Cancelled), and certainly does not run.
    ///
    /// # Errors
    /// [`CancelError::InDoubt`] if the call has left: the caller goes on waiting, and [`Self::give_up`] ends that.
    /// [`CancelError::Settled`] if the call has ended.
    pub fn cancel(&self) -> Result<(), CancelError> {
        // The node cannot withdraw a call that has left, so the result is Done or an error.
        self.receipt.cancel().map(|_| ())
    }

    /// Ends the call now, unless its reply has arrived: [Cancelled](CallError::Cancelled) if it has not left, else
    /// [Unknown](CallError::Unknown).
    pub fn give_up(&mut self) {
        self.given_up = true;
        self.receipt.abandon();
    }

    fn end(&mut self, settled: Settled) -> Result<Reply, CallError> {
        self.ended = true;
        let id = settled.id.map(|id| CallId { caller: id.sender, s: id.s });
        if let Some(id) = id.as_ref().filter(|_| !self.span.is_disabled()) {
            self.span.record("id", display(id));
        }
        let took = self.shared.clock().mono().since(self.began);
        tracing::debug!(parent: &self.span, outcome = ?settled.outcome, ?took, "the call has ended");
        self.shared.times.call.record(took.as_secs_f64());
        let (reply, over, conflict) = self.shared.amend(|engine| {
            let over = engine.phase >= Phase::Stopped;
            (engine.calls.take_reply(self.key), over, engine.core.conflict(&self.to).is_some())
        });
        match (settled.outcome, id, reply) {
            (Outcome::Delivered, Some(id), Some((status, body))) => {
                let (status, body) = (ReplyStatus(status), Body::of_call(&self.shared, body));
                let ok = status == ReplyStatus::OK;
                if ok { Ok(Reply { id, body }) } else { Err(CallError::Failed { id, status, body }) }
            }
            (Outcome::Expired, ..) => Err(CallError::Expired),
            (Outcome::Cancelled, ..) => Err(CallError::Cancelled),
            (Outcome::Refused(why), ..) => Err(CallError::NotTaken(why)),
            _ => {
                let why = match (settled.late, self.given_up, over) {
                    (true, ..) => Why::Deadline,
                    (_, true, _) => Why::GivenUp,
                    (.., true) => Why::Closed,
                    _ if conflict => Why::Conflict,
                    _ => Why::Lost,
                };
                Err(CallError::Unknown { id, why })
            }
        }
    }
}

impl Future for PendingCall {
    type Output = Result<Reply, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let call = self.get_mut();
        if let Poll::Ready(settled) = Pin::new(&mut call.receipt).poll(cx) {
            call.feed = None;
            return Poll::Ready(call.end(settled));
        }
        if let Some(feed) = &mut call.feed
            && let Poll::Ready(fed) = feed.as_mut().poll(cx)
        {
            call.feed = None;
            if let Err(source) = fed {
                // The writer of the body has already withdrawn the call.
                call.ended = true;
                call.shared.step_calmly(|engine, now| engine.leave_call(now, call.key));
                return Poll::Ready(Err(CallError::Body(source)));
            }
        }
        Poll::Pending
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.step_calmly(|engine, now| engine.leave_call(now, self.key));
        }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("to", &self.peer.id())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
