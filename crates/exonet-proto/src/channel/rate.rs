//! Delivery rate of a path, after draft-cheng-iccrg-delivery-rate-estimation.
//!
//! The rate of a sample is the slower of the rate at which its packets were sent and the rate at which they were acknowledged.
//! Neither a burst nor compressed acknowledgements can raise it above what the path gave.

use core::time::Duration;

use super::units::{SECOND, mul_div, nanos};
use crate::Mono;

/// The state of the path when a packet was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    delivered: u64,
    delivered_at: Mono,
    first_sent_at: Mono,
    app_limited: bool,
}

impl Snapshot {
    /// Whether the application, not the window, limited sending when the packet left.
    pub fn app_limited(&self) -> bool {
        self.app_limited
    }
}

/// One measurement of the delivery rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// The longer of `send_interval` and `ack_interval`; never zero.
    pub interval: Duration,
    /// The time over which the packets of the sample were sent.
    pub send_interval: Duration,
    /// The time over which they were acknowledged.
    pub ack_interval: Duration,
    /// Bytes that had been delivered on the path when the sample's newest packet left. A round trip ends
    /// when this reaches the total at its start.
    pub prior_delivered: u64,
    /// The path may be faster than this: the application had nothing to send.
    pub app_limited: bool,
}

impl Sample {
    /// The rate in bytes per second.
    pub fn rate(&self) -> u64 {
        mul_div(self.delivered, SECOND, nanos(self.interval).max(1))
    }
}

/// The newest packet of the acknowledgement under way.
#[derive(Clone, Copy, Debug)]
struct Newest {
    sent_at: Mono,
    snapshot: Snapshot,
}

/// Counts deliveries on one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateEstimator {
    delivered: u64,
    delivered_at: Mono,
    first_sent_at: Mono,
    /// Samples are app-limited until more than this many bytes have been delivered.
    app_limited_until: Option<u64>,
    newest: Option<Newest>,
}

impl RateEstimator {
    /// A packet leaves while `in_flight` other bytes are under way.
    pub fn on_sent(&mut self, now: Mono, in_flight: u64) -> Snapshot {
        if in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// A packet is newly acknowledged. Follow up with [`sample`](Self::sample) once per ACK.
    pub fn on_delivered(&mut self, now: Mono, sent_at: Mono, bytes: u64, snapshot: Snapshot) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = now;
        if self.newest.is_none_or(|newest| sent_at > newest.sent_at) {
            self.newest = Some(Newest { sent_at, snapshot });
        }
    }

    /// The sample of the packets delivered since the last call, if they form one.
    ///
    /// If they cover less than half of the round trip `min_rtt`, acknowledgements were compressed, and there is no sample.
    pub fn sample(&mut self, now: Mono, min_rtt: Duration) -> Option<Sample> {
        let Newest { sent_at, snapshot } = self.newest.take()?;
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        self.first_sent_at = self.first_sent_at.max(sent_at);
        let send_interval = sent_at.since(snapshot.first_sent_at);
        let ack_interval = now.since(snapshot.delivered_at);
        let interval = send_interval.max(ack_interval);
        (!interval.is_zero() && interval >= min_rtt / 2).then(|| Sample {
            delivered: self.delivered.saturating_sub(snapshot.delivered),
            interval,
            send_interval,
            ack_interval,
            prior_delivered: snapshot.delivered,
            app_limited: snapshot.app_limited,
        })
    }

    /// There is nothing to send although the window is open. `in_flight` bytes are under way.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered.saturating_add(in_flight));
    }

    /// Bytes delivered on this path so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
}

#[cfg(test)]
mod tests;
