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
    /// Writes that a crash lost.
    pub writes_lost: u64,
    /// Writes that a crash made incomplete.
    pub writes_torn: u64,
    /// Writes that failed.
    pub writes_failed: u64,
    /// Appends to journals.
    pub appends: u64,
    /// Appends that a crash lost.
    pub appends_lost: u64,
    /// Snapshots that replaced appends.
    pub snapshots: u64,
    /// Addresses and ports that changed.
    pub moves: u64,
    /// Identities that moved.
    pub moved: u64,
    /// Copies of moved identities that started at the old place.
    pub copies: u64,
    /// Such copies that learned that they are copies.
    pub copies_told: u64,
    /// Addresses that had become wrong and were looked up again.
    pub looked_up: u64,
    /// Addresses that a node was told.
    pub told: u64,
    /// Processes that ended in an orderly way.
    pub ends: u64,
    /// Such processes that told every peer that they could reach.
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
    /// Early messages that were received.
    pub early_received: u64,
    /// Early messages that had to be sent again under a slot.
    pub early_slowed: u64,
    /// Early messages that were refused for good.
    pub early_rejected: u64,
    /// Stamps of clocks that are far ahead, which a node stored.
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
