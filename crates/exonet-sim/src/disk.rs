//! A disk: what a node writes to it outlives the process.

use core::time::Duration;

use exonet_proto::node::{Batch, Boot, Far, Notes};
use exonet_proto::{Mono, NodeId, Stamp};

use crate::journal::Log;
use crate::{Coverage, Dice, NodeIndex, World};

/// A disk that holds `D`, `latest` and the strays. It takes time to write, and may fail in every way that a node must
/// expect.
///
/// A write that the disk has reported as durable survives every crash. A crash may lose any other write, keep all of it,
/// or keep a part. A write changes two files, each as a whole: first the strays, if they have changed, then the rest. So
/// a write of which a part is kept, or that fails in the second file, changes the first file alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `D`, as the next start will find it.
    pub clock: u64,
    /// The life of the process that wrote last.
    pub life: u64,
    /// `latest`.
    pub latest: Stamp,
    /// Senders whose clocks are far ahead.
    pub strays: Vec<(NodeId, Far)>,
    /// The notes of a node without a journal about early messages. None: some of them may be lost.
    pub notes: Option<Notes>,
    /// The longest time that a write takes. Each write takes a random time up to this.
    pub latency: Duration,
    /// Whether writes do not end. A crash ends them.
    pub stuck: bool,
    /// Whether writes fail from now on.
    pub broken: bool,
    /// Whether writes fail until the node starts again, which makes room.
    pub full: bool,
    /// The journal, if the node writes one.
    pub journal: Option<Log>,
}

impl Disk {
    /// A disk whose writes take up to `latency`.
    pub const fn slow(latency: Duration) -> Self {
        Self {
            clock: 0,
            life: 0,
            latest: Stamp::NONE,
            strays: Vec::new(),
            notes: None,
            latency,
            stuck: false,
            broken: false,
            full: false,
            journal: None,
        }
    }

    pub(crate) fn boot(&self) -> Boot {
        let Self { clock, life, latest, .. } = *self;
        let journal = self.journal.as_ref().map(Log::found);
        let (strays, notes) = (self.strays.clone(), self.notes.clone());
        Boot::Stored { clock, life, latest, strays, notes, journal }
    }

    fn keep(&mut self, batch: &Batch) {
        self.clock = batch.clock;
        self.life = batch.life;
        self.latest = batch.latest;
        self.keep_strays(batch);
    }

    /// Keeps notes, which outlive the process. If there is no room for them, no note can be trusted any more.
    pub(crate) fn note(&mut self, more: Notes) {
        let works = !self.broken && !self.full;
        self.notes = match (self.notes.take(), more) {
            _ if !works => None,
            (_, more) if more.hull.is_some() => Some(more),
            (Some(mut notes), more) => {
                notes.taken.extend(more.taken);
                Some(notes)
            }
            (None, _) => None,
        };
    }

    /// Ends the process in an orderly way, which first completes the current write.
    pub(crate) fn end_in_order(&mut self, under_way: Option<Batch>) {
        if !self.broken && !self.full {
            under_way.iter().for_each(|batch| self.keep(batch));
        }
    }

    /// Moves the content of the disk to another machine: numbers below `lane` may be in use elsewhere.
    pub(crate) fn moves(&mut self, lane: u64) {
        self.clock = self.clock.max(lane);
        // The notes belong to the machine, and do not move.
        self.notes = None;
    }

    /// The first half of a write.
    fn keep_strays(&mut self, batch: &Batch) {
        if let Some(strays) = &batch.strays {
            self.strays = strays.to_vec();
        }
    }

    pub(crate) fn begin(&self, now: Mono, batch: Batch, dice: &mut Dice) -> (Mono, Batch) {
        let span = u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX);
        (now + Duration::from_nanos(dice.below(span)), batch)
    }

    /// Whether a write that begins now ends at once.
    pub(crate) const fn is_instant(&self) -> bool {
        self.latency.is_zero() && !self.stuck && !self.broken && !self.full
    }

    /// Ends a write. Returns false if it fails. A disk that is full may have had room for the first half.
    pub(crate) fn finish(&mut self, batch: &Batch, dice: &mut Dice) -> bool {
        let works = !self.broken && !self.full;
        if works {
            self.keep(batch);
        } else if !self.broken && dice.chance(0.5) {
            self.keep_strays(batch);
        }
        works
    }

    /// Handles the death of the node during this write.
    pub(crate) fn crash(&mut self, under_way: Option<Batch>, dice: &mut Dice, coverage: &mut Coverage) {
        let writable = !self.broken && !self.full;
        self.full = false;
        self.journal.iter_mut().for_each(|log| log.crash(dice, coverage));
        let Some(batch) = under_way else { return };
        match dice.below(4) {
            0 | 1 if writable => self.keep(&batch),
            2 if writable => {
                self.keep_strays(&batch);
                coverage.writes_torn += 1;
            }
            _ => coverage.writes_lost += 1,
        }
    }
}

impl World {
    /// A node's disk.
    pub fn disk(&mut self, node: NodeIndex) -> Option<&mut Disk> {
        self.changed_disks.push(node);
        self.hosts.get_mut(&node.0)?.disk.as_mut()
    }

    pub(crate) fn written(&mut self, index: NodeIndex) {
        self.persisted(index);
        self.pump(index);
    }

    pub(crate) fn persisted(&mut self, index: NodeIndex) {
        let now = self.clock(index);
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return;
        };
        let (Some((_, batch)), Some(disk)) = (host.persisting.take(), host.disk.as_mut()) else {
            return;
        };
        if disk.finish(&batch, &mut host.dice) {
            host.node.handle_persisted(now, batch.lsn);
        } else {
            self.coverage.writes_failed += 1;
            host.node.handle_persist_failed(now);
        }
        self.checks.touched.all = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use exonet_proto::node::Lsn;

    use super::*;

    fn batch() -> Batch {
        let strays = Some([(NodeId([7; 32]), Far::one(Stamp(9)))].into());
        Batch { lsn: Lsn(1), clock: 5, life: 1, latest: Stamp(8), strays }
    }

    /// The results of a write that `end` interrupts, with many dice: whether the clock and the strays were kept.
    fn left(begun: &Disk, end: impl Fn(&mut Disk, &mut Dice)) -> BTreeSet<(bool, bool)> {
        let one = |seed| {
            let mut disk = begun.clone();
            end(&mut disk, &mut Dice::new(seed));
            (disk.clock == 5, !disk.strays.is_empty())
        };
        (0..200).map(one).collect()
    }

    #[test]
    fn a_crash_keeps_a_write_or_loses_it_or_keeps_the_first_half() {
        let mut coverage = Coverage::default();
        let crashed =
            left(&Disk::default(), |disk, dice| disk.crash(Some(batch()), dice, &mut Coverage::default()));
        assert_eq!(crashed, [(true, true), (false, true), (false, false)].into());
        (0..200).for_each(|seed| Disk::default().crash(Some(batch()), &mut Dice::new(seed), &mut coverage));
        assert!(coverage.writes_torn > 20 && coverage.writes_lost > 20, "{coverage:?}");
    }

    #[test]
    fn a_full_disk_may_have_room_for_the_first_half() {
        let full = Disk { full: true, ..Disk::default() };
        let failed = left(&full, |disk, dice| assert!(!disk.finish(&batch(), dice)));
        assert_eq!(failed, [(false, true), (false, false)].into());
        let broken = Disk { broken: true, ..Disk::default() };
        assert_eq!(
            left(&broken, |disk, dice| assert!(!disk.finish(&batch(), dice))),
            [(false, false)].into()
        );
    }
}
