//! The delay on the way there, from the times at which the peer says that packets arrived.
//!
//! The two clocks are unrelated, so the arrival less the time of sending is the delay plus an unknown offset. The round trip less
//! that value is the delay on the way back, less the same offset. Its least value belongs to a way back without queues. When the
//! two are added again, the offset cancels: the result is a round trip in which only the way there can have a queue.

use core::time::Duration;

use super::units::{MICROSECOND, nanos};
use crate::Mono;
use crate::wire::ARRIVAL_SPAN;

/// How long a bucket of the minimum lasts; a minimum is forgotten after one to two of them, as clocks drift.
const BUCKET: Duration = Duration::from_secs(5);

/// Estimates the delay of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneWay {
    /// The last arrival less its time of sending, in microseconds of [`ARRIVAL_SPAN`].
    raw: Option<u64>,
    /// The same value unwrapped: only differences have a meaning.
    offset: i64,
    /// The least delay on the way back, less the offset, of this bucket and of the one before, in nanoseconds.
    back: Option<i64>,
    back_before: Option<i64>,
    since: Mono,
}

impl OneWay {
    /// A packet sent at `sent_at` arrived at `arrival` by the peer's clock. It took `rtt` there and back, without the time for
    /// which the acknowledgement waited. Returns the round trip without the queue on the way back; never more than `rtt`.
    pub(super) fn on_sample(
        &mut self,
        now: Mono,
        sent_at: Mono,
        arrival: Duration,
        rtt: Duration,
    ) -> Duration {
        let there = self.unwrap(arrival, sent_at).saturating_mul(MICROSECOND.cast_signed());
        let rtt = nanos(rtt).cast_signed();
        let back = rtt.saturating_sub(there);
        if self.back.is_none() && self.back_before.is_none() {
            self.since = now;
        } else if now.since(self.since) >= BUCKET {
            self.back_before = self.back.take();
            self.since = now;
        }
        let least = self.back.map_or(back, |least| least.min(back));
        self.back = Some(least);
        let least = self.back_before.map_or(least, |before| before.min(least));
        let forward = there.saturating_add(least).clamp(0, rtt.max(0));
        Duration::from_nanos(forward.unsigned_abs())
    }

    /// Unwraps the difference of the two times.
    fn unwrap(&mut self, arrival: Duration, sent_at: Mono) -> i64 {
        let raw = (nanos(arrival) / MICROSECOND).wrapping_sub(sent_at.0 / MICROSECOND) % ARRIVAL_SPAN;
        let ahead = raw.wrapping_sub(self.raw.unwrap_or(raw)) % ARRIVAL_SPAN;
        let step = if ahead < ARRIVAL_SPAN / 2 {
            ahead.cast_signed()
        } else {
            ahead.cast_signed() - ARRIVAL_SPAN.cast_signed()
        };
        self.raw = Some(raw);
        self.offset = self.offset.saturating_add(step);
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const START: Mono = Mono(77_000_000_000);

    /// A packet sent at `at` after the start that took `there` and `back`, by a clock that is `ahead` microseconds.
    fn sample(it: &mut OneWay, at: Duration, there: Duration, back: Duration, ahead: u64) -> Duration {
        let sent = START + at;
        let arrived = (sent + there).0 / MICROSECOND;
        let arrival = Duration::from_micros(arrived.wrapping_add(ahead) % ARRIVAL_SPAN);
        it.on_sample(sent + there + back, sent, arrival, there + back)
    }

    #[test]
    fn the_queue_of_the_way_back_is_no_delay_of_the_way_there() {
        for ahead in [0, 5_000_000, ARRIVAL_SPAN - 3, u64::MAX / 2] {
            let mut it = OneWay::default();
            assert_eq!(sample(&mut it, Duration::ZERO, 5 * MS, 5 * MS, ahead), 10 * MS);
            assert_eq!(sample(&mut it, 20 * MS, 5 * MS, 25 * MS, ahead), 10 * MS);
            assert_eq!(sample(&mut it, 60 * MS, 9 * MS, 25 * MS, ahead), 14 * MS);
            assert_eq!(sample(&mut it, 90 * MS, 5 * MS, 5 * MS, ahead), 10 * MS);
        }
    }

    #[test]
    fn the_peers_clock_may_wrap() {
        let mut it = OneWay::default();
        let ahead = ARRIVAL_SPAN - (START.0 / MICROSECOND) % ARRIVAL_SPAN - 20_000;
        for at in 0..10 {
            assert_eq!(sample(&mut it, 5 * at * MS, 5 * MS, 5 * MS, ahead), 10 * MS, "{at}");
        }
    }

    #[test]
    fn what_was_least_long_ago_is_forgotten() {
        let mut it = OneWay::default();
        sample(&mut it, Duration::ZERO, 5 * MS, 5 * MS, 0);
        // The way back is longer for good.
        assert_eq!(sample(&mut it, 4_000 * MS, 5 * MS, 8 * MS, 0), 10 * MS);
        assert_eq!(sample(&mut it, 6_000 * MS, 5 * MS, 8 * MS, 0), 10 * MS);
        assert_eq!(sample(&mut it, 12_000 * MS, 5 * MS, 8 * MS, 0), 13 * MS);
    }

    #[test]
    fn a_peer_that_lies_moves_it_within_the_round_trip() {
        let mut it = OneWay::default();
        for arrival in [0, 1, ARRIVAL_SPAN - 1, ARRIVAL_SPAN / 2, 7] {
            let arrival = Duration::from_micros(arrival);
            assert!(it.on_sample(START + 10 * MS, START, arrival, 10 * MS) <= 10 * MS);
        }
    }
}
