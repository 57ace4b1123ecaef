//! How much a crash may take.

use core::time::Duration;

/// How much of what a node knows a crash may take.
///
/// | | death of the process | loss of power | forced writes |
/// |---|---|---|---|
/// | [`Memory`](Self::Memory) | what was in doubt ends Unknown | the same | none for messages |
/// | [`Process`](Self::Process) | takes nothing | as `Memory` | none for messages |
/// | [`Batched`](Self::Batched) | takes nothing | takes nothing | one for all messages of an interval |
/// | [`Sync`](Self::Sync) | takes nothing | takes nothing | one for all messages that wait |
///
/// Whatever it is, nothing is delivered twice, and nothing is called Delivered that was not: a node that has lost something
/// knows that, and says Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The node keeps no journal.
    Memory,
    /// The node writes its journal to the system before it acts, and does not wait for the disk. The default of a
    /// [stored](crate::Builder::state_dir) identity.
    Process,
    /// As [`Self::Sync`], where the journal waits this long for more to force with one write. Each message takes as much
    /// longer, at each end that is batched.
    Batched(Duration),
    /// The node forces its journal to the disk before it acts: a message that was accepted, taken or told about stays so
    /// when the power fails.
    Sync,
}

impl Durability {
    /// Whether the node waits for the disk.
    pub(crate) const fn is_forced(self) -> bool {
        self.interval().is_some()
    }

    /// How long what is to be forced waits for more. None: nothing is forced.
    pub(super) const fn interval(self) -> Option<Duration> {
        match self {
            Self::Memory | Self::Process => None,
            Self::Batched(interval) => Some(interval),
            Self::Sync => Some(Duration::ZERO),
        }
    }
}
