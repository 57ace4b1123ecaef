//! The table of peers, by place and by id, and the counts of peers by standing.

use std::collections::BTreeMap;

use crate::backoff::Backoff;
use crate::id::NodeId;
use crate::peer::{Peer, Standing};
use crate::time::Mono;

/// How many peers have each standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) senders: usize,
    pub(super) receivers: usize,
    pub(super) busy: usize,
}

impl Census {
    /// A peer that was counted as `counted` now stands as `now`.
    pub(super) fn count(&mut self, counted: &mut Standing, now: Standing) {
        if now != *counted {
            self.leave(*counted);
            self.enter(now);
            *counted = now;
        }
    }

    pub(super) fn enter(&mut self, peer: Standing) {
        self.senders += usize::from(peer.sender);
        self.receivers += usize::from(peer.receiver);
        self.busy += usize::from(peer.busy);
    }

    pub(super) fn leave(&mut self, peer: Standing) {
        self.senders -= usize::from(peer.sender);
        self.receivers -= usize::from(peer.receiver);
        self.busy -= usize::from(peer.busy);
    }
}

/// When the node looks at a peer.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The peer is in the ready queue.
    pub(super) ready: bool,
    /// How long the node leaves the peer alone while something is due and cannot leave.
    pub(super) stuck: Backoff,
    /// When the node last looked at what is due.
    pub(super) looked_at: Mono,
    /// The peer's deadline in the timers.
    pub(super) deadline: Mono,
    /// How the [`Census`] counts the peer.
    pub(super) counted: Standing,
}

/// A peer in its place.
#[derive(Debug)]
struct Entry {
    peer: Peer,
    schedule: Schedule,
}

/// The peers of a node, by place and by id.
#[derive(Debug, Default)]
pub(super) struct Peers {
    places: Vec<Option<Box<Entry>>>,
    free: Vec<u32>,
    by_id: BTreeMap<NodeId, u32>,
    /// Where the next search for a peer that makes room continues.
    hand: usize,
}

impl Peers {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn find(&self, id: &NodeId) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    pub(super) fn get(&self, index: u32) -> Option<&Peer> {
        Some(&self.places.get(index as usize)?.as_deref()?.peer)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Peer> {
        Some(&mut self.places.get_mut(index as usize)?.as_deref_mut()?.peer)
    }

    /// When the node looks at the peer.
    pub(super) fn schedule(&mut self, index: u32) -> Option<&mut Schedule> {
        self.scheduled(index).map(|(_, schedule)| schedule)
    }

    /// The peer, and when the node looks at it.
    pub(super) fn scheduled(&mut self, index: u32) -> Option<(&Peer, &mut Schedule)> {
        let Entry { peer, schedule } = self.places.get_mut(index as usize)?.as_deref_mut()?;
        Some((peer, schedule))
    }

    /// Inserts the peer that `make` creates for its place.
    pub(super) fn insert(&mut self, id: NodeId, make: impl FnOnce(u32) -> Peer) -> u32 {
        let end = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let index = core::iter::from_fn(|| self.free.pop()).find(|free| *free < end).unwrap_or(end);
        let schedule = Schedule { deadline: Mono::NEVER, ..Schedule::default() };
        let entry = Some(Box::new(Entry { peer: make(index), schedule }));
        match self.places.get_mut(index as usize) {
            Some(place) => *place = entry,
            None => self.places.push(entry),
        }
        self.by_id.insert(id, index);
        index
    }

    /// Forgets a peer, and frees memory of the tables when few peers are left.
    pub(super) fn remove(&mut self, index: u32) -> Option<(Peer, Schedule)> {
        let Entry { peer, schedule } = *self.places.get_mut(index as usize)?.take()?;
        self.by_id.remove(&peer.id);
        self.free.push(index);
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
        if self.places.capacity() > 64 && self.places.len() < self.places.capacity() / 4 {
            let len = self.places.len();
            self.places.shrink_to(len * 2);
            self.free.retain(|index| (*index as usize) < len);
            self.free.shrink_to_fit();
        }
        Some((peer, schedule))
    }

    /// The next place that is taken. Successive calls go round the table.
    pub(super) fn next_place(&mut self) -> Option<u32> {
        let len = self.places.len();
        for _ in 0..len {
            self.hand = (self.hand + 1) % len;
            if self.places.get(self.hand).is_some_and(Option::is_some) {
                return u32::try_from(self.hand).ok();
            }
        }
        None
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.places.iter_mut().filter_map(Option::as_deref_mut).map(|entry| &mut entry.peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Peer)> {
        (0..).zip(&self.places).filter_map(|(index, place)| Some((index, &place.as_deref()?.peer)))
    }
}
