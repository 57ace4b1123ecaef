//! The removal of records and stamps, and what is remembered of them.

use crate::config::{Config, Drop};
use crate::half::{Answer, Ask, Bound, Far, Hull, Receiver, Taken};
use crate::id::{Slot, Stamp};
use crate::mutant::{active, site};
use crate::node::Node;

use super::World;

impl World {
    /// Whether the policy lets the record go.
    pub(crate) fn may_drop(&self, config: &Config, at: usize, from: usize) -> bool {
        self.nodes[at].peers[from].record.as_ref().is_some_and(|record| match config.drop {
            Drop::Drained => record.is_drained() || active(site::DROP_UNDRAINED),
            Drop::Passed => record.is_passed(),
        })
    }

    /// A journaled node writes this down before a STATE says that there is no record: what it recovers may grow again.
    pub(crate) fn drop_record(&mut self, at: usize, from: usize) {
        self.nodes[at].peers[from].forget_record();
        if !active(site::DROP_NOT_DURABLE) {
            self.journal_receiving(at, from);
        }
    }

    pub(crate) fn evict(&mut self, at: usize, from: usize) {
        let node = &mut self.nodes[at];
        let Some(record) = node.peers[from].record.take() else {
            return;
        };
        node.evictions = node.evictions.saturating_sub(1);
        node.b = node.b.max(record.incarnation().0 + 1);
        node.peers[from].lose(record.taken());
        record.evict(&mut node.peers[from].bound, &mut node.clock);
        node.peers[from].forget_record();
        if let Some(journal) = &mut node.journal {
            journal.peers[from].record = None;
            // There is no `A` in a journal.
            self.fold(at, from);
        }
        self.write_frontiers(at);
        self.write_stamps(at);
    }

    /// What lost records took early of a sender has no place: the hull has it.
    pub(crate) fn fold(&mut self, at: usize, from: usize) {
        let node = &mut self.nodes[at];
        if let Some(Taken { ts, .. }) = node.peers[from].bound.taken() {
            node.forgot = node.forgot.join(Hull { above: Stamp(ts.0 - 1), upto: ts });
        }
        node.clock.stamps_mut().fold(&mut node.peers[from].bound);
        // All notes are written anew.
        node.peers[from].noted = node.peers[from].record.as_ref().and_then(Receiver::taken);
    }

    /// The node ends in good order, as far as this record is concerned.
    pub(crate) fn end_record(&mut self, at: usize, from: usize) {
        let node = &mut self.nodes[at];
        node.ends = node.ends.saturating_sub(1);
        node.peers[from].parts.clear();
        node.peers[from].record.iter_mut().for_each(Receiver::close);
        if !active(site::CLOSE_NOT_DURABLE) {
            self.journal_receiving(at, from);
        }
    }

    /// `b` and the hull are on the disk before what they speak of is forgotten.
    fn write_frontiers(&mut self, at: usize) {
        let Node { clock, journal, .. } = &mut self.nodes[at];
        if let Some(journal) = journal {
            if !active(site::FRONTIER_NOT_DURABLE) {
                journal.b = clock.b();
            }
            if !active(site::STAMP_FRONTIER_NOT_DURABLE) {
                journal.hull = clock.stamps().hull();
            }
        }
    }

    /// `latest` rises. A stray that it has caught up with need not be kept apart any more.
    pub(crate) fn raise(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let latest = Stamp(node.clock.stamps().latest().0 + 1);
        node.clock.stamps_mut().persisted(latest);
        if !active(site::LATEST_NOT_DURABLE) {
            node.latest = latest.0;
        }
        for peer in &mut node.peers {
            if peer.far.take_if(|far| far.hi.0 <= node.latest).is_some() {
                node.clock.stamps_mut().catch_up(&mut peer.bound);
            }
        }
    }

    pub(crate) fn unlearn(&mut self, at: usize, from: usize) {
        let Node { clock, peers, .. } = &mut self.nodes[at];
        clock.stamps_mut().forget(&mut peers[from].bound);
        self.write_stamps(at);
    }

    /// A sender with a stamp ahead of `latest` is let in, to go the slow way.
    pub(crate) fn let_astray(&mut self, at: usize, from: usize, ts: Stamp) {
        self.nodes[at].peers[from].bound.refuse(Far::one(ts));
        self.write_stamps(at);
    }

    /// A stray's stamps are on the disk before anything depends on it.
    pub(super) fn write_stamps(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        for peer in node.peers.iter_mut().filter(|_| !active(site::STRAY_NOT_DURABLE)) {
            if let Some(far) = peer.bound.far().filter(|far| far.hi.0 > node.latest) {
                peer.far = Some(far);
            }
        }
    }

    /// A sender that is not of this world is forgotten, with its record or without.
    pub(crate) fn forget_outsider(&mut self, at: usize, evicted: bool) {
        let node = &mut self.nodes[at];
        let stamps = node.clock.stamps();
        if !evicted {
            let mut bound = Bound::up_to(Stamp(stamps.upper().0 + 1));
            node.clock.stamps_mut().forget(&mut bound);
            return;
        }
        let (mut record, mut bound) = (None, Bound::default());
        let ask = Ask { s: Slot(0), n: 1, l: Slot(0), ts: stamps.latest() };
        let _: Answer = Receiver::on_ask(&mut record, &mut bound, &mut node.clock, ask, 1);
        let Some(mut record) = record else { return };
        if let Some(r) = record.name(ask.s, ask.ts) {
            record.take(ask.s, r);
        }
        node.evictions = node.evictions.saturating_sub(1);
        node.born = record.incarnation().0 + 1;
        node.b = node.b.max(node.born);
        record.evict(&mut bound, &mut node.clock);
        if let Some(Taken { ts, .. }) = bound.taken() {
            node.forgot = node.forgot.join(Hull { above: Stamp(ts.0 - 1), upto: ts });
            node.clock.stamps_mut().fold(&mut bound);
        }
        self.write_frontiers(at);
    }
}
