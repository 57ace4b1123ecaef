//! The turns of the lanes of one priority: deficit round robin, one packet each.

use std::collections::{BTreeMap, VecDeque};

use super::MessageKey;
use super::lane::LaneKey;

/// How many buffers of lines that have ended are kept for new lines.
const SPARE: usize = 16;

/// The least that a packet has room for.
const LEAST: i64 = 1_024;

/// The most that a lane may owe. An application's own scheduler may let a lane send any amount, and the lane's debt is paid off
/// turn by turn. Without such a scheduler, a lane owes less than two messages of 64 KiB.
const MOST_OWED: i64 = 256 << 10;

/// The messages that wait in a lane, in the order of queueing.
pub(super) type Line = VecDeque<MessageKey>;

/// The lines of a priority, except the line whose turn it is: that one is the flow of the queue itself. If the flow is empty, no
/// other line has anything to send now.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The lane whose turn it is.
    current: LaneKey,
    /// How much this lane may send before the next lane has its turn. Meaningless while it is alone.
    deficit: i64,
    others: BTreeMap<LaneKey, Other>,
    /// The order of their turns. A line that has been emptied stays until its turn.
    turns: VecDeque<LaneKey>,
    /// The number of messages in the other lines.
    entries: usize,
    spare: Vec<Line>,
}

#[derive(Debug, Default)]
struct Other {
    line: Line,
    deficit: i64,
    /// The window of the lane has no room: the lane is not in `turns`.
    parked: bool,
}

impl Lines {
    /// The line for a message of `lane`, created if there is none. `front` is the line whose turn it is.
    pub(super) fn line<'a>(&'a mut self, front: &'a mut Line, lane: LaneKey) -> &'a mut Line {
        let known = self.others.contains_key(&lane);
        if !known && front.is_empty() {
            (self.current, self.deficit) = (lane, LEAST);
        }
        if !known && self.current == lane {
            return front;
        }
        let (turns, spare) = (&mut self.turns, &mut self.spare);
        let other = self.others.entry(lane).or_insert_with(|| {
            turns.push_back(lane);
            Other { line: spare.pop().unwrap_or_default(), ..Other::default() }
        });
        &mut other.line
    }

    /// `change` messages have come to the line of `lane`, or left it if negative.
    pub(super) fn count(&mut self, lane: LaneKey, change: isize) {
        if self.others.contains_key(&lane) {
            self.entries = self.entries.saturating_add_signed(change);
        }
    }

    /// How many messages are in these lines, not in the flow.
    pub(super) const fn entries(&self) -> usize {
        self.entries
    }

    pub(super) fn others(&self) -> impl Iterator<Item = MessageKey> {
        self.others.values().flat_map(|other| &other.line).copied()
    }

    pub(super) fn others_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.others.values_mut().map(|other| &mut other.line)
    }

    /// Entries that had been taken out were removed from the lines: counts the entries again.
    pub(super) fn recount(&mut self) {
        self.entries = self.others.values().map(|other| other.line.len()).sum();
    }

    pub(super) fn charge(&mut self, bytes: i64) {
        if !self.turns.is_empty() {
            self.deficit = self.deficit.saturating_sub(bytes).max(-MOST_OWED);
        }
    }

    /// Whether another lane has something to send now.
    pub(super) fn has_more(&self) -> bool {
        !self.turns.is_empty()
    }

    /// How much the lane whose turn it is may send before another lane has its turn.
    pub(super) fn left(&self) -> i64 {
        if self.turns.is_empty() { i64::MAX } else { self.deficit }
    }

    /// Whether another lane has its turn before this one goes on.
    pub(super) fn is_spent(&self) -> bool {
        self.deficit <= 0 && !self.turns.is_empty()
    }

    /// The line in `front` ends, or its lane waits: the next lane has its turn.
    pub(super) fn advance(&mut self, front: &mut Line, quantum: i64, parks: bool) {
        if !front.is_empty() {
            let (line, deficit) = (std::mem::take(front), self.deficit.min(0));
            self.entries += line.len();
            self.others.insert(self.current, Other { line, deficit, parked: parks });
            if !parks {
                self.turns.push_back(self.current);
            }
        }
        while let Some(lane) = self.turns.pop_front() {
            let Some(mut other) = self.others.remove(&lane) else { continue };
            if other.line.is_empty() {
                self.keep(other.line);
                continue;
            }
            other.deficit += quantum.max(LEAST);
            if other.deficit <= 0 {
                self.others.insert(lane, other);
                self.turns.push_back(lane);
                continue;
            }
            self.entries -= other.line.len();
            (self.current, self.deficit) = (lane, other.deficit);
            let ended = std::mem::replace(front, other.line);
            return self.keep(ended);
        }
    }

    /// Gives the lane its turn, if it has something to send and is not parked. The lane in `front` goes behind all others.
    pub(super) fn bring(&mut self, front: &mut Line, lane: LaneKey) {
        let ready = |other: &Other| !other.parked && !other.line.is_empty();
        if !self.others.get(&lane).is_some_and(ready) {
            return;
        }
        let Some(other) = self.others.remove(&lane) else { return };
        self.turns.retain(|turn| *turn != lane);
        if !front.is_empty() {
            let (line, deficit) = (std::mem::take(front), self.deficit.min(0));
            self.entries += line.len();
            self.others.insert(self.current, Other { line, deficit, parked: false });
            self.turns.push_back(self.current);
        }
        self.entries -= other.line.len();
        (self.current, self.deficit) = (lane, other.deficit);
        *front = other.line;
    }

    /// The front of each other line that is not parked, in the order of their turns.
    pub(super) fn fronts(&self) -> impl Iterator<Item = MessageKey> {
        let lines = self.turns.iter().filter_map(|lane| self.others.get(lane));
        lines.filter_map(|other| other.line.front().copied())
    }

    /// The window of a lane has room again.
    pub(super) fn wake(&mut self, front: &mut Line, lane: LaneKey, quantum: i64) {
        let Some(other) = self.others.get_mut(&lane).filter(|other| other.parked) else { return };
        other.parked = false;
        self.turns.push_back(lane);
        if front.is_empty() {
            self.advance(front, quantum, false);
        }
    }

    /// Drops a line that was emptied while it was parked.
    pub(super) fn drop_if_over(&mut self, lane: LaneKey) {
        if self.others.get(&lane).is_some_and(|other| other.parked && other.line.is_empty()) {
            self.others.remove(&lane);
        }
    }

    fn keep(&mut self, line: Line) {
        if self.spare.len() < SPARE && line.capacity() > 0 {
            self.spare.push(line);
        }
    }
}
