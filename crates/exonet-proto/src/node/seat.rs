//! Whose datagrams take how much of a driver's time.

use super::Node;
use crate::stats::Work;
use crate::wire::ChannelIndex;

/// A peer, as a driver tells peers apart without decrypting anything: by the place that a node has given it. Once the peer is
/// forgotten, another may get the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat(u32);

impl From<u32> for Seat {
    fn from(place: u32) -> Self {
        Self(place)
    }
}

impl Node {
    /// The peer that a channel leads to. Nothing says yet that a datagram which bears the index is the peer's.
    pub fn seat(&self, index: ChannelIndex) -> Option<Seat> {
        self.cx.routes.get(&index.0).copied().map(Seat)
    }

    /// Adds to what is known of the datagrams of a peer: for [`PeerStats`](super::PeerStats) alone.
    pub fn note_work(&mut self, seat: Seat, work: Work) {
        self.cx.stats.share_dropped += work.dropped;
        if let Some(peer) = self.peers.get_mut(seat.0) {
            peer.work.time += work.time;
            peer.work.dropped += work.dropped;
        }
    }
}
