//! The streams whose readers have stopped.

use std::collections::BTreeMap;

use bytes::Bytes;
use exonet_proto::{MessageId, NodeId};

use super::desk::StreamId;

/// The most stopped streams of one peer that a node remembers, so that a peer that never ends its streams cannot take
/// more memory.
const MOST: usize = 4_096;

/// A stream whose reader has stopped.
pub(super) struct Stopped {
    /// The reader's reason.
    pub(super) reason: Box<str>,
    /// The last message that was handed out. If a later message opens a stream of this name, it is another stream.
    pub(super) last: Option<MessageId>,
    at: u64,
}

/// The stopped streams of one peer.
#[derive(Default)]
struct OfPeer {
    streams: BTreeMap<Bytes, Stopped>,
    /// The same streams by their [`Stopped::at`].
    order: BTreeMap<u64, Bytes>,
    next: u64,
}

/// The newest streams of each peer whose readers have stopped, until they end.
#[derive(Default)]
pub(super) struct Stops {
    peers: BTreeMap<NodeId, OfPeer>,
}

impl Stops {
    pub(super) fn contains(&self, (peer, name): &StreamId) -> bool {
        self.peers.get(peer).is_some_and(|stops| stops.streams.contains_key(name))
    }

    pub(super) fn get_mut(&mut self, (peer, name): &StreamId) -> Option<&mut Stopped> {
        self.peers.get_mut(peer)?.streams.get_mut(name)
    }

    /// Adds a stream, and forgets the oldest one of its peer if there are too many.
    pub(super) fn add(&mut self, id: StreamId, reason: &str, last: Option<MessageId>) {
        self.remove(&id);
        let (peer, name) = id;
        let stops = self.peers.entry(peer).or_default();
        let at = stops.next;
        stops.next += 1;
        stops.order.insert(at, name.clone());
        stops.streams.insert(name, Stopped { reason: reason.into(), last, at });
        if stops.streams.len() > MOST
            && let Some((_, oldest)) = stops.order.pop_first()
        {
            stops.streams.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, (peer, name): &StreamId) {
        let Some(stops) = self.peers.get_mut(peer) else { return };
        if let Some(stopped) = stops.streams.remove(name) {
            stops.order.remove(&stopped.at);
        }
        if stops.streams.is_empty() {
            self.peers.remove(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(peer: u8, n: usize) -> StreamId {
        (NodeId([peer; 32]), Bytes::from(n.to_string()))
    }

    #[test]
    fn the_oldest_of_a_peer_are_forgotten_and_those_that_ended_do_not_count() {
        let mut stops = Stops::default();
        stops.add(id(2, 0), "enough", None);
        for n in 0..=MOST {
            stops.add(id(1, n), "enough", None);
        }
        assert!(!stops.contains(&id(1, 0)) && stops.contains(&id(1, 1)));
        assert!(stops.contains(&id(2, 0)), "another peer has places of its own");
        stops.remove(&id(1, 2));
        // The newest stop of a stream counts.
        stops.add(id(1, 1), "again", None);
        stops.add(id(1, 0), "again", None);
        assert!(stops.contains(&id(1, 1)) && stops.contains(&id(1, 3)) && stops.contains(&id(1, 0)));
        stops.add(id(1, 2), "again", None);
        assert!(!stops.contains(&id(1, 3)) && stops.contains(&id(1, 1)));
        let of = &stops.peers[&NodeId([1; 32])];
        assert_eq!((of.streams.len(), of.order.len()), (MOST, MOST));
        stops.remove(&id(2, 0));
        assert_eq!(stops.peers.len(), 1, "a peer without stops takes no memory");
    }
}
