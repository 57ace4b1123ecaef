//! How the engine queues messages for the application.

use core::net::SocketAddr;
use core::task::Waker;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{
    Alike, BodyWrite, Cancel, DeliveryKey, MessageKey, Node as Core, Outcome, Outgoing,
    SendError as CoreError, StreamEnd,
};
use exonet_proto::{NodeId, Now};

use super::{AWAKE, Engine, IDLE, Phase};
use crate::send::intake::{Gathered, Intake, Kind};
use crate::send::lot::Lot;
use crate::send::message::Message;
use crate::send::receipts::{Receipts, Settled, SlotIndex};

/// How a message is queued if the same step acknowledges another one.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// Anywhere in the queue, if it has room.
    Plain,
    /// In a place of the queue that a permit has reserved.
    Reserved,
    /// As a message of a stream, if the queue has room.
    Stream(StreamEnd),
}

impl Engine {
    /// Queues a message. If the queue is full, returns Full and leaves the message in `message`.
    pub(crate) fn send(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: &mut Option<Message>,
        stream: Option<Option<u64>>,
    ) -> Result<(SlotIndex, MessageKey), CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        if !self.room.has(&mut self.core, &peer) {
            return Err(CoreError::Full);
        }
        self.reserve_for(|| message.as_ref().map_or(0, Message::len))?;
        // The message is taken out only here. Full is the only error after which the caller tries again, and it can
        // no longer occur.
        let outgoing = message.take().ok_or(CoreError::Closed)?.into_outgoing(now.mono);
        self.queue(now, peer, hints, outgoing, stream)
    }

    /// Queues the messages that came in without the lock. A task that takes the lock does this first.
    pub(crate) fn take_in(&mut self, intake: &Intake, now: impl FnOnce() -> Now) {
        if !self.gathering.is_open {
            return;
        }
        self.gathering.is_open = false;
        let Some(mut gathered) = intake.end() else { return };
        if let Some(lot) = gathered.lot.take() {
            self.queue_lot(now(), &mut gathered, lot);
            self.gathering.idle = 0;
            // The driver is awake, and flushes before it sleeps.
            self.left_to_driver = true;
        }
        let Gathered { kind, mut bodies, .. } = gathered;
        bodies.short.clear();
        self.after.spent.extend(bodies.long.drain(..).flat_map(|message| [message.tag, message.body]));
        self.gathering.spare = bodies;
        self.gathering.wanted = Some(kind).filter(|_| self.gathering.idle < IDLE);
    }

    fn queue_lot(&mut self, now: Now, gathered: &mut Gathered, lot: Arc<Lot>) {
        let (peer, mut at) = (gathered.kind.to.id, 0);
        if self.phase == Phase::Open {
            self.gathering.lot = Some(Arc::clone(&lot));
            let slot = self.receipts.open_lot(Arc::clone(&lot));
            let receipts = &mut self.receipts;
            let queued = |key, count| {
                receipts.add_to_lot(now.mono, slot, at, key, count);
                at += count;
            };
            // When the intake was opened, the core got all hints for the peer, and had room for this many messages.
            let alike = &gathered.kind.alike;
            let _ = if gathered.is_short() {
                self.core.send_bodies(now, peer, &[], alike, &mut gathered.short(), queued)
            } else if alike.in_stream {
                self.core.send_each_in_stream(now, peer, &[], &mut gathered.bodies.long.iter_mut(), queued)
            } else {
                self.core.send_each(now, peer, &[], &mut gathered.bodies.long.iter_mut(), queued)
            };
            self.receipts.close_lot(slot);
            self.gathering.lot = None;
        }
        let never = Settled::without_id(Outcome::Cancelled);
        lot.end(at..gathered.count, never, |waker| self.after.wake(Some(waker)));
    }

    /// Allows messages of a kind to come in without the lock, from the time it is released until a task takes it
    /// again.
    pub(crate) fn gather(&mut self, kind: Kind) {
        self.gathering.wanted = Some(kind);
        self.gathering.idle = 0;
    }

    /// Opens the intake if that is wanted, the driver is awake and the peer's queue has room. A task that releases
    /// the lock does this last.
    pub(crate) fn let_in(&mut self, intake: &Intake) {
        let Some(kind) = self.gathering.wanted.take() else { return };
        // If a crash must not lose a message, the message counts as sent only once the journal has it.
        if self.phase != Phase::Open || self.armed != AWAKE || self.is_journaled() {
            return;
        }
        let peer = kind.to.id;
        let room = self.core.room_for(&peer, kind.len).min(self.room.left(&mut self.core, &peer));
        if room > 0 {
            self.gathering.is_open = true;
            self.gathering.idle += 1;
            intake.begin(kind, room, core::mem::take(&mut self.gathering.spare));
        }
    }

    /// Queues messages of a batch while there is room. All are of streams, or none is. Returns how many it queued, and
    /// Full if some are left.
    pub(crate) fn send_many(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        messages: &mut [Outgoing],
        in_stream: bool,
        batch: SlotIndex,
    ) -> (usize, Result<(), CoreError>) {
        let most = self.core.bytes_left(&peer);
        let lens = || messages.iter().map(|message| message.body.len());
        if let Err(full) = self.reserve_for_all(most, lens) {
            return (0, Err(full));
        }
        self.send_batch(now, peer, messages.len(), |core, receipts, room| {
            let mut taken = messages.iter_mut().take(room);
            let queued = |key, n| receipts.add(now.mono, batch, key, n);
            let sent = if in_stream {
                core.send_each_in_stream(now, peer, hints, &mut taken, queued)
            } else {
                core.send_each(now, peer, hints, &mut taken, queued)
            };
            (taken.len(), sent)
        })
    }

    /// Like [`Engine::send_many`], for messages that have a body and nothing else.
    pub(crate) fn send_bodies(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        bodies: &[&[u8]],
        batch: SlotIndex,
    ) -> (usize, Result<(), CoreError>) {
        let most = self.core.bytes_left(&peer);
        if let Err(full) = self.reserve_for_all(most, || bodies.iter().map(|body| body.len())) {
            return (0, Err(full));
        }
        self.send_batch(now, peer, bodies.len(), |core, receipts, room| {
            let mut taken = bodies.iter().take(room);
            let sent = core.send_bodies(now, peer, hints, &Alike::default(), &mut taken, |key, n| {
                receipts.add(now.mono, batch, key, n);
            });
            (taken.len(), sent)
        })
    }

    /// Calls `send` with the number of messages for which there is room. `send` returns how many of these are left.
    fn send_batch(
        &mut self,
        now: Now,
        peer: NodeId,
        count: usize,
        send: impl FnOnce(&mut Core, &mut Receipts, usize) -> (usize, Result<(), CoreError>),
    ) -> (usize, Result<(), CoreError>) {
        if self.phase != Phase::Open {
            return (0, Err(CoreError::Closed));
        }
        let room = self.room.left(&mut self.core, &peer).min(count);
        if room == 0 {
            return (0, if count == 0 { Ok(()) } else { Err(CoreError::Full) });
        }
        let (left, sent) = send(&mut self.core, &mut self.receipts, room);
        if !self.write_journal(now) {
            return (0, Err(self.unwritten()));
        }
        self.room.serve(&mut self.core, &peer, &mut self.after);
        let taken = room - left;
        match sent {
            Err(CoreError::Full) if taken == count => (taken, Ok(())),
            // The remaining places are reserved for others.
            Ok(()) if taken < count => (taken, Err(CoreError::Full)),
            sent => (taken, sent),
        }
    }

    fn queue(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        outgoing: Outgoing,
        stream: Option<Option<u64>>,
    ) -> Result<(SlotIndex, MessageKey), CoreError> {
        let key = match stream {
            None => self.core.send(now, peer, hints, outgoing)?,
            Some(len) => self.core.send_stream(now, peer, hints, outgoing, len)?,
        };
        if !self.write_journal(now) {
            return Err(self.unwritten());
        }
        Ok((self.queued(now, key, &peer, stream.is_some()), key))
    }

    /// Takes the message `taken`, which was handed out, and queues another message, in one step and one group of the
    /// journal. None: `taken` was not delivered, and nothing was queued.
    pub(crate) fn take_and_send(
        &mut self,
        now: Now,
        taken: DeliveryKey,
        peer: NodeId,
        hints: &[SocketAddr],
        message: &mut Option<Message>,
        way: Way,
    ) -> Result<Option<SlotIndex>, CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        if !self.core.would_take(taken) {
            // Ends the hand-out, as an acknowledgement does.
            self.core.done(now, taken);
            return if self.write_journal(now) { Ok(None) } else { Err(CoreError::Closed) };
        }
        let room = match way {
            Way::Reserved => self.core.has_room(&peer),
            Way::Plain | Way::Stream(_) => self.room.has(&mut self.core, &peer),
        };
        if !room {
            return Err(CoreError::Full);
        }
        self.reserve_for(|| message.as_ref().map_or(0, Message::len))?;
        let outgoing = message.take().ok_or(CoreError::Closed)?.into_outgoing(now.mono);
        let key = match way {
            Way::Plain | Way::Reserved => self.core.send(now, peer, hints, outgoing)?,
            Way::Stream(end) => self.core.send_in_stream(now, peer, hints, outgoing, end, false)?,
        };
        let done = self.core.done(now, taken);
        if !done {
            // The message has not left, since nothing leaves before this step ends.
            let _ = self.core.cancel(now, key);
        }
        if !self.write_journal(now) {
            return Err(self.unwritten());
        }
        Ok(done.then(|| self.queued(now, key, &peer, false)))
    }

    /// Notes that the core has accepted a message.
    pub(crate) fn queued(&mut self, now: Now, key: MessageKey, peer: &NodeId, streamed: bool) -> SlotIndex {
        if streamed {
            self.writers.insert(key, None);
        }
        let slot = self.receipts.open(now.mono, key);
        self.room.serve(&mut self.core, peer, &mut self.after);
        slot
    }

    /// Reserves a place in the queue of a peer.
    pub(crate) fn promise(&mut self, peer: NodeId) -> Result<(), CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        if !self.room.has(&mut self.core, &peer) {
            return Err(CoreError::Full);
        }
        self.room.promise(peer);
        self.room.serve(&mut self.core, &peer, &mut self.after);
        Ok(())
    }

    /// Gives a reserved place back.
    pub(crate) fn give_back(&mut self, peer: &NodeId) {
        self.room.end_promise(peer);
        if self.phase < Phase::Stopped {
            self.room.serve(&mut self.core, peer, &mut self.after);
        }
    }

    /// Queues a message in a reserved place. If the core refuses the message, the caller gets it back, and drops it
    /// after it has released the lock.
    pub(crate) fn redeem(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: &mut Option<Message>,
    ) -> Result<(SlotIndex, MessageKey), CoreError> {
        if self.phase != Phase::Open {
            return Err(CoreError::Closed);
        }
        self.reserve_for(|| message.as_ref().map_or(0, Message::len))?;
        let outgoing = message.take().ok_or(CoreError::Closed)?.into_outgoing(now.mono);
        self.queue(now, peer, hints, outgoing, None)
    }

    /// Leaves the line of tasks that wait for room at `peer`. If it was this task's turn, wakes the next.
    pub(crate) fn leave_line(&mut self, peer: &NodeId) {
        self.room.leave(peer);
        if self.phase < Phase::Stopped {
            self.room.serve(&mut self.core, peer, &mut self.after);
        }
    }

    /// Continues to write a streamed body, or stores the waker.
    pub(crate) fn write(&mut self, now: Now, key: MessageKey, data: &mut Bytes, waker: Waker) -> BodyWrite {
        let Some(place) = self.writers.get_mut(&key) else {
            self.after.forget(Some(waker));
            return BodyWrite::Gone;
        };
        let write = self.core.body_write(now, key, data);
        let waits = if write == BodyWrite::Taken(0) {
            Some(waker)
        } else {
            self.after.forget(Some(waker));
            None
        };
        self.after.forget(core::mem::replace(place, waits));
        write
    }

    /// Ends a streamed body of unknown length. Returns false if its message is already settled.
    pub(crate) fn end_body(&mut self, now: Now, key: MessageKey) -> bool {
        self.core.body_end(now, key)
    }

    /// Whether the writer's task already waits for room with this waker.
    pub(crate) fn is_blocked(&self, key: MessageKey, waker: &Waker) -> bool {
        self.writers.get(&key).and_then(Option::as_ref).is_some_and(|known| known.will_wake(waker))
    }

    /// Gives up a message whose body will never be complete. It ends Cancelled if it had not left, else Unknown.
    pub(crate) fn withdraw(&mut self, now: Now, key: MessageKey) {
        if self.phase < Phase::Stopped && self.cancel(now, key) != Ok(Cancel::Done) {
            self.core.abandon(now, key);
        }
    }

    /// Removes the writer of a streamed body. Returns its waker.
    pub(crate) fn leave_writable(&mut self, key: MessageKey) -> Option<Waker> {
        self.writers.remove(&key).flatten()
    }
}
