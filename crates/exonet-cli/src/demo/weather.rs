//! The faults of the network. A seed decides them, so that a run can be repeated.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The faults of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Odds {
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) reordering: f64,
    pub(crate) corruption: f64,
    pub(crate) delay: Duration,
}

/// One copy of a datagram on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fate {
    /// How long after now it arrives.
    pub(crate) after: Duration,
    /// The position of the bit that is flipped, as a share of the datagram's bits.
    pub(crate) flip: Option<f64>,
}

/// One direction of a line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    odds: Odds,
    dice: ChaCha8Rng,
}

impl Line {
    /// Two lines with the same `seed` and `direction` treat the n-th datagram in the same way.
    pub(crate) fn new(odds: Odds, seed: u64, direction: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        dice.set_stream(direction);
        Self { odds, dice }
    }

    /// The fate of the next datagram: none, one or two copies of it arrive.
    pub(crate) fn next(&mut self) -> [Option<Fate>; 2] {
        // Each datagram takes the same number of random numbers, so the loss of one does not change the fate of the
        // next.
        let [lost, doubled] = self.dice.random::<[f64; 2]>();
        let copies = [self.copy(), self.copy()];
        let [first, second] = copies;
        if lost < self.odds.loss {
            [None, None]
        } else {
            [Some(first), (doubled < self.odds.duplication).then_some(second)]
        }
    }

    fn copy(&mut self) -> Fate {
        let [held, how_long, jitter, harmed, place] = self.dice.random::<[f64; 5]>();
        let Odds { delay, .. } = self.odds;
        // Jitter of up to a fifth separates neighbours in time. Many other datagrams overtake one that is held back.
        let mut after = delay.mul_f64(1.0 + jitter / 5.0);
        if held < self.odds.reordering {
            after += delay.mul_f64(1.0 + 2.0 * how_long);
        }
        Fate { after, flip: (harmed < self.odds.corruption).then_some(place) }
    }
}

/// Flips the bit at `place` of a datagram.
pub(crate) fn flip(datagram: &mut [u8], place: f64) {
    let len = u64::try_from(datagram.len()).unwrap_or(u64::MAX);
    let bits = crate::units::precise(len) * 8.0;
    let bit = crate::units::whole((place * bits).floor()).unwrap_or(0);
    let byte = usize::try_from(bit / 8).ok().and_then(|at| datagram.get_mut(at));
    if let Some(byte) = byte {
        *byte ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ODDS: Odds = Odds {
        loss: 0.05,
        duplication: 0.02,
        reordering: 0.05,
        corruption: 0.005,
        delay: Duration::from_millis(10),
    };

    fn fates(odds: Odds, seed: u64, direction: u64) -> Vec<[Option<Fate>; 2]> {
        let mut line = Line::new(odds, seed, direction);
        (0..20_000).map(|_| line.next()).collect()
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(fates(ODDS, 1, 0), fates(ODDS, 1, 0));
        assert_ne!(fates(ODDS, 1, 0), fates(ODDS, 2, 0));
        assert_ne!(fates(ODDS, 1, 0), fates(ODDS, 1, 1));
    }

    #[test]
    fn shares_are_as_asked() {
        let all = fates(ODDS, 7, 0);
        let share = |count: usize| count as f64 / all.len() as f64;
        let near = |share: f64, odds: f64| (share - odds).abs() < odds / 3.0 + 0.001;
        let firsts: Vec<Fate> = all.iter().filter_map(|[first, _]| *first).collect();
        assert!(near(share(all.iter().filter(|[first, _]| first.is_none()).count()), ODDS.loss));
        assert!(near(share(all.iter().filter(|[_, second]| second.is_some()).count()), ODDS.duplication));
        assert!(near(share(firsts.iter().filter(|fate| fate.flip.is_some()).count()), ODDS.corruption));
        let late = firsts.iter().filter(|fate| fate.after >= 2 * ODDS.delay).count();
        assert!(near(share(late), ODDS.reordering));
        assert!(firsts.iter().all(|fate| (ODDS.delay..5 * ODDS.delay).contains(&fate.after)));
    }

    #[test]
    fn a_calm_network_does_nothing_but_wait() {
        let calm = Odds { loss: 0.0, duplication: 0.0, reordering: 0.0, corruption: 0.0, ..ODDS };
        for [first, second] in fates(calm, 3, 0) {
            assert!(first.is_some_and(|fate| fate.flip.is_none() && fate.after < ODDS.delay.mul_f64(1.2)));
            assert_eq!(second, None);
        }
    }

    proptest! {
        #[test]
        fn one_bit_flips(len in 1_usize..2_000, place in 0.0_f64..1.0) {
            let mut datagram = vec![0_u8; len];
            flip(&mut datagram, place);
            prop_assert_eq!(datagram.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        }
    }
}
