//! What the log needs of a disk and its system, so that it runs on real files and on a simulated disk alike.

mod map;
mod place;
mod real;
mod witness;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::StoreError;

pub(crate) use real::RealDisk;

/// One directory, and the system that it is on.
pub(crate) trait Disk: Send + Sync {
    /// The path of a name, for errors. An empty name: the directory.
    fn path(&self, name: &str) -> PathBuf;
    /// All names.
    fn names(&self) -> io::Result<Vec<String>>;
    /// The file of that name, if there is one.
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>>;
    /// A new, empty file, which others cannot read. Fails if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Replaces what was at `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name; not an error if there is none.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Forces the names to the disk.
    fn sync_names(&self) -> io::Result<()>;
    /// Which run of the system this is, if the system can tell one from another.
    fn boot(&self) -> Option<[u8; 16]>;
    /// The kind of file system, if its memory may be lost with a process.
    fn remote(&self) -> io::Result<Option<&'static str>>;
    /// A place in memory that outlives the process, but not the system, if there is one.
    fn witness(&self) -> Option<Box<dyn Witness>>;
}

/// One file. Who holds this is the only one who writes it.
pub(crate) trait DiskFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads up to `to.len()` bytes; fewer at the end.
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<usize>;
    /// Writes the parts behind each other. Written bytes survive the process once this returns.
    fn write_at(&mut self, at: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Writes within the present length are as fast as can be from now on. No error if they are not.
    fn map(&mut self);
    /// It is not written any more until it is mapped again.
    fn unmap(&mut self) {}
    /// What forces the file from another thread.
    fn syncer(&self) -> Arc<dyn Syncer>;
}

/// Forces one file to the disk.
pub(crate) trait Syncer: Send + Sync {
    /// On return, all that was written before is on the disk.
    fn sync(&self) -> io::Result<()>;
}

/// The last LSN, where a crash of the process leaves it, and a lost page of the log does not change it.
pub(crate) trait Witness: Send {
    /// Generation and LSN.
    fn read(&self) -> Option<(u64, u64)>;
    /// Another run begins.
    fn begin(&mut self, generation: u64, lsn: u64) -> io::Result<()>;
    /// One group more.
    fn note(&mut self, lsn: u64);
    /// There is nothing to witness.
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

/// Makes `parts` the content of `name`, old or new whenever the process or the machine dies before: durable on return.
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

/// Forces a file that nothing depends on yet: if there is no room for it, that is not worse than if it had been noticed
/// when it was written.
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
