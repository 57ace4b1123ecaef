//! The current figures of a node, for a command that watches it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The current figures of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFigures {
    pub(crate) id: String,
    /// The address under which others reach it, as `ID@HOST:PORT`.
    pub(crate) peer: String,
    pub(crate) identity: String,
    /// The command that runs it.
    pub(crate) command: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) durability: String,
    /// The time since it started. Rates are computed with this clock.
    pub(crate) up_ms: u64,
    /// The number of bytes of its journal that a loss of power may still take, though it waits for the disk.
    pub(crate) journal_lag_bytes: u64,
    /// The figures, by the names that exporters use.
    pub(crate) figures: BTreeMap<String, u64>,
}

impl NodeFigures {
    /// A figure by its name, or zero if the node has no figure of this name.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        self.figures.get(name).copied().unwrap_or_default()
    }
}

/// The current figures of a peer. Counts start when the peer becomes known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerFigures {
    pub(crate) id: String,
    pub(crate) state: PeerState,
    /// Its address, if a channel is established.
    pub(crate) address: Option<String>,
    /// A TCP connection carries its packets.
    pub(crate) tcp: bool,
    pub(crate) rtt_ms: Option<f64>,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) messages_in: u64,
    pub(crate) messages_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) queued: u64,
    pub(crate) in_doubt: u64,
    /// The age of the oldest message in doubt, since it came into doubt.
    pub(crate) oldest_in_doubt_ms: Option<u64>,
}

/// The state of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PeerState {
    /// Two nodes have the identity of the peer, or that of this node.
    Conflict,
    /// It does not answer the packets in flight to it.
    Away,
    /// A channel is being opened.
    Opening,
    /// A channel is established.
    Up,
    /// No channel is needed.
    #[default]
    Idle,
}

impl PeerState {
    /// The word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Away => "away",
            Self::Opening => "opening",
            Self::Up => "up",
            Self::Idle => "idle",
        }
    }
}
