//! What lies below the directory of the store. Nothing here follows a link: every directory on the way is looked at
//! before it is entered, and only one change of names is made at a time, so that no peer can put a link there between
//! the look and the step.

use std::fs::{self, File, Metadata};
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

    /// Runs `change` with the whole path, once its directory has been found, or made with `make`. Without it, a
    /// directory that is not there is [`io::ErrorKind::NotFound`].
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
                    let what = format!("{ancestor} is no directory at the receiver");
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, what));
                }
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => fs::create_dir(&directory)?,
                Err(error) => return Err(error),
            }
        }
        change(&path.below(&self.root))
    }

    /// What is there.
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

    /// Makes a directory. False: it was there.
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

    /// Makes a link. False: the very same was there.
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

    /// Gives the finished file at `from` its name. On return the name is on the disk.
    pub(super) fn land(&self, from: &Path, path: &SafePath, replace: bool) -> io::Result<()> {
        self.at(path, true, |path| {
            if replace {
                // A link at the name is replaced, not followed; a directory is not replaced.
                fs::rename(from, path)
            } else {
                let from = tempfile::TempPath::try_from_path(from)?;
                from.persist_noclobber(path).map_err(|failed| {
                    // It is not for the type to remove it.
                    let _ = failed.path.keep();
                    failed.error
                })
            }
        })?;
        let path = path.below(&self.root);
        sync_directory(path.parent().unwrap_or(&self.root))
    }

    /// Gives a directory its mode and time.
    pub(super) fn seal(&self, path: &SafePath, mode: Option<u32>, mtime: i64) -> io::Result<()> {
        self.at(path, false, |path| {
            if !fs::symlink_metadata(path)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            set_about(&File::open(path)?, mode, mtime)
        })
    }
}

/// Gives an open file or directory its mode, without the bits that lend somebody's rights, and its time.
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
    Err(io::Error::new(io::ErrorKind::Unsupported, "links are not made on this system"))
}

/// A new name is on the disk only with its directory.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn time(mtime: i64) -> SystemTime {
    let span = Duration::from_nanos(mtime.unsigned_abs());
    let time = if mtime < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    time.unwrap_or(UNIX_EPOCH)
}

/// When it was last modified, in nanoseconds since 1970; at the bounds of what that can be.
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
        // What no file system takes is an error or another time, and no panic.
        for wanted in [i64::MIN, i64::MAX] {
            let _ = set_about(&file, None, wanted);
        }
    }
}
