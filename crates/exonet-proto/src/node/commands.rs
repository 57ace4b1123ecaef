//! What the application asks for: sending.

use core::borrow::BorrowMut;
use core::net::SocketAddr;
use std::collections::VecDeque;

use bytes::Bytes;

use super::bundling::{Bare, Gather, Lent};
use super::event::{
    BodyWrite, CancelError, Event, MessageKey, OpenMessage, Outcome, Outgoing, Refusal, SendError, Status,
};
use super::node::Settled;
use super::{Node, Peer};
use crate::id::{MessageId, NodeId, Slot};
use crate::message::{Ending, Letter, Source};
use crate::time::{Mono, Now};
use crate::wire::Role;

/// How the messages to a peer end that takes nothing more.
pub(super) struct Fates {
    /// What was never bound, or was given back.
    pub(super) unbound: Outcome,
    /// What is in doubt; None: it stays so.
    pub(super) bound: Option<Outcome>,
}

impl Node {
    /// Queues a message to `peer`, which may be found at `hints` or where it was last heard.
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued then. After [`SendError::Full`] an [`Event::Sendable`] follows.
    pub fn send(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: Outgoing,
    ) -> Result<MessageKey, SendError> {
        let mut message = message;
        let source = self.store.body(core::mem::take(&mut message.body));
        self.submit(now, peer, hints, message, source, Role::Plain)
    }

    /// Queues a message of `len` bytes that the application writes by [`Node::body_write`]; `head.body` is ignored.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        head: Outgoing,
        len: u64,
    ) -> Result<MessageKey, SendError> {
        let mut head = head;
        self.store.let_go(core::mem::take(&mut head.body));
        self.submit(now, peer, hints, head, Source::stream(len), Role::Plain)
    }

    /// As [`Node::send`], for one message after the other, which may be lent: what is taken of it is taken out of it, and the
    /// rest is the caller's to drop. `messages` is asked only while there is room; what is accepted
    /// is reported to `queued`: a message, or so many that are kept together, whose keys are the first one's
    /// [`MessageKey::nth`]. Each has an outcome of its own all the same.
    ///
    /// # Errors
    /// [`SendError`] of the first message that was not accepted, and is lost to the iterator; [`SendError::Full`] before
    /// the next is asked for, whether or not there is one.
    pub fn send_each(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        messages: &mut impl Iterator<Item = impl BorrowMut<Outgoing>>,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        self.send_all(now, peer, hints, &mut messages.map(Lent), queued)
    }

    /// As [`Node::send_each`], of messages that have a body and nothing else. A body is copied, and once: small ones of one
    /// length to where they leave from, without an allocation of their own.
    ///
    /// # Errors
    /// As [`Node::send_each`].
    pub fn send_bodies(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        bodies: &mut impl Iterator<Item = impl AsRef<[u8]>>,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        self.send_all(now, peer, hints, &mut bodies.map(Bare), queued)
    }

    fn send_all<M: Gather>(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        messages: &mut impl Iterator<Item = M>,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        if self.closing || self.stopped {
            return Err(SendError::Closed);
        }
        let index = self.peer_to(now, peer, hints)?;
        let sent = self.gather(now, index, messages, queued);
        self.withdraw_untaken(now, index);
        self.touch(now, index);
        sent
    }

    pub(super) fn submit(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: Outgoing,
        source: Source,
        role: Role,
    ) -> Result<MessageKey, SendError> {
        let place = self.check(&message, &source).and_then(|()| self.peer_to(now, peer, hints));
        let place = place.and_then(|index| self.reserve(index).map(|()| index));
        let index = match place {
            Ok(index) => index,
            Err(error) => {
                self.refuse(message, source);
                return Err(error);
            }
        };
        let key = self.accept_from(now, index, message, source, role)?;
        self.withdraw_untaken(now, index);
        self.touch(now, index);
        Ok(key)
    }

    /// A message is not taken.
    fn refuse(&mut self, message: Outgoing, source: Source) {
        self.store.let_go(message.tag);
        self.store.let_go(message.body);
        self.store.let_go_body(source);
    }

    /// Whether there is room for one more message to the peer.
    pub(super) fn reserve(&mut self, index: u32) -> Result<(), SendError> {
        let place = self.peers.get_mut(index).ok_or(SendError::Closed)?;
        if !place.has_room(&self.config.limits) {
            place.outbound.refused = true;
            return Err(SendError::Full);
        }
        Ok(())
    }

    /// Queues a message for which there is room.
    pub(super) fn accept_from(
        &mut self,
        now: Now,
        index: u32,
        message: Outgoing,
        source: Source,
        role: Role,
    ) -> Result<MessageKey, SendError> {
        let largest = self.peers.get(index).map_or(0, |place| place.outbound.limits.message);
        let fits = source.len() <= largest;
        let too_large = SendError::TooLarge { size: source.len(), limit: largest };
        if let Err(error) = self.check(&message, &source).and(if fits { Ok(()) } else { Err(too_large) }) {
            self.refuse(message, source);
            return Err(error);
        }
        let patience = self.config.give_up_after.map(|patience| now.mono + patience);
        let due = [message.deadline, patience].into_iter().flatten().min();
        let key = self.store.insert(Letter::new(index, message, source, role));
        if let Some(place) = self.peers.get_mut(index) {
            place.outbound.submit(&self.clock, &mut self.store, key);
        }
        if let Some(at) = due {
            self.look_again(key, at);
        }
        self.stats.sent += 1;
        self.stats.calls += u64::from(role == Role::Call);
        Ok(key)
    }

    fn check(&self, message: &Outgoing, source: &Source) -> Result<(), SendError> {
        if self.closing || self.stopped {
            return Err(SendError::Closed);
        }
        if message.tag.len() > 255 {
            return Err(SendError::TagTooLong(message.tag.len()));
        }
        let limit = self.config.limits.message;
        if source.len() > limit {
            return Err(SendError::TooLarge { size: source.len(), limit });
        }
        Ok(())
    }

    /// Whether [`Node::send`] to `peer` would find room. If not, an [`Event::Sendable`] follows once it would.
    pub fn has_room(&mut self, peer: &NodeId) -> bool {
        let Some(place) = self.peers.find(peer).and_then(|index| self.peers.get_mut(index)) else {
            return true;
        };
        let room = place.has_room(&self.config.limits);
        place.outbound.refused |= !room;
        room
    }

    /// Writes the next bytes of a message begun by [`Node::send_stream`].
    pub fn body_write(&mut self, now: Now, key: MessageKey, data: &mut Bytes) -> BodyWrite {
        let window = self.config.limits.body_window();
        let Some(letter) = self.store.get_mut(key).filter(|letter| !letter.served) else {
            return BodyWrite::Gone;
        };
        let Some(peer) = self.peers.get_mut(letter.peer) else {
            return BodyWrite::Gone;
        };
        let mut pieces = VecDeque::new();
        let room = if letter.is_large() { window } else { letter.wire_len() };
        let taken = letter.source.write(data, room);
        letter.writer_waits = !data.is_empty();
        peer.outbound.bytes = peer.outbound.bytes.saturating_add(taken as u64);
        if !letter.is_large() && letter.available() == letter.wire_len() {
            pieces = letter.source.join();
        }
        if letter.is_cut() {
            let wait = peer.link.pto() * 2;
            peer.outbound.on_written(now.mono, letter, wait);
        }
        peer.outbound.enqueue(key, letter);
        let index = letter.peer;
        pieces.into_iter().for_each(|piece| self.store.let_go(piece));
        self.touch(now, index);
        BodyWrite::Taken(taken)
    }

    /// Withdraws a message that has not left. Its outcome is Cancelled.
    ///
    /// # Errors
    /// [`CancelError`] when it has left or is settled.
    pub fn cancel(&mut self, now: Now, key: MessageKey) -> Result<(), CancelError> {
        match self.store.open(key) {
            None => Err(CancelError::Settled),
            Some(letter) if letter.slot_of(key).is_some() => Err(CancelError::InDoubt),
            Some(_) => {
                self.withdraw(now, key, Outcome::Cancelled);
                Ok(())
            }
        }
    }

    /// Gives a message up: Cancelled if it never left, Unknown otherwise.
    pub fn abandon(&mut self, now: Now, key: MessageKey) {
        let Some(letter) = self.store.open(key) else { return };
        let outcome = if letter.slot_of(key).is_some() { Outcome::Unknown } else { Outcome::Cancelled };
        self.withdraw(now, key, outcome);
    }

    /// Gives up every message to `peer`.
    pub fn abandon_peer(&mut self, now: Now, peer: &NodeId) {
        let Some(index) = self.peers.find(peer) else {
            return;
        };
        let own = self.store.messages().filter(|(_, letter)| letter.peer == index && !letter.is_reply());
        let keys: Vec<_> = own.map(|(key, _)| key).collect();
        for key in keys {
            self.abandon(now, key);
        }
    }

    /// A message leaves the store without a STATE to settle it.
    pub(super) fn withdraw(&mut self, now: Now, key: MessageKey, outcome: Outcome) {
        if let Some(index) = self.store.get(key).filter(|letter| letter.bundle().is_some()).map(|l| l.peer) {
            return self.withdraw_bundled(now, index, key, outcome);
        }
        let Some(letter) = self.store.remove(key) else {
            return;
        };
        let index = letter.peer;
        if let Some(peer) = self.peers.get_mut(index) {
            peer.outbound.abandon(&letter);
            peer.outbound.forget(key, &letter);
            peer.outbound.admit_large(&mut self.store);
            peer.outbound.note_idle(now.mono);
        }
        let ending = letter.ending();
        self.store.bury(letter);
        self.conclude(key, 1, ending, outcome);
        self.say_sendable(index);
        self.touch(now, index);
    }

    /// The peer has said how much it takes: what is longer never leaves.
    pub(super) fn withdraw_oversized(&mut self, now: Now, index: u32) {
        let Some(limit) = self.peers.get(index).map(|peer| peer.outbound.limits.message) else { return };
        let too_large = |(key, letter): &(MessageKey, &Letter)| {
            letter.peer == index && letter.slot_of(*key).is_none() && letter.source.len() > limit
        };
        let keys: Vec<_> = self.store.messages().filter(too_large).map(|(key, _)| key).collect();
        for key in keys {
            self.withdraw(now, key, Outcome::Cancelled);
        }
    }

    /// The peer has said what kinds of messages it takes: others never leave.
    pub(super) fn withdraw_untaken(&mut self, now: Now, index: u32) {
        let peer = self.peers.get(index).filter(|peer| peer.link.is_connected());
        let takes = peer.map(|peer| peer.outbound.limits.takes).filter(|takes| !takes.takes_all());
        let Some(takes) = takes else { return };
        let untaken = |(key, letter): &(MessageKey, &Letter)| {
            letter.peer == index && letter.slot_of(*key).is_none() && !takes.takes(letter.role)
        };
        let keys: Vec<_> = self.store.messages().filter(untaken).map(|(key, _)| key).collect();
        for key in keys {
            self.withdraw(now, key, Outcome::Refused(Refusal::Kind));
        }
    }

    /// The peer takes nothing more: what is for it ends as `fates` say, and what only asked for a channel is let go.
    pub(super) fn turn_away(&mut self, now: Now, index: u32, fates: &Fates) {
        let own = self.store.messages().filter(|(_, letter)| !letter.is_reply() && letter.peer == index);
        let ends: Vec<_> = own
            .filter_map(|(key, letter)| {
                let outcome = if letter.slot_of(key).is_some() { fates.bound } else { Some(fates.unbound) };
                Some((key, outcome?))
            })
            .collect();
        for (key, outcome) in ends {
            self.withdraw(now, key, outcome);
        }
        let Some(peer) = self.peers.get_mut(index) else { return };
        let refused = if let Outcome::Refused(why) = fates.unbound { Some(why) } else { None };
        self.events.extend(peer.lose_pings(refused));
        if !peer.outbound.has_messages() {
            peer.outbound.drop_record(&mut self.clock);
            peer.inbound.state_sent();
        }
    }

    /// Says what became of a message, or of so many bound one behind the other or not at all, that has left the store.
    pub(super) fn conclude(&mut self, key: MessageKey, count: u32, letter: Ending, outcome: Outcome) {
        if letter.due != Mono::NEVER {
            self.deadlines.remove(&(letter.due, key));
        }
        if let Role::Reply { s, .. } = letter.role {
            return self.reply_settled(letter.peer, s, outcome);
        }
        match outcome {
            Outcome::Delivered => self.stats.delivered += u64::from(count),
            Outcome::Unknown => {
                self.stats.unknown += u64::from(count);
                self.stats.calls_unknown += u64::from(letter.role == Role::Call);
            }
            Outcome::Expired | Outcome::Cancelled | Outcome::Refused(_) => {
                self.stats.withdrawn += u64::from(count);
            }
        }
        let id = letter.bound.map(|(s, r)| MessageId { sender: self.id, r, s });
        self.events.push_back(Event::Outcome { key, count, outcome, id, late: letter.late });
    }

    /// Where a message stands.
    pub fn status(&self, key: MessageKey) -> Status {
        self.store.open(key).map_or(Status::Settled, |letter| self.status_of(key, letter))
    }

    fn status_of(&self, key: MessageKey, letter: &Letter) -> Status {
        match letter.slot_of(key) {
            None => Status::Queued,
            Some((s, r)) => Status::InDoubt { id: MessageId { sender: self.id, r, s }, late: letter.late },
        }
    }

    /// Every message that is not settled.
    pub fn open_messages(&self) -> Vec<OpenMessage> {
        let own = self.store.messages().filter(|(_, letter)| !letter.is_reply());
        let open = own.filter_map(|(key, letter)| {
            let peer = self.peers.get(letter.peer)?.id;
            Some(OpenMessage { key, peer, status: self.status_of(key, letter), size: letter.source.len() })
        });
        open.collect()
    }

    /// The message is looked at when `at` has come.
    fn look_again(&mut self, key: MessageKey, at: Mono) {
        if let Some(letter) = self.store.get_mut(key) {
            letter.due = at;
            self.deadlines.insert((at, key));
        }
    }

    /// Deadlines of messages, and the node's own patience.
    pub(super) fn expire(&mut self, now: Now) {
        while let Some((at, key)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.deadlines.remove(&(at, key));
            let patience = self.config.give_up_after;
            let Some(letter) = self.store.get_mut(key) else {
                continue;
            };
            let deadline = letter.deadline.filter(|deadline| now.mono < *deadline);
            let passed = letter.deadline.is_some() && deadline.is_none();
            // In doubt since it was bound; what has not left is not in doubt.
            let since = if letter.bound.is_some() { letter.bound_at } else { now.mono };
            let given_up = patience.map(|patience| since + patience);
            if passed && letter.bound.is_none() {
                self.withdraw(now, key, Outcome::Expired);
            } else if passed && letter.role == Role::Call {
                letter.late = true;
                self.withdraw(now, key, Outcome::Unknown);
            } else if given_up.is_some_and(|at| at <= now.mono) {
                self.withdraw(now, key, Outcome::Unknown);
            } else {
                letter.late |= passed;
                if let Some(next) = [deadline, given_up].into_iter().flatten().min() {
                    self.look_again(key, next);
                }
            }
        }
    }

    /// A final STATE has shown that these messages, which were bound, were not taken: they go back to the heads of their
    /// queues.
    pub(super) fn take_back(&mut self, now: Now, index: u32, mut returned: Vec<(Slot, MessageKey)>) {
        returned.sort_unstable_by_key(|(s, _)| *s);
        self.stats.taken_back += returned.len() as u64;
        for (s, key) in returned.into_iter().rev() {
            let Some(peer) = self.peers.get_mut(index) else { return };
            peer.outbound.take_back_letter(&mut self.store, s, key);
            let takes = peer.outbound.limits.takes;
            let letter = self.store.get(key);
            if letter.is_some_and(|letter| !takes.takes(letter.role)) {
                self.withdraw(now, key, Outcome::Refused(Refusal::Kind));
            } else if letter.is_some_and(|letter| letter.late) {
                self.withdraw(now, key, Outcome::Expired);
            } else if letter.is_some_and(|letter| !letter.source.is_intact()) {
                // What the peer has acknowledged of it is not here any more.
                self.withdraw(now, key, Outcome::Cancelled);
            }
        }
    }

    /// A STATE has settled these messages.
    pub(super) fn settle(&mut self, now: Mono, index: u32, settled: &mut Vec<Settled>) {
        if settled.is_empty() {
            return;
        }
        for Settled { key, count, outcome } in settled.drain(..) {
            if self.store.get(key).is_some_and(|letter| letter.bundle().is_some()) {
                self.end_bundled(index, key, count, outcome);
                continue;
            }
            if outcome == Outcome::Delivered && self.await_reply(now, index, key) {
                continue;
            }
            let Some(peer) = self.peers.get_mut(index) else { continue };
            let ending = self.store.drop_after(key, |letter| {
                peer.outbound.forget(key, letter);
                letter.ending()
            });
            if let Some(ending) = ending {
                self.conclude(key, 1, ending, outcome);
            }
        }
        if let Some(peer) = self.peers.get_mut(index) {
            peer.outbound.admit_large(&mut self.store);
            peer.outbound.note_idle(now);
            self.say_sendable(index);
        }
    }

    /// Tells the application of room that it was refused before; not of every single place.
    pub(super) fn say_sendable(&mut self, index: u32) {
        let Some(Peer { outbound, id, .. }) = self.peers.get_mut(index) else {
            return;
        };
        let limits = &self.config.limits;
        let roomy = outbound.letters <= limits.queued_messages * 3 / 4
            && outbound.kept() <= limits.queued_bytes as u64 * 3 / 4;
        if outbound.refused && roomy {
            outbound.refused = false;
            self.events.push_back(Event::Sendable { peer: *id });
        }
    }
}
