//! The journal of a disk: what a node appends, and how much of it a crash keeps.

use std::collections::VecDeque;

use exonet_proto::node::{BadJournal, Durability, Node, Position, Recovered};
use exonet_proto::{Mono, Now};

use crate::host::Host;
use crate::{Breach, Coverage, Dice, Disk, Ledger, NodeIndex, World};

/// A snapshot replaces the records once they have at least this many bytes, and twice the size of the last snapshot.
const LONG: usize = 4_096;

/// The journal on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub(crate) durability: Durability,
    /// What every crash keeps: the last snapshot, with the number of the last group that it includes.
    snapshot: (u64, Vec<u8>),
    /// Groups after the snapshot, and groups before it that the snapshot depends on, with their numbers.
    kept: VecDeque<(u64, Vec<u8>)>,
    /// The number of bytes of the groups after the snapshot.
    grown: usize,
    /// Appends that are being written, in order: a crash keeps a prefix of them, perhaps an empty one.
    under_way: VecDeque<(Mono, Position, Vec<u8>)>,
}

impl Log {
    /// An empty journal.
    pub const fn new(durability: Durability) -> Self {
        Self {
            durability,
            snapshot: (0, Vec::new()),
            kept: VecDeque::new(),
            grown: 0,
            under_way: VecDeque::new(),
        }
    }

    /// The number of the last group.
    fn end(&self) -> u64 {
        self.kept.back().map_or(self.snapshot.0, |(group, _)| *group)
    }

    fn keep(&mut self, records: Vec<u8>) {
        self.grown += records.len();
        self.kept.push_back((self.end() + 1, records));
    }

    fn read(&self) -> Result<Recovered, BadJournal> {
        let mut found = Recovered::default();
        let (base, snapshot) = &self.snapshot;
        found.add_group(0, snapshot)?;
        for (group, records) in &self.kept {
            if group <= base { found.add_kept(*group, records) } else { found.add_group(*group, records) }?;
        }
        found.finish(self.end())
    }

    /// Replaces the groups by a snapshot. With `keeps`, the last groups stay.
    fn replace(&mut self, node: &Node, now: Now, keeps: bool) {
        let half = self.end() - self.kept.len() as u64 / 2 + 1;
        let from = if keeps { half } else { u64::MAX };
        self.snapshot = (self.end(), node.snapshot_keeping(now, from));
        self.kept.retain(|(group, _)| *group >= from);
        self.grown = 0;
    }

    /// What a process finds of the journal at its start.
    pub(crate) fn found(&self) -> (Durability, Box<Recovered>) {
        (self.durability, Box::new(self.read().unwrap_or_default()))
    }

    /// When the next append is safe.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.under_way.front().map(|(at, ..)| *at)
    }

    /// Handles a power failure: what was not forced cannot be trusted, and a new journal begins.
    fn distrust(&mut self) {
        if self.durability == Durability::Written {
            *self = Self::new(self.durability);
        }
    }

    /// Whether the kept part of the journal can be read.
    fn is_sound(&self) -> bool {
        self.read().is_ok()
    }

    /// Handles the death of the process, or a power failure. The current appends are lost from some point on, perhaps
    /// all of them.
    pub(crate) fn crash(&mut self, dice: &mut Dice, coverage: &mut Coverage) {
        let kept = dice.below(self.under_way.len() as u64 + 1);
        coverage.appends_lost += self.under_way.len() as u64 - kept;
        let under_way = std::mem::take(&mut self.under_way);
        for (.., records) in under_way.into_iter().take(usize::try_from(kept).unwrap_or(0)) {
            self.keep(records);
        }
    }
}

impl Disk {
    /// The same disk with an empty journal.
    #[must_use]
    pub fn with_journal(self, durability: Durability) -> Self {
        Self { journal: Some(Log::new(durability)), ..self }
    }
}

impl Host {
    /// Appends what the node has written since the last call. Returns true when some of it is safe at once.
    pub(crate) fn append(&mut self, at: Mono, now: Now, coverage: &mut Coverage) -> bool {
        let Some(disk) = &mut self.disk else { return false };
        while let Some(notes) = self.node.poll_notes() {
            disk.note(notes);
        }
        let Some(log) = &mut disk.journal else { return false };
        let mut safe = false;
        while let Some(append) = self.node.poll_journal() {
            coverage.appends += 1;
            let (through, records) = (append.through, append.to_vec());
            if log.durability == Durability::Written {
                log.keep(records);
                self.node.handle_journaled(now, through);
                safe = true;
                continue;
            }
            let span = u64::try_from(disk.latency.as_nanos()).unwrap_or(u64::MAX);
            let after = log.under_way.back().map_or(at, |(at, ..)| *at);
            let done = after.max(at) + core::time::Duration::from_nanos(self.dice.below(span));
            log.under_way.push_back((done, through, records));
        }
        if log.grown > LONG + 2 * log.snapshot.1.len() && log.under_way.is_empty() {
            coverage.snapshots += 1;
            log.replace(&self.node, now, !coverage.snapshots.is_multiple_of(4));
        }
        safe
    }

    /// Whether something that was appended is not safe yet.
    pub(crate) fn is_appending(&self) -> bool {
        self.disk.as_ref().and_then(|disk| disk.journal.as_ref()?.next()).is_some()
    }

    /// Handles appends that have ended: they are safe.
    pub(crate) fn appended(&mut self, at: Mono, now: Now) {
        let Some(log) = self.disk.as_mut().and_then(|disk| disk.journal.as_mut()) else { return };
        while log.next().is_some_and(|done| done <= at)
            && let Some((_, through, records)) = log.under_way.pop_front()
        {
            log.keep(records);
            self.node.handle_journaled(now, through);
        }
    }

    /// After a crash, waits again for the outcomes of the messages in the journal. It must have every message that
    /// counted as accepted.
    pub(crate) fn resume(&mut self, ledger: &mut Ledger) {
        let open = self.node.open_messages();
        for (key, id) in open.iter().filter_map(|open| Some((open.key, self.node.letter_id(open.key)?))) {
            if let Some((waiting, _)) = self.journaled.remove(&id) {
                self.waiting.insert(key, waiting);
            }
        }
        let rest = std::mem::take(&mut self.journaled).into_values();
        let (lost, unsure): (Vec<_>, Vec<_>) = rest.partition(|(_, accepted)| *accepted);
        lost.iter().for_each(|(waiting, _)| ledger.report(Breach::Vanished(waiting.number)));
        ledger.orphan(lost.into_iter().chain(unsure).map(|(waiting, _)| waiting.number));
    }
}

impl World {
    /// Cuts the power: the node's process dies, and what was written to the journal and the notes but not forced is
    /// lost. The process starts again at once.
    pub fn cut_power(&mut self, node: NodeIndex) {
        self.kill(node);
        let Some(host) = self.hosts.get_mut(&node.0) else { return };
        if let Some(disk) = &mut host.disk {
            disk.notes = None;
        }
        if let Some(log) = host.disk.as_mut().and_then(|disk| disk.journal.as_mut()) {
            log.distrust();
            if log.durability == Durability::Written {
                let lost = std::mem::take(&mut host.journaled).into_values();
                self.ledger.orphan(lost.map(|(waiting, _)| waiting.number));
            }
        }
        self.boot(node);
    }

    /// Handles the appends of a node that are safe.
    pub(crate) fn appended(&mut self, index: NodeIndex) {
        let (at, now) = (self.now, self.clock(index));
        if let Some(host) = self.hosts.get_mut(&index.0) {
            host.appended(at, now);
        }
        self.checks.touched.all = true;
        self.pump(index);
    }

    /// Whether the journal of a node can be read now.
    pub fn has_sound_journal(&self, node: NodeIndex) -> bool {
        let log = self.hosts.get(&node.0).and_then(|host| host.disk.as_ref()?.journal.as_ref());
        log.is_none_or(Log::is_sound)
    }
}
