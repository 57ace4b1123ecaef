//! The records that a node with a journal has on its disk, beside `D`.
//!
//! Each of these is durable before the step that depends on it:
//!
//! * a message, before it is accepted; its binding, before the token leaves;
//! * the making, growth, close and removal of a record, before a STATE;
//! * the use of a slot, in one step with the delivery;
//! * a mark, before its VERDICT; a withdrawal, before WITHDRAWN;
//! * `b` and the hull, before an eviction;
//! * the end of a message, before `l` passes its slot;
//! * `latest`, before anything is granted or accepted under it; a stray's stamps, before the stray is admitted;
//! * an early message, before it leaves; what was taken early, in one step with the use of its slot.
//!
//! A crash may lose the record that slots were passed. It is written at any later time, or never.

use std::collections::{BTreeMap, VecDeque};

use crate::half::{Hull, IntervalSet, Mark, Receiver, Sender, Taken};
use crate::id::{Incarnation, Slot, Stamp};
use crate::ledger::Letter;
use crate::node::Peer;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Journal {
    pub(crate) b: Incarnation,
    pub(crate) hull: Hull,
    pub(crate) peers: Vec<Written>,
}

/// A receiver record: `r`, `hi`, `l`, the free slots, `ets`, what was taken early, and whether it is closed.
type Record = (Incarnation, Slot, Slot, IntervalSet, Stamp, Option<Taken>, bool);

/// The records about one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Written {
    pub(crate) queue: VecDeque<Letter>,
    /// In rising number.
    pub(crate) tokens: Vec<(Slot, Incarnation, Letter)>,
    /// The stamp of the early messages, in rising number.
    pub(crate) early: (Stamp, Vec<(Slot, Letter)>),
    pub(crate) record: Option<Record>,
    /// The marks of that record.
    pub(crate) marks: BTreeMap<Slot, Mark>,
    pub(crate) withdrawn: IntervalSet,
}

impl Journal {
    pub(crate) fn new(peers: usize) -> Self {
        Self { b: Incarnation(0), hull: Hull::default(), peers: vec![Written::default(); peers] }
    }
}

impl Written {
    /// The sender record and what waits for it.
    pub(crate) fn sending(&mut self, peer: &Peer) {
        self.queue.clone_from(&peer.queue);
        let tokens = peer.sender.iter().flat_map(Sender::tokens);
        self.tokens = tokens.map(|(s, r, letter)| (s, r, *letter)).collect();
        let early = peer.sender.iter().flat_map(Sender::early).map(|(s, letter)| (s, *letter)).collect();
        self.early = (peer.sender.as_ref().map_or(Stamp::NONE, Sender::stamp), early);
    }

    /// The receiver record.
    pub(crate) fn receiving(&mut self, peer: &Peer) {
        self.marks = peer.record.as_ref().map(|record| record.marks().clone()).unwrap_or_default();
        self.withdrawn = peer.record.as_ref().map(|record| record.withdrawn().clone()).unwrap_or_default();
        self.record = peer.record.as_ref().map(|record: &Receiver| {
            let (hi, l, free) = record.parts();
            (record.incarnation(), hi, l, free.clone(), record.stamp(), record.taken(), record.is_closed())
        });
    }

    pub(crate) fn holds(&self, letter: Letter) -> bool {
        let bound = |(.., bound): &(Slot, Incarnation, Letter)| *bound == letter;
        let early = |(_, bound): &(Slot, Letter)| *bound == letter;
        self.queue.contains(&letter) || self.tokens.iter().any(bound) || self.early.1.iter().any(early)
    }
}
