//! What a listener keeps: files that are whole or not there at all.
//!
//! A file grows under a name of its own (`.exon-*.part`), which no peer can choose; it gets its real name in
//! one step, without replacing anything, after its content is on the disk. A killed process leaves
//! at most such a `.part` behind, which a later [`Store`] removes.

mod landing;
mod name;
mod room;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub(crate) use landing::{Landed, Landing};
pub(crate) use name::{NameError, SafeName};
pub(crate) use room::Full;
use room::Room;

use crate::failure::Failure;
use crate::transfer::{FormatError, PourError};
use crate::units::Size;

/// Why a message or file is not taken. Its sender is told, but of `Disk`, `Output` and `GivenUp`: it may come again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this listener stores no files")]
    NoStore,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0} is there already, with other content")]
    Taken(SafeName),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("it is not a file of exon cp: {0}")]
    Format(#[source] FormatError),
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

impl From<FormatError> for Refusal {
    fn from(error: FormatError) -> Self {
        match error {
            // A body that ends early is its sender's fault; any other failure to read means that it is gone.
            FormatError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => Self::GivenUp(error),
            error => Self::Format(error),
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
            PourError::Short => Self::Format(FormatError::Io(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// A directory that takes what comes, up to a limit.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    overwrite: bool,
    room: Room,
    /// An unfinished file that has not grown for so long is removed.
    patience: Duration,
    /// Unfinished files that were there before this process, and may be another's.
    leftovers: Mutex<Vec<PathBuf>>,
}

impl Store {
    /// Makes the directory if need be, tries it, removes unfinished files of the past, and counts what is there.
    pub(crate) fn open(
        directory: &Path,
        limit: Size,
        overwrite: bool,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let unusable = |error| {
            Failure::path("store in", directory, &error).hint("choose another directory with --out DIR")
        };
        fs::create_dir_all(directory).map_err(unusable)?;
        landing::temporary(directory).map_err(unusable)?;
        let entries = fs::read_dir(directory).map_err(unusable)?.flatten();
        let leftovers = entries.filter(|entry| landing::is_unfinished(&entry.file_name()));
        let store = Self {
            directory: directory.to_owned(),
            overwrite,
            room: Room::new(limit, held(directory).map_err(unusable)?),
            patience,
            leftovers: Mutex::new(leftovers.map(|entry| entry.path()).collect()),
        };
        store.sweep();
        Ok(store)
    }

    /// Begins to store `size` bytes under `name`.
    pub(crate) fn begin(&self, name: SafeName, size: u64) -> Result<Landing, Refusal> {
        let space = self.room.begin(size)?;
        Landing::begin(&self.directory, name, size, self.overwrite, space)
    }

    /// Removes unfinished files of killed processes once they have not grown for a while. Those of this process go with
    /// the delivery that they belong to.
    pub(crate) fn sweep(&self) {
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        leftovers.retain(|path| {
            let Ok(about) = fs::symlink_metadata(path) else { return false };
            let old = about.modified().is_ok_and(|then| age(then) >= self.patience);
            if about.is_file() && old && fs::remove_file(path).is_ok() {
                self.room.give_back(about.len());
                return false;
            }
            true
        });
    }
}

/// The time since `then`; none, if that is in the future.
fn age(then: SystemTime) -> Duration {
    SystemTime::now().duration_since(then).unwrap_or_default()
}

/// Bytes of all files below `directory`. Links are not followed.
fn held(directory: &Path) -> io::Result<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let bytes = match entry.metadata() {
            Ok(about) if about.is_dir() => held(&entry.path())?,
            Ok(about) if about.is_file() => about.len(),
            // Gone meanwhile, or nothing that holds bytes.
            _ => 0,
        };
        sum = sum.saturating_add(bytes);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
