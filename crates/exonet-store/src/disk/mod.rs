//! The interface of a disk and its system. The log uses it, so that it runs on real files and on a simulated disk.

mod map;
mod place;
mod real;
mod witness;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::StoreError;

pub use place::boot_id;
pub(crate) use place::remote;
pub use real::sync_dir;
pub(crate) use real::{RealDisk, make_dir};

/// One directory, and the system to which it belongs.
pub(crate) trait Disk: Send + Sync {
    /// The path of a name, for errors. An empty name means the directory.
    fn path(&self, name: &str) -> PathBuf;
    /// All names.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens the file of that name. None: there is none.
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>>;
    /// Creates an empty file, which other users cannot read. Fails if there is already a file of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file. A file at `to` is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. It is no error if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces the names to the disk.
    fn sync_names(&self) -> io::Result<()>;
    /// An id of the current boot of the system, if the system has one.
    fn boot(&self) -> Option<[u8; 16]>;
    /// The kind of file system, if its memory may be lost when the process ends. None: it may not.
    fn remote(&self) -> io::Result<Option<&'static str>>;
    /// A witness in memory that outlives the process, but not the system. None: there can be none.
    fn witness(&self) -> Option<Box<dyn Witness>>;
}

/// One file. The holder of this value is its only writer.
pub(crate) trait DiskFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads up to `to.len()` bytes; fewer at the end of the file.
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize>;
    /// Writes the parts one after the other. When this returns, the bytes survive the process.
    fn write_at(&mut self, at: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Makes later writes within the present length as fast as possible. If that is not possible, nothing changes.
    fn map(&mut self);
    /// Ends the mapping. The file is not written until it is mapped again.
    fn unmap(&mut self) {}
    /// A handle with which another thread can force the file.
    fn syncer(&self) -> Arc<dyn Syncer>;
}

/// Forces one file to the disk.
pub(crate) trait Syncer: Send + Sync {
    /// Forces the file: when this returns, all bytes that were written before the call are on disk.
    fn sync(&self) -> io::Result<()>;
}

/// Keeps the last LSN in a place where it survives a crash of the process, and where the loss of a page of the log
/// does not change it.
pub(crate) trait Witness: Send {
    /// Generation and LSN.
    fn read(&self) -> Option<(u64, u64)>;
    /// Begins another run.
    fn begin(&mut self, generation: u64, lsn: u64) -> io::Result<()>;
    /// Notes one more group.
    fn note(&mut self, lsn: u64);
    /// Removes the witness, since there is nothing to note.
    fn remove(&mut self);
}

/// Reads until `to` is full or the file ends.
pub(crate) fn read_full(file: &dyn DiskFile, at: u64, to: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(at + done as u64, rest) {
            Ok(0) => break,
            Ok(some) => done += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Makes `parts` the content of `name`; it is durable when this returns. If the process or the machine dies before,
/// the file has the old or the new content.
pub(crate) fn replace(disk: &dyn Disk, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
    let temp = format!("{name}.new");
    let path = disk.path(&temp);
    disk.remove(&temp).map_err(StoreError::io("remove", &path))?;
    let written = write_new(disk, &temp, parts);
    if written.is_err() {
        let _ = disk.remove(&temp);
    }
    written?;
    disk.rename(&temp, name).map_err(StoreError::io("replace", &disk.path(name)))?;
    sync_names(disk)
}

fn write_new(disk: &dyn Disk, name: &str, parts: &[&[u8]]) -> Result<(), StoreError> {
    let path = disk.path(name);
    let mut file = disk.create(name).map_err(StoreError::io("create", &path))?;
    file.write_at(0, parts).map_err(StoreError::io("write", &path))?;
    sync_new(&*file.syncer(), &path)
}

/// Forces a file on which nothing depends yet. If there is no room for it, the error is the same as if writing had
/// found no room.
pub(crate) fn sync_new(file: &dyn Syncer, path: &std::path::Path) -> Result<(), StoreError> {
    file.sync().map_err(|error| match StoreError::io("sync", path)(error) {
        full @ StoreError::Full { .. } => full,
        StoreError::ReadOnly { path, error } | StoreError::Io { path, error, .. } => {
            StoreError::Sync { path, error }
        }
        other => other,
    })
}

/// Forces the names of the directory.
pub(crate) fn sync_names(disk: &dyn Disk) -> Result<(), StoreError> {
    disk.sync_names().map_err(StoreError::sync(&disk.path("")))
}
