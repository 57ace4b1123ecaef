//! The lock by which only one process at a time runs an identity.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use fs4::{FileExt, TryLockError};

use super::error::StateError;

pub(super) const FILE: &str = "lock";

/// The held lock of a state directory. When the process ends, in any way, the system releases it. The file stays: if
/// it were removed, two processes could hold locks on two files of the same name.
pub(super) struct Lock {
    dir: PathBuf,
    path: PathBuf,
    file: File,
}

impl Lock {
    pub(super) fn acquire(dir: &Path) -> Result<Self, StateError> {
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut opened = options.open(&path);
        if opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::ReadOnlyFilesystem) {
            // A process need not write to a file to lock it. A process that has to write there fails later.
            opened = File::open(&path);
        }
        let mut file = opened.map_err(StateError::io("open", &path))?;
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateError::Locked { path: dir.into(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(StateError::io("lock", &path)(error)),
        }
        let lock = Self { dir: dir.into(), path, file };
        lock.write_pid();
        Ok(lock)
    }

    /// Fails if the lock file at this path is not the one that this process holds: it was removed, or the directory
    /// was moved, and another process may run this identity.
    pub(super) fn verify(&self) -> Result<(), StateError> {
        let held = self.file.metadata().map_err(StateError::io("inspect", &self.path))?;
        match fs::metadata(&self.path) {
            Ok(there) if is_same(&held, &there) => Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(StateError::io("inspect", &self.path)(error))
            }
            _ => Err(StateError::LockLost { path: self.dir.clone() }),
        }
    }

    /// Writes the process id of the holder into the file, for a process that finds the lock taken. If writing fails,
    /// nothing is lost.
    fn write_pid(&self) {
        let mut file = &self.file;
        if file.set_len(0).is_ok() {
            let _ = writeln!(file, "{}", std::process::id());
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        // Closing the file is not enough: a process that another thread has forked, and that has not yet reached its
        // exec, shares the open file and so the lock.
        let _ = FileExt::unlock(&self.file);
    }
}

/// Whether both are the same file.
#[cfg(unix)]
pub(crate) fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// On other systems files have no number to compare; there, nothing replaces an open file by accident.
#[cfg(not(unix))]
pub(crate) fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// None: the system does not let others read a locked file, or the holder has not written its id yet.
fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_releases_even_what_a_forked_process_shares() {
        let temp = tempfile::tempdir().unwrap();
        let lock = Lock::acquire(temp.path()).unwrap();
        let shared = lock.file.try_clone().unwrap();
        drop(lock);
        Lock::acquire(temp.path()).unwrap();
        drop(shared);
    }
}
