//! Files that are written through a mapping into memory.
//!
//! The only `unsafe` of the crate is here and in `shelf.rs`. It is sound because:
//!
//! * **Bounds.** Each write is checked against the length that was mapped.
//! * **One writer.** A [`Map`] is not `Clone`, and writing takes `&mut self`. [`Flush`] shares the mapping, but never
//!   reads or writes its bytes. No reference to the bytes ever exists, so changes by another process cannot break a
//!   guarantee on which the compiler relies.
//! * **The file is as long as the mapping.** Beyond the end of a file that was cut, a write would raise SIGBUS. This
//!   process never cuts a segment. The lock that the caller holds excludes other processes that run this identity,
//!   and other users cannot open the files.
//! * **The blocks are allocated.** A segment is filled with zeros and forced before it is mapped. Segments are mapped
//!   only on file systems that write a block in place. Other file systems take a new block for each write and may
//!   find none; there, segments are written by system calls (see `real.rs`). One case remains: a disk that cannot
//!   read back one of its own pages. Then SIGBUS stops the process, which is a crash like any other.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// How many bytes are copied at a time. For more, the C library uses an instruction that is several times slower on
/// some processors if source and target are not aligned alike.
const PIECE: usize = 2 << 10;

/// A mapped file. The operating system shares the mapping, so bytes that were written survive the process.
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
            // SAFETY: `at + bytes.len()` lies within the mapping, which lives as long as `self`, so each piece does
            // too. `bytes` cannot overlap the mapping, since no reference to it exists. `&mut self` makes this the
            // only writer of this process.
            unsafe { ptr::copy_nonoverlapping(piece.as_ptr(), self.raw.as_mut_ptr().add(at), piece.len()) };
            at += piece.len();
        }
        Ok(())
    }

    /// Stores a number at `at`, after all earlier writes. The store is atomic.
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
    /// Passes the written pages to the file. Linux already knows them: there, `fdatasync` also writes bytes that were
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
