//! Messages that the application judges instead of taking them, and the verdicts that come back: PROTOCOL.md "Confirmation".

use super::{Context, Peer};
use crate::event::Event;
use crate::follow::What;
use crate::id::MessageId;
use crate::message::arrived::Arrived;
use crate::message::{Outcome, Verdict, Word};
use crate::time::Now;
use crate::wire;

impl Peer {
    /// The application has given its verdict on a message that was handed out: the message is marked, and never handed out again.
    /// False: its record died meanwhile.
    pub(crate) fn judge(&mut self, cx: &mut Context, now: Now, arrived: &Arrived, verdict: Verdict) -> bool {
        let attempts = self.inbound.verdicts.next_attempt(arrived.id.s);
        let verdict = Verdict { attempts, ..verdict };
        self.discard(cx, arrived.held());
        self.journal_record(cx);
        let MessageId { sender, r, s } = arrived.id;
        let (lane, len) = (arrived.lane(), arrived.wire_len);
        let record = self.inbound.receiver.as_mut().filter(|_| self.id == sender);
        let marked = record.is_some_and(|record| record.mark(s, r, verdict.word.mark()));
        self.inbound.let_go(s, r, &lane, len);
        if marked {
            cx.stats.received += u64::from(verdict.word != Word::Rejected);
            self.taken += u64::from(verdict.word != Word::Rejected);
            cx.stats.rejected += u64::from(verdict.word == Word::Rejected);
            let (word, status) = (verdict.word, verdict.status);
            cx.follow_came(arrived.id, 1, What::Judged { word, status }, true);
            let at = self.journal_verdict(cx, s, &verdict);
            self.inbound.verdicts.say(s, at, verdict);
            self.stream_goes_on(cx, arrived);
            self.wait_for_journal(cx);
            self.owe_claim(cx, now, 1, false);
        }
        marked
    }

    /// A message comes back: the node remembers which attempt it was.
    pub(crate) fn came_back(&mut self, arrived: &Arrived) {
        let MessageId { r, s, .. } = arrived.id;
        if self.inbound.receiver.as_ref().is_some_and(|record| record.accepts(s, r)) {
            self.inbound.verdicts.came_back(s);
        }
    }

    /// The number of the present attempt at a message. The journal has this from the second attempt on, so that a message that
    /// kills its process is found out.
    pub(super) fn attempt(&mut self, cx: &mut Context, arrived: &Arrived) -> u32 {
        let s = arrived.id.s;
        let attempt = self.inbound.verdicts.next_attempt(s);
        if attempt > 1 {
            self.journal_attempt(cx, s, attempt);
        }
        attempt
    }

    /// VERDICT: a message has its outcome.
    pub(crate) fn on_verdict(&mut self, cx: &mut Context, now: Now, frame: &wire::Verdict<'_>) {
        let Some(sender) = self.outbound.sender.as_mut() else {
            // Nothing is open here: the peer keeps its record, and the verdict, in vain.
            self.outbound.farewell_due = true;
            return;
        };
        let Some(key) = sender.on_verdict(frame.s, frame.r) else {
            // The message was settled before, and the frontier has not reached the peer.
            self.outbound.says_frontier();
            return;
        };
        let bound = Some((frame.s, frame.r));
        if let Some(letter) = cx.store.get_mut(key)
            && letter.bundle().is_none()
            && letter.bound != bound
        {
            // The message was sent early, and has met this record.
            letter.bound = bound;
            Self::journal_met(&mut cx.journal, letter, frame.r);
            cx.clock_doubted = false;
        }
        let outcome = match Word::of(frame.word) {
            Some(Word::Rejected) => Outcome::Rejected { status: frame.status, attempts: frame.attempts },
            Some(Word::Processed) => Outcome::Processed { status: frame.status },
            _ => Outcome::Delivered,
        };
        let id = MessageId { sender: cx.id, r: frame.r, s: frame.s };
        self.outbound.says_frontier();
        if !frame.reason.is_empty() {
            cx.events.push_back(Event::Reason { id, reason: frame.reason.into() });
        }
        let judged = matches!(outcome, Outcome::Processed { .. } | Outcome::Rejected { .. });
        self.end_judged(cx, now.mono, key, outcome, if judged { frame.reason } else { "" });
    }

    /// Ends a message that was handed out and taken at once, in the way that its sender wants to be told.
    pub(crate) fn take_at_once(&mut self, cx: &mut Context, now: Now, arrived: &Arrived) -> bool {
        if !arrived.confirm {
            return self.take(cx, now, arrived);
        }
        self.judge(cx, now, arrived, Verdict::new(Word::Taken, 0, ""))
    }
}
