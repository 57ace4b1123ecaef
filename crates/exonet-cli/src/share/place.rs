//! A directory whose files others read. Links are never followed, not even a link that another process puts in place
//! of a directory while a path is walked.

use std::fs::File;
use std::io;
use std::path::Path;

/// The kind of an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    /// A file, with its size in bytes.
    File(u64),
}

/// A directory that stays open.
#[derive(Debug)]
pub(super) struct Place(Root);

#[cfg(unix)]
type Root = rustix::fd::OwnedFd;

#[cfg(not(unix))]
type Root = std::path::PathBuf;

#[cfg(unix)]
impl Place {
    /// If `path` itself is a link, it is followed, since the user has named it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags, open};
        Ok(Self(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    fn directory<'a>(&self, path: impl Iterator<Item = &'a str>) -> io::Result<rustix::fd::OwnedFd> {
        use rustix::fs::{Mode, OFlags, openat};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = openat(&self.0, ".", flags, Mode::empty())?;
        for name in path {
            directory = openat(&directory, name, flags, Mode::empty())?;
        }
        Ok(directory)
    }

    /// Opens a file for reading. Anything that is not a file is not found.
    pub(super) fn file(&self, path: &[&str]) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        let (name, above) = path.split_last().ok_or(io::ErrorKind::NotFound)?;
        let directory = self.directory(above.iter().copied())?;
        // Without these flags, opening a pipe would block, and a terminal would become the controlling terminal of
        // this process.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, *name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// The directories and files in a directory, by name, and nothing else. Names that are not UTF-8 are left out.
    pub(super) fn entries(&self, path: &[&str]) -> io::Result<Vec<(String, Kind)>> {
        use rustix::fs::{AtFlags, Dir, FileType, statat};
        let directory = self.directory(path.iter().copied())?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // The entry may be gone by now.
            let Ok(about) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = match FileType::from_raw_mode(about.st_mode) {
                FileType::Directory if name != "." && name != ".." => Kind::Directory,
                FileType::RegularFile => Kind::File(u64::try_from(about.st_size).unwrap_or(0)),
                _ => continue,
            };
            found.push((name.to_owned(), kind));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }
}

#[cfg(not(unix))]
impl Place {
    /// If `path` itself is a link, it is followed, since the user has named it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let root = path.canonicalize()?;
        if root.is_dir() { Ok(Self(root)) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Checks each component before entering it.
    fn below(&self, path: &[&str]) -> io::Result<Root> {
        let mut below = self.0.clone();
        for name in path {
            if !std::fs::symlink_metadata(&below)?.is_dir() {
                return Err(io::ErrorKind::NotFound.into());
            }
            below.push(name);
        }
        if std::fs::symlink_metadata(&below)?.is_symlink() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(below)
    }

    /// Opens a file for reading. Anything that is not a file is not found.
    pub(super) fn file(&self, path: &[&str]) -> io::Result<File> {
        let below = self.below(path)?;
        if !std::fs::symlink_metadata(&below)?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        File::open(below)
    }

    /// The directories and files in a directory, by name, and nothing else. Names that are not UTF-8 are left out.
    pub(super) fn entries(&self, path: &[&str]) -> io::Result<Vec<(String, Kind)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.below(path)?)? {
            let entry = entry?;
            let (Ok(name), Ok(about)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
            if about.is_dir() {
                found.push((name, Kind::Directory));
            } else if about.is_file() {
                found.push((name, Kind::File(about.len())));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }
}
