//! The peer refuses to talk, or has ended.

use crate::id::Stamp;
use crate::message::{Outcome, Refusal};
use crate::opening::refusals::PAUSE;
use crate::peer::context::Settled;
use crate::peer::{Context, Fates, Peer};
use crate::time::Now;
use crate::wire::close;

impl Peer {
    /// The peer has ended, and its identity with it: the outcomes of messages in doubt stay unknown.
    pub(in crate::peer) fn on_end(&mut self, cx: &mut Context, now: Now) {
        self.abort_opening(cx);
        let unbound = Outcome::Refused(Refusal::Ended);
        self.turn_away(cx, now, &Fates { unbound, bound: Some(Outcome::Unknown) });
    }

    /// The peer begins no channel. It said so in answer to an opening that bore the stamp `ts`.
    pub(in crate::peer) fn on_refused(&mut self, cx: &mut Context, now: Now, ts: Stamp, code: u64) {
        self.link.refused_until = now.mono + PAUSE;
        let certain = code == close::REFUSED;
        // A peer that was let in before goes on under its present keys. An unknown code says nothing about messages.
        if self.link.is_connected() || !(certain || code == close::REFUSED_IN_DOUBT) {
            return;
        }
        cx.stats.refused += 1;
        let mut settled = std::mem::take(&mut cx.scratch.settled);
        if let Some(sender) = self.outbound.sender.as_mut().filter(|_| certain && ts.is_some()) {
            let outcome = Outcome::Refused(Refusal::Policy);
            sender.on_refused(ts, |_, key| Settled::push(&mut settled, key, outcome));
        }
        self.settle(cx, now.mono, &mut settled);
        cx.scratch.settled = settled;
        self.turn_away(cx, now, &Fates { unbound: Outcome::Refused(Refusal::Policy), bound: None });
    }
}
