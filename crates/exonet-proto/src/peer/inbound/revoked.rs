//! The withdrawn messages of which the sender of a record has to be told.

use core::ops::Range;
use std::collections::VecDeque;

use crate::half::Receiver;
use crate::journal::Position;

/// The most WITHDRAWNs that are owed at once. A sender that finds no room asks again.
const MAX_OWED: usize = 32;

/// The withdrawn messages that the sender has asked about, and the journal position of the last withdrawal.
#[derive(Debug, Default)]
pub(crate) struct Revoked {
    /// Each run may be told once the journal is safe up to its position.
    owed: VecDeque<(Position, Range<u64>)>,
    /// The last withdrawal is in the journal before this position.
    last: Position,
}

impl Revoked {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Messages were withdrawn. The journal has that before `at`.
    pub(crate) fn withdrew(&mut self, at: Position) {
        self.last = self.last.max(at);
    }

    /// The sender asks about the messages of `run`, which fits into a frame. It is told which of them are withdrawn.
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

    /// Whether any of the runs could be told now.
    pub(crate) fn owes(&self, safe: impl Fn(Position) -> bool) -> bool {
        self.owed.iter().any(|(at, _)| safe(*at))
    }

    /// The next run to tell.
    pub(crate) fn next(&mut self, safe: impl Fn(Position) -> bool) -> Option<Range<u64>> {
        let at = self.owed.iter().position(|(at, _)| safe(*at))?;
        self.owed.remove(at).map(|(_, run)| run)
    }

    /// Whether some runs wait for the journal.
    pub(crate) fn waits(&self, safe: impl Fn(Position) -> bool) -> bool {
        self.owed.iter().any(|(at, _)| !safe(*at))
    }
}
