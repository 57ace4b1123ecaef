//! Keeps the application's own controller within bounds: the controller may be slow or greedy, but cannot stop a path.

use core::time::Duration;

use super::{AckInfo, CongestionControl, LossInfo, SentInfo, TAGS, minimum_window};
use crate::Mono;

/// The largest window: what 80 Gbit/s carry in a tenth of a second. It bounds how many packets under way a node remembers.
pub const MOST_WINDOW: u64 = 1 << 30;

/// The least and the greatest percentage of a window that leaves per round trip.
const GAIN: core::ops::RangeInclusive<u64> = 10..=1_000;

/// The last tag below [`TAGS`].
const LAST_TAG: u8 = 3;
const _: () = assert!(LAST_TAG as usize + 1 == TAGS);

/// Keeps the answers of a controller within bounds: the window between [`minimum_window`] and [`MOST_WINDOW`], the pacing rate at
/// the smallest window a second or more, the gain from 10 to 1,000 %, tags below [`TAGS`].
#[derive(Debug)]
pub struct Bounded {
    inner: Box<dyn CongestionControl>,
    mtu: u16,
}

impl Bounded {
    /// Bounds `inner`, on a path of datagrams of up to `mtu` bytes.
    pub fn new(mut inner: Box<dyn CongestionControl>, mtu: u16) -> Self {
        inner.on_mtu(mtu);
        Self { inner, mtu }
    }
}

impl CongestionControl for Bounded {
    fn on_sent(&mut self, sent: SentInfo) {
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, ack: AckInfo<'_>) {
        self.inner.on_ack(ack);
    }

    fn on_loss(&mut self, loss: LossInfo) {
        self.inner.on_loss(loss);
    }

    fn on_spurious_loss(&mut self, loss: LossInfo) {
        self.inner.on_spurious_loss(loss);
    }

    fn on_persistent_congestion(&mut self, now: Mono) {
        self.inner.on_persistent_congestion(now);
    }

    fn on_idle_restart(&mut self, now: Mono, idle: Duration) {
        self.inner.on_idle_restart(now, idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.inner.on_mtu(mtu);
    }

    fn bandwidth(&self) -> u64 {
        self.inner.bandwidth()
    }

    fn window(&self) -> u64 {
        self.inner.window().clamp(minimum_window(self.mtu), MOST_WINDOW)
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.inner.pacing_rate()?.max(minimum_window(self.mtu)))
    }

    fn pacing_gain(&self) -> u64 {
        self.inner.pacing_gain().clamp(*GAIN.start(), *GAIN.end())
    }

    fn tag_for_next_packet(&self) -> u8 {
        self.inner.tag_for_next_packet().min(LAST_TAG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller that gives fixed answers.
    #[derive(Debug)]
    struct Says {
        window: u64,
        rate: Option<u64>,
        gain: u64,
        tag: u8,
    }

    impl CongestionControl for Says {
        fn on_ack(&mut self, _: AckInfo<'_>) {}
        fn on_loss(&mut self, _: LossInfo) {}
        fn on_persistent_congestion(&mut self, _: Mono) {}
        fn on_mtu(&mut self, _: u16) {}
        fn window(&self) -> u64 {
            self.window
        }
        fn pacing_rate(&self) -> Option<u64> {
            self.rate
        }
        fn pacing_gain(&self) -> u64 {
            self.gain
        }
        fn tag_for_next_packet(&self) -> u8 {
            self.tag
        }
    }

    fn bounded(window: u64, rate: Option<u64>, gain: u64, tag: u8) -> Bounded {
        Bounded::new(Box::new(Says { window, rate, gain, tag }), 1_200)
    }

    #[test]
    fn a_controller_that_says_nothing_lets_four_packets_through() {
        let mut none = bounded(0, Some(0), 0, 255);
        assert_eq!((none.window(), none.pacing_rate(), none.pacing_gain()), (4_800, Some(4_800), 10));
        assert_eq!(none.tag_for_next_packet(), 3);
        none.on_mtu(9_000);
        assert_eq!((none.window(), none.pacing_rate()), (36_000, Some(36_000)));
    }

    #[test]
    fn a_controller_that_says_too_much_is_cut_short() {
        let all = bounded(u64::MAX, Some(u64::MAX), u64::MAX, 3);
        assert_eq!((all.window(), all.pacing_gain()), (MOST_WINDOW, 1_000));
        assert_eq!(all.pacing_rate(), Some(u64::MAX), "that is no pacing");
        assert_eq!(bounded(1 << 20, None, 125, 0).window(), 1 << 20, "what is within bounds counts");
    }
}
