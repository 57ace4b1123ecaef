//! The journal of an Exonet node on a disk.
//!
//! This crate keeps bytes: groups, which are appended behind each other, forced to the disk, and found again after a crash. It
//! knows nothing of what they mean. `docs/store.md` is for those who run nodes.
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
//! | `log-N.snapshot` | what stands for all groups up to some LSN; N is the generation in which the log began | with each snapshot |
//! | `log-N.seg-K` | groups; or nothing that counts, in the pool | with each group |
//! | `untrusted-N.*` | the last log that was not trusted, at most one: may be removed | when a log is not trusted |
//! | `*.new` | a file that was not finished | |
//! | `exonet-IDENTITY` in the runtime directory | the witness: generation and last LSN | with each group, at the level `Process` |
//!
//! # The format
//!
//! Numbers are little-endian. The LSN counts the groups of a log, from 1, through all runs.
//!
//! | Header of a file | Bytes | |
//! |---|---|---|
//! | magic | 8 | `exonseg\n` or `exonsnp\n` |
//! | identity | 32 | the caller's tag |
//! | log | 8 | the generation in which the log began |
//! | run | 8 | the generation that wrote this header |
//! | LSN | 8 | of a segment: of its first group, 0 in the pool; of a snapshot: of the last group that it stands for |
//! | length | 8 | of a segment: of the file; of a snapshot: of what follows the header |
//! | checksum | 4 | of a snapshot: of what follows the header |
//! | version | 4 | 1; 2 of a snapshot that counts on groups before it |
//! | kept | 8 | of such a snapshot: the LSN of the first of these, with which a segment begins |
//! | forced | 8 | of such a snapshot: all groups up to this LSN were on the disk when it was written |
//! | zeros | 28 | |
//! | checksum | 4 | CRC-32C of the bytes before |
//!
//! | Group, at a multiple of 8 | Bytes | |
//! |---|---|---|
//! | checksum | 4 | CRC-32C of identity, log, and what follows |
//! | length | 4 | of the bytes of the group, at least 1 |
//! | LSN | 8 | one more than that of the group before |
//! | run | 8 | the generation that appended it, exclusive-or the first eight bytes of the identity |
//! | forced | 8 | all groups up to this LSN were on the disk when this one was appended |
//! | bytes | length | |
//!
//! A snapshot may count on groups before it: their segments stay, and are read behind the snapshot. At the levels that force,
//! they are on the disk before it is; at the level `Process` a log that lacks one of them is not trusted.
//!
//! A group lies in one segment. If it does not fit behind the others, it begins another; a group that is longer than a segment
//! gets a longer one of its own, which is removed after the next snapshot. The log ends where no group follows whose checksum,
//! LSN and run fit: so the old groups of a segment that is used again never count.
//!
//! The run of a group is never below that of the group before, nor below that of the segment's header. Where it is, the log
//! ends too: a cut of power left such a group behind the end of an earlier run.
//!
//! # Contract
//!
//! * The caller holds a lock on the identity for as long as a [`Storage`], or anything that came from it, lives, and checks it
//!   before it acts on what [`Force::force`] says.
//! * What [`Storage::append`] has taken is found again after the death of the process; what [`Force::force`] has told is found
//!   again after a cut of power. What is found is what was appended, in order, up to some group.
//! * A journal that cannot promise this is [`Trust::Untrusted`], or an error that says what to do. It is never replaced
//!   silently.
//! * After a failed sync nothing works any more.

mod ahead;
mod chores;
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
mod segment;
mod shared;
#[cfg(unix)]
mod shelf;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use ahead::{Settled, Standing, is_clean, standing};
pub use error::StoreError;
pub use found::{Found, FoundGroup, Groups};
#[cfg(unix)]
pub use shelf::{Kept, Shelf};
pub use trust::{Reason, Trust};

/// The most bytes of one group, and of the state of one snapshot.
pub const MAX_GROUP: u64 = u32::MAX as u64;

/// How much a crash may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Nothing with the process. Everything with the system: the journal is not trusted then, unless it had ended cleanly.
    Process,
    /// With the system, what the caller has not forced. The caller forces now and then.
    Batched,
    /// With the system, what the caller has not forced. The caller forces before it acts.
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
/// Dropping it is like a crash of the process: the end is not noted as clean. It waits for work on other threads that has
/// begun.
pub trait Storage: Send {
    /// Appends one group behind all others. When it returns, the death of this process loses nothing of it. A group is kept
    /// whole, or lost with all that follow. `through`: the caller's position after it, counted from zero in this run.
    /// Empty records are no group.
    ///
    /// # Errors
    /// [`StoreError::Full`]: nothing of it counts, and the same call may succeed later. [`StoreError::Backwards`],
    /// [`StoreError::TooLong`]. Any other error is for good.
    fn append(&mut self, through: u64, records: &[u8]) -> Result<(), StoreError> {
        self.append_parts(through, &[records])
    }

    /// As [`Storage::append`], of one group whose bytes lie in several places.
    ///
    /// # Errors
    /// As [`Storage::append`].
    fn append_parts(&mut self, through: u64, records: &[&[u8]]) -> Result<(), StoreError>;

    /// What forces the journal from another thread.
    fn forcer(&self) -> Box<dyn Force>;

    /// The log has grown so much that a snapshot should replace it: by [`Options::snapshot_after`], and by as much as the
    /// last snapshot has, so that snapshots are at most half of what is written. False while a snapshot is being written,
    /// and for a while after one failed.
    fn wants_snapshot(&self) -> bool;

    /// Puts `state` in the place of everything that was appended before. It is written on a thread of its own; until it is
    /// on the disk, what it replaces stays. Waits for the snapshot before, if that is not written yet.
    ///
    /// # Errors
    /// [`StoreError::Full`]: there was no room, now or for the snapshot before; nothing was done, and the log goes on.
    /// [`StoreError::Reading`], [`StoreError::TooLong`]. Any other error is for good.
    fn snapshot(&mut self, state: Vec<u8>) -> Result<(), StoreError> {
        self.snapshot_keeping(u64::MAX, state)
    }

    /// As [`Storage::snapshot`], of a state that refers to groups from the LSN `from` on: these stay, and are found again behind
    /// the snapshot, as [kept](FoundGroup::kept). Groups that a snapshot did not keep cannot be kept later.
    ///
    /// # Errors
    /// As [`Storage::snapshot`].
    fn snapshot_keeping(&mut self, from: u64, state: Vec<u8>) -> Result<(), StoreError>;

    /// The first group that a snapshot should keep, if `needed` are LSNs, each with how many of its bytes are still needed:
    /// what is kept has at most four times as many. What is needed of groups before it should be copied into the snapshot.
    /// `u64::MAX`: none should be kept.
    fn keep_from(&self, needed: &[(u64, u64)]) -> u64;

    /// The LSN of the last group; each group has one more than that before it.
    fn lsn(&self) -> u64;

    /// Bytes of groups that can be appended before the disk is asked for more room. Each group takes up to 39 more than it
    /// has, and leaves what it does not fit into.
    fn room(&self) -> u64;

    /// Whether there is room for `need` bytes that begin something new, beside a quarter of a segment for what follows from what
    /// is there already. If not, the disk is asked for more first. A caller that begins nothing new without it can go on
    /// ending what it has begun when the disk is full.
    fn has_reserve(&mut self, need: u64) -> bool;

    /// Ends cleanly: forces everything, and notes that nothing comes after. The next run trusts the journal then, whatever
    /// happens to the system.
    ///
    /// # Errors
    /// As [`Force::force`], and when the note cannot be written.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// Forces a journal to the disk.
pub trait Force: Send {
    /// Forces all that was appended before the call; the position up to which the journal is on the disk.
    ///
    /// # Errors
    /// [`StoreError::Sync`] if the system could not. This and every later call fails in the same way.
    fn force(&mut self) -> Result<u64, StoreError>;
}

/// Where files lie in memory, which outlive the process and not the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// `$XDG_RUNTIME_DIR`, `/run/user/UID` or `/dev/shm`, the first that there is.
    #[default]
    Found,
    /// This directory.
    Dir(PathBuf),
    /// Nowhere.
    None,
}

/// How a journal is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// A tag of the identity that the journal belongs to. One that others cannot guess keeps bytes that they send from passing
    /// for groups in a damaged log; a hash of the secret key, say.
    pub identity: [u8; 32],
    /// How much a crash may take.
    pub level: Level,
    /// Bytes of a segment: 4 MiB. A multiple of 4,096.
    pub segment: u64,
    /// Bytes that the log grows by before a snapshot is wanted: 16 MiB. What is written again and again stays in the caches of
    /// the processor only if it is not much more.
    pub snapshot_after: u64,
    /// The most segments that are kept to be used again: 16.
    pub pool: usize,
    /// Where the witness lies.
    pub runtime: Runtime,
    /// Whether segments may be mapped. They are at the level `Process`, where the file system writes a block where it is. At
    /// the other levels they are not: the system keeps a mapped file in large pages, and forces all of each that was touched,
    /// which was measured to write ten times as much and to take two to three times as long.
    pub map: bool,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(identity: [u8; 32], level: Level) -> Self {
        let (segment, snapshot_after, pool) = (4 << 20, 16 << 20, 16);
        Self { identity, level, segment, snapshot_after, pool, runtime: Runtime::Found, map: true }
    }

    fn checked(mut self) -> Self {
        self.segment = self.segment.clamp(4096, 1 << 30).next_multiple_of(4096);
        self
    }
}

/// Opens the journal in `dir`, or begins one there. The directory above must be there, and locked by the caller.
///
/// # Errors
/// [`StoreError`] tells what is wrong and what to do. Nothing that the last run left is lost then.
pub fn open(dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError> {
    let (disk, options) = real(dir, options)?;
    let (log, found) = recover::open(disk, Arc::new(shared::Threads), options)?;
    Ok((log, found))
}

/// Reads the journal in `dir` and changes nothing: whether [`open`] would trust it, and if so the groups that it would find. None:
/// there is no journal. The directory above must be locked by the caller.
///
/// # Errors
/// As [`open`].
pub fn read(dir: &Path, options: Options) -> Result<Option<(Trust, Groups)>, StoreError> {
    if !dir.try_exists().map_err(StoreError::io("inspect", dir))? {
        return Ok(None);
    }
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
    let disk = disk::RealDisk::open(dir, options.identity, options.runtime.clone(), may_map);
    #[cfg(feature = "laboratory")]
    let disk = disk.and_then(laboratory::LabDisk::new);
    Ok((Arc::new(disk.map_err(StoreError::io("open", dir))?), options))
}
