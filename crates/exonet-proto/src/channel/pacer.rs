//! Pacing (RFC 9002, section 7.7): a token bucket.
//!
//! A late timer is credited, so that a coarse clock costs no throughput. Time in which there was nothing to send is not credited,
//! beyond the burst that any sender may make after idling.

use core::time::Duration;

use super::congestion::initial_window;
use super::units::{SECOND, bytes_in, nanos};
use crate::Mono;

/// The most datagrams in one train, whatever the credit.
pub const MAX_TRAIN: u64 = 64;

/// Datagrams that may leave at once after idling.
const IDLE_BURST: u64 = 10;

/// How late a timer may be without a loss of throughput.
const LATE_CREDIT: Duration = Duration::from_millis(2);

/// How much time's worth of packets one train is, so that fast paths send few, large trains.
const TRAIN: Duration = Duration::from_millis(1);

/// Spreads packets over time at a given rate.
#[derive(Clone, Debug)]
pub struct Pacer {
    mtu: u64,
    /// Bytes per second; `u64::MAX` means no pacing.
    rate: u64,
    /// The bytes that may leave, in billionths of a byte: a rate times nanoseconds, without rounding.
    credit: u128,
    /// Up to when time has been turned into credit.
    filled: Mono,
    /// The sender was told to wait: time that it waits beyond that is credited.
    waiting: bool,
}

impl Pacer {
    /// A pacer for datagrams of `mtu` bytes that lets the initial window pass at once.
    pub fn new(now: Mono, mtu: u16) -> Self {
        let credit = scaled(initial_window(mtu));
        Self { mtu: u64::from(mtu).max(1), rate: u64::MAX, credit, filled: now, waiting: false }
    }

    /// Datagrams are now at most `mtu` bytes.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu).max(1);
    }

    /// Sets the rate in bytes per second from now on; `u64::MAX` turns pacing off.
    pub fn set_rate(&mut self, now: Mono, rate: u64) {
        if rate != self.rate {
            self.fill(now);
            self.rate = rate;
        }
    }

    /// The rate in bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// `None` if a packet of `bytes` may leave now, otherwise when to ask again. About `queued` bytes wait to leave.
    ///
    /// A sender that has been told to wait waits for a whole train, or for as much of one as it has. Otherwise each
    /// acknowledgement would release a single packet, which costs both ends as much as a train.
    pub fn next_send(&mut self, now: Mono, bytes: u64, queued: u64) -> Option<Mono> {
        self.fill(now);
        let least = if self.waiting { self.train().min(queued).max(bytes) } else { bytes };
        self.waiting = self.rate != u64::MAX && self.credit < scaled(least);
        self.waiting.then(|| {
            let missing = scaled(self.train().max(bytes)).saturating_sub(self.credit);
            let wait = missing
                .checked_add(u128::from(self.rate))
                .and_then(|x| (x - 1).checked_div(self.rate.into()));
            now + wait.and_then(|x| u64::try_from(x).ok()).map_or(Duration::MAX, Duration::from_nanos)
        })
    }

    /// How many bytes may leave now in one train.
    pub fn allowance(&mut self, now: Mono) -> u64 {
        self.fill(now);
        let train = MAX_TRAIN.saturating_mul(self.mtu);
        if self.rate == u64::MAX { train } else { whole(self.credit).min(train) }
    }

    /// `bytes` leave, whether or not they were allowed: probes and retransmissions are not held up, but the bytes they take are
    /// missing later.
    pub fn on_sent(&mut self, now: Mono, bytes: u64) {
        self.fill(now);
        self.credit = self.credit.saturating_sub(scaled(bytes));
    }

    /// The bytes of a train: a millisecond's worth, at least one packet and at most 45.
    fn train(&self) -> u64 {
        bytes_in(self.rate, TRAIN).clamp(self.mtu, 45 * self.mtu)
    }

    /// The most credit, in bytes, that time can add.
    fn depth(&self) -> u64 {
        let idle = IDLE_BURST * self.mtu;
        if self.waiting {
            idle.max(bytes_in(self.rate, LATE_CREDIT))
        } else {
            bytes_in(self.rate, TRAIN).clamp(idle, MAX_TRAIN * self.mtu)
        }
    }

    fn fill(&mut self, now: Mono) {
        let elapsed = nanos(now.since(self.filled));
        if elapsed == 0 {
            return;
        }
        self.filled = now;
        let depth = scaled(self.depth());
        if self.credit < depth {
            let earned = u128::from(self.rate) * u128::from(elapsed);
            self.credit = self.credit.saturating_add(earned).min(depth);
        }
    }
}

/// Bytes in billionths.
fn scaled(bytes: u64) -> u128 {
    u128::from(bytes) * u128::from(SECOND)
}

/// Whole bytes of a credit.
fn whole(credit: u128) -> u64 {
    u64::try_from(credit / u128::from(SECOND)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
