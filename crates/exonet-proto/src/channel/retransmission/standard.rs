//! The policy of a node that is given none: RFC 9002, with the changes listed in `docs/implementation.md`, "Loss recovery".

use core::time::Duration;

use super::{LossThreshold, PathState, Retransmission, SpuriousLoss};
use crate::Mono;
use crate::channel::hedge::{Hedge, Hedging, Room};
use crate::channel::loss::Cause;
use crate::channel::pto;
use crate::channel::reordering::Reordering;

/// With this many ack-eliciting packets under way, a queue on the path was this sender's own. Silence has emptied the queue, and
/// a probe is a hundredth of what the sender sent before. A sender in a crowd has few packets under way.
const MANY: u64 = 16;

/// The number of probes at the first consecutive timeouts on paths with random loss; later timeouts have as many as the last of
/// these. On other paths each timeout has one.
const PROBES: [u32; 6] = [1, 2, 2, 3, 3, 2];

/// The first probe waits for this many mean deviations beyond the round trip, at most. RFC 9002 waits for as many.
const MOST_DEVIATIONS: u32 = 4;

/// The retransmission policy of a node that is given none.
///
/// A packet counts as lost when it is three packets or an eighth of a round trip behind, and later on paths that reorder. The
/// first probe comes early if an application waits, and later after probes in vain where nothing is lost. The back-off is gentle
/// where packets are lost by chance, and doubles elsewhere. Lone packets are copied on paths with random loss, as [`Hedging`]
/// allows.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    hedging: Hedging,
    reordering: Reordering,
    hedge: Hedge,
    /// An early probe waits for this many mean deviations. A probe in vain doubles them; one that was needed sets them to one.
    deviations: u32,
}

impl Standard {
    /// The policy as a node uses it, with copies as `hedging` allows.
    pub fn new(hedging: Hedging) -> Self {
        Self { hedging, reordering: Reordering::default(), hedge: Hedge::default(), deviations: 1 }
    }
}

impl Default for Standard {
    fn default() -> Self {
        Self::new(Hedging::default())
    }
}

impl Retransmission for Standard {
    #[inline]
    fn loss(&mut self, now: Mono, path: &PathState<'_>) -> LossThreshold {
        self.reordering.rule(now, path.rtt)
    }

    fn on_spurious(&mut self, spurious: SpuriousLoss, path: &PathState<'_>) {
        self.reordering.on_spurious(spurious.now, spurious.distance, spurious.age, path.rtt);
    }

    fn on_probed(&mut self, in_vain: bool, _: &PathState<'_>) {
        if in_vain {
            self.deviations = (self.deviations * 2).min(MOST_DEVIATIONS);
        } else {
            self.deviations = 1;
        }
    }

    #[inline]
    fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration {
        let early = path.awaited && path.rtt.is_measured() && !path.loss.is_overloaded();
        // Where packets are lost, an early probe pays.
        let deviations = if path.loss.is_lossy() { 1 } else { self.deviations };
        let tail = if early { path.rtt.tail_base(deviations) } else { path.rtt.pto_base() };
        let tail = tail.saturating_add(path.max_ack_delay);
        let cause = match path.loss.cause() {
            Cause::Overload if path.packets >= MANY => Cause::Unknown,
            cause => cause,
        };
        pto::back_off(timeouts, tail, path.pto(), cause, path.awaited, path.rtt.is_measured())
    }

    fn probes(&self, path: &PathState<'_>, timeouts: u32) -> u32 {
        let at = usize::try_from(timeouts).unwrap_or(usize::MAX).clamp(1, PROBES.len()) - 1;
        PROBES.get(at).copied().filter(|_| path.loss.is_random()).unwrap_or(1)
    }

    fn copy_after(&mut self, now: Mono, path: &PathState<'_>, again: bool) -> Option<Duration> {
        let room = Room {
            rtt: path.rtt,
            loss: *path.loss,
            rate: path.bandwidth() as f64,
            in_flight: path.in_flight as f64,
            datagram: f64::from(path.datagram()),
        };
        self.hedge.copy(now, self.hedging, room, again)
    }
}
