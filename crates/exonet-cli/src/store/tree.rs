//! The tree below the directory of the store. Links are never followed: every directory on a path is checked before
//! it is entered, and names change one at a time, so that no peer can put a link there between the check and the
//! step.

use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::name::SafePath;

/// A directory, and what is below it.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    /// Held while names change.
    names: Mutex<()>,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), names: Mutex::default() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `change` with the whole path, once its directory has been found. With `make`, missing directories are
    /// created; without it, a missing directory is [`io::ErrorKind::NotFound`].
    fn at<T>(
        &self,
        path: &SafePath,
        make: bool,
        change: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let _names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for ancestor in path.ancestors() {
            let directory = ancestor.below(&self.root);
            match fs::symlink_metadata(&directory) {
                Ok(about) if about.is_dir() => {}
                Ok(_) => {
                    let what = format!("{ancestor} is not a directory at the receiver");
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
                }
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => fs::create_dir(&directory)?,
                Err(error) => return Err(error),
            }
        }
        change(&path.below(&self.root))
    }

    /// The metadata of the entry at a path, if there is one.
    pub(super) fn look(&self, path: &SafePath) -> io::Result<Option<Metadata>> {
        match self.at(path, false, |path| fs::symlink_metadata(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            about => about.map(Some),
        }
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, path: &SafePath) -> io::Result<File> {
        self.at(path, false, |path| {
            if fs::symlink_metadata(path)?.is_file() {
                File::open(path)
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        })
    }

    /// Makes a directory. False: it existed.
    pub(super) fn make_dir(&self, path: &SafePath) -> io::Result<bool> {
        self.at(path, true, |path| match fs::create_dir(path) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && fs::symlink_metadata(path)?.is_dir() =>
            {
                Ok(false)
            }
            made => made.map(|()| true),
        })
    }

    /// Makes a link. False: the same link existed.
    pub(super) fn make_link(&self, path: &SafePath, target: &str, replace: bool) -> io::Result<bool> {
        self.at(path, true, |path| match make_link(target, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_link(path).is_ok_and(|there| there == Path::new(target)) {
                    return Ok(false);
                }
                if !replace {
                    return Err(error);
                }
                fs::remove_file(path)?;
                make_link(target, path).map(|()| true)
            }
            made => made.map(|()| true),
        })
    }

    /// Moves the finished file at `from` to its final path. On return the name is on the disk.
    pub(super) fn land(&self, from: &Path, path: &SafePath, replace: bool) -> io::Result<()> {
        self.at(path, true, |path| {
            if replace {
                // A link at the name is replaced, not followed; a directory is not replaced.
                fs::rename(from, path)
            } else {
                let from = tempfile::TempPath::try_from_path(from)?;
                from.persist_noclobber(path).map_err(|failed| {
                    // The caller owns the file, so it is not removed here.
                    let _ = failed.path.keep();
                    failed.error
                })
            }
        })?;
        let path = path.below(&self.root);
        sync_directory(path.parent().unwrap_or(&self.root))
    }

    /// Sets the mode and time of a directory.
    pub(super) fn seal(&self, path: &SafePath, mode: Option<u32>, mtime: i64) -> io::Result<()> {
        self.at(path, false, |path| {
            if !fs::symlink_metadata(path)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            set_about(&open_directory(path)?, mode, mtime)
        })
    }
}

/// Opens a directory to set its mode and time.
#[cfg(unix)]
fn open_directory(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a directory to set its time. The system opens a directory only with a flag, and sets times only with a right.
#[cfg(windows)]
fn open_directory(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x20_0000;
    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x200_0000;
    fs::OpenOptions::new()
        .access_mode(FILE_WRITE_ATTRIBUTES)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)
}

/// Sets the mode of an open file or directory, without the setuid, setgid and sticky bits, and its time.
pub(super) fn set_about(file: &File, mode: Option<u32>, mtime: i64) -> io::Result<()> {
    file.set_times(fs::FileTimes::new().set_modified(time(mtime)))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
        }
    }
    #[cfg(not(unix))]
    let _ = mode;
    Ok(())
}

#[cfg(unix)]
fn make_link(target: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn make_link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links cannot be made on this system"))
}

/// Whether this is a device, a pipe or a socket. These are never replaced.
pub(crate) fn is_special(kind: FileType) -> bool {
    !(kind.is_file() || kind.is_dir() || kind.is_symlink())
}

/// Forces a directory to the disk, which makes new names in it durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn time(mtime: i64) -> SystemTime {
    let span = Duration::from_nanos(mtime.unsigned_abs());
    let time = if mtime < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    time.unwrap_or(UNIX_EPOCH)
}

/// The time of the last modification, in nanoseconds since 1970, clamped to the range of the type.
pub(crate) fn mtime(about: &Metadata) -> i64 {
    let Ok(time) = about.modified() else { return 0 };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_out_as_they_went_in() {
        let place = tempfile::tempdir().unwrap();
        let file = File::create(place.path().join("f")).unwrap();
        for wanted in [0, 1_700_000_000_123_456_789, -5_000_000_000] {
            set_about(&file, None, wanted).unwrap();
            assert_eq!(mtime(&file.metadata().unwrap()), wanted);
        }
        // A time that the file system cannot store is an error or is changed, but causes no panic.
        for wanted in [i64::MIN, i64::MAX] {
            let _ = set_about(&file, None, wanted);
        }
    }
}
