//! Messages that have left and are withdrawn, at both ends: PROTOCOL.md "Withdrawal".

use core::ops::Range;

use super::{Context, Peer};
use crate::id::Incarnation;
use crate::message::{MessageKey, Outcome};
use crate::time::Now;
use crate::wire::Role;

impl Peer {
    /// The application does not want a message any more that has left, or its deadline has passed: it ends as `outcome` says once that is
    /// certain, unless it is delivered. False: such a message is not withdrawn, and goes on.
    pub(crate) fn revoke(&mut self, cx: &Context, now: Now, key: MessageKey, outcome: Outcome) -> bool {
        let Some(letter) = cx.store.open(key).filter(|letter| letter.role == Role::Plain) else {
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
            let at = self.journal_withdrawal(cx, run);
            self.inbound.revoked.withdrew(at);
        }
        self.inbound.on_revoke(now.mono, run, r);
        cx.inbox.note_withdrawn(self.inbound.take_stale());
        self.wait_for_journal(cx);
        // What was withdrawn leaves its slot to others.
        self.inbound.retry(now.mono, &mut cx.clock, &cx.config.limits);
    }

    /// WITHDRAWN: these messages are certainly not delivered.
    pub(crate) fn on_withdrawn(&mut self, cx: &mut Context, now: Now, run: Range<u64>, r: Incarnation) {
        let Some(sender) = self.outbound.sender.as_mut() else {
            // Nothing is open here: the peer keeps its record for nothing.
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
            self.end_judged(cx, now.mono, key, outcome);
        }
    }
}
