//! The effects of one direction of a link on packets.

use std::time::Duration;

use exonet_sim::Signal;

use super::Loss;

/// The least that a queue holds by default: ten full packets.
const LEAST_QUEUE: usize = 15_000;

/// Packets that arrive behind later ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reorder {
    /// The share of packets that are held back.
    pub(crate) share: f64,
    /// For how long.
    pub(crate) by: Duration,
}

/// Times at which nothing gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outages {
    /// From the beginning of one to the beginning of the next; the first begins after one period.
    pub(crate) every: Duration,
    /// How long each lasts.
    pub(crate) last: Duration,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Bits per second, of IP packets.
    pub(crate) rate: u64,
    /// One way.
    pub(crate) delay: Duration,
    /// The size of the queue, in bytes of IP packets. A packet that finds the queue full is dropped.
    pub(crate) queue: usize,
    /// Whether CoDel keeps the queue short, and how. None: only its end does.
    pub(crate) codel: Option<Signal>,
    pub(crate) loss: Loss,
    /// The share of packets that arrive twice.
    pub(crate) duplicate: f64,
    pub(crate) reorder: Option<Reorder>,
    pub(crate) outages: Option<Outages>,
}

impl Shape {
    /// A direction of `mbit` Mbit/s and half of `rtt`, whose queue holds one bandwidth-delay product.
    pub(crate) fn new(mbit: f64, rtt: Duration, loss: Loss) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and far below 2^53
        let rate = (mbit * 1e6) as u64;
        let product = u128::from(rate) * rtt.as_nanos() / 8 / 1_000_000_000;
        let queue = usize::try_from(product).unwrap_or(usize::MAX).max(LEAST_QUEUE);
        Self { rate, delay: rtt / 2, queue, codel: None, loss, duplicate: 0.0, reorder: None, outages: None }
    }

    /// How long the line is busy with this number of bytes, in ns.
    pub(crate) fn serialisation(&self, bytes: usize) -> u64 {
        let bits = u128::from(u64::try_from(bytes).unwrap_or(u64::MAX)) * 8;
        u64::try_from(bits * 1_000_000_000 / u128::from(self.rate.max(1))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_holds_a_bandwidth_delay_product() {
        assert_eq!(Shape::new(100.0, Duration::from_millis(10), Loss::None).queue, 125_000);
        assert_eq!(
            Shape::new(1.0, Duration::from_millis(6), Loss::None).queue,
            15_000,
            "and ten packets at least"
        );
    }

    #[test]
    fn a_line_takes_its_time() {
        assert_eq!(Shape::new(100.0, Duration::ZERO, Loss::None).serialisation(1_250), 100_000);
        assert_eq!(Shape::new(1_000.0, Duration::ZERO, Loss::None).serialisation(1_250), 10_000);
    }
}
