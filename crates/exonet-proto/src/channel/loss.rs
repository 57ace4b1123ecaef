//! What a path loses, and what that is taken to come from.

/// The share of packets that a path must lose for it to matter.
const LOSSY: f64 = 0.003;
/// Packets over which that share is averaged.
const MEMORY: f64 = 200.0;
/// A greater share of about the last eight packets is no chance: five in a row, or 60 % for a dozen. One packet in five
/// lost at random is that in two times of a hundred.
const OVERLOADED: f64 = 0.45;
const RECENT: f64 = 8.0;

/// The loss of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    share: f64,
    recent: f64,
    /// Packets acknowledged, and lost, that are not in these yet.
    acked: u64,
    lost: u64,
}

impl Loss {
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
        }
    }

    /// The path loses packets at a rate that matters.
    pub(super) fn is_lossy(self) -> bool {
        self.share >= LOSSY
    }

    /// So many are lost that sending more is likely to be the reason: whoever carries or takes them has more than it can.
    pub(super) fn is_overloaded(self) -> bool {
        self.recent >= OVERLOADED
    }

    /// The path loses packets by chance, so that what is sent again soon is likely to arrive.
    pub(super) fn is_random(self) -> bool {
        self.is_lossy() && !self.is_overloaded()
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

    #[test]
    fn five_in_a_row_are_too_much_until_as_many_have_arrived() {
        let mut loss = Loss::default();
        (0..4).for_each(|_| loss.on_fates(0, 1));
        assert!(loss.is_random());
        loss.on_fates(0, 1);
        assert!(loss.is_overloaded() && !loss.is_random());
        (0..5).for_each(|_| loss.on_fates(1, 0));
        assert!(loss.is_random());
    }

    #[test]
    fn a_fifth_is_chance_and_most_is_not() {
        let overloaded = |every: &[u64]| {
            let mut loss = Loss::default();
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
