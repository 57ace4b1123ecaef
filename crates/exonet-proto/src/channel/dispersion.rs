//! Measures the rate of the narrowest link by the gaps between the arrivals of packets that left together.
//!
//! Other flows on the link widen gaps, and receivers that take packets in batches spoil many samples. So the estimate is a
//! median.

use core::time::Duration;

use super::units::{SECOND, mul_div, nanos};
use crate::Mono;

/// The median is taken over this many samples.
const SAMPLES: usize = 33;
/// How many samples must come before the first median, and between two medians.
const EVERY: u32 = 8;

/// The newest packet that the last acknowledgement reported.
#[derive(Clone, Copy, Debug)]
struct Mark {
    number: u64,
    sent_at: Mono,
    arrival: Duration,
}

/// Estimates the rate of one path's narrowest link.
#[derive(Clone, Debug)]
pub(super) struct Dispersion {
    last: Option<Mark>,
    /// Packets of the present acknowledgement that left together with the last mark, and their bytes.
    packets: u64,
    bytes: u64,
    samples: [u64; SAMPLES],
    taken: u32,
    median: Option<u64>,
}

impl Default for Dispersion {
    fn default() -> Self {
        Self { last: None, packets: 0, bytes: 0, samples: [0; SAMPLES], taken: 0, median: None }
    }
}

impl Dispersion {
    /// A packet is newly acknowledged. Follow up with [`on_ack`](Self::on_ack).
    pub(super) fn on_delivered(&mut self, number: u64, sent_at: Mono, bytes: u64) {
        if self.last.is_some_and(|last| number > last.number && sent_at == last.sent_at) {
            self.packets += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// The acknowledgement ends: the newest packet in it arrived at `arrival` by the peer's clock.
    pub(super) fn on_ack(&mut self, number: u64, sent_at: Mono, arrival: Duration) {
        let (packets, bytes) = (core::mem::take(&mut self.packets), core::mem::take(&mut self.bytes));
        let last = self.last.replace(Mark { number, sent_at, arrival });
        let Some(last) = last.filter(|last| last.sent_at == sent_at) else { return };
        let gap = nanos(arrival).saturating_sub(nanos(last.arrival));
        // If one of them is missing or was acknowledged before, the gap covers more bytes than are known.
        if gap > 0 && packets > 0 && number.checked_sub(last.number) == Some(packets) {
            self.take(mul_div(bytes, SECOND, gap));
        }
    }

    fn take(&mut self, rate: u64) {
        let at = usize::try_from(self.taken).unwrap_or(usize::MAX) % SAMPLES;
        if let Some(sample) = self.samples.get_mut(at) {
            *sample = rate;
        }
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(EVERY) {
            let known = usize::try_from(self.taken).unwrap_or(usize::MAX).min(SAMPLES);
            let mut samples = self.samples;
            let known = samples.get_mut(..known).unwrap_or_default();
            known.sort_unstable();
            self.median = known.get(known.len() / 2).copied();
        }
    }

    /// Bytes per second, once there are enough samples.
    pub(super) fn rate(&self) -> Option<u64> {
        self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// An acknowledgement of `numbers`, all sent at `sent_at`; the last of them arrived at `arrival`.
    fn ack(it: &mut Dispersion, numbers: core::ops::Range<u64>, sent_at: u64, arrival: u64) {
        for number in numbers.clone().rev() {
            it.on_delivered(number, Mono(sent_at), 1_000);
        }
        it.on_ack(numbers.end - 1, Mono(sent_at), micros(arrival));
    }

    #[test]
    fn packets_of_one_train_tell_the_rate() {
        let mut it = Dispersion::default();
        for i in 0..40 {
            ack(&mut it, 2 * i..2 * i + 2, 0, 500 + 160 * i);
        }
        assert_eq!(it.rate(), Some(12_500_000));
    }

    #[test]
    fn trains_and_holes_tell_nothing() {
        let mut it = Dispersion::default();
        for i in 0..40 {
            ack(&mut it, 2 * i..2 * i + 2, i, 500 + 160 * i);
        }
        assert_eq!(it.rate(), None, "each left by itself");
        for i in 0..40 {
            ack(&mut it, 100 + 2 * i..101 + 2 * i, 99, 9_000 + 160 * i);
        }
        assert_eq!(it.rate(), None, "every other one is missing");
        for i in 0..40 {
            ack(&mut it, 200 + 2 * i..202 + 2 * i, 200, 90_000);
        }
        assert_eq!(it.rate(), None, "taken in a batch");
    }

    #[test]
    fn a_few_wrong_gaps_do_not_move_the_median() {
        let mut it = Dispersion::default();
        for i in 0..40 {
            ack(&mut it, 2 * i..2 * i + 2, 0, 500 + 160 * i + if i % 5 == 0 { 100 } else { 0 });
        }
        assert_eq!(it.rate(), Some(12_500_000));
    }
}
