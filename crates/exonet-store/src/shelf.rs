//! Storage beside memory for bodies that wait, for this process only.
//!
//! The bytes lie in files without a name, which end with the process. The journal has the same bytes, so nothing here
//! is forced, and nothing is found again. A file has [`FILE`] bytes, or the length of one longer body, and is freed
//! when the last body in it is dropped.

#![allow(unsafe_code)]

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};

/// The length of a file.
const FILE: usize = 16 << 20;
/// The name of a file until it is removed.
const NAME: &str = "waiting.new";

/// Keeps bytes in files of a directory. Kept bytes cost a few words of memory each until they are read: then the system
/// reads their pages, and takes them back when it needs memory.
pub struct Shelf {
    dir: PathBuf,
    open: Mutex<Option<Open>>,
}

/// The file that is being filled.
struct Open {
    file: File,
    map: Arc<MmapRaw>,
    at: usize,
}

/// Kept bytes, for as long as this exists.
pub struct Kept {
    map: Arc<MmapRaw>,
    at: usize,
    len: usize,
}

impl Shelf {
    /// Uses this directory, which exists, and which no other process uses.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into(), open: Mutex::new(None) }
    }

    /// Keeps these bytes.
    ///
    /// # Errors
    /// The disk is full, or has failed.
    pub fn keep(&self, bytes: &[u8]) -> io::Result<Kept> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut on = match open.take() {
            Some(on) if on.map.len() - on.at >= bytes.len() => on,
            _ => self.begin(bytes.len().max(FILE))?,
        };
        let (map, at, len) = (Arc::clone(&on.map), on.at, bytes.len());
        on.file.write_all_at(bytes, at as u64)?;
        on.at += len;
        *open = Some(on);
        Ok(Kept { map, at, len })
    }

    fn begin(&self, size: usize) -> io::Result<Open> {
        let path = self.dir.join(NAME);
        // A process that has died right here may have left one.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        file.set_len(size as u64)?;
        let map = MmapOptions::new().len(size).map_raw_read_only(&file)?;
        Ok(Open { file, map: Arc::new(map), at: 0 })
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `at + len` lies within the mapping, which lives as long as `self`: it was checked before the bytes were written,
        // and `self` was made after that. The file has had no name since before it was mapped, so only this process can write it,
        // which writes each place once, before there is a `Kept` of it, and never cuts the file. A disk that cannot read
        // back a page of its own ends the process by SIGBUS, as with a mapped segment.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.at), self.len) }
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NAME), "of a process that died").unwrap();
        let shelf = Shelf::new(dir.path());
        let bodies: Vec<_> =
            (0..40_u8).map(|n| vec![n; 1 << 20]).chain([vec![7; FILE + 1], vec![]]).collect();
        let kept: Vec<_> = bodies.iter().map(|body| shelf.keep(body).unwrap()).collect();
        assert!(kept.iter().zip(&bodies).all(|(kept, body)| kept.as_ref() == body));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        drop(shelf);
        assert_eq!(kept[39].as_ref(), bodies[39], "it outlives the shelf");
    }

    #[test]
    fn a_file_goes_with_the_last_that_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path());
        let (first, second) = (shelf.keep(&[1; FILE / 2]).unwrap(), shelf.keep(&[2; FILE / 2]).unwrap());
        let map = Arc::downgrade(&first.map);
        assert!(Arc::ptr_eq(&first.map, &second.map));
        let third = shelf.keep(&[3]).unwrap();
        drop(first);
        assert!(map.upgrade().is_some());
        drop(second);
        assert!(map.upgrade().is_none() && third.as_ref() == [3]);
    }

    #[test]
    fn a_directory_that_is_gone_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(&dir.path().join("gone"));
        assert_eq!(shelf.keep(&[1]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
