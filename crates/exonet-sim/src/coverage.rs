//! What a run has exercised.

use crate::link::Copied;
use exonet_proto::node::Stats;

/// Counts of what happened in a run, so that one can tell that it could have found something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Datagrams lost by links.
    pub lost: u64,
    /// Extra copies that links made.
    pub duplicated: u64,
    /// Copies with a changed bit.
    pub corrupted: u64,
    /// Datagrams that came before one that their sender had sent to there earlier.
    pub reordered: u64,
    /// Processes that died.
    pub crashes: u64,
    /// Writes that a crash lost, writes that it tore, and writes that failed.
    pub writes_lost: u64,
    /// See `writes_lost`.
    pub writes_torn: u64,
    /// See `writes_lost`.
    pub writes_failed: u64,
    /// Appends to journals, those that a crash lost, and snapshots that took their place.
    pub appends: u64,
    /// See `appends`.
    pub appends_lost: u64,
    /// See `appends`.
    pub snapshots: u64,
    /// Addresses and ports that changed.
    pub moves: u64,
    /// Identities that moved, copies of them that started where they were, and those that were told so.
    pub moved: u64,
    /// See `moved`.
    pub copies: u64,
    /// See `moved`.
    pub copies_told: u64,
    /// Addresses that had become wrong and were looked up again, and those that somebody was told.
    pub looked_up: u64,
    /// See `looked_up`.
    pub told: u64,
    /// Processes that ended in good order, and those that told all who could be told.
    pub ends: u64,
    /// See `ends`.
    pub ends_heard: u64,
    /// Handshakes completed, at either end.
    pub handshakes: u64,
    /// Receiver records evicted.
    pub evictions: u64,
    /// Of these, of callers.
    pub callers_evicted: u64,
    /// Copies of messages suppressed.
    pub suppressed: u64,
    /// Data packets replayed.
    pub replayed: u64,
    /// Openings that had to prove their address.
    pub retries: u64,
    /// Received messages that found no room.
    pub dropped_for_room: u64,
    /// Early messages taken in, told to have gone the slow way, and refused for good.
    pub early_received: u64,
    /// See `early_received`.
    pub early_slowed: u64,
    /// See `early_received`.
    pub early_rejected: u64,
    /// Stamps far ahead that were written down.
    pub stamps_astray: u64,
    /// Calls that their server's application had when it died.
    pub calls_interrupted: u64,
    /// Replies forgotten though their callers had not said that they have them.
    pub replies_forgotten: u64,
}

impl Coverage {
    /// With what one process counted.
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

    /// What a link makes of one datagram.
    pub(crate) fn note_fate(&mut self, copies: &[Copied]) {
        self.lost += u64::from(copies.is_empty());
        self.duplicated += (copies.len() as u64).saturating_sub(1);
        self.corrupted += copies.iter().filter(|copy| copy.flipped.is_some()).count() as u64;
    }
}
