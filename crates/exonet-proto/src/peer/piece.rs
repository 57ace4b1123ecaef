//! The piece of a message that goes into a packet, and the room for it.

use core::ops::Range;

use crate::id::{Incarnation, Slot};
use crate::message::{Letter, MessageKey};
use crate::wire::{self, Bases, Role};

/// The most room that a frame of one whole message takes beside the message.
pub(crate) const WHOLE_OVERHEAD: usize = 22;
/// The room that the length of MESSAGES takes. It says where a part ends that ends neither its message nor the packet.
const LENGTH: u64 = 4;
/// A fragment shorter than this is not worth its frame, unless it is the last; nor is one that fills a smaller share of the
/// packet.
const MIN_FRAGMENT: u64 = 64;
const MIN_SHARE: usize = 32;

/// A message, or a part of it, to put into a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The whole message.
    Whole { key: MessageKey, s: Slot, r: Incarnation },
    /// The bytes at these offsets of its wire form.
    Fragment { key: MessageKey, s: Slot, r: Incarnation, range: Range<u64> },
}

impl Piece {
    /// Where the piece begins: incarnation, slot and offset.
    pub(crate) const fn begin(&self) -> (Incarnation, Slot, u64) {
        match self {
            Self::Whole { s, r, .. } => (*r, *s, 0),
            Self::Fragment { s, r, range, .. } => (*r, *s, range.start),
        }
    }
}

/// What the sending direction has for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Piece(Piece),
    /// There is a piece, but not for the rest of this packet.
    PacketFull,
    Nothing,
}

/// Which messages are cut to fill a packet, though they would fit into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cuts {
    None,
    /// Messages that no application waits for: neither calls nor replies.
    Plain,
    All,
}

/// The room in the packet that is being assembled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes left.
    pub(crate) left: usize,
    /// Bytes of an empty packet: a message that fits there is not cut.
    pub(crate) empty: usize,
    /// The bases for frames that this node writes.
    pub(crate) bases: Bases,
    /// The incarnation and the number with which the open frame goes on.
    pub(crate) open: Option<(Incarnation, Slot)>,
    /// The last message of the open frame, if it is whole.
    pub(crate) behind: Option<MessageKey>,
    pub(crate) cuts: Cuts,
}

impl Room {
    pub(crate) fn takes_whole(&self, len: u64, s: Slot, r: Incarnation) -> bool {
        // Exact to the byte: packets of a train are as large as the first, which may have just enough room for one such message.
        let goes_on = self.open == Some((r, s));
        let frame = if goes_on { 0 } else { self.ending() + wire::messages_overhead(self.bases, r, s, 0) };
        let overhead = frame + wire::varint_len(len);
        len.saturating_add(overhead as u64) <= self.left as u64
    }

    /// The bytes needed to end the open frame.
    const fn ending(&self) -> usize {
        self.open.is_some() as usize
    }

    pub(crate) fn could_take_whole(&self, len: u64) -> bool {
        len.saturating_add(WHOLE_OVERHEAD as u64) <= self.empty as u64
    }

    /// How many bytes of a message, from `offset` on, fill the packet to its end. `total`: the length of the message, if the
    /// frame says it.
    pub(crate) fn part(&self, total: impl Into<Option<u64>>, offset: u64, s: Slot, r: Incarnation) -> u64 {
        let total = total.into();
        let goes_on = offset == 0 && self.open == Some((r, s)) && total.is_some();
        let frame =
            if goes_on { 0 } else { self.ending() + wire::messages_overhead(self.bases, r, s, offset) };
        self.left.saturating_sub(frame + total.map_or(0, wire::varint_len)) as u64
    }

    /// The part of `range` that fits into the packet. None: it is not worth its frame.
    pub(crate) fn cut(
        &self,
        total: Option<u64>,
        range: Range<u64>,
        s: Slot,
        r: Incarnation,
    ) -> Option<Range<u64>> {
        let (room, len) = (self.part(total, range.start, s, r), range.end - range.start);
        let inside = total.is_none_or(|total| range.end < total && len < room);
        let max = if inside { len.min(room.saturating_sub(LENGTH)) } else { len.min(room) };
        (max >= len.min(MIN_FRAGMENT)).then(|| range.start..range.start + max)
    }

    /// How many bytes of a message that does not fit into the rest of the packet fill it. None: the message goes whole, in the
    /// next packet.
    pub(crate) fn fill(&self, letter: &Letter, s: Slot, r: Incarnation) -> Option<u64> {
        let cuts = match self.cuts {
            _ if letter.bundle().is_some() => false,
            Cuts::None => false,
            Cuts::Plain => matches!(letter.role, Role::Plain | Role::Stream(_)),
            Cuts::All => true,
        };
        let room = self.part(letter.wire_len(), 0, s, r);
        (cuts && room >= MIN_FRAGMENT.max((self.empty / MIN_SHARE) as u64)).then_some(room)
    }
}
