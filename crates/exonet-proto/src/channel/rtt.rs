//! Round-trip time of a path, after RFC 9002, section 5.

use core::time::Duration;

use crate::Mono;

/// The round-trip time assumed before the first sample (RFC 9002, section 6.2.2).
pub const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The timer granularity, `kGranularity` (RFC 9002, section 6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// How long a bucket of the minimum lasts; a minimum is forgotten after one to two of them.
const MIN_BUCKET: Duration = Duration::from_secs(10);

/// The round-trip time of one path, over all epochs that use it.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    latest: Duration,
    adjusted: Duration,
    smoothed: Duration,
    variance: Duration,
    /// See [`Rtt::pto_base`]: read for every packet, and changed by a sample.
    pto_base: Duration,
    /// The minimum of this bucket and of the one before: old minima expire, since routes change.
    min: Duration,
    min_before: Duration,
    bucket_since: Mono,
    sampled: bool,
}

impl Default for Rtt {
    fn default() -> Self {
        Self::new(INITIAL_RTT)
    }
}

impl Rtt {
    /// A path that is not yet measured; `initial` is assumed until then.
    pub fn new(initial: Duration) -> Self {
        Self {
            latest: initial,
            adjusted: initial,
            smoothed: initial,
            variance: initial / 2,
            pto_base: pto_base(initial, initial / 2),
            min: Duration::MAX,
            min_before: Duration::MAX,
            bucket_since: Mono(0),
            sampled: false,
        }
    }

    /// Takes a sample: `rtt` is the time from sending a packet to its acknowledgement. The peer says that the acknowledgement
    /// waited for `ack_delay`, already limited to the peer's `max_ack_delay`.
    pub fn on_sample(&mut self, now: Mono, rtt: Duration, ack_delay: Duration) {
        self.latest = rtt;
        self.adjusted = rtt;
        self.note_min(now, rtt);
        if !self.sampled {
            self.sampled = true;
            self.smoothed = rtt;
            self.variance = rtt / 2;
            self.pto_base = pto_base(self.smoothed, self.variance);
            return;
        }
        // RFC 9002, section 5.3: the peer's delay never lowers the sample below the minimum.
        let adjusted = match rtt.checked_sub(ack_delay) {
            Some(shorter) if shorter >= self.min() => shorter,
            _ => rtt,
        };
        self.adjusted = adjusted;
        self.variance = (self.variance * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
        self.pto_base = pto_base(self.smoothed, self.variance);
    }

    fn note_min(&mut self, now: Mono, rtt: Duration) {
        if !self.sampled {
            self.bucket_since = now;
        }
        let age = now.since(self.bucket_since);
        if age >= MIN_BUCKET {
            self.min_before = if age >= MIN_BUCKET * 2 { Duration::MAX } else { self.min };
            self.min = Duration::MAX;
            self.bucket_since = now;
        }
        self.min = self.min.min(rtt);
    }

    /// Whether there has been a sample.
    pub fn is_measured(&self) -> bool {
        self.sampled
    }

    /// The latest sample, without any correction.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The latest sample without the time for which the acknowledgement waited, as far as that is plausible.
    pub fn adjusted(&self) -> Duration {
        self.adjusted
    }

    /// The smoothed round-trip time.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The mean deviation.
    pub fn variance(&self) -> Duration {
        self.variance
    }

    /// The smallest sample of the last 10 to 20 seconds in which there were samples; the assumed time
    /// before the first.
    pub fn min(&self) -> Duration {
        if self.sampled { self.min.min(self.min_before) } else { self.smoothed }
    }

    /// As [`pto_base`](Self::pto_base), for an early probe after this many mean deviations.
    pub fn tail_base(&self, deviations: u32) -> Duration {
        self.smoothed + self.variance.saturating_mul(deviations).max(self.smoothed / 16).max(GRANULARITY)
    }

    /// The probe timeout without the peer's acknowledgement delay and without back-off (RFC 9002, section
    /// 6.2.1).
    pub fn pto_base(&self) -> Duration {
        self.pto_base
    }
}

fn pto_base(smoothed: Duration, variance: Duration) -> Duration {
    smoothed + (variance * 4).max(GRANULARITY)
}

#[cfg(test)]
mod tests;
