//! A set of small numbers: which of the datagrams known to the search a network holds.

/// At most 64 times this many datagrams.
const WORDS: usize = 16;

/// A set of numbers below [`Bits::CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits([u64; WORDS]);

impl Bits {
    pub(crate) const CAPACITY: usize = WORDS * 64;

    /// Adds `x`, which is below the capacity.
    pub(crate) fn insert(&mut self, x: usize) {
        self.0[x / 64] |= 1 << (x % 64);
    }

    pub(crate) fn contains(&self, x: usize) -> bool {
        self.0[x / 64] >> (x % 64) & 1 == 1
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    /// The numbers that are in both.
    pub(crate) fn common(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The numbers that are here and not in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The members, rising.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    i * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_set() {
        let (mut one, mut two) = (Bits::default(), Bits::default());
        for x in [0, 63, 64, 200, Bits::CAPACITY - 1] {
            assert!(!one.contains(x));
            one.insert(x);
        }
        two.insert(64);
        assert_eq!(one.iter().collect::<Vec<_>>(), [0, 63, 64, 200, Bits::CAPACITY - 1]);
        assert!(two.is_subset(&one) && !one.is_subset(&two) && one.common(&two) == two);
        two.insert(65);
        assert!(!two.is_subset(&one) && two.is_subset(&one.union(&two)));
        assert_eq!(one.without(&two).iter().collect::<Vec<_>>(), [0, 63, 200, Bits::CAPACITY - 1]);
        assert!(Bits::default().is_subset(&two));
    }
}
