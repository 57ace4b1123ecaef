//! The durability level of a node: how much of its state outlives a crash.

use core::fmt;

/// The durability level that a node has declared. It is the level that the node is configured with. It does not report what the
/// node's disk has kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DurabilityLevel {
    /// The node keeps no journal. Or it has declared no level, or a level that this node does not know.
    #[default]
    Memory,
    /// The node's journal outlives the death of the process. It does not outlive a power cut.
    Process,
    /// The node's journal outlives a power cut. The node collects records for some time and forces them to the disk together.
    Batched,
    /// The node's journal outlives a power cut. The node forces records to the disk at once.
    Sync,
}

impl DurabilityLevel {
    /// The number of the level in PARAMS.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Memory => 0,
            Self::Process => 1,
            Self::Batched => 2,
            Self::Sync => 3,
        }
    }

    /// The level with this number. A number that this node does not know promises nothing.
    pub(crate) const fn of(number: u64) -> Self {
        match number {
            1 => Self::Process,
            2 => Self::Batched,
            3 => Self::Sync,
            _ => Self::Memory,
        }
    }

    /// The name of the level: `memory`, `process`, `batched` or `sync`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Process => "process",
            Self::Batched => "batched",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for DurabilityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DurabilityLevel::{self, Batched, Memory, Process, Sync};

    #[test]
    fn a_level_that_this_node_does_not_know_promises_nothing() {
        let read = [0, 1, 2, 3, 4, crate::MAX_NUMBER].map(DurabilityLevel::of);
        assert_eq!(read, [Memory, Process, Batched, Sync, Memory, Memory]);
        assert_eq!(read.map(DurabilityLevel::number), [0, 1, 2, 3, 0, 0]);
    }
}
