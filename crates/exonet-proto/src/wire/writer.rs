//! Writes frames into a transmit buffer.

use core::ops::Range;
use core::time::Duration;

use super::base::relative;
use super::cursor::Put;
use super::kind;
use super::messages::{MessagesWriter, messages_overhead};
use super::{
    Ask, Bases, Claim, Ecn, Params, Reply, RevokeStream, Verdict, ack, call, state, varint, varint_len,
};
use crate::{Incarnation, Slot, Stamp, Wall};

/// Writes frames into a slice, each whole or not at all: a method that returns `false` or `None` leaves no trace.
///
/// The slice is the part of the transmit buffer between a packet's header and its tag; the packet is then sealed in place. A
/// count or byte offset above [`MAX_NUMBER`](crate::MAX_NUMBER) is written as [`MAX_NUMBER`](crate::MAX_NUMBER).
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
    bases: Bases,
    /// The last frame extends to the end of the packet. A 0 separates it from what follows.
    open: bool,
}

impl<'a> Writer<'a> {
    /// An empty payload, written to the start of `buf`. `bases.sender` is this node's own base.
    pub const fn new(buf: &'a mut [u8], bases: Bases) -> Self {
        Self { buf, len: 0, bases, open: false }
    }

    /// Bytes written so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that may still be written, in further frames.
    pub const fn remaining(&self) -> usize {
        self.buf.len().saturating_sub(self.len + self.open as usize)
    }

    /// The payload so far.
    pub fn written(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// The bases under which frames are written.
    pub const fn bases(&self) -> Bases {
        self.bases
    }

    /// Changes the bases for the frames that follow.
    pub const fn set_bases(&mut self, bases: Bases) {
        self.bases = bases;
    }

    /// `count` bytes of PADDING.
    pub fn padding(&mut self, count: usize) -> bool {
        // Behind an open frame, the first of these bytes ends it.
        let Some(room) = self.buf.get_mut(self.len..) else { return false };
        if Put::new(room).zeros(count).is_none() {
            return false;
        }
        self.len += count;
        self.open &= count == 0;
        true
    }

    /// PING.
    pub fn ping(&mut self) -> bool {
        self.frame(|out, _| out.byte(kind::PING)).is_some()
    }

    /// ACK of `ranges`, given newest first, disjoint and not adjacent: the newest that fit, at most
    /// [`MAX_ACK_RANGES`](super::MAX_ACK_RANGES). Returns how many were written.
    ///
    /// `delay` and `arrival` mean what they do in [`Ack`](super::Ack).
    #[inline]
    pub fn ack(
        &mut self,
        delay: Duration,
        arrival: Duration,
        ecn: Option<Ecn>,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Option<usize> {
        self.frame(|out, _| ack::put(out, delay, arrival, ecn, ranges.into_iter()))
    }

    /// CLOSE.
    pub fn close(&mut self, code: u64) -> bool {
        self.frame(|out, _| {
            out.byte(kind::CLOSE)?;
            out.varint(code)
        })
        .is_some()
    }

    /// PATH_CHALLENGE.
    pub fn path_challenge(&mut self, data: [u8; 8]) -> bool {
        self.frame(|out, _| {
            out.byte(kind::PATH_CHALLENGE)?;
            out.bytes(&data)
        })
        .is_some()
    }

    /// PATH_RESPONSE.
    pub fn path_response(&mut self, data: [u8; 8]) -> bool {
        self.frame(|out, _| {
            out.byte(kind::PATH_RESPONSE)?;
            out.bytes(&data)
        })
        .is_some()
    }

    /// PARAMS.
    pub fn params(&mut self, params: &Params) -> bool {
        self.frame(|out, _| params.put(out)).is_some()
    }

    /// ASK.
    #[inline]
    pub fn ask(&mut self, ask: Ask) -> bool {
        self.frame(|out, bases| {
            let stamped = ask.ts.is_some();
            out.byte(if stamped { kind::ASK_STAMPED } else { kind::ASK })?;
            out.varint(relative(ask.s.0, bases.sender))?;
            out.varint(ask.n)?;
            out.varint(relative(ask.l.0, bases.sender))?;
            if stamped { out.varint(ask.ts.0) } else { Some(()) }
        })
        .is_some()
    }

    /// STATE of the live record `r`, with `ts` and `end` if they are given. `free` are the free slots of the record, ascending.
    /// Those within `[claim.lo, claim.up)` are claimed: as many ranges as fit and at most `max_ranges`. If a range must be left
    /// out, the claim ends before it. Returns the `up` that was claimed, which may be as low as `claim.lo`; `None` also if
    /// `claim.up < claim.lo`.
    #[inline]
    pub fn state_live(
        &mut self,
        b: Incarnation,
        r: Incarnation,
        taken: Option<(Stamp, Slot)>,
        claim: Claim,
        free: impl IntoIterator<Item = Range<u64>>,
        max_ranges: u16,
    ) -> Option<Slot> {
        self.frame(|out, bases| {
            state::put_live(out, bases, (b, r, taken), claim, free.into_iter(), max_ranges)
        })
    }

    /// STATE of a node without a record; `ck` is its clock, `taken` as in [`Writer::state_live`].
    pub fn state_gone(&mut self, b: Incarnation, ck: Incarnation, taken: Option<(Stamp, Slot)>) -> bool {
        self.frame(|out, bases| state::put_gone(out, bases, (b, ck, taken))).is_some()
    }

    /// Begins MESSAGES for consecutive slots from `s` on; `None` if not even its header fits.
    #[inline]
    pub fn messages(&mut self, r: Incarnation, s: Slot) -> Option<MessagesWriter<'_, 'a>> {
        MessagesWriter::open(self, r, s, 0)
    }

    /// As [`Writer::messages`], `offset` bytes into the first message.
    #[inline]
    pub fn messages_from(&mut self, r: Incarnation, s: Slot, offset: u64) -> Option<MessagesWriter<'_, 'a>> {
        MessagesWriter::open(self, r, s, offset)
    }

    /// Begins EARLY for consecutive slots from `s` on; `None` if not even its header fits.
    pub fn early(&mut self, ts: Stamp, s: Slot) -> Option<MessagesWriter<'_, 'a>> {
        MessagesWriter::open_early(self, ts, s)
    }

    /// STAMP_REJECTED.
    pub fn stamp_rejected(&mut self, ts: Stamp, time: Wall) -> bool {
        self.frame(|out, _| {
            out.byte(kind::STAMP_REJECTED)?;
            out.varint(ts.0)?;
            out.varint(time.0)
        })
        .is_some()
    }

    /// MESSAGES with a length, for a part of the message `(r, s)` of `total` bytes, at `offset`: as much of `data` as fits.
    /// `data` is given in two parts because the head and the body of a message lie apart. Returns how many bytes were written; 0
    /// means no frame.
    #[inline]
    pub fn part(&mut self, r: Incarnation, s: Slot, total: u64, offset: u64, data: [&[u8]; 2]) -> usize {
        let [first, second] = data;
        let len = first.len().saturating_add(second.len()).min(self.part_room(r, s, total, offset));
        let written =
            len > 0 && self.put_part((r, s), Some(total), offset, begin([first, second], len), false);
        if written { len } else { 0 }
    }

    /// As [`Writer::part`], for a message whose length was not known when it began. `ends`: the message ends with `data`. Its end
    /// counts as one more byte in the result.
    pub fn open_part(&mut self, r: Incarnation, s: Slot, offset: u64, data: [&[u8]; 2], ends: bool) -> usize {
        let room = self.remaining().saturating_sub(messages_overhead(self.bases, r, s, offset));
        let all = data[0].len().saturating_add(data[1].len());
        let len = all.min(varint::prefixed_room(room));
        let ends = ends && len == all;
        let written = (len > 0 || ends) && self.put_part((r, s), None, offset, begin(data, len), ends);
        if written { len + usize::from(ends) } else { 0 }
    }

    #[inline]
    fn put_part(
        &mut self,
        (r, s): (Incarnation, Slot),
        total: Option<u64>,
        offset: u64,
        data: [&[u8]; 2],
        ends: bool,
    ) -> bool {
        let len = data[0].len() + data[1].len();
        self.frame(|out, bases| {
            let open = if ends { kind::ENDS } else { kind::GOES_ON };
            let from = if offset > 0 { kind::OFFSET } else { 0 };
            out.byte(kind::MESSAGES | kind::LENGTH | from | if total.is_none() { open } else { 0 })?;
            out.varint(relative(r.0, bases.receiver))?;
            out.varint(relative(s.0, bases.sender))?;
            if offset > 0 {
                out.varint(offset)?;
            }
            out.length(total.map_or(0, varint_len) + len)?;
            if let Some(total) = total {
                out.varint(total)?;
            }
            out.bytes(data[0])?;
            out.bytes(data[1])
        })
        .is_some()
    }

    /// The most bytes of data that such a frame could carry now.
    #[inline]
    pub fn part_room(&self, r: Incarnation, s: Slot, total: u64, offset: u64) -> usize {
        let room = self.remaining().saturating_sub(messages_overhead(self.bases, r, s, offset));
        let left = usize::try_from(total.saturating_sub(offset)).unwrap_or(usize::MAX);
        varint::prefixed_room(room).saturating_sub(varint_len(total)).min(left)
    }

    /// TOKEN: asks for the fate of the message `(r, s)`.
    pub fn token(&mut self, r: Incarnation, s: Slot) -> bool {
        self.frame(|out, bases| {
            out.byte(kind::TOKEN)?;
            out.varint(relative(r.0, bases.receiver))?;
            out.varint(relative(s.0, bases.sender))
        })
        .is_some()
    }

    /// REVOKE: the messages in `n` slots from `s` on, under `r`, are withdrawn.
    pub fn revoke(&mut self, r: Incarnation, s: Slot, n: u64) -> bool {
        self.frame(|out, bases| put_run(out, kind::REVOKE, bases.reversed(), (r, s, n))).is_some()
    }

    /// REVOKE_STREAM: as [`Writer::revoke`], for messages of a stream.
    pub fn revoke_stream(&mut self, revoke: RevokeStream<'_>) -> bool {
        self.frame(|out, bases| revoke.put(out, bases)).is_some()
    }

    /// WITHDRAWN: the messages in `n` slots from `s` on, under `r`, were withdrawn.
    pub fn withdrawn(&mut self, r: Incarnation, s: Slot, n: u64) -> bool {
        self.frame(|out, bases| put_run(out, kind::WITHDRAWN, bases, (r, s, n))).is_some()
    }

    /// HAVE: `prefix` and `limit` mean what they do in [`Have`](super::Have); `held`, ascending, counts from
    /// `prefix` on, as many ranges as fit and at most [`MAX_HAVE_RANGES`](super::MAX_HAVE_RANGES).
    pub fn have(
        &mut self,
        r: Incarnation,
        s: Slot,
        prefix: u64,
        limit: u64,
        held: impl IntoIterator<Item = Range<u64>>,
    ) -> bool {
        self.frame(|out, bases| state::put_have(out, bases, (r, s), (prefix, limit), held.into_iter()))
            .is_some()
    }

    /// VERDICT.
    pub fn verdict(&mut self, verdict: Verdict<'_>) -> bool {
        self.frame(|out, bases| verdict.put(out, bases)).is_some()
    }

    /// REPLY.
    pub fn reply(&mut self, reply: Reply<'_>) -> bool {
        self.frame(|out, bases| reply.put(out, bases)).is_some()
    }

    /// REPLY_ACK: no reply to this node's call `s` is needed any more.
    pub fn reply_ack(&mut self, s: Slot) -> bool {
        self.frame(|out, bases| call::put(out, kind::REPLY_ACK, s, bases.sender)).is_some()
    }

    /// PROBE: asks for the fate of this node's call `s`, which was delivered.
    pub fn probe(&mut self, s: Slot) -> bool {
        self.frame(|out, bases| call::put(out, kind::PROBE, s, bases.sender)).is_some()
    }

    /// NOCALL: the receiver's call `s` is not known here.
    pub fn no_call(&mut self, s: Slot) -> bool {
        self.frame(|out, bases| call::put(out, kind::NOCALL, s, bases.receiver)).is_some()
    }

    /// COMPUTING: the receiver's call `s` has no reply yet.
    pub fn computing(&mut self, s: Slot) -> bool {
        self.frame(|out, bases| call::put(out, kind::COMPUTING, s, bases.receiver)).is_some()
    }

    /// Keeps the bytes that `write` puts only if it succeeds.
    #[inline]
    fn frame<T>(&mut self, write: impl FnOnce(&mut Put<'_>, Bases) -> Option<T>) -> Option<T> {
        let at = self.len + usize::from(self.open);
        let mut out = Put::new(self.buf.get_mut(at..)?);
        let written = write(&mut out, self.bases)?;
        let end = at + out.len();
        if let Some(zero) = self.buf.get_mut(self.len).filter(|_| self.open) {
            *zero = 0;
        }
        (self.len, self.open) = (end, false);
        Some(written)
    }

    pub(super) const fn capacity(&self) -> usize {
        self.buf.len()
    }

    pub(super) fn room(&mut self, from: usize) -> &mut [u8] {
        self.buf.get_mut(from..).unwrap_or_default()
    }

    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Keeps everything before `end`, and writes `count` to its place; a frame without a count is open.
    #[inline]
    pub(super) fn advance(&mut self, end: usize, count_at: Option<usize>, count: u32) {
        if let Some(byte) = count_at.and_then(|at| self.buf.get_mut(at)) {
            *byte = u8::try_from(count).unwrap_or(u8::MAX);
        }
        (self.len, self.open) = (end, count_at.is_none());
    }
}

/// The first `len` bytes of `data`.
fn begin([first, second]: [&[u8]; 2], len: usize) -> [&[u8]; 2] {
    let (first, rest) = first.split_at_checked(len).unwrap_or((first, &[]));
    let second = if rest.is_empty() { second.get(..len - first.len()).unwrap_or_default() } else { &[] };
    [first, second]
}

/// Slots of a record of the end whose base is `bases.sender`.
fn put_run(out: &mut Put<'_>, kind: u8, bases: Bases, (r, s, n): (Incarnation, Slot, u64)) -> Option<()> {
    out.byte(kind)?;
    out.varint(relative(r.0, bases.sender))?;
    out.varint(relative(s.0, bases.receiver))?;
    out.varint(n)
}
