//! Traffic between a node and each of its peers, and what is stuck: figures for a person who watches a node.

use core::time::Duration;

use super::Node;
use crate::id::NodeId;
use crate::peer::Peer;
use crate::stats::{PeerFigure, Reading};
use crate::time::{Mono, Now};

/// The traffic between this node and a peer since the node has known it, and what is stuck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerFlow {
    /// Messages, calls and replies accepted for the peer.
    pub messages_out: u64,
    /// Messages and calls of the peer that the application has taken.
    pub messages_in: u64,
    /// Bytes of packets sent on the channels of the peer.
    pub bytes_out: u64,
    /// Bytes of authentic packets that came on the channels of the peer.
    pub bytes_in: u64,
    /// How long the oldest message in doubt has been in doubt.
    pub oldest_in_doubt: Option<Duration>,
    /// Whether the peer is there.
    pub presence: Presence,
}

impl PeerFlow {
    /// All fields that are numbers.
    pub const FIGURES: &'static [PeerFigure<Self>] = &[
        PeerFigure::counts(
            "peer_messages_out",
            "Messages, calls and replies accepted for it.",
            Reading::Count(|flow: &Self| flow.messages_out),
        ),
        PeerFigure::counts(
            "peer_messages_in",
            "Messages and calls from it that the application took.",
            Reading::Count(|flow: &Self| flow.messages_in),
        ),
        PeerFigure::counts(
            "peer_out_bytes",
            "Bytes of packets sent on its channels.",
            Reading::Count(|flow: &Self| flow.bytes_out),
        ),
        PeerFigure::counts(
            "peer_in_bytes",
            "Bytes of authentic packets from it.",
            Reading::Count(|flow: &Self| flow.bytes_in),
        ),
        PeerFigure::single(
            "peer_oldest_in_doubt_seconds",
            "How long the oldest message in doubt has been so. 0: there is none.",
            Reading::Seconds(|flow: &Self| Some(flow.oldest_in_doubt.unwrap_or_default().as_secs_f64())),
        ),
        PeerFigure::adds(
            "peer_away",
            "Whether it does not answer.",
            Reading::Truth(|flow: &Self| flow.presence == Presence::Away),
        ),
    ];
}

/// Whether a peer is there, as far as the node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Presence {
    /// There is a channel, and the peer answers on it.
    Up,
    /// There is no channel, and the node is opening one.
    Opening,
    /// The peer answers nothing of what is under way to it.
    Away,
    /// There is no channel, since none is needed.
    #[default]
    Idle,
}

impl Node {
    /// The traffic between this node and `peer`. None: the node does not know the peer now.
    pub fn peer_flow(&self, now: Now, peer: &NodeId) -> Option<PeerFlow> {
        let peer = self.peers.get(self.peers.find(peer)?)?;
        Some(PeerFlow {
            messages_out: peer.outbound.accepted(),
            messages_in: peer.taken,
            bytes_out: peer.link.bytes_out,
            bytes_in: peer.link.bytes_in,
            oldest_in_doubt: self.oldest_in_doubt(peer).map(|bound_at| now.mono.since(bound_at)),
            presence: presence(peer),
        })
    }

    /// Slots are bound in ascending order, so the message in the lowest open slot was bound first.
    fn oldest_in_doubt(&self, peer: &Peer) -> Option<Mono> {
        let sender = peer.outbound.sender.as_ref()?;
        let firsts =
            [sender.early().next().map(|(_, key)| *key), sender.tokens().next().map(|(.., key)| *key)];
        let letters = firsts.into_iter().flatten().filter_map(|key| self.cx.store.open(key));
        letters.map(|letter| letter.bound_at).min()
    }

    /// Bytes that were appended to the journal and that a crash may still take: zero unless the journal is forced.
    pub fn journal_lag(&self) -> u64 {
        self.cx.journal.lag()
    }
}

fn presence(peer: &Peer) -> Presence {
    match () {
        () if peer.link.is_away() => Presence::Away,
        () if peer.link.is_connected() => Presence::Up,
        () if peer.link.opening.is_some() || peer.link.is_answering() => Presence::Opening,
        () => Presence::Idle,
    }
}
