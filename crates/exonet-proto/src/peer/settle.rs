//! How messages end: settled by a STATE, withdrawn, expired, or given back.

use bytes::Bytes;

use super::context::Settled;
use super::{Context, Peer};
use crate::event::Event;
use crate::id::{MessageId, Slot};
use crate::journal::How;
use crate::message::{Ending, Letter, MessageKey, Outcome, Refusal};
use crate::time::{Mono, Now};
use crate::wire::{Role, StreamEnd};

/// How messages end whose peer takes nothing more.
pub(crate) struct Fates {
    /// The outcome of messages that were never bound, or were given back.
    pub(crate) unbound: Outcome,
    /// The outcome of messages in doubt. None: they stay in doubt.
    pub(crate) bound: Option<Outcome>,
}

impl Peer {
    /// Gives a message up: Cancelled if it never left, Unknown otherwise.
    pub(crate) fn abandon(&mut self, cx: &mut Context, now: Now, key: MessageKey) {
        let Some(letter) = cx.store.open(key) else { return };
        let outcome = if letter.slot_of(key).is_some() { Outcome::Unknown } else { Outcome::Cancelled };
        self.withdraw(cx, now, key, outcome);
    }

    /// Gives up every message to the peer.
    pub(crate) fn abandon_all(&mut self, cx: &mut Context, now: Now) {
        for key in self.own(cx, |_, _| true) {
            self.abandon(cx, now, key);
        }
    }

    /// The open messages to the peer that `choose` selects. Replies are not among them.
    fn own(&self, cx: &Context, choose: impl Fn(MessageKey, &Letter) -> bool) -> Vec<MessageKey> {
        let own = cx.store.messages().filter(|(_, letter)| letter.peer == self.place && !letter.is_reply());
        own.filter(|(key, letter)| choose(*key, letter)).map(|(key, _)| key).collect()
    }

    /// A message leaves the store without a STATE to settle it.
    pub(super) fn withdraw(&mut self, cx: &mut Context, now: Now, key: MessageKey, outcome: Outcome) {
        if cx.store.get(key).is_some_and(|letter| letter.bundle().is_some()) {
            return self.withdraw_bundled(cx, now, key, outcome);
        }
        let Some(letter) = cx.store.remove(key) else {
            return;
        };
        self.outbound.abandon(&letter);
        self.outbound.forget(key, &letter);
        self.outbound.admit_large(&mut cx.store);
        self.outbound.note_idle(now.mono);
        let ending = letter.ending();
        cx.store.bury(letter);
        self.conclude(cx, key, 1, ending, outcome, "");
        self.say_sendable(cx);
    }

    /// Withdraws a message that has not left.
    pub(crate) fn cancel(&mut self, cx: &mut Context, now: Now, key: MessageKey) {
        self.withdraw(cx, now, key, Outcome::Cancelled);
    }

    /// Withdraws the messages of a stream that have not left, but not those of an earlier stream of the same name whose end still
    /// waits.
    pub(crate) fn cancel_stream(&mut self, cx: &mut Context, now: Now, name: &Bytes) {
        let waits = |key, letter: &Letter| letter.slot_of(key).is_none() && letter.tag == *name;
        let ends = |letter: &Letter| matches!(letter.role, Role::Stream(mark) if mark.end != StreamEnd::Open);
        let orders = |keys: Vec<MessageKey>, cx: &Context| {
            keys.into_iter().filter_map(|key| cx.store.get(key).map(|letter| letter.order)).max()
        };
        let end = orders(self.own(cx, |key, letter| waits(key, letter) && ends(letter)), cx).unwrap_or(0);
        let in_it = |letter: &Letter| matches!(letter.role, Role::Stream(_)) && letter.order > end;
        for key in self.own(cx, |key, letter| waits(key, letter) && in_it(letter)) {
            self.cancel(cx, now, key);
        }
    }

    /// The peer has declared the largest message that it takes: longer messages never leave.
    pub(super) fn withdraw_oversized(&mut self, cx: &mut Context, now: Now) {
        let limit = self.outbound.limits.message;
        let too_large = |(key, letter): &(MessageKey, &Letter)| {
            letter.peer == self.place && letter.slot_of(*key).is_none() && letter.source.len() > limit
        };
        let keys: Vec<_> = cx.store.messages().filter(too_large).map(|(key, _)| key).collect();
        for key in keys {
            self.withdraw(cx, now, key, Outcome::Cancelled);
        }
    }

    /// The peer has declared the kinds of messages that it takes: other messages never leave.
    pub(super) fn withdraw_untaken(&mut self, cx: &mut Context, now: Now) {
        let takes = self.outbound.limits.takes;
        if takes.takes_all() || !self.link.is_connected() {
            return;
        }
        let untaken = |(key, letter): &(MessageKey, &Letter)| {
            letter.peer == self.place && letter.slot_of(*key).is_none() && !takes.takes(letter.role)
        };
        let keys: Vec<_> = cx.store.messages().filter(untaken).map(|(key, _)| key).collect();
        for key in keys {
            self.withdraw(cx, now, key, Outcome::Refused(Refusal::Kind));
        }
    }

    /// The peer takes nothing more: messages for it end as `fates` says, and other reasons for a channel are dropped.
    pub(super) fn turn_away(&mut self, cx: &mut Context, now: Now, fates: &Fates) {
        let ends = |key, letter: &Letter| letter.slot_of(key).is_none() || fates.bound.is_some();
        for key in self.own(cx, ends) {
            let bound = cx.store.open(key).is_some_and(|letter| letter.slot_of(key).is_some());
            let outcome = fates.bound.filter(|_| bound).unwrap_or(fates.unbound);
            self.withdraw(cx, now, key, outcome);
        }
        let refused = if let Outcome::Refused(why) = fates.unbound { Some(why) } else { None };
        cx.events.extend(self.lose_pings(refused));
        if !self.outbound.has_messages() {
            self.outbound.drop_record(&mut cx.clock);
            self.inbound.state_sent();
        }
    }

    /// Reports the outcome of `count` messages that have left the store, and the reason that was given for it. They were bound one
    /// behind the other, or not at all.
    pub(super) fn conclude(
        &mut self,
        cx: &mut Context,
        key: MessageKey,
        count: u32,
        letter: Ending,
        outcome: Outcome,
        reason: &str,
    ) {
        if letter.due != Mono::NEVER {
            cx.deadlines.remove(&(letter.due, key));
        }
        if let Role::Reply { s, .. } = letter.role {
            return self.reply_settled(cx, s, outcome);
        }
        match outcome {
            Outcome::Delivered | Outcome::Processed { .. } => cx.stats.delivered += u64::from(count),
            Outcome::Unknown => {
                cx.stats.unknown += u64::from(count);
                cx.stats.calls_unknown += u64::from(letter.role == Role::Call);
            }
            Outcome::Expired | Outcome::Cancelled | Outcome::Refused(_) | Outcome::Rejected { .. } => {
                cx.stats.withdrawn += u64::from(count);
            }
            Outcome::Kept => debug_assert!(false, "the driver's word, at its end"),
        }
        let judged =
            matches!(outcome, Outcome::Delivered | Outcome::Processed { .. } | Outcome::Rejected { .. });
        let receiver_durability = judged.then_some(self.outbound.limits.durability);
        let how = || How { outcome, late: letter.late, receiver_durability, reason };
        let at = self.journal_end(cx, letter, count, how);
        let id = letter.bound.map(|(s, r)| MessageId { sender: cx.id, r, s });
        cx.follow_settled(key, count, (outcome, letter.late), id);
        cx.report(
            at,
            Event::Outcome { key, peer: self.id, count, outcome, id, late: letter.late, receiver_durability },
        );
    }

    /// Checks the deadline of a message, and how long it has been in doubt.
    pub(crate) fn expire(&mut self, cx: &mut Context, now: Now, key: MessageKey) {
        let patience = cx.config.doubt_timeout;
        let Some(letter) = cx.store.get_mut(key) else { return };
        if letter.bundle().is_some() {
            return self.expire_bundled(cx, now, key);
        }
        let deadline = letter.deadline.filter(|deadline| now.mono < *deadline);
        let passed = letter.deadline.is_some() && deadline.is_none();
        // A message is in doubt from when it was bound. A message that has not left is not in doubt.
        let since = if letter.bound.is_some() { letter.bound_at } else { now.mono };
        let given_up = patience.map(|patience| since + patience);
        if passed && letter.bound.is_none() {
            self.withdraw(cx, now, key, Outcome::Expired);
        } else if passed && letter.role == Role::Call {
            letter.late = true;
            self.withdraw(cx, now, key, Outcome::Unknown);
        } else if given_up.is_some_and(|at| at <= now.mono) {
            self.withdraw(cx, now, key, Outcome::Unknown);
        } else {
            letter.late |= passed;
            if passed {
                self.revoke(cx, now, key, Outcome::Expired);
            }
            if let Some(next) = [deadline, given_up].into_iter().flatten().min() {
                cx.look_again(key, next);
            }
        }
    }

    /// A final STATE has shown that these bound messages were not taken: they go back to the heads of their queues.
    pub(super) fn take_back(&mut self, cx: &mut Context, now: Now, mut returned: Vec<(Slot, MessageKey)>) {
        returned.sort_unstable_by_key(|(s, _)| *s);
        cx.stats.taken_back += returned.len() as u64;
        for (s, key) in returned.into_iter().rev() {
            let withdrawn = self.outbound.revoked(s);
            self.outbound.take_back_letter(&mut cx.store, s, key, withdrawn.is_some());
            self.journal_back(cx, s, key);
            self.journal_stream_back(cx, key);
            let takes = self.outbound.limits.takes;
            let letter = cx.store.get(key);
            if let Some(outcome) = withdrawn {
                self.withdraw(cx, now, key, outcome);
            } else if letter.is_some_and(|letter| !takes.takes(letter.role)) {
                self.withdraw(cx, now, key, Outcome::Refused(Refusal::Kind));
            } else if letter.is_some_and(|letter| letter.late) {
                self.withdraw(cx, now, key, Outcome::Expired);
            } else if letter.is_some_and(|letter| !letter.source.is_intact()) {
                // This node does not have the bytes any more that the peer has acknowledged.
                self.withdraw(cx, now, key, Outcome::Cancelled);
            }
        }
    }

    /// A STATE has settled these messages.
    pub(super) fn settle(&mut self, cx: &mut Context, now: Mono, settled: &mut Vec<Settled>) {
        self.outbound.lanes.tick(now, self.link.recovery.rtt().smoothed());
        // A STATE that settles nothing may move the frontier past messages that were given up.
        if settled.is_empty() {
            self.outbound.admit_large(&mut cx.store);
            return;
        }
        for Settled { key, count, outcome } in settled.drain(..) {
            if let Some(letter) = cx.store.get(key).filter(|letter| letter.bundle().is_some()) {
                let outcome = as_wanted(letter.confirm, outcome);
                self.end_bundled(cx, key, count, outcome, "");
                continue;
            }
            if outcome == Outcome::Delivered && self.await_reply(cx, now, key) {
                continue;
            }
            let ending = cx.store.drop_after(key, |letter| {
                self.outbound.forget(key, letter);
                letter.ending()
            });
            if let Some(ending) = ending {
                self.conclude(cx, key, 1, ending, as_wanted(ending.confirm, outcome), "");
            }
        }
        self.outbound.admit_large(&mut cx.store);
        self.outbound.note_idle(now);
        self.say_sendable(cx);
    }

    /// A VERDICT has ended this message, whose token is gone, perhaps with a reason.
    pub(super) fn end_judged(
        &mut self,
        cx: &mut Context,
        now: Mono,
        key: MessageKey,
        outcome: Outcome,
        reason: &str,
    ) {
        if cx.store.get(key).is_some_and(|letter| letter.bundle().is_some()) {
            self.end_bundled(cx, key, 1, outcome, reason);
        } else {
            let ending = cx.store.drop_after(key, |letter| {
                self.outbound.forget(key, letter);
                letter.ending()
            });
            if let Some(ending) = ending {
                self.conclude(cx, key, 1, ending, outcome, reason);
            }
        }
        self.outbound.admit_large(&mut cx.store);
        self.outbound.note_idle(now);
        self.say_sendable(cx);
    }

    /// Tells the application that there is room again after it was refused room. It is not told of every single place.
    pub(super) fn say_sendable(&mut self, cx: &mut Context) {
        let (outbound, limits) = (&mut self.outbound, &cx.config.limits);
        let roomy = outbound.letters <= limits.queued_messages * 3 / 4
            && outbound.kept() <= limits.queued_bytes as u64 * 3 / 4;
        if outbound.refused && roomy {
            outbound.refused = false;
            cx.events.push_back(Event::Sendable { peer: self.id });
        }
    }
}

/// The outcome of a message that a STATE shows to be taken. If its sender wants to be told that it was processed, it was.
fn as_wanted(confirm: bool, outcome: Outcome) -> Outcome {
    if confirm && outcome == Outcome::Delivered { Outcome::Processed { status: 0 } } else { outcome }
}
