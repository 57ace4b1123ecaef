//! Whose turn it is among the lanes of one priority: deficit round robin, a packet each.

use std::collections::{BTreeMap, VecDeque};

use super::MessageKey;
use super::lane::LaneKey;

/// Buffers of lines that ended, for others that begin.
const SPARE: usize = 16;

/// A packet has room for as much at least.
const LEAST: i64 = 1_024;

/// A lane owes no more: a scheduler of the application's own may let one send what it likes, and what it owes is forgotten turn by
/// turn. Without such a scheduler a lane owes less than two messages of 64 KiB.
const MOST_OWED: i64 = 256 << 10;

/// What waits in a lane, in the order of queueing.
pub(super) type Line = VecDeque<MessageKey>;

/// The lines of a priority but for the one whose turn it is, which stands in its flow of the queue. Where there is no such
/// line, no other has anything to send now.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Whose turn it is.
    current: LaneKey,
    /// What it may send before the next has its turn. Of no meaning while it is alone.
    deficit: i64,
    others: BTreeMap<LaneKey, Other>,
    /// In which order they follow. A line that has been emptied stays until it is its turn.
    turns: VecDeque<LaneKey>,
    /// Messages of the others.
    entries: usize,
    spare: Vec<Line>,
}

#[derive(Debug, Default)]
struct Other {
    line: Line,
    deficit: i64,
    /// Its window has no room: it does not stand in `turns`.
    parked: bool,
}

impl Lines {
    /// The line that a message of `lane` stands in, made if there is none. `front` is the one whose turn it is.
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

    /// So many messages have come to the line of `lane`, or left it.
    pub(super) fn count(&mut self, lane: LaneKey, change: isize) {
        if self.others.contains_key(&lane) {
            self.entries = self.entries.saturating_add_signed(change);
        }
    }

    /// Messages that stand in no flow.
    pub(super) const fn entries(&self) -> usize {
        self.entries
    }

    pub(super) fn others(&self) -> impl Iterator<Item = MessageKey> {
        self.others.values().flat_map(|other| &other.line).copied()
    }

    pub(super) fn others_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.others.values_mut().map(|other| &mut other.line)
    }

    /// Lines were looked through, and what had been taken out of them is gone.
    pub(super) fn recount(&mut self) {
        self.entries = self.others.values().map(|other| other.line.len()).sum();
    }

    pub(super) fn charge(&mut self, bytes: i64) {
        if !self.turns.is_empty() {
            self.deficit = self.deficit.saturating_sub(bytes).max(-MOST_OWED);
        }
    }

    /// Another lane has something to send now.
    pub(super) fn has_more(&self) -> bool {
        !self.turns.is_empty()
    }

    /// What the lane whose turn it is may send before another has its turn.
    pub(super) fn left(&self) -> i64 {
        if self.turns.is_empty() { i64::MAX } else { self.deficit }
    }

    /// Another lane has its turn before this one goes on.
    pub(super) fn is_spent(&self) -> bool {
        self.deficit <= 0 && !self.turns.is_empty()
    }

    /// The line in `front` ends, or its lane waits: the next has its turn.
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

    /// The lane has its turn, if it has something to send and is not parked: the other goes behind all.
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

    /// What is at the front of each other line that is not parked, in the order of their turns.
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

    /// Lines that were emptied while they were parked.
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
