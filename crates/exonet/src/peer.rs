//! The application's handle on a peer of a node.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use exonet_proto::node::{
    Conflict, OpenMessage, Outgoing, PeerFlow, PeerStats, Position, SendError as CoreError,
};
use exonet_proto::{NodeId, Now};
use tokio::io::AsyncRead;

use crate::engine::Engine;
use crate::error::{BatchError, Closed, PingError, SendError, SendFromError};
use crate::node::{Node, wait_until};
use crate::peer_addr::PeerAddr;
use crate::send::intake::Kind;
use crate::send::line::wait_for_room;
use crate::send::message::{Message, take_turns, weight};
use crate::send::permit::Permit;
use crate::send::receipt::{BatchReceipt, Receipt};
use crate::send::receipts::SlotIndex;
use crate::send::writer::BodyWriter;
use crate::shared::Shared;

/// The number of messages of a batch that the node makes and queues at once.
pub(crate) const LOT: usize = 256;

/// How many messages of a batch were queued, and why the next was not.
type Queued = (usize, Result<(), CoreError>);

/// Another node, as this node sees it: the handle to send to it, to call it, and to ask about it.
///
/// [`Node::peer`] returns it at once: it neither sends, looks up nor opens anything before there is a message. A
/// `Peer` is cheap to clone; all handles on one peer share its queue and its channel. Like every clone of a [`Node`],
/// it keeps the node running.
///
/// ```
/// # use exonet::{Allow, Node, Outcome};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// let to_bob = alice.peer(bob.peer_addr());
/// let receipt = to_bob.send("hello").await?;
///
/// let delivery = bob.recv().await?;
/// // Bob's node knows Alice's by now: its id is enough.
/// bob.peer(delivery.from()).send("hello yourself").await?;
/// delivery.ack()?;
///
/// assert_eq!(receipt.await.outcome, Outcome::Delivered);
/// assert_eq!(to_bob.stats().map(|stats| stats.queued), Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Peer {
    node: Node,
    pub(crate) to: Arc<PeerAddr>,
}

/// A handle for sending to a peer that does not keep the node running.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) to: &'a Arc<PeerAddr>,
}

impl Target<'_> {
    /// See [`Peer::try_send`].
    pub(crate) fn try_send(&self, message: Message) -> Result<Receipt, SendError> {
        let (shared, mut message) = (self.shared, Some(message));
        shared.pinned(self.to)?;
        let busy = shared.is_busy();
        if busy && let Some(receipt) = shared.intake.put(shared, self.to, &mut message, false) {
            return Ok(receipt);
        }
        let hints = shared.names.known(self.to);
        let kind = message.as_ref().filter(|_| busy).and_then(|message| Kind::of(self.to, message, false));
        let slot = shared.step(|engine, now| self.queue(engine, now, &hints, &mut message, kind.as_ref()))?;
        Ok(Receipt::new(Arc::clone(shared), slot))
    }

    /// Waits for room, then queues the message that `message` makes.
    pub(crate) async fn send_when_room(&self, message: impl Fn() -> Message) -> Result<Receipt, SendError> {
        let shared = self.shared;
        shared.resolve(self.to).await?;
        let queue = || {
            let (hints, mut message) = (shared.names.known(self.to), Some(message()));
            shared.step(|engine, now| self.queue(engine, now, &hints, &mut message, None))
        };
        let slot = wait_for_room(shared, self.to.id, queue).await?;
        Ok(Receipt::new(Arc::clone(shared), slot))
    }

    /// Queues a message under the lock. Later messages of its kind may then be queued without the lock.
    fn queue(
        &self,
        engine: &mut Engine,
        now: Now,
        hints: &[SocketAddr],
        message: &mut Option<Message>,
        kind: Option<&Kind>,
    ) -> Result<SlotIndex, CoreError> {
        let (slot, _) = engine.send(now, self.to.id, hints, message, None)?;
        if let Some(kind) = kind {
            engine.gather(kind.clone());
        }
        Ok(slot)
    }
}

impl Node {
    /// Returns a handle on a peer. `to` is an address, or only an id if this node has heard from the peer.
    pub fn peer(&self, to: impl Into<PeerAddr>) -> Peer {
        Peer { node: self.clone(), to: Arc::new(to.into()) }
    }
}

impl Peer {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.node.shared()
    }

    fn target(&self) -> Target<'_> {
        Target { shared: self.shared(), to: &self.to }
    }

    /// The addresses of the peer that are known without a look-up.
    pub(crate) fn hints(&self) -> Cow<'_, [SocketAddr]> {
        self.shared().names.known(&self.to)
    }

    /// Looks up an address of the peer, if none is known. The methods that send do this themselves. A caller needs this
    /// method only to tell a wait for the address from a wait for room.
    ///
    /// # Errors
    /// [`SendError::Lookup`], [`SendError::Closed`].
    pub async fn look_up(&self) -> Result<(), SendError> {
        self.shared().resolve(&self.to).await
    }

    /// The node that this handle belongs to.
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// The id of the peer.
    pub fn id(&self) -> NodeId {
        self.to.id
    }

    /// The peer's id and the hints about its address, as given to [`Node::peer`].
    pub fn addr(&self) -> &PeerAddr {
        &self.to
    }

    // ---- sending

    /// Sends a message: waits for room in the peer's queue, then queues the message.
    ///
    /// Cancel-safe while it waits for room: if the caller drops the future, nothing has been queued. At
    /// [`Durability::Batched`](crate::Durability::Batched) and [`Sync`](crate::Durability::Sync) it then waits for
    /// the disk. If the caller drops the future during that time, the message goes on without a receipt.
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued, except if the error is [`SendError::InDoubt`].
    pub async fn send(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        let (shared, mut message) = (self.shared(), Some(message.into()));
        take_turns(message.as_ref().map_or(0, Message::weight)).await;
        let busy = shared.is_busy();
        if busy && let Some(receipt) = shared.intake.put(shared, &self.to, &mut message, false) {
            return Ok(receipt);
        }
        self.look_up().await?;
        let kind = message.as_ref().filter(|_| busy).and_then(|message| Kind::of(&self.to, message, false));
        let queue = || {
            let hints = self.hints();
            shared.step(|engine, now| {
                let slot = self.target().queue(engine, now, &hints, &mut message, kind.as_ref())?;
                Ok((slot, engine.accepted_at()))
            })
        };
        let (slot, at) = wait_for_room(shared, self.to.id, queue).await?;
        let receipt = Receipt::new(Arc::clone(shared), slot);
        shared.until_safe(at).await.map_err(|Closed| SendError::InDoubt)?;
        Ok(receipt)
    }

    /// Sends a message if there is room. This method never looks a host name up: it uses only results of earlier
    /// look-ups.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room, and the other errors of [`SendError`].
    pub fn try_send(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.target().try_send(message.into())
    }

    /// Sends several messages in as few packets as possible, with one receipt, and waits for room as often as needed.
    /// For small messages that are available at once, this is faster than [`Self::send`].
    ///
    /// Not cancel-safe: if the caller drops the future early, some messages may have been queued. This method takes
    /// up to 256 items from `messages` before it queues them.
    ///
    /// # Errors
    /// The error of the first message that was not sent. The messages before it have been sent, and the error holds
    /// their receipt. With [`SendError::InDoubt`], the next process of the identity may send them.
    pub async fn send_batch<M: Into<Message>>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<BatchReceipt, BatchError> {
        self.queue_each(&mut messages.into_iter().map(Into::into), false).await
    }

    /// Like [`Self::send_batch`], for messages that have a body and nothing else. This method borrows the bodies, and
    /// copies small ones of equal length straight into the memory from which the node sends them. This saves one
    /// allocation per message, and is the fastest way to send many messages.
    ///
    /// # Errors
    /// The errors of [`Self::send_batch`].
    pub async fn send_bodies<B: AsRef<[u8]>>(
        &self,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<BatchReceipt, BatchError> {
        let mut bodies = bodies.into_iter();
        let fill = |lot: &mut Vec<B>| {
            lot.extend(bodies.by_ref().take(LOT));
            lot.iter().map(|body| weight(body.as_ref().len())).sum()
        };
        self.queue_batch(fill, |lot, hints, batch| {
            // Before the lock is taken, since `as_ref` is code of the application.
            let mut slices: [&[u8]; LOT] = [&[]; LOT];
            slices.iter_mut().zip(lot.iter()).for_each(|(slice, body)| *slice = body.as_ref());
            let slices = slices.get(..lot.len()).unwrap_or_default();
            self.shared().step(|engine, now| {
                (engine.send_bodies(now, self.to.id, hints, slices, batch), engine.accepted_at())
            })
        })
        .await
    }

    /// Queues messages, all of which are of streams if `in_stream` is set.
    pub(crate) async fn queue_each(
        &self,
        messages: &mut impl Iterator<Item = Message>,
        in_stream: bool,
    ) -> Result<BatchReceipt, BatchError> {
        let fill = |lot: &mut Vec<Outgoing>| {
            let (now, mut weight) = (self.shared().clock().mono(), 0);
            lot.extend(messages.take(LOT).map(|message| {
                weight += message.weight();
                message.into_outgoing(now)
            }));
            weight
        };
        self.queue_batch(fill, |lot, hints, batch| {
            self.shared().step(|engine, now| {
                (engine.send_many(now, self.to.id, hints, lot, in_stream, batch), engine.accepted_at())
            })
        })
        .await
    }

    /// Queues lots of messages. `fill` makes one lot without the lock and returns its weight; an empty lot means that
    /// there are no more messages. `queue` takes messages from the start of a lot while there is room, and returns
    /// how many it took, and the position in the journal that they wait for.
    async fn queue_batch<T>(
        &self,
        mut fill: impl FnMut(&mut Vec<T>) -> usize,
        mut queue: impl FnMut(&mut [T], &[SocketAddr], SlotIndex) -> (Queued, Option<Position>),
    ) -> Result<BatchReceipt, BatchError> {
        let shared = self.shared();
        let sent = BatchReceipt::new(Arc::clone(shared));
        if let Err(source) = self.look_up().await {
            return Err(BatchError { sent, source });
        }
        let (mut lot, mut weight, mut at) = (Vec::new(), 0, None);
        let queued = loop {
            lot.clear();
            weight += fill(&mut lot);
            if lot.is_empty() {
                break Ok(());
            }
            let mut done = 0;
            let attempt = || {
                let rest = lot.get_mut(done..).unwrap_or_default();
                let ((taken, queued), accepted) = queue(rest, &self.hints(), sent.slot());
                // A node that has stopped has no journal, and what it queued before is in doubt.
                at = accepted.or(at);
                done += taken;
                queued
            };
            if let Err(error) = wait_for_room(shared, self.to.id, attempt).await {
                break Err(error);
            }
        };
        take_turns(weight).await;
        let queued = match shared.until_safe(at).await {
            Ok(()) => queued,
            Err(Closed) if !sent.is_empty() => Err(SendError::InDoubt),
            Err(Closed) => queued,
        };
        match queued {
            Ok(()) => Ok(sent),
            Err(source) => Err(BatchError { sent, source }),
        }
    }

    /// Waits for a place in the peer's queue, and reserves it: [`Permit::send`] then sends without waiting.
    ///
    /// Cancel-safe, as is the permit: if the caller drops either early, nothing has been queued.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn reserve(&self) -> Result<Permit, SendError> {
        let shared = self.shared();
        self.look_up().await?;
        let promise = || shared.amend(|engine| engine.promise(self.to.id));
        wait_for_room(shared, self.to.id, promise).await?;
        Ok(Permit::new(Arc::clone(shared), Arc::clone(&self.to)))
    }

    /// Sends a message of `len` bytes whose body the caller writes in pieces of any size, in bounded memory. If `len`
    /// is None, the length is not known in advance, and [`BodyWriter::finish`] ends the body. The body of `head` is
    /// ignored.
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued.
    pub async fn send_stream(
        &self,
        head: impl Into<Message>,
        len: impl Into<Option<u64>>,
    ) -> Result<(Receipt, BodyWriter), SendError> {
        let (shared, len) = (self.shared(), len.into());
        self.look_up().await?;
        let mut head = Some(head.into());
        let queue = || {
            let hints = self.hints();
            shared.step(|engine, now| engine.send(now, self.to.id, &hints, &mut head, Some(len)))
        };
        let (slot, key) = wait_for_room(shared, self.to.id, queue).await?;
        let writer = BodyWriter::new(Arc::clone(shared), key, len);
        Ok((Receipt::new(Arc::clone(shared), slot), writer))
    }

    /// Sends a message of `len` bytes whose body this method reads from `reader`, in bounded memory. If `len` is
    /// None, the body is everything that `reader` yields. The body of `head` is ignored. Returns when the whole body
    /// has been queued.
    ///
    /// If the caller drops the future early, the node withdraws the message.
    ///
    /// # Errors
    /// [`SendFromError`]; the node has withdrawn the message. If the message is settled before the end of its body,
    /// this method returns no error: the receipt has the outcome.
    pub async fn send_from(
        &self,
        head: impl Into<Message>,
        len: impl Into<Option<u64>>,
        mut reader: impl AsyncRead + Unpin,
    ) -> Result<Receipt, SendFromError> {
        let (receipt, mut writer) = self.send_stream(head, len).await?;
        writer.copy(&mut reader).await?;
        Ok(receipt)
    }

    // ---- life

    /// Measures the round-trip time to the peer, and opens a channel if there is none. Returns None if no answer came
    /// within `timeout`.
    ///
    /// # Errors
    /// [`PingError`]: the ping could not be sent, or the peer does not admit this node.
    pub async fn ping(&self, timeout: Duration) -> Result<Option<Duration>, PingError> {
        let shared = self.shared();
        self.look_up().await?;
        let hints = self.hints();
        let asked = shared.step(|engine, now| engine.ping(now, self.to.id, &hints));
        let (cookie, answer) = asked.map_err(SendError::from)?;
        let question = Question { shared, cookie };
        let pong = tokio::time::timeout(timeout, answer).await;
        drop(question);
        match pong {
            Ok(Ok(pong)) => pong.map_err(PingError::Refused),
            Ok(Err(_)) => Err(SendError::Closed.into()),
            Err(_) => Ok(None),
        }
    }

    /// Waits until every message sent to this peer is settled, for `timeout` at most. Then it gives up the rest:
    /// messages that have left end Unknown, the others end Cancelled. Returns the messages that it gave up. Other
    /// handles may send meanwhile and afterwards: only a [node](Node::close) can be closed for good, not a peer.
    pub async fn close(&self, timeout: Duration) -> Vec<OpenMessage> {
        let shared = self.shared();
        let waits = Waits::begin(shared);
        wait_until(shared, Some(timeout), || !shared.look(|engine| engine.has_open(&self.to.id))).await;
        drop(waits);
        shared.step(|engine, now| {
            let open = engine.open_messages_to(&self.to.id);
            engine.abandon_peer(now, &self.to.id);
            open
        })
    }

    /// Gives up every open message to the peer: messages that have left end Unknown, the others end Cancelled.
    pub fn abandon(&self) {
        self.shared().step(|engine, now| engine.abandon_peer(now, &self.to.id));
    }

    /// Keeps the path to the peer open with a ping after every `interval` of silence. None: uses the interval of
    /// [`Builder::keepalive`](crate::Builder::keepalive). The setting holds for as long as the node knows the peer.
    pub fn keepalive(&self, interval: Option<Duration>) {
        self.shared().step(|engine, now| engine.core.keep_alive(now, &self.to.id, interval));
    }

    /// Figures about the peer; None if the node does not know the peer now.
    pub fn stats(&self) -> Option<PeerStats> {
        self.shared().look(|engine| engine.core.peer_stats(&self.to.id))
    }

    /// Which messages between this node and the peer move, and which stand still; None if the node does not know the
    /// peer now.
    pub fn flow(&self) -> Option<PeerFlow> {
        let shared = self.shared();
        shared.look(|engine| engine.core.peer_flow(shared.clock().now(), &self.to.id))
    }

    /// Some if two nodes have the peer's identity, or if the peer says that two nodes have this node's identity. Then
    /// this node and the peer deliver nothing more to each other in this life. Messages that have left end Unknown,
    /// and the others end Cancelled.
    pub fn conflict(&self) -> Option<Conflict> {
        self.shared().look(|engine| engine.core.conflict(&self.to.id))
    }
}

/// A task that waits for the messages to one peer. While it exists, each outcome wakes the tasks that wait.
struct Waits<'a>(&'a Shared);

impl<'a> Waits<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.amend(|engine| engine.peer_waits += 1);
        Self(shared)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.amend(|engine| engine.peer_waits -= 1);
    }
}

/// An unanswered ping. Its destructor makes the engine forget the ping.
struct Question<'a> {
    shared: &'a Shared,
    cookie: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.shared.amend(|engine| engine.forget_ping(self.cookie));
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("node", &self.node.id()).field("to", &self.to).finish()
    }
}
