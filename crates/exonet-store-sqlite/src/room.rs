//! Room on the disk: a reserve for small groups that the journal has to keep even when the disk is full.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use exonet_store::StoreError;

const FILE: &str = "reserve";

/// Does `step`. If the disk has no room for it, gives up the reserve of the last run, and does `step` once more.
pub(crate) fn with_reserve<T>(dir: &Path, step: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    match step() {
        Err(error @ StoreError::Full { .. }) => {
            let emptied = OpenOptions::new().write(true).truncate(true).open(dir.join(FILE));
            if emptied.is_ok() { step() } else { Err(error) }
        }
        done => done,
    }
}

/// A file that takes room on the disk until the journal needs that room.
pub(crate) struct Reserve {
    path: PathBuf,
    size: u64,
    /// None: the reserve was given up, or the disk had no room for it.
    file: Option<File>,
}

impl Reserve {
    pub(crate) fn new(dir: &Path, size: u64) -> Self {
        let mut this = Self { path: dir.join(FILE), size, file: None };
        this.refill();
        this
    }

    /// Takes the room again if it was given up. Returns whether the reserve has its room.
    fn refill(&mut self) -> bool {
        if self.file.is_none() {
            self.file = self.fill().ok();
        }
        self.file.is_some()
    }

    fn fill(&self) -> io::Result<File> {
        let open = OpenOptions::new().write(true).create(true).truncate(true).open(&self.path);
        let file = open?;
        allocate(&file, self.size).inspect_err(|_| drop(file.set_len(0)))?;
        Ok(file)
    }

    /// Gives up the room. Returns whether the disk has more room now.
    pub(crate) fn give_up(&mut self) -> bool {
        self.file.take().is_some_and(|file| file.set_len(0).is_ok())
    }

    /// Whether the disk has room for the reserve and for twice `need` bytes: they go into the WAL, and later into the
    /// database.
    pub(crate) fn has(&mut self, need: u64) -> bool {
        let twice = need.saturating_mul(2);
        self.refill() && self.path.parent().is_some_and(|dir| free(dir).is_none_or(|free| free > twice))
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, size: u64) -> io::Result<()> {
    or_write(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size), file, size)
}

/// Writes zeros if the file system cannot allocate room without them.
#[cfg(target_os = "linux")]
fn or_write(allocated: rustix::io::Result<()>, file: &File, size: u64) -> io::Result<()> {
    use rustix::io::Errno;
    match allocated {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write(file, size),
        allocated => Ok(allocated?),
    }
}

/// Writes zeros: not every system allocates room without them.
#[cfg(not(target_os = "linux"))]
fn allocate(file: &File, size: u64) -> io::Result<()> {
    write(file, size)
}

fn write(mut file: &File, size: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), size), &mut file).map(drop)
}

/// The free bytes of the file system. None: the system does not tell.
#[cfg(unix)]
fn free(dir: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(dir).ok()?;
    Some(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_file_system_that_cannot_allocate_is_given_bytes() {
        for (answer, len) in [(Errno::OPNOTSUPP, Some(9)), (Errno::NOSYS, Some(9)), (Errno::NOSPC, None)] {
            let file = tempfile::tempfile().unwrap();
            let len_now = or_write(Err(answer), &file, 9).ok().map(|()| file.metadata().unwrap().len());
            assert_eq!(len_now, len, "{answer}");
        }
    }
}
