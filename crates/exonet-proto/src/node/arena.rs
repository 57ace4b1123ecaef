//! Where the bodies of small messages are kept: one allocation for many.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// One block of memory, cut into bodies; it is used again when the last of them is gone.
const BLOCK: usize = 256 << 10;
/// What is longer has an allocation of its own, so that it does not pin a block.
const LONE: usize = 128 << 10;
/// Blocks that wait for their last body to go: as much as one peer may have waiting.
const USED: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Arena {
    block: BytesMut,
    /// The oldest first.
    used: VecDeque<BytesMut>,
}

impl Arena {
    pub(super) fn copy(&mut self, body: &[u8]) -> Bytes {
        if body.len() >= LONE {
            return Bytes::copy_from_slice(body);
        }
        if body.is_empty() {
            return Bytes::new();
        }
        if self.block.capacity() < body.len() {
            self.renew();
        }
        self.block.extend_from_slice(body);
        self.block.split().freeze()
    }

    /// Gives up what is only kept for speed.
    pub(super) fn rest(&mut self) {
        *self = Self::default();
    }

    /// Goes on with the block that has been full for longest if nobody holds a body of it any more, else with a new one.
    fn renew(&mut self) {
        if self.block.try_reclaim(BLOCK) {
            return;
        }
        let next =
            self.used.front_mut().and_then(|used| used.try_reclaim(BLOCK).then(|| std::mem::take(used)));
        if next.is_some() || self.used.len() >= USED {
            self.used.pop_front();
        }
        let full = std::mem::replace(&mut self.block, next.unwrap_or_else(|| BytesMut::with_capacity(BLOCK)));
        self.used.push_back(full);
    }
}
