//! How much a path loses, and the presumed cause.

use core::time::Duration;

/// The share of lost packets from which the loss of a path matters.
const LOSSY: f64 = 0.003;
/// How many packets this share is averaged over.
const MEMORY: f64 = 200.0;
/// A greater share of about the last eight packets may mean overload: five lost in a row, or 60 % of a dozen. With one packet in
/// five lost at random, this happens in two of a hundred cases.
const OVERLOADED: f64 = 0.45;
const RECENT: f64 = 8.0;

/// Overload fills a queue, so that packets that still arrive are late; random loss delays nothing. A packet has waited if it took
/// longer than five quarters of the least time plus this. This many such packets in a row are not jitter.
const STANDS: Duration = Duration::from_millis(1);
const DELAYED: u8 = 2;

/// The presumed cause of the loss of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Too little is lost to tell.
    Unknown,
    /// Chance: data that is sent again soon is likely to arrive.
    Chance,
    /// Overload: a link on the path, or the peer, gets more than it can take. Sending data again adds to the overload.
    Overload,
}

/// The loss of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    share: f64,
    recent: f64,
    /// Packets acknowledged and lost that these averages do not include yet.
    acked: u64,
    lost: u64,
    /// How many consecutive samples of the delay stood above the least.
    delayed: u8,
    overloaded: bool,
}

impl Loss {
    /// A packet was acknowledged whose round trip, without the queue on the way back, took `forward`. The least round trip is
    /// `least`.
    pub(super) fn on_delay(&mut self, forward: Duration, least: Duration) {
        let waited = forward > least * 5 / 4 + STANDS;
        self.delayed = if waited { self.delayed.saturating_add(1) } else { 0 };
    }

    /// A packet of the path was acknowledged.
    pub(super) fn on_acked(&mut self) {
        self.acked = self.acked.saturating_add(1);
    }

    /// A packet of the path was lost.
    pub(super) fn on_lost(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// Everything that an ACK or a timeout reports has been taken in.
    pub(super) fn conclude(&mut self) {
        let (acked, lost) = (core::mem::take(&mut self.acked), core::mem::take(&mut self.lost));
        self.on_fates(acked, lost);
    }

    /// Packets were acknowledged and lost.
    pub(super) fn on_fates(&mut self, acked: u64, lost: u64) {
        let packets = acked.saturating_add(lost) as f64;
        if packets > 0.0 {
            let share = lost as f64 / packets;
            self.share += (share - self.share) * (packets / MEMORY).min(0.5);
            self.recent += (share - self.recent) * (packets / RECENT).min(0.5);
            let (before, much) = (self.overloaded, self.recent >= OVERLOADED);
            self.overloaded = much && (before || self.delayed >= DELAYED);
            if before && !self.overloaded {
                // Losses due to overload say nothing about chance.
                self.share = 0.0;
            }
        }
    }

    /// Whether the path loses packets at a rate that matters.
    pub(super) fn is_lossy(self) -> bool {
        self.share >= LOSSY
    }

    /// Whether the sender has probably overloaded the path: many packets are lost, and the others arrive late. The state lasts until
    /// fewer packets are lost. The least delay does not end it, because that is forgotten in time.
    pub(super) fn is_overloaded(self) -> bool {
        self.overloaded
    }

    /// The presumed cause of the loss.
    pub(super) fn cause(self) -> Cause {
        if self.is_overloaded() {
            Cause::Overload
        } else if self.is_lossy() {
            Cause::Chance
        } else {
            Cause::Unknown
        }
    }

    /// Whether the path loses packets by chance, so that data that is sent again soon is likely to arrive.
    pub(super) fn is_random(self) -> bool {
        self.cause() == Cause::Chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_a_hundred_matters_until_it_is_long_ago() {
        let mut loss = Loss::default();
        assert!(!loss.is_lossy() && !loss.is_random());
        loss.on_fates(99, 1);
        assert!(loss.is_random());
        (0..100).for_each(|_| loss.on_fates(10, 0));
        assert!(!loss.is_lossy());
    }

    const MS: Duration = Duration::from_millis(1);

    /// Packets that arrive, late or in time.
    fn arrive(loss: &mut Loss, late: bool) {
        (0..2).for_each(|_| loss.on_delay(if late { 14 * MS } else { 13 * MS }, 10 * MS));
    }

    #[test]
    fn five_lost_in_a_row_with_a_queue_are_overload_until_as_many_have_arrived() {
        let mut loss = Loss::default();
        arrive(&mut loss, true);
        (0..4).for_each(|_| loss.on_fates(0, 1));
        assert_eq!(loss.cause(), Cause::Chance);
        loss.on_fates(0, 1);
        assert_eq!(loss.cause(), Cause::Overload);
        // The queue stands for so long that a shorter delay is forgotten.
        arrive(&mut loss, false);
        loss.on_fates(0, 1);
        assert_eq!(loss.cause(), Cause::Overload);
        (0..5).for_each(|_| loss.on_fates(1, 0));
        assert_eq!(loss.cause(), Cause::Unknown, "what was lost to overload says nothing of chance");
    }

    #[test]
    fn loss_without_a_queue_is_chance_however_much_it_is() {
        let mut loss = Loss::default();
        arrive(&mut loss, false);
        (0..50).for_each(|_| loss.on_fates(0, 1));
        assert_eq!(loss.cause(), Cause::Chance);
        // A single late packet shows nothing.
        loss.on_delay(50 * MS, 10 * MS);
        loss.on_fates(0, 1);
        assert_eq!(loss.cause(), Cause::Chance);
        loss.on_delay(50 * MS, 10 * MS);
        loss.on_fates(0, 1);
        assert_eq!(loss.cause(), Cause::Overload);
    }

    #[test]
    fn a_fifth_is_chance_also_with_a_queue_and_most_is_not() {
        let overloaded = |every: &[u64]| {
            let mut loss = Loss::default();
            arrive(&mut loss, true);
            (0..400)
                .filter(|i| {
                    let lost = every.get(i % every.len()).copied().unwrap_or_default();
                    loss.on_fates(1 - lost, lost);
                    loss.is_overloaded()
                })
                .count()
        };
        assert_eq!(overloaded(&[0, 0, 1, 0, 0, 0, 0, 1, 0, 0]), 0);
        assert!(overloaded(&[1, 1, 0, 1, 0]) > 200);
    }
}
