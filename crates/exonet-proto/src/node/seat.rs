//! Accounts the driver's time to the peers whose datagrams take it.

use super::Node;
use crate::stats::Work;
use crate::wire::ChannelIndex;

/// A peer as a driver tells it apart without decrypting anything: by the place that the node gave it. Once the node forgets the
/// peer, another peer may get the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat(u32);

impl From<u32> for Seat {
    fn from(place: u32) -> Self {
        Self(place)
    }
}

impl Node {
    /// The peer that a channel leads to. A datagram that bears the index need not come from that peer: nothing has authenticated
    /// it yet.
    pub fn seat(&self, index: ChannelIndex) -> Option<Seat> {
        self.cx.routes.get(&index.0).copied().map(Seat)
    }

    /// Adds `work` to the figures of a peer, which only [`PeerStats`](super::PeerStats) shows.
    pub fn note_work(&mut self, seat: Seat, work: Work) {
        self.cx.stats.share_dropped += work.dropped;
        if let Some(peer) = self.peers.get_mut(seat.0) {
            peer.work.time += work.time;
            peer.work.dropped += work.dropped;
        }
    }
}
