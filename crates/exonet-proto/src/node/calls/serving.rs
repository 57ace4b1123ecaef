//! What a node does for the calls of others.

use bytes::Bytes;

use super::super::Node;
use super::super::event::{MessageKey, Outcome, Outgoing};
#[cfg(doc)]
use super::NO_SUCH_METHOD;
use super::server::Form;
use super::{CallId, FAILED, IN_A_FRAME, TOO_LARGE};
use crate::id::Slot;
use crate::message::Letter;
use crate::time::Now;
use crate::wire::Role;

impl Node {
    /// Answers a call that was taken: `status` 0 is success; [`FAILED`], [`TOO_LARGE`] and [`NO_SUCH_METHOD`] are the
    /// node's own. The
    /// reply is kept until the caller has it, for `Config::reply_kept` at most. If it is longer than the caller takes,
    /// the caller gets [`TOO_LARGE`] in its place.
    ///
    /// False: the call was not taken, or has been answered.
    pub fn reply(&mut self, now: Now, call: CallId, status: u32, body: Bytes) -> bool {
        let index = self.peers.find(&call.caller);
        let peer = index.and_then(|index| Some((index, self.peers.get_mut(index)?)));
        let Some((index, peer)) = peer.filter(|(_, peer)| peer.inbound.server.is_computing(call.s)) else {
            self.store.let_go(body);
            return false;
        };
        let s = call.s;
        let limit = peer.outbound.limits.message.min(self.config.limits.message);
        let (age, bytes) = self.replies.enter(index, s, body.len());
        let form = if body.len() <= IN_A_FRAME {
            Form::Frame { status, body }
        } else if body.len() as u64 > limit {
            self.store.let_go(body);
            Form::Frame { status: TOO_LARGE, body: Bytes::new() }
        } else {
            let key = self.send_reply(index, s, status, body.clone());
            Form::Message { key, status, body }
        };
        let Some(peer) = self.peers.get_mut(index) else { return false };
        peer.inbound.server.reply(s, form, age, bytes, now.mono + self.config.reply_kept);
        self.replies.computing -= 1;
        self.stats.calls_served += 1;
        self.bound_replies(now, index);
        self.touch(now, index);
        true
    }

    /// A reply leaves as a message.
    fn send_reply(&mut self, index: u32, s: Slot, status: u32, body: Bytes) -> MessageKey {
        let role = Role::Reply { s, status };
        let source = self.store.body(body);
        let key = self.store.insert(Letter::new(index, Outgoing::default(), source, role));
        if let Some(peer) = self.peers.get_mut(index) {
            peer.outbound.submit(&self.clock, &mut self.store, key);
        }
        key
    }

    /// Nobody will answer a call that was taken: the caller gets [`FAILED`]. False as [`Node::reply`].
    pub fn drop_call(&mut self, now: Now, call: CallId) -> bool {
        self.reply(now, call, FAILED, Bytes::new())
    }

    /// Answers every call of a method that waits by `status`, which says that it has not run: [`NO_SUCH_METHOD`], where
    /// nobody serves it.
    pub fn refuse_calls(&mut self, now: Now, method: &Bytes, status: u32) {
        while let Some(incoming) = self.take_call(now, method) {
            self.cut(now, incoming.key);
            if let Some(call) = incoming.call {
                self.reply(now, call, status, Bytes::new());
            }
        }
    }

    /// A call is delivered: from this step on it is known here.
    pub(in crate::node) fn serve(&mut self, now: Now, index: u32, s: Slot) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.inbound.server.begin(now.mono, s);
        self.replies.computing += 1;
        if !self.config.serves {
            let call = CallId { caller: peer.id, s };
            self.drop_call(now, call);
        }
    }

    /// Beyond the caps the oldest replies are forgotten.
    fn bound_replies(&mut self, now: Now, index: u32) {
        while let Some(server) = self.peers.get(index).map(|peer| &peer.inbound.server)
            && server.counts().1 > self.config.limits.replies.max(1)
            && let Some(s) = server.oldest()
        {
            self.forget_reply(now, index, s);
        }
        while let Some((other, s)) = self.replies.beyond(self.config.limits.reply_bytes as u64) {
            self.forget_reply(now, other, s);
            // It may be the last thing held for a caller of whom nothing else is looked at now.
            self.touch(now, other);
        }
    }

    /// The caller has not said that it has the reply: should it ask, the call is unknown here.
    fn forget_reply(&mut self, now: Now, index: u32, s: Slot) {
        self.stats.replies_forgotten += 1;
        if let Some(key) = self.end_reply(index, s) {
            self.withdraw(now, key, Outcome::Unknown);
        }
    }

    /// Gives the message that the reply is, if it is one.
    fn end_reply(&mut self, index: u32, s: Slot) -> Option<MessageKey> {
        let (form, age, bytes) = self.peers.get_mut(index)?.inbound.server.end(s)?;
        self.replies.leave(age, bytes);
        let (key, body) = match form {
            Form::Frame { body, .. } => (None, body),
            Form::Message { key, body, .. } => (Some(key), body),
        };
        self.store.let_go(body);
        key
    }

    /// REPLY_ACK: the caller has the reply, or does not want it.
    pub(in crate::node) fn on_reply_ack(&mut self, now: Now, index: u32, s: Slot) {
        if let Some(key) = self.end_reply(index, s) {
            self.withdraw(now, key, Outcome::Unknown);
        }
    }

    pub(in crate::node) fn on_call_probe(&mut self, index: u32, s: Slot) {
        if let Some(peer) = self.peers.get_mut(index) {
            peer.inbound.server.probe(s);
        }
    }

    /// A reply that went as a message has its outcome, which nobody here is told. One that is Unknown goes again: it
    /// was bound to what the caller's last process had granted, and is used once at most.
    pub(in crate::node) fn reply_settled(&mut self, index: u32, s: Slot, outcome: Outcome) {
        if outcome == Outcome::Delivered {
            self.end_reply(index, s);
            return;
        }
        let form = self.peers.get_mut(index).and_then(|peer| peer.inbound.server.form(s).cloned());
        let Some(Form::Message { status, body, .. }) = form else { return };
        let form = if outcome == Outcome::Cancelled {
            Form::Frame { status: TOO_LARGE, body: Bytes::new() }
        } else {
            Form::Message { key: self.send_reply(index, s, status, body.clone()), status, body }
        };
        let Some(server) = self.peers.get_mut(index).map(|peer| &mut peer.inbound.server) else { return };
        let old = server.form(s).map(|old| core::mem::replace(old, form));
        server.again(s);
        if let Some(Form::Frame { body, .. } | Form::Message { body, .. }) = old {
            self.store.let_go(body);
        }
    }

    /// Replies are sent again, and forgotten in the end; one that is a message not while its caller is heard, for it may
    /// be long.
    pub(in crate::node) fn replies_timeout(&mut self, now: Now, index: u32) {
        while let Some(peer) = self.peers.get_mut(index)
            && let Some(s) = peer.inbound.server.on_timeout(now.mono)
        {
            let until = peer.link.heard_at + self.config.reply_kept;
            let is_message = matches!(peer.inbound.server.form(s), Some(Form::Message { .. }));
            if is_message && until > now.mono {
                peer.inbound.server.prolong(s, until);
            } else {
                self.forget_reply(now, index, s);
            }
        }
    }

    /// The peer is forgotten, and its replies with it.
    pub(in crate::node) fn forget_replies(&mut self, now: Now, index: u32) {
        while let Some(s) = self.peers.get(index).and_then(|peer| peer.inbound.server.oldest()) {
            self.forget_reply(now, index, s);
        }
    }
}
