//! What a journaled node has on its disk, beside `D`.
//!
//! Durable before what depends on it: a message before it is accepted, its binding before the token leaves, a
//! record's making and growth before a STATE, the use of a slot together with the delivery, `b` before an eviction,
//! what was settled or given up before `l` passes it. What may be lost in a crash, and so is written at any later time or
//! never: that slots were passed, that a drained record was dropped.

use std::collections::VecDeque;

use crate::half::{IntervalSet, Receiver, Sender};
use crate::id::{Incarnation, Slot};
use crate::ledger::Letter;
use crate::node::Peer;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Journal {
    pub(crate) b: Incarnation,
    pub(crate) peers: Vec<Written>,
}

/// What is written about one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Written {
    pub(crate) queue: VecDeque<Letter>,
    /// In rising number.
    pub(crate) tokens: Vec<(Slot, Incarnation, Letter)>,
    pub(crate) record: Option<(Incarnation, Slot, Slot, IntervalSet)>,
}

impl Journal {
    pub(crate) fn new(peers: usize) -> Self {
        Self { b: Incarnation(0), peers: vec![Written::default(); peers] }
    }
}

impl Written {
    /// The sender record and what waits for it.
    pub(crate) fn sending(&mut self, peer: &Peer) {
        self.queue.clone_from(&peer.queue);
        let tokens = peer.sender.iter().flat_map(Sender::tokens);
        self.tokens = tokens.map(|(s, r, letter)| (s, r, *letter)).collect();
    }

    /// The receiver record.
    pub(crate) fn receiving(&mut self, peer: &Peer) {
        self.record = peer.record.as_ref().map(|record: &Receiver| {
            let (hi, l, free) = record.parts();
            (record.incarnation(), hi, l, free.clone())
        });
    }

    pub(crate) fn holds(&self, letter: Letter) -> bool {
        self.queue.contains(&letter) || self.tokens.iter().any(|(.., bound)| *bound == letter)
    }
}
