//! How much a crash may make a node forget.

use core::time::Duration;

use exonet_proto::DurabilityLevel;

/// How much of what a node knows a crash may make it forget.
///
/// | | death of the process | power failure | forced writes |
/// |---|---|---|---|
/// | [`Memory`](Self::Memory) | messages in doubt end Unknown | the same | none for messages |
/// | [`Process`](Self::Process) | loses nothing | as `Memory` | none for messages |
/// | [`Batched`](Self::Batched) | loses nothing | loses nothing | one for all messages of an interval |
/// | [`Sync`](Self::Sync) | loses nothing | loses nothing | one for all messages that wait |
///
/// With every setting, no message is delivered twice, and no message is reported Delivered that was not. A node that
/// has lost something knows that, and reports Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The node keeps no journal.
    Memory,
    /// The node writes its journal to the operating system before it acts, and does not wait for the disk. This is
    /// the default of a [stored](crate::Builder::state_dir) identity.
    Process,
    /// Like [`Self::Sync`], but the journal collects records for this long, and forces them to the disk with one
    /// write. Each end that has this setting makes each message slower by this time.
    Batched(Duration),
    /// The node forces its journal to the disk before it acts: what it has accepted, taken or reported stays so after
    /// a power failure.
    Sync,
}

impl Durability {
    /// Whether the node waits for the disk.
    pub(crate) const fn is_forced(self) -> bool {
        self.interval().is_some()
    }

    /// The level that the node tells its peers.
    pub(crate) const fn level(self) -> DurabilityLevel {
        match self {
            Self::Memory => DurabilityLevel::Memory,
            Self::Process => DurabilityLevel::Process,
            Self::Batched(_) => DurabilityLevel::Batched,
            Self::Sync => DurabilityLevel::Sync,
        }
    }

    /// How long the journal collects records before it forces them. None: it forces nothing.
    pub(super) const fn interval(self) -> Option<Duration> {
        match self {
            Self::Memory | Self::Process => None,
            Self::Batched(interval) => Some(interval),
            Self::Sync => Some(Duration::ZERO),
        }
    }
}
