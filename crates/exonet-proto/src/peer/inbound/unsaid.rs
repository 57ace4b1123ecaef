//! What a STATE must not say yet, because a crash could still undo it.

use core::ops::Range;
use std::collections::VecDeque;

use crate::half::{IntervalSet, Receiver, Taken};
use crate::id::{Incarnation, Slot, Stamp};
use crate::journal::Position;

/// A receiver record as it was last journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) r: Incarnation,
    pub(crate) hi: Slot,
    pub(crate) ets: Stamp,
    pub(crate) taken: Option<Taken>,
    pub(crate) closed: bool,
}

impl Said {
    pub(crate) fn of(record: &Receiver) -> Self {
        let (hi, ..) = record.parts();
        let (ets, taken) = (record.stamp(), record.taken());
        Self { r: record.incarnation(), hi, ets, taken, closed: record.is_closed() }
    }
}

/// Changes of a receiver record that are journaled and not yet safe, and the record as the journal has it.
#[derive(Debug, Default)]
pub(crate) struct Unsaid {
    pub(crate) journaled: Option<Said>,
    /// Slots that were used up.
    taken: VecDeque<(Position, Range<u64>)>,
    /// Where each grant began that reached further than all before it.
    grown: VecDeque<(Position, Slot)>,
    /// The record is another one, gone or closed: no STATE leaves until that is safe.
    mute: Option<Position>,
}

impl Unsaid {
    /// The slots of `run` were used up.
    pub(crate) fn take(&mut self, at: Position, run: Range<u64>) {
        self.taken.push_back((at, run));
    }

    /// Slots from `hi` on were granted.
    pub(crate) fn grow(&mut self, at: Position, hi: Slot) {
        self.grown.push_back((at, hi));
    }

    /// The record is another one than before, or is gone or closed.
    pub(crate) fn replace(&mut self, at: Position) {
        self.taken.clear();
        self.grown.clear();
        self.mute = Some(at);
    }

    /// Whether no STATE may leave.
    pub(crate) const fn is_mute(&self) -> bool {
        self.mute.is_some()
    }

    /// Whether a STATE says everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.grown.is_empty() && self.mute.is_none()
    }

    /// The journal is safe up to a later position. True: a STATE can say more.
    pub(crate) fn on_safe(&mut self, safe: impl Fn(Position) -> bool) -> bool {
        let before = (self.taken.len(), self.grown.len(), self.mute);
        while self.taken.front().is_some_and(|(at, _)| safe(*at)) {
            self.taken.pop_front();
        }
        while self.grown.front().is_some_and(|(at, _)| safe(*at)) {
            self.grown.pop_front();
        }
        self.mute = self.mute.filter(|at| !safe(*at));
        (self.taken.len(), self.grown.len(), self.mute) != before
    }

    /// How far grants that reach `hi` are safe.
    pub(crate) fn hi(&self, hi: Slot) -> Slot {
        self.grown.front().map_or(hi, |(_, from)| hi.min(*from))
    }

    /// The slots that count as free, including those whose use is not safe.
    pub(crate) fn free(&self, free: &IntervalSet) -> Option<IntervalSet> {
        if self.taken.is_empty() {
            return None;
        }
        let mut all = free.clone();
        self.taken.iter().for_each(|(_, run)| all.insert(run.clone()));
        Some(all)
    }
}
