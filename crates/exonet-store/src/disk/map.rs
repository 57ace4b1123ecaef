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

/// A write of at least this many bytes goes past the cache. Segments are used in turn, so the cache does not have them,
/// and a usual copy first reads from memory the bytes that it overwrites. With fewer bytes, the wait for the end of a
/// write past the cache takes longer than that read.
const PAST_CACHE: usize = 4 << 10;

/// After a short write, the processor fetches the next bytes, up to this many. So it need not wait for them during the
/// next write. After a write past the cache it does not: the next write probably goes past the cache too.
const FETCHED: usize = 2 << 10;

/// Whether a write of these bytes goes through the cache.
pub(super) const fn is_short(bytes: &[u8]) -> bool {
    bytes.len() < PAST_CACHE
}

/// The unit in which the processor fetches and writes memory.
const LINE: usize = 64;

/// A mapped file. The operating system shares the mapping, so bytes that were written survive the process.
pub(super) struct Map {
    raw: Arc<MmapRaw>,
    /// The end of the lines that the processor was told to fetch.
    fetched: usize,
}

/// Forces a mapping to the file.
#[cfg_attr(target_os = "linux", allow(dead_code))]
pub(super) struct Flush(Arc<MmapRaw>);

impl Map {
    /// Maps the whole file.
    pub(super) fn new(file: &File) -> io::Result<Self> {
        Ok(Self { raw: Arc::new(MmapOptions::new().map_raw(file)?), fetched: 0 })
    }

    pub(super) fn flush(&self) -> Flush {
        Flush(Arc::clone(&self.raw))
    }

    /// Copies `bytes` to `at`.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.check(at, bytes.len())?;
        // SAFETY: `at + bytes.len()` lies within the mapping, which lives as long as `self`. `bytes` cannot overlap the
        // mapping, since no reference to it exists. `&mut self` makes this the only writer of this process.
        unsafe {
            let to = self.raw.as_mut_ptr().add(at);
            if is_short(bytes) { copy(bytes, to) } else { copy_past_cache(bytes, to) }
        }
        Ok(())
    }

    /// Lets the processor fetch the bytes after `at`, where the next write will be.
    pub(super) fn fetch(&mut self, at: usize) {
        let end = at.saturating_add(FETCHED).min(self.raw.len());
        let from = if (at..=end).contains(&self.fetched) { self.fetched } else { at };
        let lines = (from..end).step_by(LINE);
        self.fetched = from + lines.len() * LINE;
        #[cfg(target_arch = "x86_64")]
        for line in lines {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let pointer = self.raw.as_ptr().wrapping_add(line);
            // SAFETY: every such processor has this instruction, which neither changes memory nor fails.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer.cast()) };
        }
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

/// # Safety
/// `to` must be valid for writes of `bytes.len()` bytes. They must not overlap `bytes`, and no other thread may write them.
unsafe fn copy(bytes: &[u8], to: *mut u8) {
    let mut to = to;
    for piece in bytes.chunks(PIECE) {
        // SAFETY: the caller allows writes of all pieces, and this is the next piece.
        unsafe {
            ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
            to = to.add(piece.len());
        }
    }
}

/// Like [`copy`], but the writes go past the cache.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn copy_past_cache(bytes: &[u8], to: *mut u8) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORD: usize = size_of::<__m128i>();
    let lead = to.align_offset(LINE).min(bytes.len());
    let (lead, rest) = bytes.split_at(lead);
    let (lines, tail) = rest.as_chunks::<LINE>();
    // SAFETY: the caller allows writes of `lead`, `lines` and `tail` one after the other. After `lead`, `to` is aligned to
    // a line, unless all bytes are in `lead`. Every such processor has these instructions. They need a fence before other
    // writes follow, and the fence comes last.
    unsafe {
        copy(lead, to);
        let mut to = to.add(lead.len());
        for line in lines {
            for at in (0..LINE).step_by(WORD) {
                _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(line.as_ptr().add(at).cast()));
            }
            to = to.add(LINE);
        }
        copy(tail, to);
        _mm_sfence();
    }
}

/// A usual copy: Rust has no such instruction for other processors.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_past_cache(bytes: &[u8], to: *mut u8) {
    // SAFETY: `copy` demands the same of its caller.
    unsafe { copy(bytes, to) }
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
    use std::io::{Read, Seek};

    use super::*;

    fn file(len: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        file
    }

    #[test]
    fn every_byte_gets_where_it_belongs_whatever_the_length_and_the_place() {
        let file = file(64 << 10);
        let mut map = Map::new(&file).unwrap();
        let mut expected = vec![0; 64 << 10];
        let bytes: Vec<u8> = (0..20_100_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1] | 1).collect();
        let lens = [0, 1, 63, 64, 2_049, PAST_CACHE - 1, PAST_CACHE, PAST_CACHE + 65, 9_001, 20_000];
        for (n, len) in lens.into_iter().enumerate() {
            for at in [0, 1, 8, 64 * n + 15, 40_000 + n] {
                let part = &bytes[n..n + len];
                map.write(at, part).unwrap();
                map.fetch(at + len);
                expected[at..at + len].copy_from_slice(part);
            }
            let mut found = Vec::new();
            (&file).rewind().unwrap();
            (&file).read_to_end(&mut found).unwrap();
            assert!(found == expected, "{len}");
        }
    }

    #[test]
    fn what_follows_is_fetched_once_and_nothing_outside() {
        let mut map = Map::new(&file(8_192)).unwrap();
        let line = LINE;
        for (at, fetched) in [
            (10, 10 + 32 * line),
            (100, 10 + 34 * line),
            (2_000, 10 + 64 * line),
            (8_191, 8_191 + line),
            (8_192, 8_192),
            (64, 64 + 32 * line),
            (usize::MAX, usize::MAX),
        ] {
            map.fetch(at);
            assert_eq!(map.fetched, fetched, "{at}");
        }
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
