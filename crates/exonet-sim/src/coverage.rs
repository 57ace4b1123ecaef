//! Counts of what a run has exercised.

use crate::link::Copied;
use exonet_proto::node::Stats;

/// Counts of what happened in a run, which show whether the run could have found an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Datagrams lost by links.
    pub lost: u64,
    /// Extra copies that links made.
    pub duplicated: u64,
    /// Copies with a changed bit.
    pub corrupted: u64,
    /// Datagrams that arrived before one that their sender had sent to the same node earlier.
    pub reordered: u64,
    /// Processes that died.
    pub crashes: u64,
    /// Writes that a crash lost, writes that it tore, and writes that failed.
    pub writes_lost: u64,
    /// See `writes_lost`.
    pub writes_torn: u64,
    /// See `writes_lost`.
    pub writes_failed: u64,
    /// Appends to journals, appends that a crash lost, and snapshots that replaced them.
    pub appends: u64,
    /// See `appends`.
    pub appends_lost: u64,
    /// See `appends`.
    pub snapshots: u64,
    /// Addresses and ports that changed.
    pub moves: u64,
    /// Identities that moved, copies of them that started at the old place, and copies that were told that they are
    /// copies.
    pub moved: u64,
    /// See `moved`.
    pub copies: u64,
    /// See `moved`.
    pub copies_told: u64,
    /// Addresses that had become wrong and were looked up again, and addresses that a node was told.
    pub looked_up: u64,
    /// See `looked_up`.
    pub told: u64,
    /// Processes that ended in an orderly way, and those that told every peer that can be told.
    pub ends: u64,
    /// See `ends`.
    pub ends_heard: u64,
    /// Handshakes completed, at either end.
    pub handshakes: u64,
    /// Receiver records evicted.
    pub evictions: u64,
    /// Evicted records of callers.
    pub callers_evicted: u64,
    /// Copies of messages suppressed.
    pub suppressed: u64,
    /// Data packets replayed.
    pub replayed: u64,
    /// Openings that had to prove their address.
    pub retries: u64,
    /// Received messages for which there was no room.
    pub dropped_for_room: u64,
    /// Early messages that were received, that had to go the slow way, and that were refused for good.
    pub early_received: u64,
    /// See `early_received`.
    pub early_slowed: u64,
    /// See `early_received`.
    pub early_rejected: u64,
    /// Stamps far ahead that were stored.
    pub stamps_astray: u64,
    /// Calls that a server's application had when its process died.
    pub calls_interrupted: u64,
    /// Replies that were forgotten before their callers had confirmed them.
    pub replies_forgotten: u64,
}

impl Coverage {
    /// Adds the counts of one process.
    pub(crate) fn with(mut self, stats: &Stats) -> Self {
        self.handshakes += stats.handshakes;
        self.evictions += stats.evictions;
        self.callers_evicted += stats.callers_evicted;
        self.suppressed += stats.duplicates_suppressed;
        self.replayed += stats.replayed;
        self.retries += stats.retries;
        self.dropped_for_room += stats.dropped_for_room;
        self.early_received += stats.early_received;
        self.early_slowed += stats.early_slowed;
        self.early_rejected += stats.early_rejected;
        self.stamps_astray += stats.stamps_astray;
        self.replies_forgotten += stats.replies_forgotten;
        self
    }

    /// Counts what a link does to one datagram.
    pub(crate) fn note_fate(&mut self, copies: &[Copied]) {
        self.lost += u64::from(copies.is_empty());
        self.duplicated += (copies.len() as u64).saturating_sub(1);
        self.corrupted += copies.iter().filter(|copy| copy.flipped.is_some()).count() as u64;
    }
}
