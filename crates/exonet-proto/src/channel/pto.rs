//! The probe timeout's back-off (RFC 9002, section 6.2).

use core::time::Duration;

use crate::Mono;

/// Doublings after which the back-off no longer grows.
const MAX_DOUBLINGS: u32 = 6;

/// However long the round trip, probes come at least this often; but never before one probe timeout.
const MAX_INTERVAL: Duration = Duration::from_secs(30);

/// Counts probe timeouts in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pto {
    count: u32,
    /// The last ack-eliciting packet, or the last timeout if no probe could leave.
    since: Mono,
}

impl Pto {
    /// An ack-eliciting packet leaves: the timeout starts anew (RFC 9002, section 6.2.1).
    pub(super) fn on_sent(&mut self, now: Mono) {
        self.since = self.since.max(now);
    }

    /// Ack-eliciting packets were newly acknowledged: the path works.
    pub(super) fn on_progress(&mut self) {
        self.count = 0;
    }

    /// A timeout. Returns how many there were in a row.
    pub(super) fn on_timeout(&mut self, now: Mono) -> u32 {
        self.count = self.count.saturating_add(1);
        self.since = self.since.max(now);
        self.count
    }

    /// Timeouts in a row so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// When the next timeout comes, given the one without back-off.
    pub(super) fn deadline(&self, pto: Duration) -> Mono {
        let backed_off = pto.saturating_mul(1 << self.count.min(MAX_DOUBLINGS));
        self.since + backed_off.min(MAX_INTERVAL.max(pto))
    }
}

#[cfg(test)]
mod tests;
