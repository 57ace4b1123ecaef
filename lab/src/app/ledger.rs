//! Which numbers have been seen.

/// A set of numbers, a bit each. What all have up to some number costs nothing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// All numbers below 64 times this have been seen.
    full: u64,
    words: std::collections::VecDeque<u64>,
}

/// Numbers this far beyond the first gap are not believed: a word for each 64 of them would have to be kept.
const SPAN: u64 = 1 << 32;

/// Whether a ledger has seen a number before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    First,
    Again,
    /// No message can have it.
    Absurd,
}

impl Ledger {
    /// Notes a number.
    pub(super) fn note(&mut self, number: u64) -> Seen {
        let Some(word) = (number / 64).checked_sub(self.full) else { return Seen::Again };
        let (Ok(index), true) = (usize::try_from(word), word < SPAN / 64) else { return Seen::Absurd };
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (number % 64);
        let Some(word) = self.words.get_mut(index) else { return Seen::Absurd };
        if *word & bit != 0 {
            return Seen::Again;
        }
        *word |= bit;
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.full += 1;
        }
        Seen::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once() {
        let (mut ledger, mut dice) = (Ledger::default(), fastrand::Rng::with_seed(1));
        let mut numbers: Vec<u64> = (0..10_000).collect();
        dice.shuffle(&mut numbers);
        assert!(numbers.iter().all(|number| ledger.note(*number) == Seen::First));
        assert!(numbers.iter().all(|number| ledger.note(*number) == Seen::Again));
        assert!(ledger.words.len() <= 1, "what is complete is not kept");
    }

    #[test]
    fn absurd_numbers_cost_no_memory() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.note(u64::MAX), Seen::Absurd);
        assert!(ledger.words.is_empty());
    }
}
