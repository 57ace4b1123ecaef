//! Figures: what [`Node::stats`](crate::Node::stats) and [`Peer::stats`](crate::Peer::stats) tell.

pub use exonet_proto::node::{Conflict, Figure, PeerStats, Stats, Work};
