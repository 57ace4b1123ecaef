//! What a listener keeps: files that are whole or not there at all.
//!
//! A file grows under a name of its own (`.exon-*`), which no peer can choose; it gets its real name in one step,
//! without replacing anything, after its content is on the disk. What is there of a file that is copied stays when
//! the sender or this process goes, with a journal beside it, and the copy goes on from there; it is removed when
//! nothing has come for a while. Of a message nothing stays: a killed process leaves at most a `.part` behind, which
//! a later [`Store`] removes.

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
use name::NameError;
pub(crate) use name::{Names, SafePath};
pub(crate) use part::{read_at, write_at};
pub(crate) use room::Full;
use room::{BLOCK, Room};
use tree::Tree;
pub(crate) use tree::{mtime, sync_directory};

use crate::failure::Failure;
use crate::transfer::PourError;
use crate::units::Size;

/// Why a message or file is not taken. Its sender is told, but of `Disk`, `Output` and `GivenUp`: it may come again.
/// Names in it are as they came: a caller that prints it has to escape it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0} is there already, with other content; the receiver can allow replacing it with --overwrite")]
    Taken(SafePath),
    #[error("{0} is a directory at the receiver")]
    Directory(SafePath),
    #[error("a part of the path {0} is a file or a link at the receiver, and no directory")]
    NoDirectory(SafePath),
    #[error("it is a link that leads out of what is copied: {0}")]
    LeadsOut(String),
    #[error("its pieces have {0} bytes each")]
    Pieces(u32),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("cannot store it: {0}")]
    Disk(#[source] io::Error),
    /// Nothing can be printed any more.
    #[error("{0}")]
    Output(Failure),
    /// The message ended early: nobody is there to be told.
    #[error("the message was given up: {0}")]
    GivenUp(#[source] io::Error),
}

impl Refusal {
    /// Of a body that goes to standard output.
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

/// How a store behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Bytes that the directory holds in all.
    pub(crate) limit: Size,
    /// Whether it replaces files.
    pub(crate) overwrite: bool,
    pub(crate) names: Names,
    /// An unfinished message of another process that has not grown for so long is removed.
    pub(crate) patience: Duration,
    /// So is an unfinished file.
    pub(crate) keep_parts: Duration,
}

/// A directory that takes what comes, up to a limit.
#[derive(Debug)]
pub(crate) struct Store {
    tree: Tree,
    options: Options,
    room: Room,
    /// Unfinished messages that were there before this process, and may be another's.
    leftovers: Mutex<Vec<PathBuf>>,
    parts: copies::Open,
    /// When the directory may be counted anew.
    count_after: Mutex<Option<Instant>>,
}

/// Time between two counts of the directory, and how many times longer than a count it is at least.
const COUNT_PAUSE: Duration = Duration::from_secs(1);
const COUNT_SHARE: u32 = 20;

impl Store {
    /// Makes the directory if need be, tries it, removes unfinished files of the past, and counts what is there.
    pub(crate) fn open(directory: &Path, options: Options) -> Result<Self, Failure> {
        let unusable = |error| {
            Failure::path("store in", directory, &error).hint("choose another directory with --out DIR")
        };
        fs::create_dir_all(directory).map_err(unusable)?;
        landing::temporary(directory).map_err(unusable)?;
        // Nothing is compared with what is there where no limit is: the directory may be a person's home.
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

    /// Bytes that have come, where there is no limit.
    pub(crate) fn held(&self) -> u64 {
        self.room.used()
    }

    /// Counts anew what the directory holds, if that was not done just now: others may have taken files out of it.
    /// Called where something does not fit. Blocks.
    pub(crate) fn recount(&self) {
        let mut after = self.count_after.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        if after.is_some_and(|after| begun < after) {
            return;
        }
        let leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Messages on their way have what they hold counted, or not yet.
        let growing = |entry: &fs::DirEntry| sweep::is_message(entry) && !leftovers.contains(&entry.path());
        // What cannot be counted is as full as it was.
        let _ = self.room.recount(|| sweep::held(self.tree.root(), &growing));
        let ended = Instant::now();
        *after = Some(ended + (ended.saturating_duration_since(begun) * COUNT_SHARE).max(COUNT_PAUSE));
    }

    /// Begins to store a message of `size` bytes under `name`.
    pub(crate) fn begin(&self, name: SafePath, size: impl Into<Option<u64>>) -> Result<Landing, Refusal> {
        let size = size.into();
        let space = self.room.begin(size.unwrap_or_default().max(BLOCK))?;
        Landing::begin(self.tree.root(), name, size, self.options.overwrite, space)
    }
}

#[cfg(test)]
mod tests;
