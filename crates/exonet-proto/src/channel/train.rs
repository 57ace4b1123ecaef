//! Measures the rate of the narrowest link by the first packets that leave: a flight of ten shows it within one round trip.
//!
//! Packets that left within a moment of one another arrive as far apart as the narrowest link spaces them. A train begins with
//! the first of these packets that an acknowledgement reports. The rate is the bytes that have arrived since then, over the time
//! that this took by the peer's clock. It is too low rather than too high: lost packets do not count, and a moment is added for
//! peers that read their sockets late.

use core::time::Duration;

use super::units::{MICROSECOND, SECOND, mul_div, nanos};
use crate::Mono;
use crate::wire::ARRIVAL_SPAN;

/// The packets of a train leave within this time.
const TRAIN: Duration = Duration::from_millis(2);
/// How much a peer that reads its socket late may shorten the time between two arrivals.
const BLUR: Duration = Duration::from_micros(300);
/// Fewer packets behind the first show nothing.
const LEAST: u64 = 4;

/// The first packet of a train that an acknowledgement has reported.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: u64,
    sent_at: Mono,
    arrival: Duration,
}

/// Estimates the rate of one path's narrowest link from single trains.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    head: Option<Head>,
    /// Packets behind the head that have arrived, and their bytes.
    packets: u64,
    bytes: u64,
    best: Option<u64>,
}

impl Train {
    /// A packet is newly acknowledged. Follow up with [`on_ack`](Self::on_ack).
    pub(super) fn on_delivered(&mut self, number: u64, sent_at: Mono, bytes: u64) {
        if self.head.is_some_and(|head| number > head.number && sent_at.since(head.sent_at) <= TRAIN) {
            self.packets += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// The acknowledgement ends: the newest packet in it arrived at `arrival` by the peer's clock.
    pub(super) fn on_ack(&mut self, number: u64, sent_at: Mono, arrival: Duration) {
        let Some(head) = self.head.filter(|head| sent_at.since(head.sent_at) <= TRAIN) else {
            *self =
                Self { head: Some(Head { number, sent_at, arrival }), best: self.best, ..Self::default() };
            return;
        };
        let micros =
            (nanos(arrival) / MICROSECOND).wrapping_sub(nanos(head.arrival) / MICROSECOND) % ARRIVAL_SPAN;
        let took = Duration::from_micros(micros).max(sent_at.since(head.sent_at));
        // A time that goes backwards has wrapped: a quarter of an hour is no train.
        if self.packets >= LEAST && micros > 0 && micros < ARRIVAL_SPAN / 2 {
            let rate = mul_div(self.bytes, SECOND, nanos(took + BLUR));
            self.best = self.best.max(Some(rate));
        }
    }

    /// The greatest rate that a train has shown, in bytes per second.
    pub(super) fn rate(&self) -> Option<u64> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1,250 bytes: one takes 100 us on a link of 100 Mbit/s.
    const BYTES: u64 = 1_250;
    const LINK: u64 = 12_500_000;

    /// Every second one of `numbers` is acknowledged with the one before it, but for the `lost`: they left `apart` and
    /// arrived `gap` microseconds after one another, the first at `begins`.
    fn train(it: &mut Train, numbers: core::ops::Range<u64>, lost: &[u64], [begins, apart, gap]: [u64; 3]) {
        let left = |number: u64| Mono((begins + (number - numbers.start) * apart) * 1_000);
        let mut untold = Vec::new();
        for number in numbers.clone() {
            if !lost.contains(&number) {
                untold.push(number);
            }
            if untold.len() == 2 {
                untold.drain(..).rev().for_each(|number| it.on_delivered(number, left(number), BYTES));
                let arrival = (begins + 700 + (number - numbers.start) * gap) % ARRIVAL_SPAN;
                it.on_ack(number, left(number), Duration::from_micros(arrival));
            }
        }
    }

    fn shown(lost: &[u64], timing: [u64; 3]) -> Option<u64> {
        let mut it = Train::default();
        train(&mut it, 0..10, lost, timing);
        it.rate()
    }

    #[test]
    fn ten_packets_show_the_link_and_never_more_than_it_gives() {
        // Eight packets in 800 us and a moment.
        let rate = shown(&[], [0, 0, 100]).unwrap();
        assert!((LINK * 7 / 10..LINK).contains(&rate), "{rate}");
        let slow = shown(&[], [0, 0, 10_000]).unwrap();
        assert!((LINK * 98 / 10_000..LINK / 100).contains(&slow), "{slow}");
        let holed = shown(&[3, 6], [0, 0, 100]).unwrap();
        assert!(holed < rate, "{holed}: what was lost counts for nothing");
    }

    #[test]
    fn too_few_packets_and_such_as_arrive_together_tell_nothing() {
        assert_eq!(shown(&[4, 5, 6, 7, 8, 9], [0, 0, 100]), None);
        assert_eq!(shown(&[], [0, 0, 0]), None);
    }

    #[test]
    fn what_leaves_slowly_shows_no_more_than_that() {
        assert_eq!(shown(&[], [0, 3_000, 3_000]), None, "each is a train by itself");
        // Held up, and then let go: they arrive faster than they left.
        let rate = shown(&[], [0, 200, 20]).unwrap();
        assert!(rate < 6_250_000, "{rate}");
    }

    #[test]
    fn the_best_train_counts() {
        let mut it = Train::default();
        train(&mut it, 0..10, &[], [0, 0, 400]);
        let slow = it.rate().unwrap();
        train(&mut it, 10..20, &[], [20_000, 0, 100]);
        let fast = it.rate().unwrap();
        assert!(fast > 2 * slow, "{slow} {fast}");
        train(&mut it, 20..30, &[], [40_000, 0, 400]);
        assert_eq!(it.rate(), Some(fast));
    }

    #[test]
    fn the_peers_clock_may_wrap() {
        assert_eq!(shown(&[], [ARRIVAL_SPAN - 1_100, 0, 100]), shown(&[], [0, 0, 100]));
    }
}
