//! The disk of a node, and crashes.

use crate::config::{Config, Memory};
use crate::copy::calls::server::Replies;
use crate::half::{Clock, Hull, Receiver, Sender, Stamps};
use crate::id::Stamp;
use crate::ledger::{Fate, Outcome};
use crate::mutant::{active, site};
use crate::node::{Node, Peer};
use crate::violation::Checked;

use super::World;

impl World {
    /// The next block of `D` becomes durable.
    pub(crate) fn reserve(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(durable) = node.clock.wanted() {
            if !active(site::NUMBERS_NOT_DURABLE) {
                node.disk = durable;
            }
            node.clock.persisted(durable);
        }
    }

    pub(crate) fn sync(&mut self, at: usize) {
        for peer in 0..self.nodes.len() {
            self.journal_sending(at, peer);
            self.journal_receiving(at, peer);
        }
    }

    pub(super) fn journal_sending(&mut self, at: usize, to: usize) {
        let Node { journal, peers, .. } = &mut self.nodes[at];
        if let Some(journal) = journal {
            journal.peers[to].sending(&peers[to]);
        }
    }

    pub(super) fn journal_receiving(&mut self, at: usize, from: usize) {
        let Node { journal, peers, .. } = &mut self.nodes[at];
        if let Some(journal) = journal {
            journal.peers[from].receiving(&peers[from]);
        }
    }

    /// `wrote`: the next block of `D` was on the disk already.
    pub(crate) fn crash(&mut self, config: &Config, at: usize, wrote: bool) -> Checked {
        let node = &mut self.nodes[at];
        node.crashes = node.crashes.saturating_sub(1);
        if let Some(durable) = node.clock.wanted().filter(|_| wrote) {
            node.disk = durable;
        }
        match config.memory {
            Memory::Volatile | Memory::Notes => self.boot(config, at),
            Memory::Journal => {
                self.recover(config, at);
                Ok(())
            }
        }
    }

    fn boot(&mut self, config: &Config, at: usize) -> Checked {
        let node = &mut self.nodes[at];
        let latest = Stamp(node.latest);
        let kept = config.memory == Memory::Notes;
        node.clock = if kept {
            Clock::restart(node.disk, latest, node.clock.stamps().hull(), config.block())
        } else {
            node.forgot = Hull::up_to(latest);
            Clock::boot(node.disk, latest, config.block())
        };
        node.b = node.disk;
        node.replies = Replies::default();
        for peer in &mut node.peers {
            peer.lose(peer.record.as_ref().and_then(Receiver::taken).filter(|_| kept));
            let lost = std::mem::take(&mut peer.lost);
            *peer = Peer { lost, ..Peer::found(peer.far, peer.noted.filter(|_| kept)) };
        }
        for (letter, ..) in config.letters().filter(|(_, from, _)| *from == at) {
            if self.ledger.fate(letter) == Fate::Open {
                self.ledger.tell(letter, Outcome::LetGo)?;
            }
        }
        config.letters().filter(|(.., to)| *to == at).for_each(|(letter, ..)| self.ledger.lose(letter));
        Ok(())
    }

    fn recover(&mut self, config: &Config, at: usize) {
        let node = &mut self.nodes[at];
        let Some(journal) = &node.journal else { return };
        let stamps = Stamps::recover(Stamp(node.latest), journal.hull);
        let clock = Clock::recover(node.disk, journal.b, stamps, config.block());
        for (peer, written) in node.peers.iter_mut().zip(&journal.peers) {
            *peer = Peer { lost: std::mem::take(&mut peer.lost), ..Peer::found(peer.far, None) };
            peer.queue.clone_from(&written.queue);
            let (ts, early) = &written.early;
            if !written.queue.is_empty() || !written.tokens.is_empty() || !early.is_empty() {
                let ts = if active(site::RECOVER_RESTAMPED) { Stamp(ts.0 + 1) } else { *ts };
                let (tokens, early) = (written.tokens.iter().copied(), early.iter().copied());
                peer.sender = Some(Sender::recover(&clock, tokens, ts, early));
            }
            let record = written.record.clone();
            let judged = (written.marks.clone(), written.withdrawn.clone());
            peer.record = record.map(|(r, hi, l, free, ets, taken, closed)| {
                Receiver::recover(r, hi, l, free, (ets, taken), closed, judged)
            });
        }
        node.clock = clock;
        for (letter, _, to) in config.letters().filter(|(_, from, _)| *from == at) {
            if journal.peers[to].holds(letter) {
                self.ledger.reopen(letter);
            }
        }
        if node.crashes == 0 {
            node.journal = None;
        }
    }
}
