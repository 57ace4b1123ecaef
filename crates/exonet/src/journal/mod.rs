//! The journal of a node: it stores records of the core before anything that depends on them leaves the node.
//!
//! The engine writes while it holds the node's lock: at the end of each step, and before it reports an outcome or
//! returns a datagram to send. Both take effect only after the lock is released, so nothing leaves before its records
//! are written. With [`Durability::Batched`] and [`Durability::Sync`], the core itself keeps back everything that
//! depends on records which are not forced yet. A thread ([`forcing`]) forces them, and reports that to the core.

mod durability;
mod forcing;
mod held;
mod opened;

use core::time::Duration;
use std::io;
use std::sync::Arc;

use exonet_proto::node::{Append, Node as Core};
use exonet_proto::{DurabilityLevel, Mono, Now};
use exonet_store::{MAX_GROUP, Storage, StoreError};

use crate::shared::Shared;

pub use durability::Durability;
pub(crate) use held::{Held, Taker};
pub(crate) use opened::{open, read};

/// How long a journal that is written may be gone without the node noticing.
const LOOK: Duration = Duration::from_secs(1);

/// More bytes than the records have that come with a body, or that a step has beside its bodies: with a tag, the trace,
/// the peer and its address, and the place of a reader in its stream.
pub(crate) const RECORDS: usize = 512;
/// The longest body that fits into a group, beside its records and those of its step.
pub(crate) const LONGEST_BODY: u64 = MAX_GROUP - 2 * RECORDS as u64;

/// The journal, open for appending.
pub(crate) struct Log {
    storage: Box<dyn Storage>,
    durability: Durability,
    teller: forcing::Teller,
    /// When to look next whether the files are still there.
    look_at: Mono,
    /// Why the journal is incomplete, if it is. Then nothing that the node says later can be trusted.
    failed: Option<Failure>,
}

/// Why a journal lacks what the node has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// There was no room for a group. The journal has everything before that group, and nothing of it.
    NoRoom,
    /// It is not known what the journal has.
    Unsure,
}

#[cfg(test)]
impl Log {
    /// A journal in `storage`.
    pub(crate) fn on(storage: Box<dyn Storage>) -> Self {
        Self::new(storage, Durability::Process)
    }

    /// The journal, with what `over` makes of its storage.
    pub(crate) fn with(self, over: impl FnOnce(Box<dyn Storage>) -> Box<dyn Storage>) -> Self {
        Self { storage: over(self.storage), ..self }
    }
}

impl Log {
    fn new(storage: Box<dyn Storage>, durability: Durability) -> Self {
        Self {
            storage,
            durability,
            teller: forcing::Teller::default(),
            look_at: Mono::default(),
            failed: None,
        }
    }

    /// The level of the journal, which the node tells its peers.
    pub(crate) const fn level(&self) -> DurabilityLevel {
        self.durability.level()
    }

    /// Appends records of the core.
    pub(crate) fn append(&mut self, append: &Append<'_>) -> Result<(), StoreError> {
        let parts: Vec<_> = append.parts().collect();
        let appended = self.storage.append_parts(append.through.0, &parts);
        self.failed = match &appended {
            Ok(()) => self.failed,
            Err(StoreError::Full { .. }) => Some(Failure::NoRoom),
            Err(_) => Some(Failure::Unsure),
        };
        if appended.is_ok() && self.is_forced() {
            self.teller.appended(append.through);
        }
        appended
    }

    /// Checks from time to time that nobody has removed the files of the journal, since writes to them succeed
    /// nevertheless.
    pub(crate) fn still_there(&mut self, now: Now) -> Result<(), StoreError> {
        if now.mono < self.look_at {
            return Ok(());
        }
        self.look_at = now.mono + LOOK;
        self.storage.still_there()
    }

    /// Whether there is room for a new message of `len` bytes.
    pub(crate) fn has_reserve(&mut self, len: usize) -> bool {
        self.has_failed() || self.storage.has_reserve(len as u64)
    }

    /// Whether appended records are safe only once they are forced.
    pub(crate) const fn is_forced(&self) -> bool {
        self.durability.is_forced()
    }

    /// Starts the thread that forces records, if the durability asks for that.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub(crate) fn start_forcing(&self, node: &Arc<Shared>) -> io::Result<()> {
        match self.durability.interval() {
            None => Ok(()),
            Some(interval) => forcing::start(node, self.storage.forcer(), self.teller.wanted(), interval),
        }
    }

    /// Notes that records appended from now on do not count.
    pub(crate) fn fail(&mut self) {
        self.failed.get_or_insert(Failure::Unsure);
    }

    pub(crate) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether the journal ends before a group for which there was no room.
    pub(crate) fn lacks_room(&self) -> bool {
        self.failed == Some(Failure::NoRoom)
    }

    /// Whether the journal has this group. None: that is not known.
    pub(crate) fn has_group(&self, group: u64) -> Option<bool> {
        match self.failed {
            None => Some(true),
            Some(Failure::NoRoom) => Some(group <= self.storage.lsn()),
            Some(Failure::Unsure) => None,
        }
    }

    /// Whether a snapshot should replace the records so far.
    pub(crate) fn wants_snapshot(&self) -> bool {
        !self.has_failed() && self.storage.wants_snapshot()
    }

    /// Replaces the appended records by the state of the core. It keeps groups that mostly hold open messages. If
    /// there is no room for the state, the journal continues as it is.
    pub(crate) fn snapshot(&mut self, now: Now, core: &Core) -> Result<(), StoreError> {
        // The core counts the groups that it appends, and the store counts those that it has.
        let agree = core.journal_group() == self.storage.lsn();
        debug_assert!(agree, "each append is a group");
        let kept = if agree { self.storage.keep_from(&core.needed_groups()) } else { u64::MAX };
        match self.storage.snapshot_keeping(kept, core.snapshot_keeping(now, kept)) {
            Ok(()) | Err(StoreError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Closes the journal. The node has ended, and appends nothing more. If only the room for a group was lacking, the
    /// journal is whole up to that group, and nothing that depends on the group has left the node.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        drop(self.teller);
        if self.failed == Some(Failure::Unsure) { Ok(()) } else { self.storage.close() }
    }
}
