//! Withdrawal of messages that have left, at both ends: PROTOCOL.md "Withdrawal".

use core::ops::Range;

use bytes::Bytes;

use super::{Context, Peer};
use crate::follow::What;
use crate::half::Void;
use crate::id::{Incarnation, Slot};
use crate::message::{MessageKey, Outcome};
use crate::time::Now;
use crate::wire::{RevokeStream, Role, StreamEnd};

impl Peer {
    /// The application does not want a message any more that has left, or its deadline has passed. Unless the message is
    /// delivered, it ends with `outcome` once that is certain. False: such a message is not withdrawn, and goes on.
    pub(crate) fn revoke(&mut self, cx: &Context, now: Now, key: MessageKey, outcome: Outcome) -> bool {
        let Some(letter) = cx.store.open(key).filter(|letter| is_withdrawn(letter.role)) else {
            return false;
        };
        let Some((s, _)) = letter.slot_of(key) else { return false };
        self.outbound.revoke(now.mono, s, outcome);
        true
    }

    /// REVOKE: the sender withdraws messages.
    pub(crate) fn on_revoke(&mut self, cx: &mut Context, now: Now, run: Range<u64>, r: Incarnation) {
        self.journal_record(cx);
        for run in self.inbound.withdraw(run.clone(), r) {
            cx.stats.revoked += run.end - run.start;
            self.follow_slots(cx, r, Slot(run.start), run.end - run.start, What::Withdrawn, true);
            let at = self.journal_withdrawal(cx, run);
            self.inbound.revoked.withdrew(at);
        }
        self.withdrew(cx, now, run, r);
    }

    /// REVOKE_STREAM: the sender withdraws messages of a stream. From now on, messages that waited for them wait for the message
    /// before them.
    pub(crate) fn on_revoke_stream(&mut self, cx: &mut Context, now: Now, revoke: &RevokeStream<'_>) {
        let RevokeStream { r, s, n, name, mark } = *revoke;
        let run = s.0..s.0.saturating_add(n);
        let l = self.inbound.receiver.as_ref().map_or(Slot(0), |record| record.parts().1);
        // If there is no room, this node asks as TOKEN does.
        let room = self.inbound.readers.voids.make_room(l);
        self.journal_record(cx);
        let gone = if room { self.inbound.withdraw(run.clone(), r) } else { Vec::new() };
        for run in &gone {
            let Some(mark) = mark.nth(run.start - s.0) else { continue };
            let (first, len) = (Slot(run.start), run.end - run.start);
            cx.stats.revoked += len;
            self.follow_slots(cx, r, first, len, What::Withdrawn, true);
            self.inbound.readers.voids.insert(name, first, len, mark);
            let at = self.journal_void(cx, name, first, Void { len, mark });
            self.inbound.revoked.withdrew(at);
        }
        self.withdrew(cx, now, run, r);
        if !gone.is_empty() {
            let name = Bytes::copy_from_slice(name);
            self.drop_stale_of(cx, &name);
            self.tell_stream(cx, &name);
        }
    }

    /// Everything in `run` that could be withdrawn is withdrawn: the sender is told.
    fn withdrew(&mut self, cx: &mut Context, now: Now, run: Range<u64>, r: Incarnation) {
        self.inbound.on_revoke(now.mono, run, r);
        cx.inbox.note_withdrawn(self.inbound.take_stale());
        self.wait_for_journal(cx);
        // Withdrawn messages leave their slots to others.
        self.inbound.retry(now.mono, &mut cx.clock, &cx.config.limits);
    }

    /// WITHDRAWN: these messages are certainly not delivered.
    pub(crate) fn on_withdrawn(&mut self, cx: &mut Context, now: Now, run: Range<u64>, r: Incarnation) {
        let Some(sender) = self.outbound.sender.as_mut() else {
            // Nothing is open here: the peer keeps its record in vain.
            self.outbound.farewell_due = true;
            return;
        };
        let mut ended = Vec::new();
        sender.on_withdrawn(run, r, |s, key| ended.push((s, key)));
        self.outbound.says_frontier();
        for (s, key) in ended {
            // A crash may have made this node forget that it withdrew the message, and why.
            let late = cx.store.get(key).is_some_and(|letter| letter.late);
            let forgotten = if late { Outcome::Expired } else { Outcome::Cancelled };
            let outcome = self.outbound.revoked(s).unwrap_or(forgotten);
            self.end_judged(cx, now.mono, key, outcome, "");
        }
    }
}

/// Whether a message of this role can be withdrawn once it has left. The end of a stream cannot be; nor can one part of a message
/// of several parts, since without it the messages around it would mean something else.
pub(super) fn is_withdrawn(role: Role) -> bool {
    match role {
        Role::Plain => true,
        Role::Stream(mark) => matches!(mark.end, StreamEnd::Open) && !mark.more,
        _ => false,
    }
}
