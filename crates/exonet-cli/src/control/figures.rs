//! How a node is now, as a command that watches it is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A node as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFigures {
    pub(crate) id: String,
    /// How others reach it, as `ID@HOST:PORT`.
    pub(crate) peer: String,
    pub(crate) identity: String,
    /// What runs it.
    pub(crate) command: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) durability: String,
    /// For how long it has run. Rates go by this clock.
    pub(crate) up_ms: u64,
    /// Bytes of its journal that a loss of power may still take, though it waits for the disk.
    pub(crate) journal_lag_bytes: u64,
    /// By the names that exporters have for them.
    pub(crate) figures: BTreeMap<String, u64>,
}

impl NodeFigures {
    /// A figure by its name; zero if the node has none of this name.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        self.figures.get(name).copied().unwrap_or_default()
    }
}

/// A peer of it as it is now. Counts are since the peer is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerFigures {
    pub(crate) id: String,
    pub(crate) state: PeerState,
    /// Where it is, if a channel stands.
    pub(crate) address: Option<String>,
    /// A connection carries its packets.
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
    /// For how long the oldest message in doubt has been so.
    pub(crate) oldest_in_doubt_ms: Option<u64>,
}

/// Where a peer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PeerState {
    /// Two nodes have its identity, or this node's.
    Conflict,
    /// It answers nothing of what is under way to it.
    Away,
    /// A channel is being opened.
    Opening,
    /// A channel stands.
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
