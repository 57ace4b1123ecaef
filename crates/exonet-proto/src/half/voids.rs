//! Messages of streams that their sender has withdrawn (PROTOCOL.md "Withdrawal"): the places that nobody waits for.
//!
//! A message keeps its place when it is withdrawn, for others may name it as the one before them. They wait for the one before it
//! instead, and it is not missing.

use core::ops::Range;
use std::collections::BTreeMap;

use bytes::Bytes;

use super::opening;
use crate::id::Slot;
use crate::wire::StreamMark;

/// The most runs that are kept. What a sender withdraws beyond is not withdrawn here.
const MAX_RUNS: usize = 1_024;

/// Withdrawn messages of the streams from one peer, by name, and then by the slot of the first of each run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Voids {
    names: BTreeMap<Bytes, BTreeMap<Slot, Void>>,
    /// How many there are.
    runs: usize,
}

/// Withdrawn messages that lie one behind the other, in slots and in their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Void {
    /// How many.
    pub len: u64,
    /// Where the first stands.
    pub mark: StreamMark,
}

impl Void {
    /// Its places in its stream.
    fn places(&self) -> Range<u64> {
        self.mark.n..self.mark.n.saturating_add(self.len)
    }
}

impl Voids {
    /// Whether more may be kept. Where there is no room, what lies below `l`, the frontier of the sender, goes: nothing waits for a
    /// slot there, and what comes later may be told that more is missing than is.
    pub fn make_room(&mut self, l: Slot) -> bool {
        if self.runs >= MAX_RUNS {
            self.keep(|s, _| s >= l);
        }
        self.runs < MAX_RUNS
    }

    /// The sender has withdrawn the message in `s`, which says `mark`, and as many as `len` says with those that follow it.
    pub fn insert(&mut self, name: &[u8], s: Slot, len: u64, mark: StreamMark) {
        if !self.names.contains_key(name) {
            self.names.insert(Bytes::copy_from_slice(name), BTreeMap::new());
        }
        let Some(runs) = self.names.get_mut(name) else { return };
        if let Some((first, before)) = runs.range_mut(..s).next_back()
            && first.0 + before.len == s.0
            && before.mark.nth(before.len) == Some(mark)
        {
            before.len += len;
            return;
        }
        self.runs += usize::from(runs.insert(s, Void { len, mark }).is_none());
    }

    /// The slot that the message in `s` names as the one before it, if that in `s` is withdrawn and names one.
    pub fn before(&self, name: &Bytes, s: Slot) -> Option<Slot> {
        let (first, void) = self.names.get(name)?.range(..=s).next_back()?;
        let covers = s.0 < first.0.saturating_add(void.len) && void.mark.link > 0;
        first.0.checked_sub(void.mark.link).filter(|_| covers).map(Slot)
    }

    /// How many places of the stream `o` of this name, from `from` on and before that of the message at `s`, are of withdrawn messages.
    pub fn count(&self, name: &Bytes, o: Slot, s: Slot, from: u64, n: u64) -> u64 {
        let Some(runs) = self.names.get(name) else { return 0 };
        // A place that has come back to the sender may have been given twice.
        let (mut end, mut count) = (n, 0);
        let of_it = runs.range(..s).rev().filter(|(first, void)| opening(**first, void.mark) == Some(o));
        for places in of_it.map(|(_, void)| void.places()) {
            count += places.end.min(end).saturating_sub(places.start.max(from));
            end = end.min(places.start);
        }
        count
    }

    /// The stream `o` of this name has gone on to the place `next`: nothing that lies before is asked for.
    pub fn pass(&mut self, name: &Bytes, o: Slot, next: u64) {
        let Some(runs) = self.names.get_mut(name) else { return };
        let before = runs.len();
        runs.retain(|s, void| match opening(*s, void.mark) {
            Some(other) if other == o => void.places().end > next,
            other => other > Some(o),
        });
        self.runs -= before - runs.len();
        if runs.is_empty() {
            self.names.remove(name);
        }
    }

    fn keep(&mut self, mut kept: impl FnMut(Slot, &Void) -> bool) {
        self.names.values_mut().for_each(|runs| runs.retain(|s, void| kept(*s, void)));
        self.names.retain(|_, runs| !runs.is_empty());
        self.runs = self.names.values().map(BTreeMap::len).sum();
    }

    /// All of them: the name, the first slot, and the run.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, Slot, Void)> {
        self.names.iter().flat_map(|(name, runs)| runs.iter().map(move |(s, void)| (name, *s, *void)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many runs are kept.
    pub const fn len(&self) -> usize {
        self.runs
    }
}
