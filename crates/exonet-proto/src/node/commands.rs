//! Requests of the application: sending.

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
    /// Queues a message to `peer`, which may be found at one of `hints` or where it was last heard.
    ///
    /// # Errors
    /// [`SendError`]; then nothing has been queued. After [`SendError::Full`] an [`Event::Sendable`] follows.
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

    /// Queues a message of `len` bytes that the application writes with [`Node::body_write`]; `head.body` is ignored. If `len` is
    /// None, the length is not known, and [`Node::body_end`] ends the message.
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

    /// Calls `peer`: sends a message that is answered and that runs there at most once. The call ends with [`Event::Reply`], or
    /// with an [`Event::Outcome`] that is Expired, Cancelled or Unknown, and with only one of them. Until then the key names this
    /// call alone. Once the call has left, its deadline ends it as Unknown. A reply is bounded by the messages that `peer` takes.
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

    /// As [`Node::call`], with a body as in [`Node::send_stream`].
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

    /// As [`Node::send`], for several messages, which may be lent: the node takes what it needs out of each, and the caller drops
    /// the rest. `messages` is asked for a message only while there is room. Each accepted message is reported to `queued`: as
    /// its key, or, for messages that are kept together, as the first key and their number. The other keys are the
    /// [`MessageKey::nth`] of the first. Each message still has its own outcome.
    ///
    /// # Errors
    /// The [`SendError`] of the first message that was not accepted, which is lost to the iterator; [`SendError::Full`] before
    /// the next message is asked for, whether or not there is one.
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

    /// As [`Node::send_each`], for messages that have everything but their bodies in common. Each body is copied once. Small
    /// bodies of one length are copied to where they leave from, without an allocation for each.
    ///
    /// # Errors
    /// As [`Node::send_each`]; for a stream as [`Node::send_in_stream`].
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

    /// Whether [`Node::send`] to `peer` would find room. If not, an [`Event::Sendable`] follows once it would find room.
    pub fn has_room(&mut self, peer: &NodeId) -> bool {
        let known = self.peers.find(peer).and_then(|place| self.at(place));
        known.is_none_or(|(peer, cx)| peer.takes_more(cx))
    }

    /// The queue to `peer` takes messages until their bodies have this many bytes together.
    pub fn bytes_left(&self, peer: &NodeId) -> u64 {
        let limits = &self.cx.config.limits;
        let known = self.peers.find(peer).and_then(|place| self.peers.get(place));
        known.map_or((limits.queued_bytes as u64).max(1), |peer| peer.bytes_left(limits))
    }

    /// How many messages to `peer`, each with nothing but a body of `body` bytes, are certainly accepted now. Zero if nothing is
    /// known of the peer yet.
    pub fn room_for(&self, peer: &NodeId, body: usize) -> usize {
        if self.cx.closing || self.cx.stopped || body as u64 > self.cx.config.limits.largest_whole() {
            return 0;
        }
        let known = self.peers.find(peer).and_then(|place| self.peers.get(place));
        known.map_or(0, |peer| peer.room_for_plain(&self.cx, body))
    }

    /// Passes the peer that an unsettled message is for to `ask`. None: the message is settled.
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

    /// Ends a message without a length, begun by [`Node::send_stream`], at what has been written. False: the length of the
    /// message is known, or the message is settled.
    pub fn body_end(&mut self, now: Now, key: MessageKey) -> bool {
        let ended = self.of_message(now, key, |peer, cx| {
            cx.store.get_mut(key).is_some_and(|letter| peer.body_end(now, letter, key))
        });
        ended.unwrap_or_default()
    }

    /// Withdraws a message. A message that has not left ends Cancelled at once. A message that has left is withdrawn at its
    /// receiver. Once the result is known, it ends Cancelled (certainly never delivered) or Delivered. It ends Unknown only where
    /// any message would.
    ///
    /// # Errors
    /// [`CancelError`] when the message is settled, or when it has left and is a call, the end of a stream, or a part of a
    /// message of several. Such messages are not withdrawn.
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

    /// As [`Node::open_messages`], but messages that are kept together and have not left form one entry: the first message and
    /// their number. Their keys follow one another.
    pub fn open_together(&self) -> Vec<(OpenMessage, u32)> {
        let mut all: Vec<(OpenMessage, u32)> = Vec::with_capacity(self.cx.store.places());
        for open in self.as_open(self.cx.store.messages()) {
            match all.last_mut() {
                Some((first, n)) if first.key.nth(*n) == open.key && both_queued(first, &open) => *n += 1,
                _ => all.push((open, 1)),
            }
        }
        all
    }

    /// As [`Node::open_messages`], a part at a time and in no order: the messages in `places` places from `from` on. Also returns
    /// where the next part begins. None: this was the last part. A message that comes or goes between two calls may be missed.
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

    /// An unsettled message. None: it is settled.
    pub fn open_message(&self, key: MessageKey) -> Option<OpenMessage> {
        let letter = self.cx.store.open(key)?;
        self.as_open(core::iter::once((key, letter))).next()
    }

    /// What the application gave for an unsettled message, with at most `most` bytes of its body. None: the message is settled.
    /// If the body is written as it leaves, the result has the bytes that are present now.
    pub fn content(&self, key: MessageKey, most: usize) -> Option<Outgoing> {
        let letter = self.cx.store.open(key)?;
        let body = letter.body_of(key);
        let body = Bytes::copy_from_slice(body.get(..most).unwrap_or(body));
        let Letter { tag, priority, deadline, early, confirm, trace, .. } = letter;
        let confirm = if *confirm { Confirm::Processed } else { Confirm::Delivered };
        let (tag, priority, deadline, early) = (tag.clone(), *priority, *deadline, *early);
        Some(Outgoing { tag, body, priority, deadline, early, confirm, trace: trace.clone() })
    }

    /// The addresses at which a peer may be, as far as they are known: the latest last.
    pub fn hints(&self, peer: &NodeId) -> Vec<SocketAddr> {
        let known = self.peers.find(peer).and_then(|place| self.peers.get(place));
        known.map_or_else(Vec::new, |peer| peer.hints.iter().rev().copied().collect())
    }

    /// Ends messages whose deadlines, or the node's own time limits, have passed.
    pub(super) fn expire(&mut self, now: Now) {
        while let Some((at, key)) = self.cx.deadlines.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.cx.deadlines.remove(&(at, key));
            self.of_message(now, key, |peer, cx| peer.expire(cx, now, key));
        }
    }

    // --- calls of others ---

    /// Answers a call that was taken. A `status` of 0 is success; [`FAILED`], [`TOO_LARGE`] and [`NO_SUCH_METHOD`] are the node's
    /// own. The reply is kept until the caller has it, for `Config::reply_kept` at most. If the reply is longer than the caller
    /// takes, the caller gets [`TOO_LARGE`] in its place.
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

    /// Gives up a call that was taken and that no handler will answer: the caller gets [`FAILED`]. False as for [`Node::reply`].
    pub fn drop_call(&mut self, now: Now, call: CallId) -> bool {
        self.reply(now, call, FAILED, Bytes::new())
    }

    /// Answers every waiting call of a method with `status`, which says that the call has not run: [`NO_SUCH_METHOD`] if no
    /// handler serves the method.
    pub fn refuse_calls(&mut self, now: Now, method: &Bytes, status: u32) {
        while let Some(incoming) = self.take_call(now, method) {
            self.cut(now, incoming.key);
            if let Some(call) = incoming.call {
                self.reply(now, call, status, Bytes::new());
            }
        }
    }

    /// Forgets the oldest replies beyond the cap on all replies.
    pub(super) fn bound_replies(&mut self, now: Now) {
        while let Some((place, s)) = self.cx.replies.beyond(self.cx.config.limits.reply_bytes as u64) {
            let Some((peer, cx)) = self.at(place) else {
                return debug_assert!(false, "replies go with their peer");
            };
            peer.forget_reply(cx, now, s);
            // The reply may be the last thing held for its caller, and nothing else makes the node look at that peer now.
            self.touch(place);
        }
    }
}

fn both_queued(one: &OpenMessage, other: &OpenMessage) -> bool {
    one.status == Status::Queued && other.status == Status::Queued
}
