//! What a listener keeps: files that are whole or not there at all.
//!
//! A file grows under a name of its own (`.exon-*.part`), which no peer can choose; it gets its real name in
//! one step, without replacing anything, after its content is on the disk. An interrupted process leaves
//! at most such a `.part` behind.

mod landing;
mod name;
mod room;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use landing::{Landed, Landing};
pub(crate) use name::{NameError, SafeName};
use room::{Full, Room};

use crate::failure::Failure;
use crate::transfer::{FormatError, PourError};
use crate::units::Size;

/// Why a file is not stored: told to its sender.
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
    #[error("the receiver cannot store it: {0}")]
    Disk(#[source] io::Error),
    /// The message ended early: nobody is there to be told.
    #[error("the message was given up: {0}")]
    GivenUp(#[source] io::Error),
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
            PourError::Write(error) => Self::Disk(error),
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
}

impl Store {
    /// Makes the directory if need be, and tries it.
    pub(crate) fn open(directory: &Path, limit: Size, overwrite: bool) -> Result<Self, Failure> {
        let unusable = |error| {
            Failure::path("store in", directory, &error).hint("choose another directory with --out DIR")
        };
        fs::create_dir_all(directory).map_err(unusable)?;
        landing::temporary(directory).map_err(unusable)?;
        Ok(Self { directory: directory.to_owned(), overwrite, room: Room::new(limit) })
    }

    /// Begins to store `size` bytes under `name`.
    pub(crate) fn begin(&self, name: SafeName, size: u64) -> Result<Landing, Refusal> {
        let space = self.room.reserve(size)?;
        Landing::begin(&self.directory, name, size, self.overwrite, space)
    }
}

#[cfg(test)]
mod tests;
