//! The one source of chance.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A generator that a seed determines.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `n`; zero if `n` is.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.0.next_u64() % n }
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        // 53 bits: every double in [0, 1) that has that many.
        #[allow(clippy::cast_precision_loss)]
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < p
    }

    /// Fresh bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
