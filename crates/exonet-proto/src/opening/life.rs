//! The lives of a stored identity: each start is one. A life names its channels so that later lives can tell which life chose an
//! index, and can tell only the peers of those channels.

use crate::crypto::{ResetKey, SecretKey, Shuffle};
use crate::wire::{ChannelIndex, RESET_TOKEN, ResetToken};

/// How many bits of an index tell in which life it was chosen.
const LIFE_BITS: u32 = 2;
/// How many lives these bits distinguish.
const LIVES: u32 = 1 << LIFE_BITS;
/// How many of these are lives before the present one.
const FORMER: usize = (1 << LIFE_BITS) - 1;

/// This life of a node, and the three before it.
#[derive(Debug)]
pub(crate) struct Life {
    number: u64,
    key: ResetKey,
    /// The keys of the former lives, the latest first, as far as there were any.
    former: [Option<ResetKey>; FORMER],
    shuffle: Shuffle,
    /// How many indices were chosen so far.
    chosen: u32,
}

impl Life {
    /// Life `number`, which is above that of every earlier start.
    pub(crate) fn new(secret: &SecretKey, number: u64, seed: &[u8; 32]) -> Self {
        let mut back = 0;
        let former = [(); FORMER].map(|()| {
            back += 1;
            number.checked_sub(back).filter(|former| *former > 0).map(|former| ResetKey::new(secret, former))
        });
        Self { number, key: ResetKey::new(secret, number), former, shuffle: Shuffle::new(seed), chosen: 0 }
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// An index that this life has not chosen before. Once all are used up, the following indices are based on `random`: they may
    /// repeat, and have no token.
    pub(crate) fn index(&mut self, random: u32) -> ChannelIndex {
        let name =
            if self.is_used_up() { random & (Shuffle::SIZE - 1) } else { self.shuffle.of(self.chosen) };
        self.chosen = self.chosen.saturating_add(1).min(Shuffle::SIZE + 1);
        ChannelIndex(name << LIFE_BITS | bits(self.number))
    }

    /// The token that a RESET bears to say that this index, just chosen, has lost its meaning.
    pub(crate) fn token(&self, index: ChannelIndex) -> Option<ResetToken> {
        (self.chosen <= Shuffle::SIZE).then(|| ResetToken(self.key.token(index.0)))
    }

    /// The token of an index that a former life has chosen. None if this life may have chosen it: a token of this life is never
    /// shown, so that its indices in use stay unknown.
    pub(crate) fn former_token(&self, index: ChannelIndex) -> Option<[u8; RESET_TOKEN]> {
        let back = bits(self.number).wrapping_sub(index.0) & (LIVES - 1);
        let key = self.former.get(usize::try_from(back.checked_sub(1)?).ok()?)?.as_ref()?;
        Some(key.token(index.0))
    }

    fn is_used_up(&self) -> bool {
        self.chosen >= Shuffle::SIZE
    }
}

/// The number of the life as an index shows it.
fn bits(life: u64) -> u32 {
    u32::try_from(life % u64::from(LIVES)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn life(number: u64) -> Life {
        Life::new(&SecretKey::from_bytes([7; 32]), number, &[9; 32])
    }

    #[test]
    fn indices_of_a_life_differ_and_bear_its_number() {
        let mut life = life(6);
        let all: BTreeSet<_> = (0..1_000).map(|_| life.index(0)).collect();
        assert_eq!(all.len(), 1_000);
        assert!(all.iter().all(|index| index.0 & 3 == 2));
    }

    #[test]
    fn the_three_lives_before_are_spoken_for() {
        for number in 1..10 {
            let mut then = life(number);
            let index = then.index(0);
            let token = then.token(index).unwrap().0;
            for later in 1..=3 {
                assert_eq!(life(number + later).former_token(index), Some(token));
            }
            assert_eq!(
                life(number).former_token(index),
                None,
                "a token of a life that goes on is never shown"
            );
            assert_ne!(life(number + 4).former_token(index), Some(token), "the fourth takes it for its own");
        }
    }

    #[test]
    fn a_life_that_never_was_is_not_spoken_for() {
        for back in 1..4_u32 {
            assert_eq!(life(1).former_token(ChannelIndex(1_u32.wrapping_sub(back))), None);
        }
    }

    #[test]
    fn an_index_that_may_repeat_has_no_token() {
        let mut life = life(1);
        life.chosen = Shuffle::SIZE - 1;
        let last = life.index(0);
        assert!(life.token(last).is_some());
        let again = life.index(0xffff_ffff);
        assert_eq!((again.0 & 3, life.token(again)), (1, None));
        let later = life.index(0);
        assert_eq!(life.token(later), None);
    }
}
