//! What of a message goes into a packet, and the room there is for it.

use core::ops::Range;

use super::event::MessageKey;
use crate::id::{Incarnation, Slot};
use crate::wire::{self, Bases};

/// Room that a frame of one whole message, and of one fragment, takes beside the bytes, at most.
pub(super) const WHOLE_OVERHEAD: usize = 22;
const FRAGMENT_OVERHEAD: usize = 38;

/// Something of a message to put into a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// All of it.
    Whole { key: MessageKey, s: Slot, r: Incarnation },
    /// These offsets of its wire form.
    Fragment { key: MessageKey, s: Slot, r: Incarnation, range: Range<u64> },
}

/// What the sending direction has for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Piece(Piece),
    /// There is something, but not for what is left of this packet.
    PacketFull,
    Nothing,
}

/// The room in the packet that is being assembled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes left.
    pub(super) left: usize,
    /// Bytes that an empty packet has: what fits there is not cut.
    pub(super) empty: usize,
    /// As the writer of frames.
    pub(super) bases: Bases,
    /// The incarnation and the number that the open MESSAGES frame goes on with.
    pub(super) open: Option<(Incarnation, Slot)>,
}

impl Room {
    pub(super) fn takes_whole(&self, len: u64, s: Slot, r: Incarnation) -> bool {
        // To the byte: packets of a train are as large as the first, which may have just room for one such message.
        let frame = if self.open == Some((r, s)) { 0 } else { wire::messages_overhead(self.bases, r, s) };
        let overhead = frame + wire::varint_len(len);
        len.saturating_add(overhead as u64) <= self.left as u64
    }

    pub(super) fn could_take_whole(&self, len: u64) -> bool {
        len.saturating_add(WHOLE_OVERHEAD as u64) <= self.empty as u64
    }

    pub(super) fn fragment(&self) -> Option<u64> {
        self.left.checked_sub(FRAGMENT_OVERHEAD).map(|room| room as u64)
    }
}
