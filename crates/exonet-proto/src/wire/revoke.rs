//! REVOKE_STREAM: the withdrawal of messages of a stream.

use super::base::relative;
use super::cursor::{Put, Take};
use super::frame::run;
use super::{Bases, MAX_TAG, Malformed, StreamMark, kind, varint_len};
use crate::id::{Incarnation, Slot};

/// REVOKE_STREAM: messages that are consecutive both in slots and in their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevokeStream<'a> {
    /// The incarnation of the messages.
    pub r: Incarnation,
    /// The slot of the first message.
    pub s: Slot,
    /// How many messages: as in [`Frame::Revoke`](super::Frame::Revoke).
    pub n: u64,
    /// The name of the stream: at least one byte, at most [`MAX_TAG`].
    pub name: &'a [u8],
    /// The place of the first message. The stream goes on behind it, and the message is not continued by another.
    pub mark: StreamMark,
}

impl<'a> RevokeStream<'a> {
    /// The most bytes that the frame takes, without its name.
    pub const MAX: usize = 32 + StreamMark::MAX;

    // This frame is rare: without this function, other frames are read in fewer steps.
    #[cold]
    #[inline(never)]
    pub(super) fn decode(body: &'a [u8], bases: Bases) -> Result<Self, Malformed> {
        let mut input = Take(body);
        let (r, s, n) = run(&mut input, bases.reversed())?;
        let name = input.prefixed()?;
        if name.is_empty() || name.len() > MAX_TAG {
            return Err(Malformed::Length);
        }
        let mark = StreamMark::take(&mut input)?;
        // Only such a message can be withdrawn.
        if mark.nth(n).is_none() || mark.more || mark.age > s.0 || mark.link > s.0 {
            return Err(Malformed::Range);
        }
        // Bytes that follow belong to a later version.
        Ok(Self { r, s, n, name, mark })
    }

    pub(super) fn put(&self, out: &mut Put<'_>, bases: Bases) -> Option<()> {
        let of_r = relative(self.r.0, bases.reversed().sender);
        let of_s = relative(self.s.0, bases.reversed().receiver);
        let numbers = varint_len(of_r) + varint_len(of_s) + varint_len(self.n);
        let name = varint_len(self.name.len() as u64) + self.name.len();
        out.byte(kind::REVOKE_STREAM)?;
        out.varint((numbers + name + self.mark.encoded_len()) as u64)?;
        out.varint(of_r)?;
        out.varint(of_s)?;
        out.varint(self.n)?;
        out.varint(self.name.len() as u64)?;
        out.bytes(self.name)?;
        self.mark.put(out)
    }
}
