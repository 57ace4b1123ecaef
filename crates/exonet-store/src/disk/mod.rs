//! The interface of a disk and its system, so that the log runs on real files and on a simulated disk alike.

mod map;
mod place;
mod real;
mod witness;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::StoreError;

pub use place::boot_id;
pub(crate) use real::RealDisk;

/// One directory, and the system that it belongs to.
pub(crate) trait Disk: Send + Sync {
    /// The path of a name, for errors. An empty name stands for the directory.
    fn path(&self, name: &str) -> PathBuf;
    /// All names.
    fn names(&self) -> io::Result<Vec<String>>;
    /// The file of that name, if there is one.
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>>;
    /// A new, empty file, which others cannot read. Fails if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, and replaces the one at `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name; not an error if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces the names to the disk.
    fn sync_names(&self) -> io::Result<()>;
    /// An id of the current boot of the system, if the system has one.
    fn boot(&self) -> Option<[u8; 16]>;
    /// The kind of file system, if its memory may be lost with a process.
    fn remote(&self) -> io::Result<Option<&'static str>>;
    /// A witness in memory that outlives the process, but not the system, if there is one.
    fn witness(&self) -> Option<Box<dyn Witness>>;
}

/// One file. The holder of this is its only writer.
pub(crate) trait DiskFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads up to `to.len()` bytes; fewer at the end.
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize>;
    /// Writes the parts one after the other. Written bytes survive the process once this returns.
    fn write_at(&mut self, at: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Makes later writes within the present length as fast as possible. It is not an error if they are not.
    fn map(&mut self);
    /// Ends the mapping: the file is not written until it is mapped again.
    fn unmap(&mut self) {}
    /// A handle that forces the file from another thread.
    fn syncer(&self) -> Arc<dyn Syncer>;
}

/// Forces one file to the disk.
pub(crate) trait Syncer: Send + Sync {
    /// On return, all bytes that were written before the call are on disk.
    fn sync(&self) -> io::Result<()>;
}

/// Keeps the last LSN where a crash of the process leaves it, and a lost page of the log does not change it.
pub(crate) trait Witness: Send {
    /// Generation and LSN.
    fn read(&self) -> Option<(u64, u64)>;
    /// Begins another run.
    fn begin(&mut self, generation: u64, lsn: u64) -> io::Result<()>;
    /// Notes one more group.
    fn note(&mut self, lsn: u64);
    /// Ends the witness: there is nothing to note.
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

/// Makes `parts` the content of `name`: durable on return. If the process or the machine dies before, the file has the
/// old or the new content.
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

/// Forces a file that nothing depends on yet. If there is no room for it, the error is the same as if the write had
/// found none.
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
