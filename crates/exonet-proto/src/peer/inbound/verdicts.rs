//! The application's verdicts on messages whose slots are not used up, and how often each message was handed out.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::Slot;
use crate::journal::Position;
use crate::message::Verdict;

/// The most VERDICTs that are owed at once. A token that finds no room is probed again.
const MAX_OWED: usize = 32;

/// The verdicts under a record, and the attempts at messages that are still open.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// Each verdict may be told once the journal is safe up to its position.
    said: BTreeMap<Slot, (Position, Verdict)>,
    owed: VecDeque<Slot>,
    /// Slots whose VERDICT has not arrived, as far as this node knows.
    untold: BTreeSet<Slot>,
    /// How many times each message that came back was handed out.
    attempts: BTreeMap<Slot, u32>,
    /// A former life may have handed out any message below this slot.
    recovered: Slot,
}

impl Verdicts {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The sender has passed everything below `l`.
    pub(super) fn pass(&mut self, l: Slot) {
        if !self.said.is_empty() {
            self.said = self.said.split_off(&l);
            self.owed.retain(|s| *s >= l);
            self.untold = self.untold.split_off(&l);
        }
        if !self.attempts.is_empty() {
            self.attempts = self.attempts.split_off(&l);
        }
    }

    /// The record is that of a former life, which may have handed out any message below `hi`.
    pub(crate) fn recover(
        &mut self,
        hi: Slot,
        said: impl IntoIterator<Item = (Slot, Verdict)>,
        attempts: &BTreeMap<Slot, u32>,
    ) {
        self.recovered = hi;
        self.said = said.into_iter().map(|(s, verdict)| (s, (Position(0), verdict))).collect();
        self.untold = self.said.keys().copied().collect();
        self.attempts.clone_from(attempts);
    }

    /// The number of the next attempt at the message in `s`: the first is 1.
    pub(crate) fn next_attempt(&self, s: Slot) -> u32 {
        let before = self.attempts.get(&s).copied().unwrap_or(u32::from(s < self.recovered));
        before.saturating_add(1)
    }

    /// The message in `s` has come back.
    pub(crate) fn came_back(&mut self, s: Slot) {
        let attempt = self.next_attempt(s);
        self.attempts.insert(s, attempt);
    }

    /// These messages will not come back.
    pub(super) fn are_over(&mut self, run: Range<u64>) {
        if !self.attempts.is_empty() {
            self.attempts.retain(|s, _| !run.contains(&s.0));
        }
    }

    pub(crate) fn say(&mut self, s: Slot, at: Position, verdict: Verdict) {
        self.are_over(s.0..s.0 + 1);
        self.said.insert(s, (at, verdict));
        self.untold.insert(s);
        self.owe(s);
    }

    /// The verdict on the message in `s` has to be told (again), if there is one.
    pub(crate) fn owe(&mut self, s: Slot) {
        if self.owed.len() < MAX_OWED && self.said.contains_key(&s) && !self.owed.contains(&s) {
            self.owed.push_back(s);
        }
    }

    /// The VERDICT on the message in `s` has arrived.
    pub(crate) fn told(&mut self, s: Slot) {
        self.untold.remove(&s);
    }

    /// Whether the sender may not have heard some verdict.
    pub(crate) fn are_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Whether any verdict could be told now.
    pub(crate) fn owes(&self, safe: impl Fn(Position) -> bool) -> bool {
        self.owed.iter().any(|s| self.said.get(s).is_some_and(|(at, _)| safe(*at)))
    }

    /// The next verdict to tell.
    pub(crate) fn next(&mut self, safe: impl Fn(Position) -> bool) -> Option<(Slot, &Verdict)> {
        let at = self.owed.iter().position(|s| self.said.get(s).is_some_and(|(at, _)| safe(*at)))?;
        let s = self.owed.remove(at)?;
        self.said.get(&s).map(|(_, verdict)| (s, verdict))
    }

    pub(crate) fn said(&self) -> impl Iterator<Item = (Slot, &Verdict)> {
        self.said.iter().map(|(s, (_, verdict))| (*s, verdict))
    }

    pub(crate) fn attempts(&self) -> impl Iterator<Item = (Slot, u32)> + '_ {
        self.attempts.iter().map(|(s, attempts)| (*s, *attempts))
    }

    /// How many verdicts are kept.
    pub(crate) fn len(&self) -> usize {
        self.said.len()
    }

    /// Whether some verdicts wait for the journal.
    pub(crate) fn wait(&self, safe: impl Fn(Position) -> bool) -> bool {
        self.owed.iter().any(|s| self.said.get(s).is_some_and(|(at, _)| !safe(*at)))
    }
}
