//! A disk: what a node writes to it survives the node.

use core::time::Duration;

use exonet_proto::node::{Batch, Boot};
use exonet_proto::{Mono, NodeId, Stamp};

use crate::{Coverage, Dice};

/// A disk that holds `D`, `latest` and the strays, takes its time, and may fail in every way that a node has to expect.
///
/// It does not lie: what it has said to be durable is. What it has not said, a crash may lose, tear or keep. A
/// torn record does not match its checksum, so that a boot finds the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `D`, as a boot would find it.
    pub clock: u64,
    /// The life that wrote last.
    pub life: u64,
    /// `latest`.
    pub latest: Stamp,
    /// Senders whose clocks are far ahead.
    pub strays: Vec<(NodeId, Stamp)>,
    /// A write takes up to this, at random.
    pub latency: Duration,
    /// Writes do not end while this is so; a crash ends them.
    pub stuck: bool,
    /// Writes fail from now on.
    pub broken: bool,
    /// Writes fail until the node starts again, which makes room.
    pub full: bool,
}

impl Disk {
    /// A disk whose writes take up to `latency`.
    pub const fn slow(latency: Duration) -> Self {
        Self {
            clock: 0,
            life: 0,
            latest: Stamp::NONE,
            strays: Vec::new(),
            latency,
            stuck: false,
            broken: false,
            full: false,
        }
    }

    pub(crate) fn boot(&self) -> Boot {
        let Self { clock, life, latest, .. } = *self;
        Boot::Stored { clock, life, latest, strays: self.strays.clone() }
    }

    fn keep(&mut self, batch: &Batch) {
        self.clock = batch.clock;
        self.life = batch.life;
        self.latest = batch.latest;
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

    /// A write comes to its end. False: it fails.
    pub(crate) fn finish(&mut self, batch: &Batch) -> bool {
        let works = !self.broken && !self.full;
        if works {
            self.keep(batch);
        }
        works
    }

    /// The node dies while this was being written.
    pub(crate) fn crash(&mut self, under_way: Option<Batch>, dice: &mut Dice, coverage: &mut Coverage) {
        let writable = !self.broken && !self.full;
        self.full = false;
        let Some(batch) = under_way else { return };
        match dice.below(4) {
            0 | 1 if writable => self.keep(&batch),
            2 => coverage.writes_torn += 1,
            _ => coverage.writes_lost += 1,
        }
    }
}
