//! What the application asks for: sending.

use core::borrow::BorrowMut;
use core::net::SocketAddr;

use bytes::Bytes;

use super::Node;
use crate::event::{BodyWrite, Cancel, CancelError, OpenMessage, SendError, Status};
use crate::id::{CallId, MessageId, NodeId};
use crate::message::{Alike, Confirm, Letter, MessageKey, Outcome, Outgoing, Source};
use crate::pattern::call::FAILED;
use crate::peer::{Bare, Context, Gather, Lent, Peer};
use crate::time::Now;
use crate::wire::Role;
#[cfg(doc)]
use crate::{
    event::Event,
    pattern::call::{NO_SUCH_METHOD, TOO_LARGE},
};

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
        let source = self.cx.store.body(core::mem::take(&mut message.body));
        self.submit(now, peer, hints, message, source, Role::Plain)
    }

    /// Queues a message of `len` bytes that the application writes by [`Node::body_write`]; `head.body` is ignored. None: the
    /// length is not known, and [`Node::body_end`] ends it.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn send_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        head: Outgoing,
        len: Option<u64>,
    ) -> Result<MessageKey, SendError> {
        let mut head = head;
        self.cx.store.let_go(core::mem::take(&mut head.body));
        self.submit(now, peer, hints, head, Source::stream(len), Role::Plain)
    }

    /// Calls `peer`: a message that is answered, and that runs there at most once. It ends with [`Event::Reply`], or
    /// with an [`Event::Outcome`] that is Expired, Cancelled or Unknown, and with one of them only; until then the key
    /// is its own. Once it has left, its deadline ends it as Unknown. What `peer` says is bounded by what it takes of
    /// messages.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn call(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        message: Outgoing,
    ) -> Result<MessageKey, SendError> {
        let mut message = message;
        let source = self.cx.store.body(core::mem::take(&mut message.body));
        self.submit(now, peer, hints, message, source, Role::Call)
    }

    /// As [`Node::call`], with a body as that of [`Node::send_stream`].
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn call_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        head: Outgoing,
        len: Option<u64>,
    ) -> Result<MessageKey, SendError> {
        let mut head = head;
        self.cx.store.let_go(core::mem::take(&mut head.body));
        self.submit(now, peer, hints, head, Source::stream(len), Role::Call)
    }

    /// As [`Node::send`], for one message after the other, which may be lent: what is taken of it is taken out of it, and the
    /// rest is the caller's to drop. `messages` is asked only while there is room; what is accepted
    /// is reported to `queued`: a message, or the number of messages that are kept together, whose keys are the first one's
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
        let lent = |message| Lent { message, in_stream: false };
        self.send_all(now, peer, hints, &mut messages.map(lent), Role::Plain, queued)
    }

    /// As [`Node::send_each`], of messages that have all but their bodies in common. A body is copied, and once: small ones of one
    /// length to where they leave from, without an allocation of their own.
    ///
    /// # Errors
    /// As [`Node::send_each`]; of a stream as [`Node::send_in_stream`].
    pub fn send_bodies(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        alike: &Alike,
        bodies: &mut impl Iterator<Item = impl AsRef<[u8]>>,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        self.send_all(now, peer, hints, &mut bodies.map(|body| Bare { body, alike }), alike.role(), queued)
    }

    pub(super) fn send_all<M: Gather>(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        messages: &mut impl Iterator<Item = M>,
        role: Role,
        queued: impl FnMut(MessageKey, u32),
    ) -> Result<(), SendError> {
        if self.cx.closing || self.cx.stopped {
            return Err(SendError::Closed);
        }
        let place = self.peer_to(now, peer, hints)?;
        let (peer, cx) = self.at(place).ok_or(SendError::Closed)?;
        let sent = peer.submit_all(cx, now, messages, role, queued);
        self.after(now, place);
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
        let place = self.cx.check(&message, &source, role).and_then(|()| self.peer_to(now, peer, hints));
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                self.cx.refuse(message, source);
                return Err(error);
            }
        };
        let (peer, cx) = self.at(place).ok_or(SendError::Closed)?;
        let key = peer.submit(cx, now, message, source, role);
        self.after(now, place);
        key
    }

    /// Whether [`Node::send`] to `peer` would find room. If not, an [`Event::Sendable`] follows once it would.
    pub fn has_room(&mut self, peer: &NodeId) -> bool {
        let known = self.peers.find(peer).and_then(|place| self.at(place));
        known.is_none_or(|(peer, cx)| peer.takes_more(cx))
    }

    /// How many messages to `peer` with a body of `body` bytes, and nothing else, are certainly taken now. None if nothing is
    /// known of the peer yet.
    pub fn room_for(&self, peer: &NodeId, body: usize) -> usize {
        if self.cx.closing || self.cx.stopped || body as u64 > self.cx.config.limits.message {
            return 0;
        }
        let known = self.peers.find(peer).and_then(|place| self.peers.get(place));
        known.map_or(0, |peer| peer.room_for_plain(&self.cx, body))
    }

    /// Gives `ask` the peer that a message which is not settled is for. None: it is settled.
    fn of_message<T>(
        &mut self,
        now: Now,
        key: MessageKey,
        ask: impl FnOnce(&mut Peer, &mut Context) -> T,
    ) -> Option<T> {
        let place = self.cx.store.get(key)?.peer;
        let answer = self.at(place).map(|(peer, cx)| ask(peer, cx));
        self.after(now, place);
        answer
    }

    /// Writes the next bytes of a message begun by [`Node::send_stream`].
    pub fn body_write(&mut self, now: Now, key: MessageKey, data: &mut Bytes) -> BodyWrite {
        let written = self.of_message(now, key, |peer, cx| peer.body_write(cx, now, key, data));
        written.unwrap_or(BodyWrite::Gone)
    }

    /// A message without a length, begun by [`Node::send_stream`], has been written to its end. False: its length is known, or it
    /// is settled.
    pub fn body_end(&mut self, now: Now, key: MessageKey) -> bool {
        let ended = self.of_message(now, key, |peer, cx| {
            cx.store.get_mut(key).is_some_and(|letter| peer.body_end(now, letter, key))
        });
        ended.unwrap_or_default()
    }

    /// Withdraws a message. One that has not left ends Cancelled at once. One that has left is withdrawn at its receiver: it ends
    /// Cancelled, certainly never delivered, or Delivered, once that is known, and Unknown only where any message would.
    ///
    /// # Errors
    /// [`CancelError`] when it is settled, or has left and is a call, the end of a stream, or a part of a message of several: these are not
    /// withdrawn.
    pub fn cancel(&mut self, now: Now, key: MessageKey) -> Result<Cancel, CancelError> {
        let bound = self.cx.store.open(key).map(|letter| letter.slot_of(key).is_some());
        let cancelled = self.of_message(now, key, |peer, cx| match bound {
            None => Err(CancelError::Settled),
            Some(true) if peer.revoke(cx, now, key, Outcome::Cancelled) => Ok(Cancel::Asked),
            Some(true) => Err(CancelError::InDoubt),
            Some(false) => {
                peer.cancel(cx, now, key);
                Ok(Cancel::Done)
            }
        });
        cancelled.unwrap_or(Err(CancelError::Settled))
    }

    /// Gives a message up: Cancelled if it never left, Unknown otherwise.
    pub fn abandon(&mut self, now: Now, key: MessageKey) {
        self.of_message(now, key, |peer, cx| peer.abandon(cx, now, key));
    }

    /// Gives up every message to `peer`.
    pub fn abandon_peer(&mut self, now: Now, peer: &NodeId) {
        let Some(place) = self.peers.find(peer) else { return };
        if let Some((peer, cx)) = self.at(place) {
            peer.abandon_all(cx, now);
        }
        self.after(now, place);
    }

    /// Where a message stands.
    pub fn status(&self, key: MessageKey) -> Status {
        self.cx.store.open(key).map_or(Status::Settled, |letter| self.status_of(key, letter))
    }

    fn status_of(&self, key: MessageKey, letter: &Letter) -> Status {
        match letter.slot_of(key) {
            None => Status::Queued,
            Some((s, r)) => {
                let withdrawing = self.peers.get(letter.peer).is_some_and(|peer| peer.outbound.is_revoked(s));
                let id = MessageId { sender: self.cx.id, r, s };
                Status::InDoubt { id, late: letter.late, withdrawing }
            }
        }
    }

    /// Every message that is not settled.
    pub fn open_messages(&self) -> Vec<OpenMessage> {
        self.as_open(self.cx.store.messages()).collect()
    }

    /// As [`Node::open_messages`], where messages that are kept together and have not left are one entry: the first, and how many
    /// there are, each named one behind the other.
    pub fn open_together(&self) -> Vec<(OpenMessage, u32)> {
        let mut all: Vec<(OpenMessage, u32)> = Vec::new();
        for open in self.as_open(self.cx.store.messages()) {
            match all.last_mut() {
                Some((first, n)) if first.key.nth(*n) == open.key && both_queued(first, &open) => *n += 1,
                _ => all.push((open, 1)),
            }
        }
        all
    }

    /// As [`Node::open_messages`], a part of them at a time and in no order: those in `places` places from `from` on. Gives where
    /// the next part begins; None: that was the last. A message that comes or goes in between may be missed.
    pub fn open_messages_from(&self, from: u32, places: u32) -> (Vec<OpenMessage>, Option<u32>) {
        let (messages, next) = self.cx.store.messages_from(from, places);
        (self.as_open(messages).collect(), next)
    }

    fn as_open<'a>(
        &'a self,
        messages: impl Iterator<Item = (MessageKey, &'a Letter)>,
    ) -> impl Iterator<Item = OpenMessage> {
        messages.filter(|(_, letter)| !letter.is_reply()).filter_map(|(key, letter)| {
            let peer = self.peers.get(letter.peer)?.id;
            Some(OpenMessage { key, peer, status: self.status_of(key, letter), size: letter.source.len() })
        })
    }

    /// One of the messages that are not settled. None: it is.
    pub fn open_message(&self, key: MessageKey) -> Option<OpenMessage> {
        let letter = self.cx.store.open(key)?;
        self.as_open(core::iter::once((key, letter))).next()
    }

    /// What the application gave of a message that is not settled, with `most` bytes of its body at most. None: it is settled. Of a
    /// body that is written as it leaves it has what is there now.
    pub fn content(&self, key: MessageKey, most: usize) -> Option<Outgoing> {
        let letter = self.cx.store.open(key)?;
        let body = letter.body_of(key);
        let body = Bytes::copy_from_slice(body.get(..most).unwrap_or(body));
        let Letter { tag, priority, deadline, early, confirm, trace, .. } = letter;
        let confirm = if *confirm { Confirm::Processed } else { Confirm::Delivered };
        let (tag, priority, deadline, early) = (tag.clone(), *priority, *deadline, *early);
        Some(Outgoing { tag, body, priority, deadline, early, confirm, trace: trace.clone() })
    }

    /// Where a peer may be, as far as that is known: the latest last.
    pub fn hints(&self, peer: &NodeId) -> Vec<SocketAddr> {
        let known = self.peers.find(peer).and_then(|place| self.peers.get(place));
        known.map_or_else(Vec::new, |peer| peer.hints.iter().rev().copied().collect())
    }

    /// Deadlines of messages, and the node's own patience.
    pub(super) fn expire(&mut self, now: Now) {
        while let Some((at, key)) = self.cx.deadlines.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.cx.deadlines.remove(&(at, key));
            self.of_message(now, key, |peer, cx| peer.expire(cx, now, key));
        }
    }

    // --- calls of others ---

    /// Answers a call that was taken: `status` 0 is success; [`FAILED`], [`TOO_LARGE`] and [`NO_SUCH_METHOD`] are the
    /// node's own. The
    /// reply is kept until the caller has it, for `Config::reply_kept` at most. If it is longer than the caller takes,
    /// the caller gets [`TOO_LARGE`] in its place.
    ///
    /// False: the call was not taken, or has been answered.
    pub fn reply(&mut self, now: Now, call: CallId, status: u32, body: Bytes) -> bool {
        let place = self.peers.find(&call.caller);
        let Some((peer, cx)) = place.and_then(|place| self.at(place)) else {
            self.cx.store.let_go(body);
            return false;
        };
        let taken = peer.reply(cx, now, call.s, status, body);
        place.into_iter().for_each(|place| self.after(now, place));
        taken
    }

    /// Nobody will answer a call that was taken: the caller gets [`FAILED`]. False as [`Node::reply`].
    pub fn drop_call(&mut self, now: Now, call: CallId) -> bool {
        self.reply(now, call, FAILED, Bytes::new())
    }

    /// Answers every call of a method that waits by `status`, which says that it has not run: [`NO_SUCH_METHOD`], where
    /// no handler serves it.
    pub fn refuse_calls(&mut self, now: Now, method: &Bytes, status: u32) {
        while let Some(incoming) = self.take_call(now, method) {
            self.cut(now, incoming.key);
            if let Some(call) = incoming.call {
                self.reply(now, call, status, Bytes::new());
            }
        }
    }

    /// Beyond the cap of all replies the oldest are forgotten.
    pub(super) fn bound_replies(&mut self, now: Now) {
        while let Some((place, s)) = self.cx.replies.beyond(self.cx.config.limits.reply_bytes as u64) {
            let Some((peer, cx)) = self.at(place) else {
                return debug_assert!(false, "replies go with their peer");
            };
            peer.forget_reply(cx, now, s);
            // It may be the last thing held for a caller of whom nothing else is looked at now.
            self.touch(place);
        }
    }
}

fn both_queued(one: &OpenMessage, other: &OpenMessage) -> bool {
    one.status == Status::Queued && other.status == Status::Queued
}
