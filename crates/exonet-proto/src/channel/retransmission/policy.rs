//! The policy of a path: the node's own, or the application's within bounds.

use core::time::Duration;

use super::{LossThreshold, PathState, Retransmission, SpuriousLoss, Standard};
use crate::Mono;
use crate::channel::rtt::GRANULARITY;

/// A packet counts as lost after this, or so many round trips if these are longer: what it carries is sent again then.
const LATEST: Duration = Duration::from_secs(1);
const LATEST_ROUNDS: u32 = 8;

/// Probe timeouts in a row after which the peer may be away for long, and how far apart they are then at least.
const AWAY: u32 = 96;
const AWAY_WAIT: Duration = Duration::from_secs(1);

/// The longest probe timeout, unless the path's own is longer.
const PATIENT: Duration = Duration::from_secs(30);

/// Packets of a probe timeout: they leave beyond the window.
const MOST_PROBES: u32 = 4;

/// The retransmission policy of a path. The application's own may do what it likes: what it says is kept within bounds here, so that
/// everything that is lost is sent again, and no path is flooded.
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
