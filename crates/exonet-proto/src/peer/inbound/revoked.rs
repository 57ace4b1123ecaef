//! What the sender of a record is to be told of the messages that it has withdrawn.

use core::ops::Range;
use std::collections::VecDeque;

use crate::half::Receiver;
use crate::journal::Position;

/// WITHDRAWNs owed at once; a sender that finds no room asks again.
const MAX_OWED: usize = 32;

/// Withdrawn messages of which the sender has asked, and those that the application has.
#[derive(Debug, Default)]
pub(crate) struct Revoked {
    /// Each is told from its position in the journal on.
    owed: VecDeque<(Position, Range<u64>)>,
    /// What was withdrawn last is in the journal before this position.
    last: Position,
}

impl Revoked {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Something was withdrawn, and is in the journal before `at`.
    pub(crate) fn withdrew(&mut self, at: Position) {
        self.last = self.last.max(at);
    }

    /// The sender asks after messages of `run`, which fits into a frame: it is told of those that are withdrawn.
    pub(crate) fn owe(&mut self, record: &Receiver, run: Range<u64>) {
        for run in record.withdrawn().overlaps(run) {
            let covers = |(_, owed): &(Position, Range<u64>)| owed.start <= run.start && run.end <= owed.end;
            if self.owed.len() == MAX_OWED {
                return;
            }
            if !self.owed.iter().any(covers) {
                self.owed.push_back((self.last, run));
            }
        }
    }

    /// Whether any could be told now.
    pub(crate) fn owes(&self, safe: impl Fn(Position) -> bool) -> bool {
        self.owed.iter().any(|(at, _)| safe(*at))
    }

    /// The next to be told.
    pub(crate) fn next(&mut self, safe: impl Fn(Position) -> bool) -> Option<Range<u64>> {
        let at = self.owed.iter().position(|(at, _)| safe(*at))?;
        self.owed.remove(at).map(|(_, run)| run)
    }

    /// Some wait for the journal.
    pub(crate) fn waits(&self, safe: impl Fn(Position) -> bool) -> bool {
        self.owed.iter().any(|(at, _)| !safe(*at))
    }
}
