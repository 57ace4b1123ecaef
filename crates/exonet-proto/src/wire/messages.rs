//! MESSAGES and EARLY: messages under one incarnation, or one stamp, and consecutive slots.

use core::ops::Range;

use super::base::{self, relative};
use super::cursor::{Put, Take};
use super::head::ALIKE_HEAD;
use super::kind;
use super::writer::Writer;
use super::{Bases, Head, Malformed, varint, varint_len};
use crate::{Incarnation, MAX_NUMBER, Slot, Stamp};

/// The most messages of an EARLY: their count takes one byte.
pub const MAX_EARLY: u8 = 63;

/// Messages as if they lay one behind the other, from an offset in the first on: the end of one message, whole messages, and the
/// beginning of another. At least one of these is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages<'a> {
    /// The incarnation of all messages.
    pub r: Incarnation,
    /// A part of the first message, if the frame begins behind the start of that message. The part may end before the message
    /// does.
    pub first: Option<Part<'a>>,
    /// The messages that are whole, in wire form: [`Head`](super::Head), then body.
    pub whole: Entries<'a>,
    /// A part of the last message, if the frame has its start but not its end.
    pub last: Option<Part<'a>>,
}

/// A part of the message of slot `s`, in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The slot.
    pub s: Slot,
    /// The length of the message, head and body; at least 1. None: the length was not known when the message began.
    pub total: Option<u64>,
    /// The offset of `data` in the message.
    pub offset: u64,
    /// The bytes, which end at `total` or before. There is at least one byte, except for the end of a message that has no
    /// `total`.
    pub data: &'a [u8],
    /// The message ends with `data`.
    pub ends: bool,
}

/// Messages that were sent before anything was granted, each whole. The entry `i` has the slot `s + i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early<'a> {
    /// The stamp of all messages.
    pub ts: Stamp,
    /// The slot of the first message.
    pub s: Slot,
    /// The messages in wire form.
    pub entries: Entries<'a>,
}

/// Slots and their messages, in wire form and of at least one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries<'a> {
    rest: Take<'a>,
    left: u32,
    s: u64,
}

/// A head and the offset of the body behind it, or the reason why it is malformed.
pub(crate) type Parsed<'a> = Result<(Head<'a>, usize), Malformed>;

impl<'a> Messages<'a> {
    /// The slot of the first message.
    pub fn begin(&self) -> Slot {
        self.first.map_or(Slot(self.whole.slots().start), |first| first.s)
    }

    /// Reads up to a total of 0, to the end of the frame's length, or to the end of the packet.
    #[inline]
    pub(super) fn take(kind: u8, input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let r = base::incarnation(input.varint()?, bases.receiver);
        let begin = base::slot(input.varint()?, bases.sender).0;
        let offset = if kind & kind::OFFSET == 0 { 0 } else { input.varint()? };
        if kind & kind::LENGTH == 0 {
            return Self::take_within(kind, input, r, begin, offset);
        }
        let mut within = Take(input.prefixed()?);
        let messages = Self::take_within(kind, &mut within, r, begin, offset)?;
        if within.is_empty() { Ok(messages) } else { Err(Malformed::Length) }
    }

    #[inline]
    fn take_within(
        kind: u8,
        input: &mut Take<'a>,
        r: Incarnation,
        begin: u64,
        offset: u64,
    ) -> Result<Self, Malformed> {
        if kind & (kind::GOES_ON | kind::ENDS) == 0 {
            return Self::take_from(input, r, begin, offset);
        }
        let part = Some(Part::take_open(input, begin, offset, kind & kind::ENDS != 0)?);
        let (first, last) = if offset > 0 { (part, None) } else { (None, part) };
        Ok(Self { r, first, whole: Entries { rest: Take(&[]), left: 0, s: begin }, last })
    }

    #[inline]
    fn take_from(input: &mut Take<'a>, r: Incarnation, begin: u64, offset: u64) -> Result<Self, Malformed> {
        let first = if offset > 0 { Some(Part::take(input, begin, offset)?) } else { None };
        let (s, start) = (begin + u64::from(first.is_some()), *input);
        let (mut end, mut cut, mut left) = (start, false, 0_u32);
        while !input.is_empty() && !cut {
            end = *input;
            let total = input.varint()?;
            if total == 0 {
                break;
            }
            cut = total > input.0.len() as u64;
            if !cut {
                input.bytes(usize::try_from(total).unwrap_or(usize::MAX))?;
                left += 1;
                end = *input;
            }
        }
        let whole = Entries { rest: start.until(end), left, s };
        if whole.slots().end + u64::from(cut) > MAX_NUMBER + 1 {
            return Err(Malformed::Number);
        }
        let last = if cut {
            *input = end;
            Some(Part::take(input, whole.slots().end, 0)?)
        } else {
            None
        };
        if first.is_none() && last.is_none() && left == 0 {
            return Err(Malformed::Count);
        }
        Ok(Self { r, first, whole, last })
    }
}

impl<'a> Part<'a> {
    /// Takes as many bytes from `offset` on as there are.
    fn take(input: &mut Take<'a>, s: u64, offset: u64) -> Result<Self, Malformed> {
        let total = input.varint()?;
        let rest = total.checked_sub(offset).filter(|rest| *rest > 0).ok_or(Malformed::Range)?;
        let data = input.bytes(usize::try_from(rest).unwrap_or(usize::MAX).min(input.0.len()))?;
        if data.is_empty() {
            return Err(Malformed::Truncated);
        }
        let ends = data.len() as u64 == rest;
        Ok(Self { s: Slot(s), total: Some(total), offset, data, ends })
    }

    /// Takes all remaining bytes, for a message whose length was not known when it began.
    fn take_open(input: &mut Take<'a>, s: u64, offset: u64, ends: bool) -> Result<Self, Malformed> {
        let data = input.bytes(input.0.len())?;
        let end = offset.saturating_add(data.len() as u64);
        if end == 0 || data.is_empty() && !ends {
            return Err(Malformed::Truncated);
        }
        if end > MAX_NUMBER {
            return Err(Malformed::Range);
        }
        Ok(Self { s: Slot(s), total: None, offset, data, ends })
    }
}

impl<'a> Early<'a> {
    pub(super) fn take(input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let ts = base::stamp(input)?;
        let (s, entries) = Entries::take(input, bases)?;
        Ok(Self { ts, s, entries })
    }
}

impl<'a> Entries<'a> {
    #[inline]
    fn take(input: &mut Take<'a>, bases: Bases) -> Result<(Slot, Self), Malformed> {
        let s = base::slot(input.varint()?, bases.sender);
        let left = input.byte()?;
        if !(1..=MAX_EARLY).contains(&left) {
            return Err(Malformed::Count);
        }
        if s.0 > MAX_NUMBER - u64::from(left - 1) {
            return Err(Malformed::Number);
        }
        let start = *input;
        for _ in 0..left {
            if input.prefixed()?.is_empty() {
                return Err(Malformed::Length);
            }
        }
        Ok((s, Self { rest: start.until(*input), left: left.into(), s: s.0 }))
    }
}

impl<'a> Entries<'a> {
    /// Takes the first message out, as entries of its own.
    pub fn split_first(&mut self) -> Option<Self> {
        let (all, s) = (self.rest, self.s);
        self.next()?;
        Some(Self { rest: all.until(self.rest), left: 1, s })
    }

    /// Each remaining message as entries of its own.
    pub(crate) fn singly(mut self) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || self.split_first())
    }

    /// Takes out the first message and those behind it that say that they are alike, as entries of their own, with the head of
    /// the first and the offset of its body.
    pub(crate) fn split_alike(&mut self) -> Option<(Self, Parsed<'a>)> {
        let (all, s, before) = (self.rest, self.s, self.left);
        let (_, first) = self.next()?;
        let read = Head::parse(first);
        let mut last = read.ok().map(|(head, _)| head);
        while last.is_some() {
            let mut behind = *self;
            let next = behind.next().filter(|(_, message)| message.first() == Some(&ALIKE_HEAD[0]));
            let Some((_, message)) = next else { break };
            last = Head::parse_behind(last.as_ref(), message).ok().map(|(head, _)| head);
            if last.is_some() {
                *self = behind;
            }
        }
        Some((Self { rest: all.until(self.rest), left: before - self.left, s }, read))
    }

    /// The slots of the remaining messages.
    pub const fn slots(&self) -> Range<u64> {
        self.s..self.s + self.left as u64
    }

    /// The remaining messages as they are on the wire, each behind its length: for [`split_entry`].
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest.0
    }
}

/// Where the first message lies in the result of [`Entries::as_bytes`].
#[inline]
pub fn split_entry(entries: &[u8]) -> Option<Range<usize>> {
    let mut rest = Take(entries);
    let message = rest.prefixed().ok()?;
    let end = entries.len() - rest.0.len();
    Some(end - message.len()..end)
}

/// The bytes before a message of `len` bytes in such entries.
pub fn entry_prefix(len: u64, room: &mut [u8; 8]) -> &[u8] {
    *room = varint::encode(len);
    room.get(8 - varint_len(len)..).unwrap_or_default()
}

/// The bytes before a body of `body` bytes in a frame, for a message without a tag and a role: its length and its flags. Also
/// returns how many bytes of the array they take.
pub(crate) fn entry_lead(flags: u8, body: usize) -> ([u8; 9], usize) {
    let (mut lead, len) = ([0; 9], (body as u64).saturating_add(1));
    let mut put = Put::new(&mut lead);
    // There is room for the longest form.
    let _ = put.varint(len).and_then(|()| put.byte(flags));
    let len = put.len();
    (lead, len)
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Slot, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let message = self.rest.prefixed().ok()?;
        let s = Slot(self.s);
        self.s += 1;
        Some((s, message))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Entries<'_> {}
impl core::iter::FusedIterator for Entries<'_> {}

/// The bytes of a MESSAGES frame that begins `offset` bytes into `(r, s)`, without its messages and their lengths.
pub fn messages_overhead(bases: Bases, r: Incarnation, s: Slot, offset: u64) -> usize {
    let numbers = varint_len(relative(r.0, bases.receiver)) + varint_len(relative(s.0, bases.sender));
    1 + numbers + if offset > 0 { varint_len(offset) } else { 0 }
}

/// Adds whole messages to a MESSAGES or an EARLY frame, and parts of messages to MESSAGES. The frame exists from the first
/// message on, and is complete after each: there is nothing to finish, and a writer that is dropped unused leaves no trace.
#[derive(Debug)]
pub struct MessagesWriter<'w, 'a> {
    writer: &'w mut Writer<'a>,
    /// Where the count of EARLY is.
    count_at: Option<usize>,
    /// The offset in the next message at which the frame continues.
    offset: u64,
    /// The end of the frame so far.
    end: usize,
    count: u32,
    /// The most messages that this frame may take.
    max: u32,
}

impl<'w, 'a> MessagesWriter<'w, 'a> {
    #[inline]
    pub(super) fn open(writer: &'w mut Writer<'a>, r: Incarnation, s: Slot, offset: u64) -> Option<Self> {
        let r = relative(r.0, writer.bases().receiver);
        let kind = kind::MESSAGES | if offset > 0 { kind::OFFSET } else { 0 };
        Self::begin(writer, kind, r, s, (offset > 0).then_some(offset))
    }

    pub(super) fn open_early(writer: &'w mut Writer<'a>, ts: Stamp, s: Slot) -> Option<Self> {
        let mut frame = Self::begin(writer, kind::EARLY, ts.0, s, Some(0))?;
        frame.count_at = frame.end.checked_sub(1);
        frame.max = frame.max.min(MAX_EARLY.into());
        Some(frame)
    }

    /// `third`: the offset, or the count of zero.
    #[inline]
    fn begin(writer: &'w mut Writer<'a>, kind: u8, name: u64, s: Slot, third: Option<u64>) -> Option<Self> {
        let (bases, ends) = (writer.bases(), writer.is_open());
        let start = writer.len();
        let mut put = Put::new(writer.room(start));
        if ends {
            put.byte(0)?;
        }
        put.byte(kind)?;
        put.varint(name)?;
        put.varint(relative(s.0, bases.sender))?;
        if let Some(third) = third {
            put.varint(third)?;
        }
        let end = start + put.len();
        let slots = MAX_NUMBER.checked_sub(s.0)?.saturating_add(1);
        let max = u32::try_from(slots).unwrap_or(u32::MAX);
        Some(Self { writer, count_at: None, offset: third.unwrap_or_default(), end, count: 0, max })
    }

    /// Adds the message `head | body` for the next slot. `false` if it does not fit, if there may be no more messages, or if the
    /// message is empty; then nothing has changed.
    #[inline]
    pub fn push(&mut self, head: &[u8], body: &[u8]) -> bool {
        let Some(len) = head.len().checked_add(body.len()).filter(|len| *len > 0) else {
            return false;
        };
        if self.count >= self.max || self.offset > 0 {
            return false;
        }
        let mut put = Put::new(self.writer.room(self.end));
        let written = put.length(len).and_then(|()| put.bytes(head)).and_then(|()| put.bytes(body));
        if written.is_none() {
            return false;
        }
        self.end += put.len();
        self.count += 1;
        self.writer.advance(self.end, self.count_at, self.count);
        true
    }

    /// Adds a part of a message of `total` bytes to MESSAGES, for the next slot: from the frame's offset on if the message is the
    /// first, up to the end of the message or of the room. In the latter case nothing follows. `false` if this is no such part;
    /// then nothing has changed.
    pub fn part(&mut self, total: u64, [first, second]: [&[u8]; 2]) -> bool {
        let len = first.len().saturating_add(second.len());
        let cut = self.offset.saturating_add(len as u64) < total;
        let fits = len > 0 && self.offset.checked_add(len as u64).is_some_and(|end| end <= total);
        if self.count_at.is_some() || self.count >= self.max || !fits {
            return false;
        }
        let mut put = Put::new(self.writer.room(self.end));
        let written = put.varint(total).and_then(|()| put.bytes(first)).and_then(|()| put.bytes(second));
        if written.is_none() || cut && put.remaining() > 0 {
            return false;
        }
        self.end += put.len();
        self.count += 1;
        self.offset = 0;
        self.max = if cut { self.count } else { self.max };
        self.writer.advance(self.end, None, self.count);
        true
    }

    /// Adds `n` messages that lie in `entries` one behind the other, each behind its length: all of them or none.
    #[inline]
    pub(crate) fn extend(&mut self, entries: &[u8], n: u32) -> bool {
        let Some(count) = self.count.checked_add(n).filter(|count| *count <= self.max) else { return false };
        let mut put = Put::new(self.writer.room(self.end));
        if n == 0 || self.offset > 0 || put.bytes(entries).is_none() {
            return false;
        }
        self.end += entries.len();
        self.count = count;
        self.writer.advance(self.end, self.count_at, self.count);
        true
    }

    /// How many messages were added.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes left for further messages and their lengths.
    pub fn remaining(&self) -> usize {
        self.writer.capacity().saturating_sub(self.end)
    }

    /// Whether a message of `len` bytes, head and body, would be taken.
    pub fn fits(&self, len: usize) -> bool {
        let room = self.writer.capacity().saturating_sub(self.end);
        len > 0 && self.count < self.max && varint_len(len as u64).saturating_add(len) <= room
    }
}
