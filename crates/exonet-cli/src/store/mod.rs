//! The store of a listener, whose files are always complete.
//!
//! A file grows under a temporary name (`.exon-*`), which no peer can choose. It gets its final name atomically,
//! without replacing anything, after its content is on the disk. A partial copy of a file stays when the sender or
//! this process ends, with a journal beside it, and the copy resumes from there. It is removed when nothing has
//! arrived for a while. A partial message does not stay: a killed process leaves at most a `.part` file, which a
//! later [`Store`] removes.

mod copies;
mod journal;
mod landing;
mod name;
mod part;
mod room;
mod sweep;
mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use copies::Event;
pub(crate) use landing::Landing;
pub(crate) use name::{NameError, Names, SafePath};
pub(crate) use part::{read_at, write_at};
pub(crate) use room::Full;
use room::{BLOCK, Room};
use tree::Tree;
pub(crate) use tree::{is_special, mtime, sync_directory};

use crate::failure::Failure;
use crate::transfer::PourError;
use crate::units::Size;

/// The reason why a message or file is not accepted. The sender is told, except for `Disk`, `Output` and `GivenUp`,
/// after which the message or file may be sent again. Names in the text are as received: a caller that prints it has
/// to escape it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0} is already there, with other content; the receiver can allow replacing it with --overwrite")]
    Taken(SafePath),
    #[error("{0} is a directory at the receiver")]
    Directory(SafePath),
    #[error("{0} is a device, a pipe or a socket at the receiver")]
    Special(SafePath),
    #[error("a part of the path {0} is a file or a link at the receiver, not a directory")]
    NoDirectory(SafePath),
    #[error("it is a link that points out of the copied directory: {0}")]
    LeadsOut(String),
    #[error("its pieces have {0} bytes each")]
    Pieces(u32),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("cannot store it: {0}")]
    Disk(#[source] io::Error),
    /// The output has failed.
    #[error("{0}")]
    Output(Failure),
    /// The message ended early, so no sender waits for the reason.
    #[error("the sender gave the message up: {0}")]
    GivenUp(#[source] io::Error),
}

impl Refusal {
    /// Converts the error of a body that is written to standard output.
    pub(crate) fn of_output(error: PourError) -> Self {
        match error {
            PourError::Write(error) => Self::Output(Failure::output(&error)),
            error => error.into(),
        }
    }
}

impl From<PourError> for Refusal {
    fn from(error: PourError) -> Self {
        match error {
            PourError::Read(error) => Self::GivenUp(error),
            PourError::Write(error) => match error.downcast::<Full>() {
                Ok(full) => Self::Full(full),
                Err(error) => Self::Disk(error),
            },
            PourError::Short => Self::GivenUp(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The options of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The maximum number of bytes in the directory.
    pub(crate) limit: Size,
    /// Whether existing files are replaced.
    pub(crate) overwrite: bool,
    pub(crate) names: Names,
    /// The time without growth after which an unfinished message of another process is removed.
    pub(crate) patience: Duration,
    /// The time without growth after which an unfinished file is removed.
    pub(crate) keep_parts: Duration,
}

/// A directory that stores messages and files, up to a limit.
#[derive(Debug)]
pub(crate) struct Store {
    tree: Tree,
    options: Options,
    room: Room,
    /// Unfinished messages that existed before this process, and may belong to another process.
    leftovers: Mutex<Vec<PathBuf>>,
    parts: copies::Open,
    /// The time from which on the directory may be counted again.
    count_after: Mutex<Option<Instant>>,
}

/// The minimum pause between two counts of the directory, and its minimum as a multiple of the duration of a count.
const COUNT_PAUSE: Duration = Duration::from_secs(1);
const COUNT_SHARE: u32 = 20;

impl Store {
    /// Creates the directory if needed, tests it, removes old unfinished files, and counts the stored bytes.
    pub(crate) fn open(directory: &Path, options: Options) -> Result<Self, Failure> {
        let unusable = |error| {
            Failure::path("store in", directory, &error).hint("choose another directory with --out DIR")
        };
        fs::create_dir_all(directory).map_err(unusable)?;
        landing::temporary(directory).map_err(unusable)?;
        // Without a limit, the directory is not counted: it may be a home directory.
        let held = if options.limit == Size(u64::MAX) {
            0
        } else {
            sweep::held(directory, &|_| false).map_err(unusable)?
        };
        let store = Self {
            tree: Tree::new(directory),
            options,
            room: Room::new(options.limit, held),
            leftovers: Mutex::new(sweep::leftovers(directory).map_err(unusable)?),
            parts: copies::Open::default(),
            count_after: Mutex::default(),
        };
        store.sweep();
        store.tidy();
        Ok(store)
    }

    /// The number of bytes that have arrived, if there is no limit.
    pub(crate) fn held(&self) -> u64 {
        self.room.used()
    }

    /// Counts the content of the directory again, unless that was done recently: files may have been removed from it.
    /// Called if something does not fit. Blocks.
    pub(crate) fn recount(&self) {
        let mut after = self.count_after.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        if after.is_some_and(|after| begun < after) {
            return;
        }
        let leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Messages in progress are accounted for separately.
        let growing = |entry: &fs::DirEntry| sweep::is_message(entry) && !leftovers.contains(&entry.path());
        // If the count fails, the old value stays.
        let _ = self.room.recount(|| sweep::held(self.tree.root(), &growing));
        let ended = Instant::now();
        *after = Some(ended + (ended.saturating_duration_since(begun) * COUNT_SHARE).max(COUNT_PAUSE));
    }

    /// Begins to store a message of `size` bytes under `name`.
    pub(crate) fn begin(&self, name: SafePath, size: impl Into<Option<u64>>) -> Result<Landing, Refusal> {
        let size = size.into();
        let space = self.room.begin(size.map(|size| size.max(BLOCK)))?;
        Landing::begin(self.tree.root(), name, size, self.options.overwrite, space)
    }
}

#[cfg(test)]
mod tests;
