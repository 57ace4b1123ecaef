//! Messages of streams that wait for the application: a row for each stream, in the order of their slots, which is the order of
//! the stream.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::arrived::{Arrived, Front};
use super::inbox::sift;
use super::waiting::Waiting;
use crate::id::Slot;

/// How many messages are taken out at once to make room.
const EVICTED: usize = 8;

/// The rows of all peers, by peer and by the name of the stream.
#[derive(Debug, Default)]
pub(crate) struct Rows(BTreeMap<u32, BTreeMap<Bytes, Row>>);

#[derive(Debug, Default)]
struct Row {
    /// By the slot of the last message of each entry, which stays the same as the first ones are taken.
    waiting: BTreeMap<Slot, Waiting>,
    /// The application has been told that the first message can be taken.
    said: bool,
}

impl Row {
    fn push(&mut self, waiting: Waiting) {
        let goes_on =
            self.waiting.last_key_value().is_some_and(|(last, _)| last.0 + 1 == waiting.first().slots.start);
        let waiting = match (goes_on.then(|| self.waiting.pop_last()).flatten(), waiting) {
            (Some((_, Waiting::Run(mut before))), Waiting::Run(run)) => match before.join(run) {
                None => Waiting::Run(before),
                Some(run) => {
                    self.insert(Waiting::Run(before));
                    Waiting::Run(run)
                }
            },
            (before, waiting) => {
                before.into_iter().for_each(|(_, before)| self.insert(before));
                waiting
            }
        };
        self.insert(waiting);
    }

    fn insert(&mut self, waiting: Waiting) {
        self.waiting.insert(waiting.last(), waiting);
    }

    fn pop(&mut self) -> Option<Arrived> {
        let mut first = self.waiting.first_entry()?;
        if let Waiting::Run(run) = first.get_mut()
            && run.len() > 1
        {
            return run.pop();
        }
        first.remove().pop().0
    }
}

impl Rows {
    pub(super) fn push(&mut self, peer: u32, waiting: Waiting) {
        let Some((name, _)) = waiting.stream() else { return debug_assert!(false, "it is of a stream") };
        let rows = self.0.entry(peer).or_default();
        if !rows.contains_key(name) {
            rows.insert(name.clone(), Row::default());
        }
        if let Some(row) = rows.get_mut(&name.clone()) {
            row.push(waiting);
        }
    }

    fn row(&self, peer: u32, name: &Bytes) -> Option<&Row> {
        self.0.get(&peer)?.get(name)
    }

    fn row_mut(&mut self, peer: u32, name: &Bytes) -> Option<&mut Row> {
        self.0.get_mut(&peer)?.get_mut(name)
    }

    /// The first waiting message of a stream.
    pub(super) fn first(&self, peer: u32, name: &Bytes) -> Option<&Waiting> {
        self.row(peer, name)?.waiting.values().next()
    }

    /// As [`Rows::first`], if the application has not been told about it.
    pub(super) fn untold(&self, peer: u32, name: &Bytes) -> Option<&Waiting> {
        self.row(peer, name).filter(|row| !row.said)?.waiting.values().next()
    }

    /// Notes whether the application has been told about the first message of a stream.
    pub(super) fn say(&mut self, peer: u32, name: &Bytes, said: bool) {
        if let Some(row) = self.row_mut(peer, name) {
            row.said = said;
        }
    }

    pub(super) fn pop(&mut self, peer: u32, name: &Bytes) -> Option<Arrived> {
        let row = self.row_mut(peer, name)?;
        let first = row.pop();
        self.drop_if_empty(peer, name);
        first
    }

    /// Takes out a few of the last messages of a stream, and only those that lie behind `s`.
    pub(super) fn evict(&mut self, peer: u32, name: &Bytes, s: Option<Slot>) -> Vec<Arrived> {
        let Some(last) = self.row_mut(peer, name).and_then(|row| row.waiting.last_entry()) else {
            return Vec::new();
        };
        let behind = s.map_or(u64::MAX, |s| last.key().0.saturating_sub(s.0));
        let most = usize::try_from(behind).unwrap_or(usize::MAX).min(EVICTED);
        if most == 0 {
            return Vec::new();
        }
        let (gone, kept) = last.remove().pop_last(most);
        if let (Some(kept), Some(row)) = (kept, self.row_mut(peer, name)) {
            row.insert(kept);
        }
        self.drop_if_empty(peer, name);
        gone
    }

    fn drop_if_empty(&mut self, peer: u32, name: &Bytes) {
        if let Some(rows) = self.0.get_mut(&peer)
            && rows.get(name).is_some_and(|row| row.waiting.is_empty())
        {
            rows.remove(name);
            if rows.is_empty() {
                self.0.remove(&peer);
            }
        }
    }

    /// The streams of a peer that have waiting messages.
    pub(super) fn names(&self, peer: u32) -> impl Iterator<Item = &Bytes> {
        self.0.get(&peer).into_iter().flat_map(BTreeMap::keys)
    }

    /// Takes out the messages that are not to be `kept`.
    pub(super) fn sweep(&mut self, kept: impl Fn(&Front) -> bool) -> Vec<Arrived> {
        let (mut gone, mut left) = (Vec::new(), VecDeque::new());
        for row in self.0.values_mut().flat_map(BTreeMap::values_mut) {
            for waiting in core::mem::take(&mut row.waiting).into_values() {
                match waiting {
                    Waiting::One(one) if kept(&one.front()) => left.push_back(Waiting::One(one)),
                    Waiting::One(one) => gone.push(one),
                    Waiting::Run(run) => sift(run, &kept, &mut left, &mut gone),
                }
            }
            left.drain(..).for_each(|waiting| row.insert(waiting));
        }
        for rows in self.0.values_mut() {
            rows.retain(|_, row| !row.waiting.is_empty());
        }
        self.0.retain(|_, rows| !rows.is_empty());
        gone
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.values().flat_map(BTreeMap::values).flat_map(|row| row.waiting.values())
    }
}
