//! Keeps bodies that wait in files instead of memory, for this process only.
//!
//! The bytes lie in files without a name, which end with the process. The journal has the same bytes, so nothing here
//! is forced, and nothing is found again. A file has [`FILE`] bytes, or the length of one longer body, and is freed
//! when the last body in it is dropped. Only if at most [`STAYS`] bytes of a file were written, the file stays for
//! the next body: so bodies that come and go one by one do not need a file each.

#![allow(unsafe_code)]

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use memmap2::{MmapOptions, MmapRaw};

/// The length of a file in bytes.
const FILE: usize = 16 << 20;
/// If more bytes than this were written, the file goes when its last body does.
const STAYS: usize = 1 << 20;
/// The name of a file until it is removed.
const NAME: &str = "waiting.new";

/// Stores bytes in files of a directory. Stored bytes cost a few words of memory each. When they are read, the system
/// loads their pages, and it may drop them again when it needs memory.
pub struct Shelf {
    dir: PathBuf,
    open: Mutex<Option<Open>>,
}

/// The file that is being filled.
struct Open {
    held: Held,
    at: usize,
}

/// The owner of the file that is being filled: the shelf, or the bodies in the file.
enum Held {
    Shelf(Arc<Waiting>),
    Bodies(Weak<Waiting>),
}

/// A file without a name.
struct Waiting {
    file: File,
    map: MmapRaw,
}

/// Stored bytes. They exist as long as this value.
pub struct Kept {
    on: Arc<Waiting>,
    at: usize,
    len: usize,
}

impl Shelf {
    /// Uses this directory, which must exist, and which no other process may use.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into(), open: Mutex::new(None) }
    }

    /// Stores these bytes.
    ///
    /// # Errors
    /// The disk is full, or has failed.
    pub fn keep(&self, bytes: &[u8]) -> io::Result<Kept> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (on, at) = match open.take().and_then(|open| open.resume(bytes.len())) {
            Some(found) => found,
            None => (self.begin(bytes.len().max(FILE))?, 0),
        };
        on.file.write_all_at(bytes, at as u64)?;
        let end = at + bytes.len();
        let held =
            if end <= STAYS { Held::Shelf(Arc::clone(&on)) } else { Held::Bodies(Arc::downgrade(&on)) };
        *open = Some(Open { held, at: end });
        Ok(Kept { on, at, len: bytes.len() })
    }

    fn begin(&self, size: usize) -> io::Result<Arc<Waiting>> {
        let path = self.dir.join(NAME);
        // A process that died here may have left one.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        file.set_len(size as u64)?;
        let map = MmapOptions::new().len(size).map_raw_read_only(&file)?;
        Ok(Arc::new(Waiting { file, map }))
    }
}

impl Open {
    /// The file and the offset for the next body, of `len` bytes. None: that body needs another file.
    fn resume(self, len: usize) -> Option<(Arc<Waiting>, usize)> {
        let mut at = self.at;
        let on = match self.held {
            Held::Shelf(mut on) => {
                // If no body is left, the file is filled from its beginning again.
                at = if Arc::get_mut(&mut on).is_some() { 0 } else { at };
                on
            }
            Held::Bodies(on) => on.upgrade()?,
        };
        (on.map.len() - at >= len).then_some((on, at))
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `at + len` lies within the mapping, which lives as long as `self`: this was checked before the
        // bytes were written, and `self` was made after that. The file has had no name since before it was mapped, so
        // only this process can write it. This process never writes a place for which there is a `Kept`: places are
        // written in order, and the file is filled from its beginning only if there is no `Kept` of it. This process
        // never cuts the file. If the disk cannot read back one of its own pages, SIGBUS ends the process, as with a
        // mapped segment.
        unsafe { std::slice::from_raw_parts(self.on.map.as_ptr().add(self.at), self.len) }
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
        let file = Arc::downgrade(&first.on);
        assert!(Arc::ptr_eq(&first.on, &second.on));
        let third = shelf.keep(&[3]).unwrap();
        drop(first);
        assert!(file.upgrade().is_some());
        drop(second);
        assert!(file.upgrade().is_none() && third.as_ref() == [3]);
    }

    #[test]
    fn a_file_that_is_not_full_goes_with_its_bodies_too() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path());
        let (first, second) = (shelf.keep(&[1; STAYS]).unwrap(), shelf.keep(&[2]).unwrap());
        assert!(Arc::ptr_eq(&first.on, &second.on));
        let file = Arc::downgrade(&first.on);
        drop(second);
        assert!(file.upgrade().is_some() && first.as_ref() == [1; STAYS]);
        drop(first);
        assert!(file.upgrade().is_none(), "nothing waits, and nothing is kept");
        assert_eq!(shelf.keep(&[3]).unwrap().as_ref(), [3]);
    }

    #[test]
    fn bodies_that_come_and_go_one_by_one_share_a_short_file() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path());
        let body = |n: u8| vec![n; STAYS / 4];
        let first = shelf.keep(&body(0)).unwrap();
        let (file, place) = (Arc::as_ptr(&first.on), first.at);
        drop(first);
        for n in 1..100 {
            let kept = shelf.keep(&body(n)).unwrap();
            assert_eq!((Arc::as_ptr(&kept.on), kept.at, kept.as_ref()), (file, place, &body(n)[..]));
        }
        let (first, second) = (shelf.keep(&body(1)).unwrap(), shelf.keep(&body(2)).unwrap());
        drop(first);
        let third = shelf.keep(&body(3)).unwrap();
        assert_eq!((second.as_ref(), third.as_ref()), (&body(2)[..], &body(3)[..]), "one is still read");
    }

    #[test]
    fn a_directory_that_is_gone_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(&dir.path().join("gone"));
        assert_eq!(shelf.keep(&[1]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
