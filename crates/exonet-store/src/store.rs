//! Which implementation keeps a journal.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::StoreError;
use crate::{Found, Groups, Level, Options, Storage, Trust, disk, open, read};

/// The file in the directory of a journal that names the store. The log of this crate has none: it is known by its own files.
const NAME: &str = "store";
/// The name of this crate's log, and a file that it always has.
const LOG: (&str, &str) = ("log", "run");

/// A way to keep a journal: the [log](LogStore) of this crate, or another implementation.
///
/// An implementation keeps what [`Storage`], [`Groups`] and [`Trust`] say. The feature `contract` has tests for that, in
/// the module `contract`. It begins with [`prepare`].
pub trait Store: Send + Sync + 'static {
    /// The name of the store: a word. The directory of a journal keeps it, so that no other store begins a second journal there.
    fn name(&self) -> &str;

    /// Opens the journal in `dir`, or begins one there: see [`crate::open`].
    ///
    /// # Errors
    /// [`StoreError`] says what is wrong, and what to do. Nothing that the last run left is lost then.
    fn open(&self, dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError>;

    /// Reads the journal in `dir`, and changes nothing that it keeps: see [`crate::read`]. The caller
    /// drops the groups before it opens the journal.
    ///
    /// # Errors
    /// The errors of [`Store::open`].
    fn read(&self, dir: &Path, options: Options) -> Result<Option<(Trust, Groups)>, StoreError>;
}

/// The log of this crate: [`open`] and [`read`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStore;

impl Store for LogStore {
    fn name(&self) -> &str {
        LOG.0
    }

    fn open(&self, dir: &Path, options: Options) -> Result<(Box<dyn Storage>, Found), StoreError> {
        open(dir, options)
    }

    fn read(&self, dir: &Path, options: Options) -> Result<Option<(Trust, Groups)>, StoreError> {
        read(dir, options)
    }
}

/// What every store but the log does first when it opens a journal: makes the directory `dir` if it is missing, checks that the
/// place and the system are good enough for the level, and notes that the store `name` keeps the journal there. Returns the id
/// of the current boot.
///
/// # Errors
/// [`StoreError::OtherStore`], [`StoreError::NoBootId`], [`StoreError::Remote`]; or the directory cannot be read or written.
pub fn prepare(dir: &Path, name: &str, options: &Options) -> Result<Option<[u8; 16]>, StoreError> {
    disk::make_dir(dir).map_err(StoreError::io("make", dir))?;
    let boot = (options.boot)();
    if options.level == Level::Process {
        if let Some(kind) = disk::remote(dir).map_err(StoreError::io("inspect", dir))? {
            return Err(StoreError::Remote { path: dir.to_path_buf(), kind });
        }
        if boot.is_none() {
            return Err(StoreError::NoBootId);
        }
    }
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

/// Whether the store `name` keeps the journal in `dir`. False: no store has one there.
///
/// # Errors
/// [`StoreError::OtherStore`]: another store has one there.
pub fn belongs_to(dir: &Path, name: &str) -> Result<bool, StoreError> {
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

/// Fails if another store than the log keeps the journal in `dir`.
pub(crate) fn only_log(dir: &Path) -> Result<(), StoreError> {
    belongs_to(dir, LOG.0).map(drop)
}
