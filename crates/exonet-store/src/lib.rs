//! The journal of an Exonet node on disk.
//!
//! This crate stores groups of bytes. The caller appends them one after the other, forces them to the disk, and finds
//! them again after a crash. The crate does not know what the bytes mean. `docs/store.md` is for operators of nodes.
//!
//! ```
//! use exonet_store::{Level, Options, Storage};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temp = tempfile::tempdir()?;
//! # let dir = temp.path().join("journal");
//! let (mut journal, mut found) = exonet_store::open(&dir, Options::new([7; 32], Level::Sync))?;
//! while let Some(_group) = found.groups.next_group()? {}
//! journal.append(5, b"first")?;
//! let mut forcer = journal.forcer();
//! assert_eq!(forcer.force()?, 5);
//! journal.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # The files
//!
//! | File | Holds | Changes |
//! |---|---|---|
//! | `run` | how the last run began and ended: one line, replaced as a whole and forced | at the start, at a clean end, when a sync fails |
//! | `log-N.snapshot` | the snapshot, which replaces all groups up to some LSN; N is the generation in which the log began | with each snapshot |
//! | `log-N.seg-K` | a segment: groups, or in the pool nothing that counts | with each group |
//! | `untrusted-N.*` | the last log that was not trusted; there is at most one, and it may be removed | when a log is not trusted |
//! | `*.new` | a file that was not finished | |
//! | `exonet-IDENTITY` in the runtime directory | the witness: generation and last LSN | with each group, at the level `Process` |
//!
//! # The format
//!
//! Numbers are little-endian. An LSN (log sequence number) is the number of a group in its log, counted from 1 across
//! all runs.
//!
//! | Header of a file | Bytes | |
//! |---|---|---|
//! | magic | 8 | `exonseg\n` or `exonsnp\n` |
//! | identity | 32 | the caller's tag |
//! | log | 8 | the generation in which the log began |
//! | run | 8 | the generation that wrote this header |
//! | LSN | 8 | in a segment: that of its first group, 0 in the pool; in a snapshot: that of the last group that it replaces |
//! | length | 8 | in a segment: that of the file; in a snapshot: that of the bytes after the header |
//! | checksum | 4 | in a snapshot: that of the bytes after the header |
//! | version | 4 | 1; 2 in a snapshot that depends on groups before it |
//! | kept | 8 | in such a snapshot: the LSN of the first of these groups, with which a segment begins |
//! | forced | 8 | in such a snapshot: all groups up to this LSN were on disk when it was written |
//! | zeros | 28 | |
//! | checksum | 4 | CRC-32C of the bytes before |
//!
//! | Group, at a multiple of 8 | Bytes | |
//! |---|---|---|
//! | checksum | 4 | CRC-32C of identity, log, and the bytes after this field |
//! | length | 4 | the number of bytes of the group, at least 1 |
//! | LSN | 8 | one more than that of the group before |
//! | run | 8 | the generation that appended it, exclusive-or the first eight bytes of the identity |
//! | forced | 8 | all groups up to this LSN were on disk when this one was appended |
//! | bytes | length | |
//!
//! A snapshot may depend on groups before it. Their segments stay, and are read after the snapshot. At the levels
//! that force, these groups are on disk before the snapshot. At the level `Process`, a log that lacks one of them is
//! not trusted.
//!
//! A group lies in one segment. If it does not fit after the others, it begins the next one. A group that is longer
//! than a segment gets a longer segment of its own, which is removed after the next snapshot. The log ends at the
//! first place that has no group with a matching checksum, LSN and run. So the old groups of a reused segment never
//! count.
//!
//! The run of a group is never lower than that of the group before, or that of the segment's header. A group with a
//! lower run ends the log too: a power failure left it after the end of an earlier run.
//!
//! # Contract
//!
//! * The caller holds a lock on the identity as long as a [`Storage`], or anything that came from it, exists. It
//!   checks the lock before it acts on the result of [`Force::force`].
//! * Groups that [`Storage::append`] has accepted are found again after the death of the process. Groups that
//!   [`Force::force`] has reported are found again after a power failure. The groups that are found are those that
//!   were appended, in order, up to some group.
//! * A journal that cannot guarantee this is [`Trust::Untrusted`], or gives an error that says what to do. It is
//!   never replaced silently.
//! * After a failed sync every call fails.

mod ahead;
mod chores;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod disk;
mod error;
mod format;
mod found;
#[doc(hidden)]
pub mod laboratory;
mod log;
mod recover;
mod run;
mod scan;
mod secure;
mod segment;
mod shared;
#[cfg(unix)]
mod shelf;
mod store;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use ahead::{Settled, Standing, is_clean, standing};
pub use disk::{boot_id, sync_dir};
pub use error::StoreError;
pub use found::{Found, FoundGroup, Groups, ReadGroups};
#[cfg(unix)]
pub use shelf::{Kept, Shelf};
pub use store::{LogStore, Store, keep_from, prepare};
pub use trust::{Reason, Trust};

/// The largest number of bytes in one group, and in the state of one snapshot.
pub const MAX_GROUP: u64 = u32::MAX as u64;

/// What a crash may make the journal lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// If the process ends, nothing is lost. If the system ends, everything is: the journal is then not trusted,
    /// unless it had ended cleanly.
    Process,
    /// If the system ends, groups are lost that the caller has not forced. The caller forces from time to time.
    Batched,
    /// If the system ends, groups are lost that the caller has not forced. The caller forces before it acts.
    Sync,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Batched => "batched",
            Self::Sync => "sync",
        })
    }
}

/// An open journal.
///
/// Dropping it has the effect of a crash of the process: the end is not noted as clean. The destructor waits for work
/// that other threads have begun.
pub trait Storage: Send {
    /// Appends one group after all others. When this returns, the death of this process loses nothing of the group. A
    /// group is kept as a whole, or lost together with all groups after it. `through` is the caller's position after
    /// the group, counted from zero in this run. Empty records make no group.
    ///
    /// # Errors
    /// [`StoreError::Full`]: nothing of the group counts, and the same call may succeed later.
    /// [`StoreError::Backwards`], [`StoreError::TooLong`]. Any other error is permanent.
    fn append(&mut self, through: u64, records: &[u8]) -> Result<(), StoreError> {
        self.append_parts(through, &[records])
    }

    /// Like [`Storage::append`], for one group whose bytes lie in several places.
    ///
    /// # Errors
    /// The errors of [`Storage::append`].
    fn append_parts(&mut self, through: u64, records: &[&[u8]]) -> Result<(), StoreError>;

    /// A handle with which another thread can force the journal.
    fn forcer(&self) -> Box<dyn Force>;

    /// Whether a snapshot should replace the log: it has grown by [`Options::snapshot_after`], and by at least the
    /// size of the last snapshot, so that snapshots are at most half of all writes. False while a snapshot is being
    /// written, and for a while after one has failed.
    fn wants_snapshot(&self) -> bool;

    /// Replaces everything that was appended so far by `state`. A separate thread writes the snapshot; until it is on
    /// disk, the groups that it replaces stay. Waits for the previous snapshot, if that is not yet written.
    ///
    /// # Errors
    /// [`StoreError::Full`]: there was no room, now or for the previous snapshot; nothing was done, and the log
    /// continues. [`StoreError::Reading`], [`StoreError::TooLong`]. Any other error is permanent.
    fn snapshot(&mut self, state: Vec<u8>) -> Result<(), StoreError> {
        self.snapshot_keeping(u64::MAX, state)
    }

    /// Like [`Storage::snapshot`], for a state that depends on groups from the LSN `from` on. These groups stay, and
    /// are found again after the snapshot, as [kept](FoundGroup::kept). If a snapshot has not kept a group, no later
    /// snapshot can.
    ///
    /// # Errors
    /// The errors of [`Storage::snapshot`].
    fn snapshot_keeping(&mut self, from: u64, state: Vec<u8>) -> Result<(), StoreError>;

    /// Returns the LSN of the first group that a snapshot should keep. `needed` has LSNs, each with the number of
    /// bytes of its group that the caller still needs. The kept groups have at most four times as many bytes as are
    /// needed of them. The caller should copy what it needs of earlier groups into the snapshot. `u64::MAX`: the
    /// snapshot should keep no group.
    fn keep_from(&self, needed: &[(u64, u64)]) -> u64;

    /// The LSN of the last group. Each group has the LSN of the one before plus one.
    fn lsn(&self) -> u64;

    /// How many bytes of groups can be appended before the journal needs more room on the disk. Each group takes up
    /// to 39 bytes in addition. If a group does not fit into the rest of a segment, that rest is not used.
    fn room(&self) -> u64;

    /// Whether there is room for one group of `need` bytes that begins something new, and in addition for a quarter of a
    /// segment: for records that follow from existing ones. If not, this first asks the disk for more, whatever the
    /// length. A caller that begins nothing new without this room can finish what it has begun even when the disk is
    /// full.
    fn has_reserve(&mut self, need: u64) -> bool;

    /// Checks that the files of the journal are still there. This asks the system, so the caller does it from time to time.
    /// A store without files that can be removed while they are open need not implement it.
    ///
    /// # Errors
    /// [`StoreError::Removed`]. The error is permanent.
    fn still_there(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends cleanly: forces everything, and notes that nothing follows. The next run then trusts the journal,
    /// whatever happens to the system.
    ///
    /// # Errors
    /// The errors of [`Force::force`] and [`Storage::still_there`]; or the note cannot be written.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// Forces a journal to the disk.
pub trait Force: Send {
    /// Forces everything that was appended before the call. Returns the position up to which the journal is on disk.
    ///
    /// # Errors
    /// [`StoreError::Sync`] if the system could not do that. Then this and every later call fail in the same way.
    fn force(&mut self) -> Result<u64, StoreError>;
}

/// The directory for files in memory, which outlive the process but not the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// The first of `$XDG_RUNTIME_DIR`, `/run/user/UID` and `/dev/shm` that exists.
    #[default]
    Found,
    /// This directory.
    Dir(PathBuf),
    /// No directory.
    None,
}

/// The options for opening a journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// A tag of the identity to which the journal belongs. If others cannot guess it, bytes that they have sent
    /// cannot be taken for groups in a damaged log. It can be a hash of the secret key.
    pub identity: [u8; 32],
    /// What a crash may make the journal lose.
    pub level: Level,
    /// The length of a segment in bytes, a multiple of 4,096. Default: 4 MiB.
    pub segment: u64,
    /// By how many bytes the log grows before a snapshot is wanted. Default: 64 MiB at the level `Process`, which may
    /// write that much in 30 ms, and with less would spend a tenth of its time on snapshots; 16 MiB at the other
    /// levels.
    pub snapshot_after: u64,
    /// How many segments are kept for reuse at most. Default: 28 at the level `Process`, 16 at the other levels. 28 are
    /// enough for the groups between two snapshots, for those that come while a snapshot is written, and for those that
    /// a snapshot keeps.
    pub pool: usize,
    /// The directory of the witness.
    pub runtime: Runtime,
    /// Returns the id of the current boot of the system, if there is one. Default: [`boot_id`].
    pub boot: fn() -> Option<[u8; 16]>,
    /// Whether segments may be mapped. They are mapped at the level `Process`, on file systems that write a block in
    /// place. They are not mapped at the other levels: the system keeps a mapped file in large pages, and forces
    /// every changed page as a whole. A measurement showed ten times as many written bytes, and two to three times
    /// the duration.
    pub map: bool,
}

impl Options {
    /// The default options.
    #[must_use]
    pub fn new(identity: [u8; 32], level: Level) -> Self {
        let (snapshot_after, pool) = match level {
            Level::Process => (64 << 20, 28),
            Level::Batched | Level::Sync => (16 << 20, 16),
        };
        Self {
            identity,
            level,
            segment: 4 << 20,
            snapshot_after,
            pool,
            runtime: Runtime::Found,
            boot: boot_id,
            map: true,
        }
    }

    fn checked(mut self) -> Self {
        self.segment = self.segment.clamp(4096, 1 << 30).next_multiple_of(4096);
        self
    }
}

/// Opens the journal in `dir`, or begins one there. The directory above must exist, and the caller must hold its
/// lock.
///
/// # Errors
/// [`StoreError`] says what is wrong, and what to do. Nothing that the last run left is lost then.
pub fn open(dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError> {
    store::only_log(dir)?;
    let (disk, options) = real(dir, options)?;
    let (log, found) = recover::open(disk, Arc::new(shared::Threads), options)?;
    Ok((log, found))
}

/// Reads the journal in `dir`, and changes nothing. Returns whether [`open`] would trust it, and if so the groups
/// that it would find. None: there is no journal. The caller must hold the lock of the directory above.
///
/// # Errors
/// The errors of [`open`].
pub fn read(dir: &Path, options: Options) -> Result<Option<(Trust, Groups)>, StoreError> {
    if !dir.try_exists().map_err(StoreError::io("inspect", dir))? {
        return Ok(None);
    }
    store::only_log(dir)?;
    let (disk, options) = real(dir, options)?;
    recover::read(disk, options)
}

#[cfg(feature = "laboratory")]
type SystemDisk = laboratory::LabDisk;
#[cfg(not(feature = "laboratory"))]
type SystemDisk = disk::RealDisk;

fn real(dir: &Path, options: Options) -> Result<(Arc<SystemDisk>, Options), StoreError> {
    let options = options.checked();
    let may_map = options.map && options.level == Level::Process;
    let disk = disk::RealDisk::open(dir, &options, may_map);
    #[cfg(feature = "laboratory")]
    let disk = disk.and_then(laboratory::LabDisk::new);
    Ok((Arc::new(disk.map_err(StoreError::io("open", dir))?), options))
}
