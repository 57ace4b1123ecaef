//! Counts accepted connections, and limits their number, in total and for each source.
//!
//! A node has two such counts: of strangers, whose sources are networks, and of peers that have proven their
//! identity.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exonet_proto::NodeId;
use exonet_proto::node::{Limits, Prefix};
use tokio::sync::Notify;

/// The largest number of connections of strangers.
const STRANGERS: usize = 1_024;
/// The largest number of connections of strangers of one network. For this machine there is no such limit.
const OF_NETWORK: usize = 16;

/// The limits.
#[derive(Clone, Copy, Debug)]
struct Most {
    all: usize,
    each: usize,
}

#[derive(Debug)]
struct Counts<K> {
    all: usize,
    each: BTreeMap<K, usize>,
}

#[derive(Debug)]
struct Book<K> {
    counts: Mutex<Counts<K>>,
    /// Notified when a connection leaves.
    left: Notify,
}

impl<K> Book<K> {
    fn counts(&self) -> MutexGuard<'_, Counts<K>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections, counted by source.
#[derive(Debug)]
pub(crate) struct Crowd<K> {
    most: Most,
    book: Arc<Book<K>>,
}

/// One connection in the count, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Ord> {
    book: Arc<Book<K>>,
    from: Option<K>,
}

/// A connection of a node that has not proven its identity.
pub(crate) type Stranger = Place<Prefix>;

/// A connection of a peer that has proven its identity.
pub(crate) type Guest = Place<NodeId>;

impl<K: Copy + Ord> Crowd<K> {
    fn new(most: Most) -> Self {
        let counts = Mutex::new(Counts { all: 0, each: BTreeMap::new() });
        Self { most, book: Arc::new(Book { counts, left: Notify::new() }) }
    }

    /// Whether there is room for a connection of a source that has none yet.
    pub(crate) fn has_room(&self) -> bool {
        self.book.counts().all < self.most.all
    }

    /// Waits until a connection has left the count since the last call. One task may wait.
    pub(crate) async fn changed(&self) {
        self.book.left.notified().await;
    }

    /// Adds a connection. None: there are too many. If there is no source, only the total is limited.
    fn enter(&self, from: Option<K>) -> Option<Place<K>> {
        let mut counts = self.book.counts();
        let of_it = from.and_then(|from| counts.each.get(&from)).copied().unwrap_or(0);
        if counts.all >= self.most.all || from.is_some() && of_it >= self.most.each {
            return None;
        }
        counts.all += 1;
        if let Some(from) = from {
            counts.each.insert(from, of_it + 1);
        }
        drop(counts);
        Some(Place { book: Arc::clone(&self.book), from })
    }
}

impl Crowd<Prefix> {
    pub(crate) fn of_strangers() -> Self {
        Self::new(Most { all: STRANGERS, each: OF_NETWORK })
    }

    /// Adds a connection. None: there are too many.
    pub(crate) fn admit(&self, from: IpAddr) -> Option<Stranger> {
        self.enter(Prefix::told(from))
    }
}

impl Crowd<NodeId> {
    pub(crate) fn of_peers(limits: &Limits) -> Self {
        Self::new(Most { all: limits.connections, each: limits.connections_per_peer })
    }

    /// Adds a connection of `peer`. None: there are too many.
    pub(crate) fn admit(&self, peer: NodeId) -> Option<Guest> {
        self.enter(Some(peer))
    }
}

impl<K: Ord> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.book.counts();
        counts.all = counts.all.saturating_sub(1);
        if let Some(from) = &self.from {
            match counts.each.get_mut(from) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(counts.each.remove(from)),
            }
        }
        drop(counts);
        self.book.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(network: usize) -> IpAddr {
        let network = u8::try_from(network).unwrap();
        IpAddr::from([198, 51, network, 1])
    }

    #[test]
    fn a_network_has_its_share_and_no_more() {
        let strangers = Crowd::of_strangers();
        let mut held: Vec<_> = (0..OF_NETWORK).map(|_| strangers.admit(ip(1)).unwrap()).collect();
        assert!(strangers.admit(ip(1)).is_none());
        held.extend(strangers.admit(ip(2)));
        drop(held.remove(0));
        held.extend(strangers.admit(ip(1)));
        assert!(held.len() == OF_NETWORK + 1 && strangers.admit(ip(1)).is_none());
        drop(held);
        let counts = strangers.book.counts();
        assert!(counts.all == 0 && counts.each.is_empty());
    }

    #[test]
    fn all_together_are_bounded() {
        let strangers = Crowd::of_strangers();
        let held: Vec<_> = (0..STRANGERS).filter_map(|n| strangers.admit(ip(n / OF_NETWORK))).collect();
        assert_eq!(held.len(), STRANGERS);
        assert!(!strangers.has_room());
        assert!(strangers.admit(ip(200)).is_none() && strangers.admit([127, 0, 0, 1].into()).is_none());
    }

    #[test]
    fn peers_have_the_limits_of_the_node() {
        let limits = Limits { connections: 3, connections_per_peer: 2, ..Limits::default() };
        let (peers, [a, b]) = (Crowd::of_peers(&limits), [1, 2].map(|n| NodeId([n; 32])));
        let mut held: Vec<_> = [a, a].map(|peer| peers.admit(peer).unwrap()).into();
        assert!(peers.admit(a).is_none() && peers.has_room());
        held.extend(peers.admit(b));
        assert!(peers.admit(b).is_none() && !peers.has_room());
        held.remove(0);
        assert!(peers.admit(b).is_some());
    }
}
