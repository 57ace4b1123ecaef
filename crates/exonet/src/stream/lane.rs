//! One direction of a stream: it queues the messages of the stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use exonet_proto::node::{Priority, StreamEnd};
use tokio::sync::Notify;

use super::desk::StreamId;
use crate::engine::sending::Way;
use crate::error::SendError;
use crate::peer_addr::PeerAddr;
use crate::receive::answer::{AnswerError, take_and_send};
use crate::receive::delivery::Delivery;
use crate::send::intake::Kind;
use crate::send::line::wait_for_room;
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::shared::Shared;
use exonet_proto::node::Position;

/// Reserves the name of a stream until it is dropped. It does not keep the node running.
pub(crate) struct Claim {
    pub(crate) shared: Arc<Shared>,
    pub(crate) to: Arc<PeerAddr>,
    /// The id of `to`, and the name.
    pub(crate) id: StreamId,
    pub(crate) readable: Arc<Notify>,
}

impl Claim {
    /// Reserves a name. None: this process has already reserved it.
    pub(crate) fn take(shared: &Arc<Shared>, to: &Arc<PeerAddr>, name: Bytes) -> Option<Self> {
        let id = (to.id, name);
        let readable = shared.amend(|engine| engine.streams.hold(id.clone()))?;
        Some(Self { shared: Arc::clone(shared), to: Arc::clone(to), id, readable })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let id = self.id.clone();
        self.shared.step_calmly(|engine, _| engine.leave_stream(id));
    }
}

/// Queues the messages of a stream, in the order of the calls.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) claim: Arc<Claim>,
    /// The priority of all messages: if they had several, they would not leave in order.
    pub(crate) priority: Priority,
    /// Whether the end of this direction is queued. Clones share it.
    ended: Arc<AtomicBool>,
}

impl Lane {
    pub(crate) fn new(claim: Arc<Claim>, priority: Priority) -> Self {
        Self { claim, priority, ended: Arc::default() }
    }

    /// Whether the end of this direction is queued.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Notes that a message with this end is queued.
    fn note(&self, end: StreamEnd) {
        if end != StreamEnd::Open {
            self.ended.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn name(&self) -> &Bytes {
        &self.claim.id.1
    }

    /// Turns the message into one of this stream.
    pub(super) fn named(&self, message: Message) -> Message {
        message.tag(self.name().clone()).priority(self.priority)
    }

    /// Queues a message if there is room.
    pub(crate) fn try_queue(&self, message: Message, end: StreamEnd) -> Result<Receipt, SendError> {
        let Claim { shared, to, id, .. } = &*self.claim;
        shared.pinned(to)?;
        let mut message = Some(self.named(message));
        let busy = end == StreamEnd::Open && shared.is_busy();
        if busy && let Some(receipt) = shared.intake.put(shared, to, &mut message, true) {
            return Ok(receipt);
        }
        let kind = message.as_ref().filter(|_| busy).and_then(|message| Kind::of(to, message, true));
        let hints = shared.names.known(to);
        let slot = shared.step(|engine, now| {
            let slot = engine.send_in_stream(now, id.0, &hints, &mut message, end)?;
            kind.into_iter().for_each(|kind| engine.gather(kind));
            Ok::<_, exonet_proto::node::SendError>(slot)
        })?;
        self.note(end);
        Ok(Receipt::new(Arc::clone(shared), slot))
    }

    /// Waits for room, and queues a message. Also returns its position in the journal; None: there is nothing to wait
    /// for.
    pub(crate) async fn queue(
        &self,
        message: Message,
        end: StreamEnd,
    ) -> Result<(Receipt, Option<Position>), SendError> {
        let Claim { shared, to, id, .. } = &*self.claim;
        let mut message = Some(self.named(message));
        let busy = end == StreamEnd::Open && shared.is_busy();
        if busy && let Some(receipt) = shared.intake.put(shared, to, &mut message, true) {
            return Ok((receipt, None));
        }
        shared.resolve(to).await?;
        let kind = message.as_ref().filter(|_| busy).and_then(|message| Kind::of(to, message, true));
        let queue = || {
            let hints = shared.names.known(to);
            shared.step(|engine, now| {
                let slot = engine.send_in_stream(now, id.0, &hints, &mut message, end)?;
                kind.iter().for_each(|kind| engine.gather(kind.clone()));
                Ok((slot, engine.accepted_at()))
            })
        };
        let (slot, at) = wait_for_room(shared, id.0, queue).await?;
        self.note(end);
        Ok((Receipt::new(Arc::clone(shared), slot), at))
    }

    /// Waits for room, queues a message, and acknowledges `taken` in the same step.
    pub(crate) async fn answer(&self, taken: Delivery, message: Message) -> Result<Receipt, AnswerError> {
        let Claim { shared, to, .. } = &*self.claim;
        take_and_send(shared, to, taken, self.named(message), Way::Stream(StreamEnd::Open)).await
    }

    /// Waits for room, and queues the message that `message` makes.
    pub(crate) async fn queue_when_room(
        &self,
        message: impl Fn() -> Message,
        end: StreamEnd,
    ) -> Result<Receipt, SendError> {
        let Claim { shared, to, id, .. } = &*self.claim;
        shared.resolve(to).await?;
        let queue = || {
            let (hints, mut message) = (shared.names.known(to), Some(self.named(message())));
            shared.step(|engine, now| engine.send_in_stream(now, id.0, &hints, &mut message, end))
        };
        let slot = wait_for_room(shared, id.0, queue).await?;
        self.note(end);
        Ok(Receipt::new(Arc::clone(shared), slot))
    }

    /// Withdraws the messages that have not left.
    pub(crate) fn cancel(&self) {
        let (peer, name) = &self.claim.id;
        self.claim.shared.step(|engine, now| engine.cancel_stream(now, peer, name));
    }

    /// Withdraws the messages that have not left. Then ends this direction, unless it has ended, and tells the peer if there is
    /// room.
    pub(super) fn reset_at_once(&self) {
        self.cancel();
        self.end_at_once(Message::default(), StreamEnd::Reset);
    }

    /// Ends this direction with a last message, unless it has ended, and tells the peer if there is room.
    pub(super) fn end_at_once(&self, last: Message, end: StreamEnd) {
        if !self.is_ended() {
            drop(self.try_queue(last, end));
            // Nothing follows, also if there was no room.
            self.note(end);
        }
    }

    /// Whether this direction has begun and not ended.
    pub(crate) fn has_begun(&self) -> bool {
        let (peer, name) = &self.claim.id;
        self.claim.shared.look(|engine| engine.core.has_begun_stream(peer, name))
    }
}

impl core::fmt::Debug for Lane {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lane").field("name", self.name()).finish_non_exhaustive()
    }
}
