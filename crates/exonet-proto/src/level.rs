//! How much of what it knows a node keeps over a crash, in four levels.

use core::fmt;

/// How durable a node has declared itself to be. The level is what was configured. It does not tell what the node's disk kept at a
/// crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DurabilityLevel {
    /// The node keeps no journal, or has declared no level, or one that this node does not know.
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
    /// The level as PARAMS declare it.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Memory => 0,
            Self::Process => 1,
            Self::Batched => 2,
            Self::Sync => 3,
        }
    }

    /// The level that a peer has declared. A number without a meaning promises nothing.
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
