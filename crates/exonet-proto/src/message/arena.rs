//! Memory for the bodies of small messages: one allocation for many.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::wire;

/// One block of memory, divided among bodies. It is reused when the last of them is gone.
const BLOCK: usize = 256 << 10;
/// A longer body has an allocation of its own, so that it does not pin a block.
const LONE: usize = 128 << 10;
/// How many buffers are kept for messages that come in parts, and the longest buffer that is kept.
const BUFFERS: usize = 16;
pub(crate) const SHORT: usize = 4 << 10;
/// How many blocks may wait for their last body to go: as much memory as one peer may have waiting.
const USED: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Arena {
    block: BytesMut,
    /// Full blocks, the oldest first.
    used: VecDeque<BytesMut>,
    buffers: Vec<Vec<u8>>,
}

impl Arena {
    pub(crate) fn copy(&mut self, body: &[u8]) -> Bytes {
        if body.is_empty() { Bytes::new() } else { self.copy_entries(body).freeze() }
    }

    /// As [`Arena::copy`], for messages, each behind its length. What is copied next usually lies right behind them.
    pub(crate) fn copy_entries(&mut self, entries: &[u8]) -> BytesMut {
        if entries.len() >= LONE {
            return BytesMut::from(entries);
        }
        if self.block.capacity() < entries.len() {
            self.renew();
        }
        self.block.extend_from_slice(entries);
        self.block.split()
    }

    /// As [`Arena::copy_entries`], for one message without its length, which is put before it.
    pub(crate) fn copy_entry(&mut self, message: &[u8]) -> BytesMut {
        let mut room = [0; 8];
        let length = wire::entry_prefix(message.len() as u64, &mut room);
        if self.block.capacity() < length.len() + message.len() {
            self.renew();
        }
        self.block.extend_from_slice(length);
        self.block.extend_from_slice(message);
        self.block.split()
    }

    /// An empty buffer for a message of `len` bytes.
    pub(crate) fn buffer(&mut self, len: u64) -> Vec<u8> {
        let kept = if len <= SHORT as u64 { self.buffers.pop() } else { None };
        kept.unwrap_or_default()
    }

    /// Keeps a used buffer for the next message.
    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SHORT && self.buffers.len() < BUFFERS {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Frees memory that is kept only for speed.
    pub(crate) fn rest(&mut self) {
        *self = Self::default();
    }

    /// Continues with a full block whose bodies are all gone, or else with a new one.
    fn renew(&mut self) {
        if self.block.try_reclaim(BLOCK) {
            return;
        }
        let free = self.used.iter_mut().position(|used| used.try_reclaim(BLOCK));
        let next = free.and_then(|at| self.used.remove(at)).unwrap_or_else(|| BytesMut::with_capacity(BLOCK));
        let full = std::mem::replace(&mut self.block, next);
        if full.capacity() > 0 {
            self.used.push_back(full);
            self.used.truncate(USED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_when_the_last_of_its_bodies_is_gone() {
        let mut arena = Arena::default();
        let place = |bytes: &Bytes| bytes.as_ptr() as usize;
        let first: Vec<_> = (0..26).map(|i| arena.copy(&[i; 10_000])).collect();
        let second: Vec<_> = (0..26).map(|i| arena.copy(&[i; 10_000])).collect();
        assert!(first.iter().chain(&second).zip((0..26).chain(0..26)).all(|(body, i)| **body == [i; 10_000]));
        let begins = place(&first[0]);
        drop(first);
        let third = arena.copy(&[7; 10_000]);
        assert_eq!(place(&third), begins);
        assert_eq!(second[25], [25; 10_000].as_slice(), "what is held stays");
    }
}
