//! How much reordering a path shows, and therefore when a packet counts as lost (RFC 9002, section 6.1).

use core::time::Duration;

use super::retransmission::LossThreshold;
use super::rtt::{GRANULARITY, Rtt};
use super::units::scale;
use crate::Mono;

/// `kPacketThreshold`: a packet this far behind the newest acknowledged is lost.
const PACKETS: u64 = 3;

/// However much reordering is seen, a packet this far behind counts as lost.
const MAX_PACKETS: u64 = 200;

/// `kTimeThreshold` less one: the share of a round trip that a packet may be late.
const LATENESS: f64 = 1.0 / 8.0;

/// The greatest lateness: one further round trip.
const MAX_LATENESS: f64 = 1.0;

/// After this time without a spurious loss, both allowances are halved.
const MEMORY: Duration = Duration::from_secs(16);

/// Adapts the two thresholds when losses turn out to be spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reordering {
    packets: u64,
    lateness: f64,
    changed: Mono,
}

impl Default for Reordering {
    fn default() -> Self {
        Self { packets: PACKETS, lateness: LATENESS, changed: Mono(0) }
    }
}

impl Reordering {
    /// A packet declared lost was acknowledged after all, `distance` packets behind the newest acknowledged
    /// and `age` after it had been sent.
    pub(super) fn on_spurious(&mut self, now: Mono, distance: u64, age: Duration, rtt: &Rtt) {
        self.packets = self.packets.max(distance.saturating_add(1)).min(MAX_PACKETS);
        let round = rtt.smoothed().max(rtt.latest()).as_secs_f64();
        if round > 0.0 {
            let late = (age.as_secs_f64() / round - 1.0) * 1.1;
            self.lateness = self.lateness.max(late.min(MAX_LATENESS));
        }
        self.changed = now;
    }

    /// The rule at `now`.
    pub(super) fn rule(&mut self, now: Mono, rtt: &Rtt) -> LossThreshold {
        while (self.packets > PACKETS || self.lateness > LATENESS) && now.since(self.changed) >= MEMORY {
            self.packets = (self.packets / 2).max(PACKETS);
            self.lateness = (self.lateness / 2.0).max(LATENESS);
            self.changed += MEMORY;
        }
        let round = rtt.smoothed().max(rtt.latest());
        LossThreshold { packets: self.packets, time: scale(round, 1.0 + self.lateness).max(GRANULARITY) }
    }
}

#[cfg(test)]
mod tests;
