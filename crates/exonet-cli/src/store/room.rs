//! How much may still be stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::units::Size;

/// Bytes that one run of a listener may store in all.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    limit: Size,
    left: Arc<AtomicU64>,
}

/// More than fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{size} is more than the listener has room for: it stores {limit} in all, {left} are left")]
pub(crate) struct Full {
    size: Size,
    limit: Size,
    left: Size,
}

/// Room that is held; it is free again unless [`Self::keep`] is called.
#[derive(Debug)]
pub(crate) struct Space {
    size: u64,
    left: Arc<AtomicU64>,
}

impl Room {
    pub(crate) fn new(limit: Size) -> Self {
        Self { limit, left: Arc::new(AtomicU64::new(limit.0)) }
    }

    pub(super) fn reserve(&self, size: u64) -> Result<Space, Full> {
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
        match taken {
            Ok(_) => Ok(Space { size, left: Arc::clone(&self.left) }),
            Err(left) => Err(Full { size: Size(size), limit: self.limit, left: Size(left) }),
        }
    }
}

impl Space {
    /// The bytes are stored.
    pub(super) fn keep(mut self) {
        self.size = 0;
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.left.fetch_add(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_unless_kept() {
        let room = Room::new(Size(10));
        let held = room.reserve(6).unwrap();
        assert_eq!(room.reserve(5).unwrap_err().left, Size(4));
        drop(held);
        room.reserve(10).unwrap().keep();
        assert!(room.reserve(1).is_err());
        assert!(room.reserve(0).is_ok());
    }
}
