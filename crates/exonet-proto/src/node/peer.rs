//! What a node knows of a peer, and the table of peers.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::config::{Config, Limits};
use super::event::{Conflict, Event, Refusal};
use super::inbound::Inbound;
use super::link::Link;
use super::outbound::Outbound;
use super::seat::Work;
use super::stamping::{Told, ahead};
use crate::id::NodeId;
use crate::time::{Mono, Wall};

/// Address hints kept of one peer.
pub(super) const MAX_HINTS: usize = 8;

/// A peer: the two halves, which hold the promise, and the link, which holds none.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: NodeId,
    pub(super) hints: Vec<SocketAddr>,
    pub(super) outbound: Outbound,
    pub(super) inbound: Inbound,
    pub(super) link: Link,
    /// The policy lets it talk, or this node talked to it first.
    pub(super) admitted: bool,
    /// Two nodes use its identity, or this node's as it says: nothing is taken from it, and nothing goes to it.
    pub(super) conflict: Option<Conflict>,
    /// What it has said of its clock and its memory.
    pub(super) told: Told,
    /// It stands in the ready queue.
    pub(super) ready: bool,
    /// How often in a row something was due and could not leave.
    pub(super) stuck: u32,
    /// When what is due was last seen to.
    pub(super) looked_at: Mono,
    /// Its deadline in the timers.
    pub(super) deadline: Mono,
    /// As it stands in the node's [`Census`].
    pub(super) counted: Standing,
    /// What the driver has said of its datagrams.
    pub(super) work: Work,
}

/// What a node counts its peers by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// It has a sender record.
    sender: bool,
    /// It has a receiver record.
    receiver: bool,
    /// There is something to say to it, or it is owed something.
    busy: bool,
}

/// How many peers stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) senders: usize,
    pub(super) receivers: usize,
    pub(super) busy: usize,
}

impl Census {
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

impl Peer {
    /// Pings that have not left never will: what is to be said of them.
    pub(super) fn lose_pings(&mut self, refused: Option<Refusal>) -> impl Iterator<Item = Event> {
        let peer = self.id;
        self.link.pings.drain(..).map(move |cookie| Event::Pong { peer, cookie, rtt: None, refused })
    }

    pub(super) fn new(id: NodeId, now: Mono, link: Link) -> Self {
        Self {
            id,
            hints: Vec::new(),
            outbound: Outbound::new(now),
            inbound: Inbound::new(now),
            link,
            admitted: false,
            conflict: None,
            told: Told::default(),
            ready: false,
            stuck: 0,
            looked_at: Mono(0),
            deadline: Mono::NEVER,
            counted: Standing::default(),
            work: Work::default(),
        }
    }

    /// How it stands now.
    pub(super) fn standing(&self) -> Standing {
        let Self { outbound, inbound, .. } = self;
        Standing {
            sender: outbound.sender.is_some(),
            receiver: inbound.receiver.is_some(),
            busy: !outbound.is_silent() || inbound.state_owed() || !inbound.server.is_empty(),
        }
    }

    /// Another place where the peer may be; the latest is tried first.
    pub(super) fn add_hint(&mut self, address: SocketAddr) {
        if self.hints.first() == Some(&address) {
            return;
        }
        self.hints.retain(|known| *known != address);
        self.hints.insert(0, address);
        self.hints.truncate(MAX_HINTS);
    }

    /// The peer's clock shows `theirs`; zero says nothing.
    pub(super) fn note_time(&mut self, ours: Wall, theirs: Wall) {
        if theirs.0 > 0 {
            self.told.ahead = Some(ahead(ours, theirs));
        }
    }

    pub(super) fn has_room(&self, limits: &Limits) -> bool {
        let out = &self.outbound;
        out.letters == 0 || (out.letters < limits.queued_messages && out.kept() < limits.queued_bytes as u64)
    }

    /// It is known where an opening could go.
    pub(super) fn has_address(&self) -> bool {
        self.link.proven().is_some() || !self.hints.is_empty()
    }

    /// There is something to say that needs keys.
    pub(super) fn wants_channel(&self, now: Mono) -> bool {
        // A STATE without a record is worth an answer, not a channel: a peer that misses it asks again.
        let reminds = self.inbound.receiver.is_some() && self.inbound.state_due(now);
        self.outbound.wants_channel() || reminds || !self.link.pings.is_empty()
    }

    /// When time alone changes something. Never in the past for want of keys.
    pub(super) fn next_deadline(&self, linger: Duration, config: &Config) -> Mono {
        let connected = self.link.is_connected();
        let inbound = self.inbound.deadline(config, connected, self.link.ride_until);
        let halves = self.outbound.deadline(linger, connected).min(inbound);
        halves.min(self.link.deadline(config))
    }

    /// Nothing is known of it that anybody could miss.
    pub(super) fn is_forgettable(&self) -> bool {
        self.outbound.is_empty() && self.inbound.is_empty(self.link.is_connected()) && self.link.is_gone()
    }
}

/// The peers of a node, by place and by id.
#[derive(Debug, Default)]
pub(super) struct Peers {
    places: Vec<Option<Box<Peer>>>,
    free: Vec<u32>,
    by_id: BTreeMap<NodeId, u32>,
    /// Where the search for a peer that makes room goes on.
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
        self.places.get(index as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Peer> {
        self.places.get_mut(index as usize)?.as_deref_mut()
    }

    pub(super) fn insert(&mut self, peer: Peer) -> u32 {
        let id = peer.id;
        let boxed = Some(Box::new(peer));
        let index = loop {
            let Some(index) = self.free.pop() else {
                self.places.push(boxed);
                break u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX);
            };
            if let Some(place) = self.places.get_mut(index as usize) {
                *place = boxed;
                break index;
            }
        };
        self.by_id.insert(id, index);
        index
    }

    /// Forgets a peer, and gives the tables' memory back when few are left.
    pub(super) fn remove(&mut self, index: u32) -> Option<Box<Peer>> {
        let peer = self.places.get_mut(index as usize)?.take()?;
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
        Some(peer)
    }

    /// A place that is taken, the next one at each call.
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
        self.places.iter_mut().filter_map(Option::as_deref_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Peer)> {
        (0..).zip(&self.places).filter_map(|(index, place)| Some((index, place.as_deref()?)))
    }
}
