//! Where the bodies of small messages are kept: one allocation for many.

use bytes::{Bytes, BytesMut};

/// One block of memory, cut into bodies; it is freed, or used again, when the last of them is gone.
const BLOCK: usize = 256 << 10;
/// Bodies from here on have an allocation of their own, so that they do not pin a block.
const LONE: usize = 16 << 10;

#[derive(Debug, Default)]
pub(super) struct Arena {
    block: BytesMut,
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
            self.block.reserve(BLOCK);
        }
        self.block.extend_from_slice(body);
        self.block.split().freeze()
    }
}
