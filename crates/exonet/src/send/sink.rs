//! A sink of messages to one peer.

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use exonet_proto::Mono;
use exonet_proto::node::{Outgoing, SendError as CoreError};
use futures_sink::Sink;

use crate::error::SendError;
use crate::peer::{LOT, Peer};
use crate::send::line::wait_for_room;
use crate::send::message::{Message, take_turns};
use crate::send::receipt::BatchReceipt;
use crate::send::receipts::{SlotIndex, Tally};

/// The sink queues its messages once it has collected this many bytes of them.
const LOT_BYTES: usize = 1 << 20;

/// Sends many messages to one peer, and counts their outcomes. [`Peer::sink`] makes it.
///
/// The sink collects messages and queues them together: once it has a few hundred, and on [`Self::flush`]. A message
/// that was fed and not flushed has not been sent. It is a [`Sink`], whose `poll_close` waits until every message is
/// settled.
///
/// ```
/// # use exonet::{Allow, Node};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// let mut sink = alice.peer(bob.peer_addr()).sink();
/// for n in 0..3 {
///     sink.feed(n.to_string()).await?;
/// }
/// sink.flush().await?;
/// for _ in 0..3 {
///     bob.recv().await?.ack()?;
/// }
/// assert_eq!(sink.settled().await?.delivered, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "what is fed to a sink is sent by `flush`"]
pub struct MessageSink {
    peer: Peer,
    receipt: BatchReceipt,
    lot: Vec<Outgoing>,
    bytes: usize,
    /// Set while the lot waits for room.
    queueing: Option<Queueing>,
}

/// Resolves to what is left of the lot: nothing, unless a message was refused.
type Queueing = Pin<Box<dyn Future<Output = (Vec<Outgoing>, Result<(), SendError>)> + Send + Sync>>;

impl Peer {
    /// Makes a sink of messages to this peer, for a task that sends many.
    pub fn sink(&self) -> MessageSink {
        let receipt = BatchReceipt::new(self.shared().clone());
        MessageSink { peer: self.clone(), receipt, lot: Vec::new(), bytes: 0, queueing: None }
    }

    /// Queues the first messages of `lot`, as many as there is room for.
    fn queue_lot(&self, lot: &mut Vec<Outgoing>, slot: SlotIndex) -> Result<(), CoreError> {
        let hints = self.hints();
        let (taken, queued) =
            self.shared().step(|engine, now| engine.send_many(now, self.id(), &hints, lot, false, slot));
        // A refused message counts as taken, since the core has asked for it. What is left of the messages is dropped
        // without the lock.
        lot.drain(..taken.min(lot.len()));
        queued
    }
}

impl MessageSink {
    /// Adds a message. If the sink has collected enough, it first waits for room in the queue to the peer.
    /// Cancel-safe: if the caller drops the future early, `message` was not added.
    ///
    /// # Errors
    /// [`SendError`] of a message that was fed before. The sink has dropped that message.
    pub async fn feed(&mut self, message: impl Into<Message>) -> Result<(), SendError> {
        if !self.has_room() {
            self.flush().await?;
        }
        self.push(message.into());
        Ok(())
    }

    /// Queues the messages that were fed, and waits for room in the queue to the peer. Cancel-safe: messages that are
    /// not queued yet stay in the sink.
    ///
    /// # Errors
    /// [`SendError`] of the first message that the node refuses. If the fault is in that message, for example its
    /// size, the sink drops it. The messages after it stay in the sink.
    pub async fn flush(&mut self) -> Result<(), SendError> {
        let bytes = self.bytes;
        poll_fn(|cx| self.poll_queue(cx)).await?;
        // Only queued messages count: they cause work for the driver, which may run on the same thread.
        take_turns(bytes).await;
        Ok(())
    }

    /// Flushes, and waits until every message is settled. Counts all messages since the sink was made.
    ///
    /// # Errors
    /// The errors of [`Self::flush`].
    pub async fn settled(&mut self) -> Result<Tally, SendError> {
        self.flush().await?;
        Ok(self.receipt.outcomes().await)
    }

    /// The outcomes of the messages that are settled already.
    pub fn tally(&self) -> Tally {
        self.receipt.tally()
    }

    fn push(&mut self, message: Message) {
        let now = if message.has_deadline() { self.peer.shared().clock().mono() } else { Mono(0) };
        self.bytes += message.weight();
        self.lot.push(message.into_outgoing(now));
    }

    fn has_room(&self) -> bool {
        self.queueing.is_none() && self.lot.len() < LOT && self.bytes < LOT_BYTES
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.has_room() { Poll::Ready(Ok(())) } else { self.poll_queue(cx) }
    }

    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        loop {
            if let Some(queueing) = &mut self.queueing {
                let (left, queued) = ready!(queueing.as_mut().poll(cx));
                self.queueing = None;
                self.lot = left;
                if let Err(error) = queued {
                    return Poll::Ready(Err(error));
                }
            }
            if self.lot.is_empty() {
                self.bytes = 0;
                return Poll::Ready(Ok(()));
            }
            let slot = self.receipt.slot();
            let known = self.peer.addr().has_no_names();
            let queued = if known { self.peer.queue_lot(&mut self.lot, slot) } else { Err(CoreError::Full) };
            match queued {
                Ok(()) => {}
                Err(CoreError::Full) => {
                    let (peer, mut lot) = (self.peer.clone(), core::mem::take(&mut self.lot));
                    self.queueing = Some(Box::pin(async move {
                        if let Err(error) = peer.look_up().await {
                            return (lot, Err(error));
                        }
                        let attempt = || peer.queue_lot(&mut lot, slot);
                        let queued = wait_for_room(peer.shared(), peer.id(), attempt).await;
                        (lot, queued)
                    }));
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl<M: Into<Message>> Sink<M> for MessageSink {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_room(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: M) -> Result<(), SendError> {
        self.get_mut().push(message.into());
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.get_mut().poll_queue(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let sink = self.get_mut();
        ready!(sink.poll_queue(cx))?;
        Pin::new(&mut sink.receipt).poll(cx).map(|_| Ok(()))
    }
}

impl fmt::Debug for MessageSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (peer, fed) = (self.peer.id(), self.lot.len());
        f.debug_struct("MessageSink").field("peer", &peer).field("fed", &fed).finish_non_exhaustive()
    }
}
