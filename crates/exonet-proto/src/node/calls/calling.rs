//! What a node does for its own calls.

use core::net::SocketAddr;

use super::super::Node;
use super::super::event::{Event, MessageKey, Outcome, Outgoing, ReplyBody, SendError};
use super::super::inbox::{Arrived, ArrivedBody};
use crate::id::{MessageId, NodeId, Slot};
use crate::message::Source;
use crate::time::{Mono, Now};
use crate::wire::{self, Role};

impl Node {
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
        let source = self.store.body(core::mem::take(&mut message.body));
        self.submit(now, peer, hints, message, source, Role::Call)
    }

    /// As [`Node::call`], with a body of `len` bytes that is written by [`Node::body_write`]; `head.body` is ignored.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn call_stream(
        &mut self,
        now: Now,
        peer: NodeId,
        hints: &[SocketAddr],
        head: Outgoing,
        len: u64,
    ) -> Result<MessageKey, SendError> {
        let mut head = head;
        self.store.let_go(core::mem::take(&mut head.body));
        self.submit(now, peer, hints, head, Source::stream(len), Role::Call)
    }

    /// A call was delivered: its letter stays for the reply. False: it is no call.
    pub(in crate::node) fn await_reply(&mut self, now: Mono, index: u32, key: MessageKey) -> bool {
        let Some(letter) = self.store.get_mut(key).filter(|letter| letter.role == Role::Call) else {
            return false;
        };
        let (Some(peer), Some((s, _))) = (self.peers.get_mut(index), letter.bound) else { return false };
        let wait = peer.link.pto() * 2;
        if core::mem::take(&mut letter.writer_waits) {
            self.events.push_back(Event::BodyWritable { key });
        }
        let body = peer.outbound.served(key, letter);
        self.store.let_go_body(body);
        peer.outbound.caller.delivered(now, s, wait);
        true
    }

    pub(in crate::node) fn on_reply(&mut self, now: Now, index: u32, reply: &wire::Reply<'_>) {
        let by = now.mono + self.config.max_ack_delay;
        let Some(peer) = self.peers.get_mut(index) else { return };
        if peer.outbound.caller.on_reply(reply.s, by).is_some() {
            let body = ReplyBody::Whole(self.arena.copy(reply.body));
            self.replied(now, index, reply.s, reply.status, body);
        }
    }

    /// A reply has come as a message: its slot is consumed as it comes, whether a call waits for it or not.
    pub(in crate::node) fn on_reply_message(&mut self, now: Now, arrived: Arrived, s: Slot, status: u32) {
        let index = arrived.peer;
        let Some(peer) = self.peers.get_mut(index) else { return };
        let waits = peer.outbound.caller.get(s).is_some();
        let body = match arrived.body {
            ArrivedBody::Stream { len } if waits => {
                let at = arrived.id.s;
                let delivery = self.inbox.hand_out(arrived);
                if let Some(partial) = peer.inbound.partial(at) {
                    partial.stream = Some(delivery);
                }
                ReplyBody::Stream { delivery, len }
            }
            body => {
                let (MessageId { s, r, .. }, len) = (arrived.id, arrived.wire_len);
                peer.inbound.take(s.0..s.0 + 1, r, len, arrived.role);
                peer.inbound.owe_state(now.mono + self.config.max_ack_delay);
                peer.inbound.retry(now.mono, &mut self.clock, &self.config.limits);
                let ArrivedBody::Whole(body) = body else { return };
                ReplyBody::Whole(body)
            }
        };
        self.replied(now, index, s, status, body);
    }

    /// The call ends, if it waits.
    fn replied(&mut self, now: Now, index: u32, s: Slot, status: u32, body: ReplyBody) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        let Some(key) = peer.outbound.caller.get(s) else { return };
        let Some((_, r)) = self.store.get(key).and_then(|letter| letter.bound) else { return };
        let Some(letter) = self.store.remove(key) else { return };
        if let Some(sender) = peer.outbound.sender.as_mut() {
            // Delivered, whether a STATE has said so or not.
            sender.abandon(s);
        }
        peer.outbound.forget(key, &letter);
        peer.outbound.admit_large(&mut self.store);
        peer.outbound.note_idle(now.mono);
        self.deadlines.remove(&(letter.due, key));
        self.store.bury(letter);
        self.stats.delivered += 1;
        self.stats.calls_replied += 1;
        let id = MessageId { sender: self.id, r, s };
        self.events.push_back(Event::Reply { key, id, status, body });
        self.say_sendable(index);
    }

    pub(in crate::node) fn on_no_call(&mut self, now: Now, index: u32, s: Slot) {
        if let Some(key) = self.peers.get(index).and_then(|peer| peer.outbound.caller.on_no_call(s)) {
            self.withdraw(now, key, Outcome::Unknown);
        }
    }

    pub(in crate::node) fn on_computing(&mut self, now: Now, index: u32, s: Slot) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.outbound.caller.computing(now.mono, s);
        }
    }
}
