//! What really happened to every message: the oracle of the random world.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// What the sending application was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    Unknown,
    /// It was withdrawn.
    Cancelled,
    /// Its node forgot it in a crash, or gave it up: the outcome is unknown, and no node holds it any more.
    LetGo,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Letter {
    pub(super) from: usize,
    pub(super) to: usize,
    delivered: bool,
    pub(super) outcome: Option<Outcome>,
}

/// Invariants D, E and F: no number is used twice, no message is delivered twice, and every report is true.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) letters: Vec<Letter>,
    bound: BTreeMap<(usize, usize, Slot), usize>,
    born: BTreeSet<(usize, Incarnation)>,
}

pub(super) type Checked = Result<(), String>;

pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Ledger {
    pub(super) fn send(&mut self, from: usize, to: usize) -> usize {
        let (delivered, outcome) = (false, None);
        self.letters.push(Letter { from, to, delivered, outcome });
        self.letters.len() - 1
    }

    /// **D**: a number names at most one message, across crashes.
    pub(super) fn bind(&mut self, m: usize, s: Slot) -> Checked {
        let Letter { from, to, .. } = self.letters[m];
        let before = self.bound.insert((from, to, s), m);
        ensure(before.is_none(), || format!("D: {from}->{to} {s:?} twice: {before:?}, {m}"))
    }

    /// An incarnation names one record.
    pub(super) fn born(&mut self, node: usize, r: Incarnation) -> Checked {
        ensure(self.born.insert((node, r)), || format!("node {node} hands out {r:?} twice"))
    }

    /// **E**: a message is delivered at most once, and only to its destination.
    pub(super) fn deliver(&mut self, to: usize, m: usize) -> Checked {
        let letter = &mut self.letters[m];
        ensure(letter.to == to && !letter.delivered, || format!("E: {m} delivered again at {to}"))?;
        let cancelled = letter.outcome == Some(Outcome::Cancelled);
        ensure(!cancelled, || format!("F: {m} is delivered at {to}, and was called Cancelled"))?;
        letter.delivered = true;
        Ok(())
    }

    /// **F**: Delivered means delivered; and each message has one outcome.
    pub(super) fn settle(&mut self, m: usize, outcome: Outcome) -> Checked {
        let letter = &mut self.letters[m];
        ensure(letter.outcome.is_none(), || format!("{m} settled twice"))?;
        letter.outcome = Some(outcome);
        let cancelled = outcome == Outcome::Cancelled;
        ensure(!cancelled || !letter.delivered, || format!("F: {m} was delivered, and is called Cancelled"))?;
        ensure(outcome != Outcome::Delivered || letter.delivered, || format!("F: {m} was never delivered"))
    }

    /// A message that a closed record has not taken has no outcome yet, and was not delivered.
    pub(super) fn take_back(&self, m: usize) -> Checked {
        let letter = &self.letters[m];
        ensure(letter.outcome.is_none() && !letter.delivered, || {
            format!("F: {m} comes back, and was delivered")
        })
    }

    pub(super) fn is_open(&self, m: usize) -> bool {
        self.letters[m].outcome.is_none()
    }

    pub(super) fn is_delivered(&self, m: usize) -> bool {
        self.letters[m].delivered
    }

    pub(super) fn all_settled(&self) -> bool {
        self.letters.iter().all(|letter| letter.outcome.is_some())
    }
}
