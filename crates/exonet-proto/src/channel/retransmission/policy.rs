//! The policy of a path: the node's own, or the application's within bounds.

use core::time::Duration;

use super::{LossThreshold, PathState, Retransmission, SpuriousLoss, Standard};
use crate::Mono;
use crate::channel::rtt::GRANULARITY;

/// The latest time at which a packet counts as lost, or this many round trips if these are longer. Then its contents are sent
/// again.
const LATEST: Duration = Duration::from_secs(1);
const LATEST_ROUNDS: u32 = 8;

/// After this many consecutive probe timeouts the peer may be away for long: then this is the least time between two timeouts.
const AWAY: u32 = 96;
const AWAY_WAIT: Duration = Duration::from_secs(1);

/// The longest probe timeout, unless the path's own is longer.
const PATIENT: Duration = Duration::from_secs(30);

/// The most packets at a probe timeout: they leave beyond the window.
const MOST_PROBES: u32 = 4;

/// The retransmission policy of a path. The application's own policy may answer anything: its answers are kept within bounds
/// here, so that everything that is lost is sent again, and no path is flooded.
#[derive(Debug)]
pub(in crate::channel) enum Policy {
    Standard(Standard),
    Custom(Box<dyn Retransmission>),
}

impl Policy {
    #[inline]
    pub(in crate::channel) fn loss(&mut self, now: Mono, path: &PathState<'_>) -> LossThreshold {
        match self {
            Self::Standard(standard) => standard.loss(now, path),
            Self::Custom(custom) => {
                let LossThreshold { packets, time } = custom.loss(now, path);
                let round = path.rtt.smoothed().max(path.rtt.latest());
                let latest = LATEST.max(round.saturating_mul(LATEST_ROUNDS));
                LossThreshold {
                    packets: packets.clamp(1, LossThreshold::MOST_PACKETS),
                    time: time.clamp(GRANULARITY, latest),
                }
            }
        }
    }

    pub(in crate::channel) fn on_spurious(&mut self, spurious: SpuriousLoss, path: &PathState<'_>) {
        match self {
            Self::Standard(standard) => standard.on_spurious(spurious, path),
            Self::Custom(custom) => custom.on_spurious(spurious, path),
        }
    }

    pub(in crate::channel) fn on_probed(&mut self, in_vain: bool, path: &PathState<'_>) {
        match self {
            Self::Standard(standard) => standard.on_probed(in_vain, path),
            Self::Custom(custom) => custom.on_probed(in_vain, path),
        }
    }

    #[inline]
    pub(in crate::channel) fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration {
        match self {
            Self::Standard(standard) => standard.probe_after(path, timeouts),
            Self::Custom(custom) => {
                let least = GRANULARITY.max(path.rtt.smoothed() / 2);
                let least = if timeouts > AWAY { least.max(AWAY_WAIT) } else { least };
                custom.probe_after(path, timeouts).clamp(least, PATIENT.max(path.pto()).max(least))
            }
        }
    }

    pub(in crate::channel) fn probes(&self, path: &PathState<'_>, timeouts: u32) -> u32 {
        match self {
            Self::Standard(standard) => standard.probes(path, timeouts),
            Self::Custom(custom) => custom.probes(path, timeouts).clamp(1, MOST_PROBES),
        }
    }

    pub(in crate::channel) fn copy_after(
        &mut self,
        now: Mono,
        path: &PathState<'_>,
        again: bool,
    ) -> Option<Duration> {
        match self {
            Self::Standard(standard) => standard.copy_after(now, path, again),
            Self::Custom(custom) => {
                let wait = custom.copy_after(now, path, again)?;
                Some(wait.min(path.rtt.smoothed().max(GRANULARITY)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
