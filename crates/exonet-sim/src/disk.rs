//! A disk: what a node writes to it survives the node.

use core::time::Duration;

use exonet_proto::node::{Batch, Boot};
use exonet_proto::{Mono, NodeId, Stamp};

use crate::Dice;

/// A disk that holds `D`, `latest` and the strays, and takes its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `D`, as a boot would find it.
    pub clock: u64,
    /// `latest`.
    pub latest: Stamp,
    /// Senders whose clocks are far ahead.
    pub strays: Vec<(NodeId, Stamp)>,
    /// A write takes up to this, at random.
    pub latency: Duration,
    /// Writes fail from now on.
    pub broken: bool,
}

impl Disk {
    /// A disk whose writes take up to `latency`.
    pub const fn slow(latency: Duration) -> Self {
        Self { clock: 0, latest: Stamp::NONE, strays: Vec::new(), latency, broken: false }
    }

    pub(crate) fn boot(&self) -> Boot {
        Boot::Stored { clock: self.clock, latest: self.latest, strays: self.strays.clone() }
    }

    /// The write has reached the disk.
    pub(crate) fn end(&mut self, batch: &Batch) {
        self.clock = batch.clock;
        self.latest = batch.latest;
        if let Some(strays) = &batch.strays {
            self.strays = strays.to_vec();
        }
    }

    pub(crate) fn begin(&self, now: Mono, batch: Batch, dice: &mut Dice) -> (Mono, Batch) {
        let span = u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX);
        (now + Duration::from_nanos(dice.below(span)), batch)
    }
}
