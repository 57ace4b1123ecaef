//! Calls of this node to a peer, until their replies.

use super::{Context, Peer};
use crate::event::{Event, ReplyBody};
use crate::follow::What;
use crate::id::{MessageId, Slot};
use crate::message::arrived::{Arrived, ArrivedBody};
use crate::message::lane::Lane;
use crate::message::{MessageKey, Outcome};
use crate::time::{Mono, Now};
use crate::wire::{self, Role};

impl Peer {
    /// A call was delivered: its letter is kept for the reply. False: the message is not a call.
    pub(super) fn await_reply(&mut self, cx: &mut Context, now: Mono, key: MessageKey) -> bool {
        let Some(letter) = cx.store.get_mut(key).filter(|letter| letter.role == Role::Call) else {
            return false;
        };
        let Some((s, _)) = letter.bound else { return false };
        let wait = self.link.pto() * 2;
        if core::mem::take(&mut letter.writer_waits) {
            cx.events.push_back(Event::BodyWritable { key });
        }
        let body = self.outbound.served(key, letter);
        cx.store.let_go_body(body);
        self.outbound.caller.delivered(now, s, wait);
        cx.follow_sent(key, What::Delivered, false);
        true
    }

    pub(crate) fn on_reply(&mut self, cx: &mut Context, now: Now, reply: &wire::Reply<'_>) {
        let by = now.mono + cx.config.max_ack_delay;
        if self.outbound.caller.on_reply(reply.s, by).is_some() {
            let body = ReplyBody::Whole(cx.arena.copy(reply.body));
            self.replied(cx, now, reply.s, reply.status, body);
        }
    }

    /// A reply has come as a message. Its slot is consumed as it comes, whether or not a call waits for it.
    pub(super) fn on_reply_message(
        &mut self,
        cx: &mut Context,
        now: Now,
        arrived: Arrived,
        s: Slot,
        status: u32,
    ) {
        let waits = self.outbound.caller.get(s).is_some();
        let body = match arrived.body {
            ArrivedBody::Stream { len } if waits => {
                let at = arrived.id.s;
                let delivery = cx.inbox.hand_out(now.mono, arrived);
                if let Some(partial) = self.inbound.partial(at) {
                    partial.stream = Some(delivery);
                }
                ReplyBody::Stream { delivery, len }
            }
            body => {
                let (MessageId { s, r, .. }, len) = (arrived.id, arrived.wire_len);
                self.inbound.take(s.0..s.0 + 1, r, len, &Lane::Replies);
                self.inbound.owe_state(now.mono + cx.config.max_ack_delay);
                self.inbound.retry(now.mono, &mut cx.clock, &cx.config.limits);
                // If the reply comes as a stream and no call waits for it, nothing reads it.
                let ArrivedBody::Whole(body) = body else { return };
                ReplyBody::Whole(body)
            }
        };
        self.replied(cx, now, s, status, body);
    }

    /// Ends the call if it still waits.
    fn replied(&mut self, cx: &mut Context, now: Now, s: Slot, status: u32, body: ReplyBody) {
        let Some(key) = self.outbound.caller.get(s) else { return };
        let bound = cx.store.get(key).and_then(|letter| letter.bound);
        let Some(((_, r), letter)) = bound.and_then(|bound| Some((bound, cx.store.remove(key)?))) else {
            return debug_assert!(false, "a call that waits is there, and bound");
        };
        if let Some(sender) = self.outbound.sender.as_mut() {
            // The call is delivered, whether or not a STATE has said so.
            sender.abandon(s);
        }
        self.outbound.forget(key, &letter);
        self.outbound.admit_large(&mut cx.store);
        self.outbound.note_idle(now.mono);
        cx.deadlines.remove(&(letter.due, key));
        cx.store.bury(letter);
        cx.stats.delivered += 1;
        cx.stats.calls_replied += 1;
        cx.follow_sent(key, What::Replied { status }, true);
        let id = MessageId { sender: cx.id, r, s };
        cx.events.push_back(Event::Reply { key, id, status, body });
        self.say_sendable(cx);
    }

    pub(super) fn on_no_call(&mut self, cx: &mut Context, now: Now, s: Slot) {
        if let Some(key) = self.outbound.caller.on_no_call(s) {
            self.withdraw(cx, now, key, Outcome::Unknown);
        }
    }

    pub(super) fn on_computing(&mut self, now: Now, s: Slot) {
        self.outbound.caller.computing(now.mono, s);
    }
}
