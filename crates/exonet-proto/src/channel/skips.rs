//! Packet numbers that are never used (RFC 9000, section 21.4).
//!
//! A peer that acknowledges packets that it did not get makes the window grow without bounds. It cannot know which numbers its
//! sender skips, so sooner or later it acknowledges one of them.

use core::ops::Range;

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// The first gap between two skipped numbers is at least this, and at most [`SPREAD`] times this: short exchanges skip none.
const LEAST: u64 = 128;
/// Each gap is drawn from twice the range of the gap before, until the least gap reaches this: a skip costs the peer an ACK and a
/// range in it.
const MOST: u64 = 1_024;
const SPREAD: u64 = 8;

/// How many skipped numbers are remembered: more than enough for all packets that may be under way.
const REMEMBERED: usize = 16;

/// Randomness that determines which numbers are skipped. A peer that knows all earlier ones cannot predict the next.
#[derive(Clone, Debug)]
pub struct SkipSeed([u8; 32]);

impl SkipSeed {
    /// The seed from which each set of keys gets its own, derived from the node's `seed`. Nothing else that the node draws
    /// depends on it.
    pub fn new(seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        rng.set_stream(1);
        let mut own = [0; 32];
        rng.fill_bytes(&mut own);
        Self(own)
    }

    /// Derives a seed that is independent of this one from now on.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let mut rng = ChaCha12Rng::from_seed(self.0);
        let mut forked = [0; 32];
        rng.fill_bytes(&mut self.0);
        rng.fill_bytes(&mut forked);
        Self(forked)
    }

    fn draw(&mut self) -> u64 {
        let mut rng = ChaCha12Rng::from_seed(self.0);
        rng.fill_bytes(&mut self.0);
        rng.next_u64()
    }
}

/// The skipped numbers of one packet number space.
#[derive(Clone, Debug)]
pub(super) struct Skips {
    /// None: no number is skipped.
    seed: Option<SkipSeed>,
    next: u64,
    least: u64,
    /// The latest skipped numbers, ascending; the rest are `u64::MAX`.
    latest: [u64; REMEMBERED],
    known: usize,
}

impl Default for Skips {
    fn default() -> Self {
        Self { seed: None, next: u64::MAX, least: LEAST, latest: [u64::MAX; REMEMBERED], known: 0 }
    }
}

impl Skips {
    /// Skips numbers as `seed` determines.
    pub(super) fn new(seed: SkipSeed) -> Self {
        let mut skips = Self { seed: Some(seed), ..Self::default() };
        skips.next = skips.gap();
        skips
    }

    /// The distance from one skipped number to the next.
    fn gap(&mut self) -> u64 {
        let Some(seed) = self.seed.as_mut() else { return u64::MAX };
        let gap = self.least + seed.draw() % ((SPREAD - 1) * self.least + 1);
        self.least = (self.least * 2).min(MOST);
        gap
    }

    /// Whether `number`, which is the next to use, is skipped.
    pub(super) fn skips(&self, number: u64) -> bool {
        number == self.next
    }

    /// The number was skipped, and the number behind it is used now.
    pub(super) fn on_skipped(&mut self) {
        if self.known == REMEMBERED {
            self.latest.rotate_left(1);
            self.known -= 1;
        }
        if let Some(place) = self.latest.get_mut(self.known) {
            *place = self.next;
            self.known += 1;
        }
        self.next = self.next.saturating_add(self.gap());
    }

    /// The first of the latest skipped numbers that lies in `range`.
    pub(super) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        let known = self.latest.get(..self.known).unwrap_or_default();
        let at = known.partition_point(|skipped| *skipped < range.start);
        known.get(at).copied().filter(|skipped| range.contains(skipped))
    }

    /// How many of the latest skipped numbers lie in `range`.
    pub(super) fn count_in(&self, range: Range<u64>) -> u64 {
        let known = self.latest.get(..self.known).unwrap_or_default();
        known.iter().filter(|skipped| range.contains(skipped)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(seed: u8, count: usize) -> Vec<u64> {
        let mut skips = Skips::new(SkipSeed::new([seed; 32]));
        (0..count)
            .map(|_| {
                let number = skips.next;
                skips.on_skipped();
                number
            })
            .collect()
    }

    #[test]
    fn gaps_grow_within_their_bounds_and_differ() {
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..=255 {
            let numbers = skipped(seed, 12);
            let mut least = LEAST;
            let mut before = 0;
            for number in numbers.iter().copied() {
                assert!((least..=SPREAD * least).contains(&(number - before)), "{seed}: {numbers:?}");
                (before, least) = (number, (least * 2).min(MOST));
            }
            firsts.extend(numbers.first().copied());
        }
        assert!(firsts.len() > 150, "256 drawn of 897: {}", firsts.len());
    }

    #[test]
    fn the_latest_are_remembered() {
        let mut skips = Skips::new(SkipSeed::new([7; 32]));
        let all = skipped(7, 40);
        all.iter().for_each(|_| skips.on_skipped());
        let latest = all.split_at(40 - REMEMBERED).1;
        for number in latest.iter().copied() {
            assert_eq!(skips.first_in(number..number + 1), Some(number));
            assert_eq!(skips.first_in(number - 100..number), None);
            assert_eq!(skips.count_in(number - 1..number + 2), 1);
        }
        assert_eq!(skips.first_in(0..u64::MAX), latest.first().copied());
        assert_eq!(skips.count_in(0..u64::MAX), REMEMBERED as u64);
    }

    #[test]
    fn forks_differ_from_each_other_and_none_skips_nothing() {
        let mut seed = SkipSeed::new([3; 32]);
        let (a, b) = (seed.fork(), seed.fork());
        assert!(a.0 != b.0 && a.0 != seed.0 && b.0 != seed.0);
        let none = Skips::default();
        assert!((0..10_000).all(|number| !none.skips(number)));
    }
}
