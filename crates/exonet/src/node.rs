//! The node, as the application holds it.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::{Conflict, OpenMessage, Outgoing, PeerStats, SendError as CoreError, Stats};
use tokio::io::AsyncRead;
use tokio::time::{sleep, timeout};

use crate::allow::Allow;
use crate::builder::Builder;
use crate::engine::{Engine, Phase};
use crate::error::{Closed, Deadline, PingError, SendError, SendFromError};
use crate::line::wait_for_room;
use crate::message::{Message, take_turns, weight};
use crate::peer_addr::PeerAddr;
use crate::receipt::{BatchReceipt, Receipt};
use crate::receipts::SlotIndex;
use crate::receive::{Batch, Delivery, Received};
use crate::send::{BodyWriter, Permit};
use crate::shared::Shared;
use crate::socket::Socket;

/// Messages of a batch that are made, and queued, at once.
const LOT: usize = 256;

/// A node: it sends and receives messages, each exactly once.
///
/// A handle that is cheap to clone and to share. When the last one is dropped, the node stops: every receipt
/// that is open is settled (Cancelled if its message never left, else Unknown) and a warning is logged.
/// [`Self::close`] first, to lose nothing.
#[derive(Clone)]
pub struct Node {
    handle: Arc<Handle>,
}

/// How long a node that ends tells its peers what it has not taken.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often an identity that ends with its node says so before it is the last word.
const FOREWORDS: u32 = 2;

/// Shared by the clones of one [`Node`], and by nothing else: it tells when the last is gone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // What can still be said is said: a goodbye, if nothing is open.
        self.shared.step_last(|engine, now| {
            engine.close(now);
            engine.finish(now);
        });
        self.shared.stop(Some("the last handle was dropped"));
    }
}

impl Node {
    /// Begins to build a node that talks to those whom `allow` names.
    pub fn builder(allow: Allow) -> Builder {
        Builder::new(allow)
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Who this node is.
    pub fn id(&self) -> NodeId {
        self.shared().id
    }

    /// The address that its socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared().local_addr()
    }

    /// How this node is reached from the same machine: its id at its local address, an unspecified address
    /// replaced by the loopback address.
    pub fn peer_addr(&self) -> PeerAddr {
        let mut address = self.local_addr();
        if address.ip().is_unspecified() {
            // A dual-stack socket hears IPv4 as well.
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        PeerAddr::from((self.id(), address))
    }

    // ---- sending

    /// Sends a message: waits for room in the peer's queue, then queues it at once.
    ///
    /// Cancel-safe: dropped early, nothing has been queued.
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued.
    pub async fn send(&self, to: &PeerAddr, message: impl Into<Message>) -> Result<Receipt, SendError> {
        let shared = self.shared();
        shared.resolve(to).await?;
        let message = message.into();
        take_turns(message.weight()).await;
        let mut message = Some(message);
        let hints = || shared.names.known(to);
        let queue = || shared.step(|engine, now| engine.send(now, to.id, &hints(), &mut message, None));
        let (slot, _) = wait_for_room(shared, to.id, queue).await?;
        Ok(Receipt::new(Arc::clone(shared), slot))
    }

    /// Sends a message if there is room. Host names count only if they have been looked up before.
    ///
    /// # Errors
    /// [`SendError::Full`] instead of waiting, and the others of [`SendError`].
    pub fn try_send(&self, to: &PeerAddr, message: impl Into<Message>) -> Result<Receipt, SendError> {
        let shared = self.shared();
        let mut message = Some(message.into());
        let queue =
            |engine: &mut Engine, now| engine.send(now, to.id, &shared.names.known(to), &mut message, None);
        let (slot, _) = shared.step(queue)?;
        Ok(Receipt::new(Arc::clone(shared), slot))
    }

    /// Sends several messages at once, in as few packets as they fit into and with one receipt, waiting for room
    /// as often as needed. Many times as fast as [`Self::send`] for small messages.
    ///
    /// Not cancel-safe: dropped early, some may have been queued. If one is refused, those before it have been sent:
    /// their receipt comes back with the error. `messages` is asked for up to 256 ahead of what is queued.
    ///
    /// # Errors
    /// What refused the first message that was not sent.
    pub async fn send_batch<M: Into<Message>>(
        &self,
        to: &PeerAddr,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<BatchReceipt, (BatchReceipt, SendError)> {
        let shared = self.shared();
        let mut messages = messages.into_iter().map(Into::into);
        let fill = |lot: &mut Vec<Outgoing>| {
            let (now, mut weight) = (shared.clock().mono(), 0);
            lot.extend(messages.by_ref().take(LOT).map(|message: Message| {
                weight += message.weight();
                message.into_outgoing(now)
            }));
            weight
        };
        self.queue_batch(to, fill, |lot, batch| {
            shared.step(|engine, now| engine.send_many(now, to.id, &shared.names.known(to), lot, batch))
        })
        .await
    }

    /// As [`Self::send_batch`], of messages that have a body each and nothing else. Bodies are borrowed: small ones of one
    /// length are copied straight to where they leave from, which spares an allocation for each and makes this the
    /// fastest way to send many.
    ///
    /// # Errors
    /// As [`Self::send_batch`].
    pub async fn send_bodies<B: AsRef<[u8]>>(
        &self,
        to: &PeerAddr,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<BatchReceipt, (BatchReceipt, SendError)> {
        let shared = self.shared();
        let mut bodies = bodies.into_iter();
        let fill = |lot: &mut Vec<B>| {
            lot.extend(bodies.by_ref().take(LOT));
            lot.iter().map(|body| weight(body.as_ref().len())).sum()
        };
        self.queue_batch(to, fill, |lot, batch| {
            let mut slices: [&[u8]; LOT] = [&[]; LOT];
            slices.iter_mut().zip(lot.iter()).for_each(|(slice, body)| *slice = body.as_ref());
            let slices = slices.get(..lot.len()).unwrap_or_default();
            let hints = || shared.names.known(to);
            shared.step(|engine, now| engine.send_bodies(now, to.id, &hints(), slices, batch))
        })
        .await
    }

    /// Queues lots of messages: `fill` makes one and says what it weighs, without the lock, and none at the end; `queue`
    /// takes from its beginning while there is room, and says how many.
    async fn queue_batch<T>(
        &self,
        to: &PeerAddr,
        mut fill: impl FnMut(&mut Vec<T>) -> usize,
        mut queue: impl FnMut(&mut [T], SlotIndex) -> (usize, Result<(), CoreError>),
    ) -> Result<BatchReceipt, (BatchReceipt, SendError)> {
        let shared = self.shared();
        let receipt = BatchReceipt::new(Arc::clone(shared));
        if let Err(error) = shared.resolve(to).await {
            return Err((receipt, error));
        }
        let (mut lot, mut weight) = (Vec::new(), 0);
        let sent = loop {
            lot.clear();
            weight += fill(&mut lot);
            if lot.is_empty() {
                break Ok(());
            }
            let mut done = 0;
            let attempt = || {
                let (taken, sent) = queue(lot.get_mut(done..).unwrap_or_default(), receipt.slot());
                done += taken;
                sent
            };
            if let Err(error) = wait_for_room(shared, to.id, attempt).await {
                break Err(error);
            }
        };
        take_turns(weight).await;
        match sent {
            Ok(()) => Ok(receipt),
            Err(error) => Err((receipt, error)),
        }
    }

    /// Waits for a place in the peer's queue, to be used by [`Permit::send`] without waiting.
    ///
    /// Cancel-safe, and so is the permit: dropped early, nothing has been queued.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn reserve(&self, to: &PeerAddr) -> Result<Permit, SendError> {
        let shared = self.shared();
        shared.resolve(to).await?;
        let promise = || shared.amend(|engine| engine.promise(to.id));
        wait_for_room(shared, to.id, promise).await?;
        Ok(Permit::new(Arc::clone(shared), to.clone()))
    }

    /// Sends a message of `len` bytes whose body is written as it goes, of any size and in bounded memory. The
    /// body of `head` is ignored.
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued.
    pub async fn send_stream(
        &self,
        to: &PeerAddr,
        head: impl Into<Message>,
        len: u64,
    ) -> Result<(Receipt, BodyWriter), SendError> {
        let shared = self.shared();
        shared.resolve(to).await?;
        let mut head = Some(head.into());
        let hints = || shared.names.known(to);
        let queue = || shared.step(|engine, now| engine.send(now, to.id, &hints(), &mut head, Some(len)));
        let (slot, key) = wait_for_room(shared, to.id, queue).await?;
        let writer = BodyWriter::new(Arc::clone(shared), key, len);
        Ok((Receipt::new(Arc::clone(shared), slot), writer))
    }

    /// Sends a message of `len` bytes whose body is read from `reader`, in bounded memory. The body of
    /// `head` is ignored. Returns when all has been queued.
    ///
    /// Dropped early, it withdraws the message.
    ///
    /// # Errors
    /// [`SendFromError`]; the message has been withdrawn. If it was settled before its end, that is no error
    /// here: the receipt tells.
    pub async fn send_from(
        &self,
        to: &PeerAddr,
        head: impl Into<Message>,
        len: u64,
        mut reader: impl AsyncRead + Unpin,
    ) -> Result<Receipt, SendFromError> {
        let (receipt, mut writer) = self.send_stream(to, head, len).await?;
        writer.copy(&mut reader).await?;
        Ok(receipt)
    }

    // ---- receiving

    /// The next message, calls aside; returning it delivers it, unless its body is still coming: that is delivered when it has
    /// been read to its end.
    ///
    /// Cancel-safe, and may be called by many tasks: each message goes to one.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and nothing waits.
    pub async fn recv(&self) -> Result<Received, Closed> {
        let incoming = self.next(false).await?;
        Ok(Received::new(self.shared(), incoming, true))
    }

    /// The next message, if one waits.
    pub fn try_recv(&self) -> Option<Received> {
        let shared = self.shared();
        let incoming = shared.take(false).ok()??;
        Some(Received::new(shared, incoming, true))
    }

    /// Up to `most` messages under one lock: waits for the first, then takes what is there. Many times as fast as
    /// [`Self::recv`] for small messages.
    ///
    /// Cancel-safe, as [`Self::recv`].
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and nothing waits.
    pub async fn recv_batch(&self, most: usize) -> Result<Batch, Closed> {
        let shared = self.shared();
        tokio::task::coop::consume_budget().await;
        let mut runs = Vec::new();
        loop {
            // Made before the look, so that no wake-up is missed between the look and the wait.
            let readable = shared.readable.notified();
            shared.take_many(most, &mut runs)?;
            if !runs.is_empty() || most == 0 {
                break;
            }
            readable.await;
        }
        Ok(Batch::new(Arc::clone(shared), runs))
    }

    /// The next message, under a guard: delivered by [`Delivery::done`], handed out again otherwise.
    ///
    /// Cancel-safe, and may be called by many tasks: each message goes to one at a time.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and nothing waits.
    pub async fn accept(&self) -> Result<Delivery, Closed> {
        let incoming = self.next(true).await?;
        Ok(Delivery::new(self.shared(), incoming))
    }

    async fn next(&self, guarded: bool) -> Result<exonet_proto::node::Incoming, Closed> {
        let shared = self.shared();
        tokio::task::coop::consume_budget().await;
        loop {
            // Made before the look, so that no wake-up is missed between the look and the wait.
            let readable = shared.readable.notified();
            if let Some(incoming) = shared.take(guarded)? {
                return Ok(incoming);
            }
            readable.await;
        }
    }

    // ---- life

    /// Waits until all that was sent so far is settled, or for `deadline`. Returns what is still open.
    pub async fn flush(&self, deadline: impl Into<Option<Duration>>) -> Vec<OpenMessage> {
        let shared = self.shared();
        let mark = shared.amend(|engine| engine.receipts.mark());
        wait_until(shared, deadline.into(), || shared.look(|engine| engine.receipts.settled_before(mark)))
            .await;
        shared.look(
            |engine| {
                if engine.receipts.settled_before(mark) { Vec::new() } else { engine.open_messages() }
            },
        )
    }

    /// Ends the node: refuses new work, waits until all is settled and peers have been told, for `deadline` at
    /// most, then stops. Returns what is still open; its receipts then say Cancelled or Unknown.
    ///
    /// No further call is taken: those that come get [`ReplyStatus::DRAINING`](crate::ReplyStatus::DRAINING), and those
    /// that run are waited for as well. Received messages that wait can be taken meanwhile. What was not taken by then is
    /// certainly not delivered, and the node tells its peers so for up to 500 ms more: their messages are queued again, for
    /// the next life of this identity. `recv` says [`Closed`] from then on, and a message that was handed out and not
    /// [taken](crate::Delivery::done) is not delivered.
    pub async fn close(&self, deadline: Duration) -> Vec<OpenMessage> {
        let shared = self.shared();
        shared.step(|engine, now| engine.close(now));
        shared.readable.notify_waiters();
        shared.amend(|engine| engine.room.turn_away(&mut engine.after));
        // The task that is about to take what waits has its turn.
        tokio::task::yield_now().await;
        wait_until(shared, Some(deadline), || shared.look(|engine| engine.is_quiet())).await;
        shared.step(|engine, now| engine.finish(now));
        wait_until(shared, Some(FAREWELL), || shared.look(|engine| engine.is_finished())).await;
        for _ in 0..FOREWORDS {
            let mut again = None;
            shared.step_last(|engine, _| again = engine.foretell_end());
            let Some(again) = again else { break };
            sleep(again.min(FAREWELL / 4)).await;
        }
        shared.step_last(|engine, now| engine.leave_all(now));
        let open = shared.look(|engine| engine.open_messages());
        shared.stop(None);
        // An error is what the end of the driver looks like.
        let _ = shared.ended.acquire().await;
        open
    }

    /// Takes no further call, without ending anything else: those that come get
    /// [`ReplyStatus::DRAINING`](crate::ReplyStatus::DRAINING) once their method is not served any more.
    pub fn drain(&self) {
        self.shared().amend(|engine| engine.drain());
    }

    /// A round trip to the peer and back, opening a channel if there is none. None: no answer came in time.
    ///
    /// # Errors
    /// [`PingError`]: as for a message, or the peer says that it does not let this node in.
    pub async fn ping(&self, to: &PeerAddr, patience: Duration) -> Result<Option<Duration>, PingError> {
        let shared = self.shared();
        shared.resolve(to).await?;
        let asked = shared.step(|engine, now| engine.ping(now, to.id, &shared.names.known(to)));
        let (cookie, answer) = asked.map_err(SendError::from)?;
        let question = Question { shared, cookie };
        let pong = timeout(patience, answer).await;
        drop(question);
        match pong {
            Ok(Ok(pong)) => pong.map_err(PingError::Refused),
            Ok(Err(_)) => Err(SendError::Closed.into()),
            Err(_) => Ok(None),
        }
    }

    /// Gives up every open message to a peer, and what is held of it.
    pub fn abandon_peer(&self, id: &NodeId) {
        self.shared().step(|engine, now| engine.core.abandon_peer(now, id));
    }

    /// Keeps the path to a peer open by a sign of life after every so much silence, in place of what the
    /// [builder](Builder::keepalive) says; None: as it says. Holds for as long as the peer is known.
    pub fn keep_alive(&self, id: &NodeId, every: Option<Duration>) {
        self.shared().step(|engine, now| engine.core.keep_alive(now, id, every));
    }

    /// Figures about the node.
    pub fn stats(&self) -> Stats {
        self.shared().look(|engine| engine.core.stats())
    }

    /// Figures about a peer; None if it is not known now.
    pub fn peer_stats(&self, id: &NodeId) -> Option<PeerStats> {
        self.shared().look(|engine| engine.core.peer_stats(id))
    }

    /// Whether two nodes have the identity of `id`, or this node's as `id` says: then nothing is delivered between it and this
    /// node in this life. What has left ends Unknown, what has not is cancelled.
    pub fn conflict(&self, id: &NodeId) -> Option<Conflict> {
        self.shared().look(|engine| engine.core.conflict(id))
    }

    /// The peers that are known now.
    pub fn peers(&self) -> Vec<NodeId> {
        self.shared().look(|engine| engine.core.peers())
    }

    /// Moves the node to another local address, as a machine does that changes its network. Peers follow;
    /// nothing is lost.
    ///
    /// # Errors
    /// What the system says; the old socket stays in use then.
    pub async fn rebind(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("not called within a tokio runtime"));
        }
        let socket = Socket::bind(address)?;
        socket.writable().await?;
        let local = socket.local_addr();
        self.shared().rebind(socket);
        Ok(local)
    }
}

/// An unanswered ping. Dropped, nobody waits for the answer any more.
struct Question<'a> {
    shared: &'a Shared,
    cookie: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.shared.amend(|engine| engine.forget_ping(self.cookie));
    }
}

/// Waits until `done` says so after something was settled, the node stopped, or the deadline passed.
async fn wait_until(shared: &Shared, deadline: Deadline, done: impl Fn() -> bool) {
    let wait = async {
        loop {
            let settled = shared.settled.notified();
            if done() || shared.look(|engine| engine.phase >= Phase::Stopped) {
                return;
            }
            settled.await;
        }
    };
    match deadline {
        None => wait.await,
        // Whether it came in time is seen by looking.
        Some(deadline) => drop(timeout(deadline, wait).await),
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.id()).finish_non_exhaustive()
    }
}
