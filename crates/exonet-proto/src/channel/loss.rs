//! What a path loses, and what that is taken to come from.

use core::time::Duration;

/// The share of packets that a path must lose for it to matter.
const LOSSY: f64 = 0.003;
/// Packets over which that share is averaged.
const MEMORY: f64 = 200.0;
/// A greater share of about the last eight packets may be overload: five in a row, or 60 % for a dozen. One packet in five lost
/// at random is that in two times of a hundred.
const OVERLOADED: f64 = 0.45;
const RECENT: f64 = 8.0;

/// Overload fills a queue, so that what still arrives is late; chance delays nothing. A packet that took so much more than the
/// least, and a quarter, has waited; so many in a row are no jitter.
const STANDS: Duration = Duration::from_millis(1);
const DELAYED: u8 = 2;

/// What the loss of a path is taken to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Too little is lost to tell.
    Unknown,
    /// Chance: what is sent again soon is likely to arrive.
    Chance,
    /// Overload: somebody on the way, or the peer, gets more than it can take, and what is sent again adds to it.
    Overload,
}

/// The loss of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    share: f64,
    recent: f64,
    /// Packets acknowledged, and lost, that are not in these yet.
    acked: u64,
    lost: u64,
    /// Samples of the delay in a row that stood above the least.
    delayed: u8,
    overloaded: bool,
}

impl Loss {
    /// A packet was acknowledged that took `forward`, the way back without its queue; the least round trip is `least`.
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

    /// All that an ACK or a timeout tells has been taken.
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
                // What was lost to overload says nothing of chance.
                self.share = 0.0;
            }
        }
    }

    /// The path loses packets at a rate that matters.
    pub(super) fn is_lossy(self) -> bool {
        self.share >= LOSSY
    }

    /// So many are lost, and the others so late, that sending more is likely to be the reason. This lasts as long as so many are
    /// lost: what is the least delay is forgotten in time.
    pub(super) fn is_overloaded(self) -> bool {
        self.overloaded
    }

    /// What it is taken to come from.
    pub(super) fn cause(self) -> Cause {
        if self.is_overloaded() {
            Cause::Overload
        } else if self.is_lossy() {
            Cause::Chance
        } else {
            Cause::Unknown
        }
    }

    /// The path loses packets by chance, so that what is sent again soon is likely to arrive.
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

    /// Packets that arrive, and are late or not.
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
        // The queue stands for so long that nobody remembers less.
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
        // One that is late tells nothing.
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
