//! Files that are written by copying into memory.
//!
//! With `shelf.rs` this is the only `unsafe` of the crate. It is sound because:
//!
//! * **Bounds.** Each write is checked against the length that was mapped.
//! * **One writer.** A [`Map`] is not `Clone`, and writing takes `&mut self`. [`Flush`] shares the mapping and never
//!   reads or writes its bytes. No reference to the bytes is ever made, so changes by another process cannot break a
//!   guarantee that the compiler relies on.
//! * **The file is as long as the mapping.** Beyond the end of a file that was cut, a write would raise SIGBUS. This
//!   process never cuts a segment. The lock that the caller holds excludes another process that runs this identity, and
//!   the files are closed to other users.
//! * **The blocks are allocated.** A segment is filled with zeros and forced before it is mapped, and it is mapped only
//!   on file systems that write a block in place. On others, which take a new block for each write and may find none,
//!   segments are written by calls (see `real.rs`). What remains is a disk that cannot read back one of its own pages:
//!   SIGBUS then stops the process, which is a crash like any other.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// The number of bytes that are copied at once. For more, the C library uses an instruction that is several times
/// slower on some processors if source and target are not aligned alike.
const PIECE: usize = 2 << 10;

/// A mapped file, shared with the system: written bytes survive the process.
pub(super) struct Map {
    raw: Arc<MmapRaw>,
}

/// Forces a mapping to the file.
#[cfg_attr(target_os = "linux", allow(dead_code))]
pub(super) struct Flush(Arc<MmapRaw>);

impl Map {
    /// Maps the whole file.
    pub(super) fn new(file: &File) -> io::Result<Self> {
        Ok(Self { raw: Arc::new(MmapOptions::new().map_raw(file)?) })
    }

    pub(super) fn flush(&self) -> Flush {
        Flush(Arc::clone(&self.raw))
    }

    /// Copies `bytes` to `at`.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.check(at, bytes.len())?;
        let mut at = at;
        for piece in bytes.chunks(PIECE) {
            // SAFETY: `at + bytes.len()` lies within the mapping, which lives as long as `self`, so each piece does. `bytes`
            // cannot overlap it, since no reference to the mapping exists. `&mut self` makes this the only writer of this process.
            unsafe { ptr::copy_nonoverlapping(piece.as_ptr(), self.raw.as_mut_ptr().add(at), piece.len()) };
            at += piece.len();
        }
        Ok(())
    }

    /// Stores a number at `at`, after all earlier writes, whole or not at all.
    pub(super) fn store(&mut self, at: usize, number: u64) -> io::Result<()> {
        self.check(at, 8)?;
        let pointer = self.raw.as_mut_ptr().wrapping_add(at).cast::<u64>();
        if !pointer.is_aligned() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: eight bytes at `at` lie within the mapping, are aligned, and are only accessed here, by `&mut self`.
        unsafe { AtomicU64::from_ptr(pointer) }.store(number.to_le(), Ordering::Release);
        Ok(())
    }

    fn check(&self, at: usize, len: usize) -> io::Result<()> {
        match at.checked_add(len) {
            Some(end) if end <= self.raw.len() => Ok(()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl Flush {
    /// Hands the written pages to the file. Linux knows them already: there, `fdatasync` also writes bytes that were
    /// written through a mapping.
    pub(super) fn flush(&self) -> io::Result<()> {
        #[cfg(not(target_os = "linux"))]
        self.0.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        file
    }

    #[test]
    fn nothing_is_written_outside() {
        let file = file(64);
        let mut map = Map::new(&file).unwrap();
        map.write(60, &[1; 4]).unwrap();
        for (at, len) in [(60, 5), (64, 1), (usize::MAX, 2), (0, 65)] {
            assert!(map.write(at, &vec![1; len]).is_err());
        }
        map.store(56, 7).unwrap();
        for at in [57, 60, 64, usize::MAX] {
            assert!(map.store(at, 7).is_err());
        }
    }
}
