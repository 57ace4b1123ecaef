//! Counts of one direction of a link.

use hdrhistogram::Histogram;

/// Longer than anything that is recorded, in ns.
const MOST: u64 = 600_000_000_000;

/// Counts since the start, or since they were last taken.
#[derive(Clone, Debug)]
pub(crate) struct LaneStats {
    /// Packets that the host sent.
    pub(crate) packets: u64,
    /// IP bytes of these.
    pub(crate) bytes: u64,
    /// Found the queue full, or were CoDel's signal.
    pub(crate) dropped: u64,
    /// Were marked CE by CoDel, and went on.
    pub(crate) marked: u64,
    /// Lost on the line, by the model of loss or in an outage.
    pub(crate) lost: u64,
    /// Arrived, copies included.
    pub(crate) arrived: u64,
    /// Refused by the host's kernel.
    pub(crate) refused: u64,
    /// How long packets waited that took the line, in ns.
    pub(crate) waited: Histogram<u64>,
    /// How much later than they should packets arrived, in ns: the emulator's own error.
    pub(crate) late: Histogram<u64>,
}

impl Default for LaneStats {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            dropped: 0,
            marked: 0,
            lost: 0,
            arrived: 0,
            refused: 0,
            waited: histogram(),
            late: histogram(),
        }
    }
}

/// A histogram of times in ns, at a precision of one per cent.
fn histogram() -> Histogram<u64> {
    #[allow(clippy::expect_used)] // the bounds are constants
    Histogram::new_with_max(MOST, 2).expect("bounds of a histogram")
}
