//! Calls of a peer to this node, and the replies that the peer has not acknowledged.

use bytes::Bytes;

use super::{Context, Peer};
use crate::id::Slot;
use crate::message::{Letter, MessageKey, Outcome, Outgoing};
use crate::pattern::call::{FAILED, Form, IN_A_FRAME, TOO_LARGE};
use crate::time::Now;
use crate::wire::Role;

impl Peer {
    /// Answers a call that was taken. False: the call was not taken, or has been answered.
    pub(crate) fn reply(&mut self, cx: &mut Context, now: Now, s: Slot, status: u32, body: Bytes) -> bool {
        if !self.inbound.server.is_computing(s) {
            cx.store.let_go(body);
            return false;
        }
        let limit = self.outbound.limits.message.min(cx.config.limits.message);
        let (age, bytes) = cx.replies.enter(self.place, s, body.len());
        let form = if body.len() <= IN_A_FRAME {
            Form::Frame { status, body }
        } else if body.len() as u64 > limit {
            cx.store.let_go(body);
            Form::Frame { status: TOO_LARGE, body: Bytes::new() }
        } else {
            let key = self.send_reply(cx, s, status, body.clone());
            Form::Message { key, status, body }
        };
        self.inbound.server.reply(s, form, age, bytes, now.mono + cx.config.reply_kept);
        cx.replies.computing -= 1;
        cx.stats.calls_served += 1;
        self.follow_call(cx, s, status);
        self.bound_replies(cx, now);
        true
    }

    /// Sends a reply as a message.
    fn send_reply(&mut self, cx: &mut Context, s: Slot, status: u32, body: Bytes) -> MessageKey {
        let role = Role::Reply { s, status };
        let source = cx.store.body(body);
        let key = cx.store.insert(Letter::new(self.place, Outgoing::default(), source, role));
        self.outbound.submit(&cx.clock, &mut cx.store, key);
        key
    }

    /// A call is delivered: from this step on this node knows the call.
    pub(crate) fn serve(&mut self, cx: &mut Context, now: Now, s: Slot) {
        self.inbound.server.begin(now.mono, s);
        cx.replies.computing += 1;
        if !cx.config.serves {
            self.reply(cx, now, s, FAILED, Bytes::new());
        }
    }

    /// A call was taken by a process that has died: its reply, if there was one, is lost.
    pub(super) fn serve_again(&mut self, cx: &mut Context, now: Now, s: Slot) {
        self.inbound.server.begin(now.mono, s);
        cx.replies.computing += 1;
        self.reply(cx, now, s, FAILED, Bytes::new());
    }

    /// Forgets the oldest replies beyond the cap of one peer. The node enforces the cap of all peers.
    fn bound_replies(&mut self, cx: &mut Context, now: Now) {
        while self.inbound.server.counts().1 > cx.config.limits.replies.max(1)
            && let Some(s) = self.inbound.server.oldest()
        {
            self.forget_reply(cx, now, s);
        }
    }

    /// Forgets a reply though the caller has not said that it has it. If the caller asks, the call is unknown here.
    pub(crate) fn forget_reply(&mut self, cx: &mut Context, now: Now, s: Slot) {
        cx.stats.replies_forgotten += 1;
        if let Some(key) = self.end_reply(cx, s) {
            self.withdraw(cx, now, key, Outcome::Unknown);
        }
    }

    /// Ends a reply. Returns the message that carries it, if any.
    fn end_reply(&mut self, cx: &mut Context, s: Slot) -> Option<MessageKey> {
        let (form, age, bytes) = self.inbound.server.end(s)?;
        self.journal_answered(cx, s);
        cx.replies.leave(age, bytes);
        let (key, body) = match form {
            Form::Frame { body, .. } => (None, body),
            Form::Message { key, body, .. } => (Some(key), body),
        };
        cx.store.let_go(body);
        key
    }

    /// REPLY_ACK: the caller has the reply, or does not want it.
    pub(crate) fn on_reply_ack(&mut self, cx: &mut Context, now: Now, s: Slot) {
        if let Some(key) = self.end_reply(cx, s) {
            self.withdraw(cx, now, key, Outcome::Unknown);
        }
    }

    pub(super) fn on_call_probe(&mut self, s: Slot) {
        self.inbound.server.probe(s);
    }

    /// A reply that was sent as a message has its outcome. The application is not told. A reply that is Unknown is sent again: it
    /// was bound to what the caller's last process had granted, and is used once at most.
    pub(super) fn reply_settled(&mut self, cx: &mut Context, s: Slot, outcome: Outcome) {
        if outcome == Outcome::Delivered {
            self.end_reply(cx, s);
            return;
        }
        let form = self.inbound.server.form(s).cloned();
        let Some(Form::Message { status, body, .. }) = form else { return };
        let form = if outcome == Outcome::Cancelled {
            Form::Frame { status: TOO_LARGE, body: Bytes::new() }
        } else {
            Form::Message { key: self.send_reply(cx, s, status, body.clone()), status, body }
        };
        let server = &mut self.inbound.server;
        let old = server.form(s).map(|old| core::mem::replace(old, form));
        server.again(s);
        if let Some(Form::Frame { body, .. } | Form::Message { body, .. }) = old {
            cx.store.let_go(body);
        }
    }

    /// Sends replies again, and in the end forgets them. A reply that is a message is not forgotten while its caller is heard,
    /// since it may be long.
    pub(super) fn replies_timeout(&mut self, cx: &mut Context, now: Now) {
        while let Some(s) = self.inbound.server.on_timeout(now.mono) {
            let until = self.link.heard_at + cx.config.reply_kept;
            let is_message = matches!(self.inbound.server.form(s), Some(Form::Message { .. }));
            if is_message && until > now.mono {
                self.inbound.server.prolong(s, until);
            } else {
                self.forget_reply(cx, now, s);
            }
        }
    }

    /// The peer is forgotten, and its replies with it.
    pub(crate) fn forget_replies(&mut self, cx: &mut Context, now: Now) {
        while let Some(s) = self.inbound.server.oldest() {
            self.forget_reply(cx, now, s);
        }
    }
}
