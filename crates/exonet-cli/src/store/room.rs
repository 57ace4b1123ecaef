//! The room that is left in a store.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::fs::File;
use tokio::io::AsyncWrite;

use crate::units::Size;

/// The room that the smallest file takes: a block on the disk.
pub(super) const BLOCK: u64 = 4 << 10;

/// The bytes that the directory of a listener may hold.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    limit: Size,
    used: Arc<AtomicU64>,
    /// The part of `used` that belongs to growing files.
    growing: Arc<AtomicU64>,
}

/// The error that a file does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is more than the listener has room for: it stores {limit} in total, and {left} are free", what(*size))]
pub(crate) struct Full {
    /// None: the sender did not announce it.
    size: Option<Size>,
    limit: Size,
    left: Size,
}

fn what(size: Option<Size>) -> String {
    size.map_or_else(|| "the body, whose size was not announced,".to_owned(), |size| size.to_string())
}

/// The room that one growing file takes: the bytes that have been written, whatever size was announced. It is freed
/// with the last handle, unless [`Self::keep`] was called.
#[derive(Debug)]
pub(crate) struct Space {
    room: Room,
    /// The announced size, for the text of a refusal.
    size: Option<Size>,
    held: AtomicU64,
}

impl Room {
    /// Room for `limit` bytes, of which `used` are taken.
    pub(crate) fn new(limit: Size, used: u64) -> Self {
        Self { limit, used: Arc::new(AtomicU64::new(used)), growing: Arc::default() }
    }

    /// The number of bytes that are taken.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn left(&self) -> u64 {
        self.limit.0.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Begins to take room for a file of `size` bytes, if it fits now. No room is taken yet.
    /// Without a size, if the smallest file fits.
    pub(super) fn begin(&self, size: impl Into<Option<u64>>) -> Result<Arc<Space>, Full> {
        let (left, size) = (self.left(), size.into());
        let announced = size.map(Size);
        if size.unwrap_or(BLOCK) > left {
            return Err(Full { size: announced, limit: self.limit, left: Size(left) });
        }
        Ok(Arc::new(Space { room: self.clone(), size: announced, held: AtomicU64::new(0) }))
    }

    /// Whether `size` bytes would fit now.
    pub(super) fn fits(&self, size: u64) -> Result<(), Full> {
        self.begin(size).map(drop)
    }

    /// Takes room for bytes that stay after the process.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Full> {
        let space = self.begin(bytes)?;
        space.claim(bytes)?;
        space.keep(0);
        Ok(())
    }

    /// Replaces the number of stored bytes by the result of `count`, and adds the growing files. Files may have been
    /// removed from the directory.
    ///
    /// Files that are stored meanwhile may be counted wrongly, until the next count.
    pub(super) fn recount(&self, count: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        let before = self.used.load(Ordering::Relaxed);
        let growing = self.growing.load(Ordering::Relaxed);
        let found = count()?.saturating_add(growing);
        let corrected = |used: u64| Some(used.saturating_add(found).saturating_sub(before));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, corrected);
        Ok(())
    }

    /// Frees `bytes` bytes that were removed from the directory.
    pub(super) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Space {
    fn claim(&self, bytes: u64) -> Result<(), Full> {
        let Room { limit, used, growing } = &self.room;
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit.0);
        match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => {
                self.held.fetch_add(bytes, Ordering::Relaxed);
                growing.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => {
                // What this file holds is free once it is refused.
                let left = limit.0.saturating_sub(used).saturating_add(self.held.load(Ordering::Relaxed));
                Err(Full { size: self.size, limit: *limit, left: Size(left) })
            }
        }
    }

    fn unclaim(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.room.growing.fetch_sub(bytes, Ordering::Relaxed);
        self.room.give_back(bytes);
    }

    /// Rounds the taken room up to that of the smallest file.
    pub(super) fn round_up(&self) -> Result<(), Full> {
        self.claim(BLOCK.saturating_sub(self.held.load(Ordering::Relaxed)))
    }

    /// Keeps the room for the stored bytes, which replace `replaced` others.
    pub(super) fn keep(&self, replaced: u64) {
        let held = self.held.swap(0, Ordering::Relaxed);
        self.room.growing.fetch_sub(held, Ordering::Relaxed);
        self.room.give_back(replaced);
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.unclaim(self.held.load(Ordering::Relaxed));
    }
}

/// A writer to a file that fails when there is no room.
#[derive(Debug)]
pub(crate) struct Growing {
    file: File,
    space: Arc<Space>,
}

impl Growing {
    pub(super) fn new(file: File, space: Arc<Space>) -> Self {
        Self { file, space }
    }
}

impl AsyncWrite for Growing {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { file, space } = self.get_mut();
        let wanted = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if let Err(full) = space.claim(wanted) {
            return Poll::Ready(Err(io::Error::other(full)));
        }
        let written = Pin::new(file).poll_write(cx, bytes);
        let used = match &written {
            Poll::Ready(Ok(written)) => u64::try_from(*written).unwrap_or(wanted),
            _ => 0,
        };
        space.unclaim(wanted.saturating_sub(used));
        Poll::Ready(ready!(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().file).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().file).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_by_what_is_written_not_by_what_is_announced() {
        let room = Room::new(Size(10), 0);
        let announced = room.begin(10).unwrap();
        room.begin(10).unwrap().claim(6).unwrap();
        assert_eq!(room.left(), 10, "the file of six bytes is gone");
        let other = room.begin(6).unwrap();
        other.claim(6).unwrap();
        announced.claim(4).unwrap();
        assert_eq!(announced.claim(1).unwrap_err().left, Size(4));
        drop(announced);
        assert_eq!(room.left(), 4);
    }

    #[test]
    fn a_refusal_of_a_body_of_unknown_size_names_no_size_of_it() {
        let room = Room::new(Size(3 * BLOCK), BLOCK);
        let growing = room.begin(None).unwrap();
        growing.claim(2 * BLOCK).unwrap();
        assert_eq!(
            growing.claim(1).unwrap_err().to_string(),
            "the body, whose size was not announced, is more than the listener has room for: it stores 12.0 KiB in \
             total, and 8.0 KiB are free"
        );
    }

    #[test]
    fn room_is_given_back_unless_kept() {
        let room = Room::new(Size(10), 3);
        assert_eq!(room.begin(8).unwrap_err().left, Size(7));
        let kept = room.begin(7).unwrap();
        kept.claim(7).unwrap();
        kept.keep(0);
        drop(kept);
        assert!(room.begin(1).is_err());
        assert!(room.begin(0).is_ok());
        room.give_back(1_000);
        assert_eq!(room.left(), 10);
    }
}
