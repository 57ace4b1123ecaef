//! The implementations that keep a journal.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::StoreError;
use crate::{Found, Level, Options, Storage, disk, open};

/// The file in the directory of a journal that has the name of the store. The log of this crate does not write it: its
/// other files tell.
const NAME: &str = "store";
/// The name of this crate's log, and a file that it always has.
const LOG: (&str, &str) = ("log", "run");

/// The kept groups have at most this many times as many bytes as are needed of them.
const SPARSE: u64 = 4;

/// A way to keep a journal: the [log](LogStore) of this crate, or another implementation.
///
/// An implementation has to do what [`Storage`], [`Groups`](crate::Groups) and [`Trust`](crate::Trust) say. The module
/// `contract` tests this (feature `contract`). Another implementation calls [`prepare`] first when it opens a journal.
pub trait Store: Send + Sync + 'static {
    /// The name of the store: one word. The directory of a journal has this name in a file, so that no other store begins
    /// a second journal there.
    fn name(&self) -> &str;

    /// Opens the journal in `dir`, or begins one there: see [`crate::open`].
    ///
    /// # Errors
    /// [`StoreError`] says what is wrong, and what to do. After an error, the journal of the last run is not lost.
    fn open(&self, dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError>;
}

/// The log of this crate: [`open`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStore;

impl Store for LogStore {
    fn name(&self) -> &str {
        LOG.0
    }

    fn open(&self, dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError> {
        open(dir, options)
    }
}

/// Prepares the directory `dir` for the store `name`. Every store except the log calls this first when it opens a journal.
///
/// Makes the directory if it is missing, checks that the file system and the system are good enough for the level, and
/// notes that this store keeps the journal there. Returns the id of the current boot.
///
/// # Errors
/// [`StoreError::OtherStore`], [`StoreError::NoBootId`], [`StoreError::Remote`], or the error of a read or write.
pub fn prepare(dir: &Path, name: &str, options: &Options) -> Result<Option<[u8; 16]>, StoreError> {
    disk::make_dir(dir).map_err(StoreError::io("make", dir))?;
    let boot = (options.boot)();
    check_level(options.level, dir, boot, || disk::remote(dir))?;
    if !belongs_to(dir, name)? {
        let (path, new) = (dir.join(NAME), dir.join("store.new"));
        let note = || {
            let mut file = File::create(&new)?;
            file.write_all(name.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            disk::sync_dir(dir)
        };
        note().map_err(StoreError::io("write", &path))?;
    }
    Ok(boot)
}

/// Checks that the file system of `dir` and the system are good enough for the level. `boot` is the id of the current
/// boot, and `remote` tells the kind of the file system, as [`disk::remote`] does.
pub(crate) fn check_level(
    level: Level,
    dir: &Path,
    boot: Option<[u8; 16]>,
    remote: impl FnOnce() -> io::Result<Option<&'static str>>,
) -> Result<(), StoreError> {
    if level != Level::Process {
        return Ok(());
    }
    if let Some(kind) = remote().map_err(StoreError::io("inspect", dir))? {
        return Err(StoreError::Remote { path: dir.to_path_buf(), kind });
    }
    if boot.is_none() { Err(StoreError::NoBootId) } else { Ok(()) }
}

/// Whether the store `name` keeps the journal in `dir`. False: `dir` has no journal. Fails if another store keeps it.
fn belongs_to(dir: &Path, name: &str) -> Result<bool, StoreError> {
    let path = dir.join(NAME);
    let noted = match fs::read_to_string(&path) {
        Ok(noted) => Some(noted),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let run = dir.join(LOG.1);
            let is_log = run.try_exists().map_err(StoreError::io("inspect", &run))?;
            is_log.then(|| LOG.0.to_owned())
        }
        Err(error) => return Err(StoreError::io("read", &path)(error)),
    };
    match noted {
        Some(store) if store != name => Err(StoreError::OtherStore { path: dir.to_path_buf(), store }),
        noted => Ok(noted.is_some()),
    }
}

/// Returns what [`Storage::keep_from`] has to return, for a store that keeps or removes groups in batches. `batches` has
/// all of them in order, each with the LSN of its first group and its number of bytes.
#[must_use]
pub fn keep_from(batches: &[(u64, u64)], needed: &[(u64, u64)]) -> u64 {
    let mut wanted = vec![0_u64; batches.len()];
    for (lsn, bytes) in needed {
        let behind = batches.partition_point(|(first, _)| first <= lsn);
        if let Some(wanted) = behind.checked_sub(1).and_then(|place| wanted.get_mut(place)) {
            *wanted += bytes;
        }
    }
    let (mut from, mut kept, mut held) = (u64::MAX, 0_u64, 0_u64);
    for ((first, size), wanted) in batches.iter().zip(wanted).rev() {
        (kept, held) = (kept + size, held + wanted);
        if wanted > 0 && held.saturating_mul(SPARSE) >= kept {
            from = *first;
        }
    }
    from
}

/// Fails unless the log keeps the journal in `dir`, or `dir` has none.
pub(crate) fn only_log(dir: &Path) -> Result<(), StoreError> {
    belongs_to(dir, LOG.0).map(drop)
}
