//! Tokens by which a node that restarts can still tell about channels whose keys it has lost: they follow from its secret, and
//! only the peers of those channels were told them.

use zeroize::Zeroizing;

use super::SecretKey;
use super::hash::{derive, mac};

/// Bytes of a reset token.
pub const RESET_LEN: usize = 16;

/// Makes the tokens of one life of a node: from one start to its end.
pub struct ResetKey(Zeroizing<[u8; 32]>);

impl ResetKey {
    /// The key for life number `life` of the node with this secret.
    pub fn new(secret: &SecretKey, life: u64) -> Self {
        Self(Zeroizing::new(derive(secret.expose(), &[b"exonet reset", &life.to_be_bytes()])))
    }

    /// The token of the channel that the node named `index`.
    pub fn token(&self, index: u32) -> [u8; RESET_LEN] {
        mac(&self.0, &[&index.to_be_bytes()])
    }
}

/// Finds tokens without comparing them: a keyed hash is stored and looked up, so that the duration of a search reveals nothing
/// about a token.
pub struct ResetTags(Zeroizing<[u8; 32]>);

impl ResetTags {
    /// `seed` is fresh randomness at each start of the node.
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(Zeroizing::new(derive(seed, &[b"exonet reset tags"])))
    }

    /// The tag that stands for this token.
    pub fn tag(&self, token: &[u8; RESET_LEN]) -> [u8; RESET_LEN] {
        mac(&self.0, &[token])
    }
}

/// Bits of either half of a number that [`Shuffle`] permutes.
const HALF: u32 = 15;
/// Rounds of the Feistel network: four make a pseudo-random permutation (Luby and Rackoff, 1988).
const ROUNDS: u8 = 4;

/// A keyed permutation of the numbers below 2^30. Applied to a counter, it gives numbers that repeat no sooner than the counter
/// does, and that cannot be predicted.
pub struct Shuffle(Zeroizing<[u8; 32]>);

impl Shuffle {
    /// How many numbers are permuted.
    pub const SIZE: u32 = 1 << (2 * HALF);

    /// `seed` is fresh randomness at each start of the node.
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(Zeroizing::new(derive(seed, &[b"exonet indices"])))
    }

    /// The number to which `n`, which is below [`Shuffle::SIZE`], is mapped.
    pub fn of(&self, n: u32) -> u32 {
        const MASK: u32 = (1 << HALF) - 1;
        let (mut left, mut right) = (n >> HALF & MASK, n & MASK);
        for round in 0..ROUNDS {
            let [a, b, ..] = mac(&self.0, &[&[round], &right.to_be_bytes()]);
            let mixed = left ^ u32::from(u16::from_be_bytes([a, b])) & MASK;
            (left, right) = (right, mixed);
        }
        left << HALF | right
    }
}

macro_rules! hidden {
    ($($name:ident)*) => {$(
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )*};
}

hidden!(ResetKey ResetTags Shuffle);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::crypto::hex;

    #[test]
    fn token_bytes_are_fixed_by_the_protocol() {
        let key = ResetKey::new(&SecretKey::from_bytes([7; 32]), 5);
        assert_eq!(hex::encode(&key.token(0x0bad_f00d)), "7ab14aa5257b14f5591cff5424c856ba");
    }

    #[test]
    fn a_token_is_of_one_secret_one_life_and_one_index() {
        let mut tokens = BTreeSet::new();
        for secret in [1, 2].map(|byte| SecretKey::from_bytes([byte; 32])) {
            for key in (1..4).map(|life| ResetKey::new(&secret, life)) {
                tokens.extend((0..4).map(|index| key.token(index)));
            }
        }
        assert_eq!(tokens.len(), 24);
    }

    #[test]
    fn a_shuffle_gives_every_number_once_and_follows_its_seed() {
        let shuffle = Shuffle::new(&[1; 32]);
        // A function that is invertible round by round is a permutation; numbers that lie close together show it best.
        let first: BTreeSet<u32> = (0..20_000).map(|n| shuffle.of(n)).collect();
        assert_eq!(first.len(), 20_000);
        assert!(first.iter().all(|n| *n < Shuffle::SIZE));
        let in_order = (0..1_000).filter(|n| shuffle.of(*n) < shuffle.of(n + 1)).count();
        assert!(
            (400..600).contains(&in_order),
            "{in_order} of 1,000 rise: the next can be told from the last"
        );
        assert_ne!(shuffle.of(0), Shuffle::new(&[2; 32]).of(0));
    }
}
