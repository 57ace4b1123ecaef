//! A disk: what a node writes to it survives the node.

use core::time::Duration;

use exonet_proto::Mono;
use exonet_proto::node::Batch;

use crate::Dice;

/// A disk that holds `D`, and takes its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// `D`, as a boot would find it.
    pub clock: u64,
    /// A write takes up to this, at random.
    pub latency: Duration,
    /// Writes fail from now on.
    pub broken: bool,
}

impl Disk {
    /// A disk whose writes take up to `latency`.
    pub const fn slow(latency: Duration) -> Self {
        Self { clock: 0, latency, broken: false }
    }

    pub(crate) fn begin(&self, now: Mono, batch: Batch, dice: &mut Dice) -> (Mono, Batch) {
        let span = u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX);
        (now + Duration::from_nanos(dice.below(span)), batch)
    }
}
