//! The only source of randomness.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A random generator that a seed determines.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Dice with the same results for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Makes separate dice for the object that `labels` name. Their results do not depend on other dice.
    pub fn derived(seed: u64, labels: &[u64]) -> Self {
        // The finalizer of SplitMix64, after each label, so that labels in another order give other dice.
        let mix = |state: u64, label: &u64| {
            let z = (state ^ label).wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self::new(labels.iter().fold(seed, mix))
    }

    /// A number below `n`; zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.0.next_u64() % n }
    }

    /// A number in `least..=most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below((most + 1).saturating_sub(least))
    }

    /// A random duration from `least`, which must not be zero, to `most`. Every factor of two is equally likely.
    pub fn span(&mut self, least: Duration, most: Duration) -> Duration {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let (least, most) = (nanos(least).max(1), nanos(most));
        let octave = least << self.below(u64::from((most / least).max(1).ilog2()) + 1);
        Duration::from_nanos((octave + self.below(octave)).min(most))
    }

    /// One of `these`. None: there are none.
    pub fn pick<T: Copy>(&mut self, these: &[T]) -> Option<T> {
        let at = usize::try_from(self.below(these.len() as u64)).ok()?;
        these.get(at).copied()
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // 53 bits: every multiple of 2^-53 in [0, 1).
        #[allow(clippy::cast_precision_loss)]
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
