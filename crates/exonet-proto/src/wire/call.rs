//! Calls: the frames between a caller and its server, and the parts of a message head that concern a call.
//!
//! A call is named only by its number `s`, which comes from the caller's clock.

use super::base::{self, relative};
use super::cursor::{Put, Take};
use super::kind;
use super::traceparent::{TRACE, Traceparent};
use super::{Bases, Head, Malformed, StreamMark, Tlvs, varint_len};
use crate::Slot;

/// Extension of a message's head: the message is a call. No value.
const CALL: u64 = 1;
/// Extension of a message's head: the message is the reply to a call. Value: its number, the status.
const REPLY: u64 = 2;

/// `REPLY(s, status, body)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The call.
    pub s: Slot,
    /// Zero is success. The other values belong to the application, except those that the node reserves.
    pub status: u32,
    /// The body of the reply.
    pub body: &'a [u8],
}

impl<'a> Reply<'a> {
    pub(super) fn take(input: &mut Take<'a>, bases: Bases) -> Result<Self, Malformed> {
        let s = base::slot(input.varint()?, bases.receiver);
        let status = status(input.varint()?)?;
        Ok(Self { s, status, body: input.prefixed()? })
    }

    pub(super) fn put(&self, out: &mut Put<'_>, bases: Bases) -> Option<()> {
        out.byte(kind::REPLY)?;
        out.varint(relative(self.s.0, bases.receiver))?;
        out.varint(u64::from(self.status))?;
        out.length(self.body.len())?;
        out.bytes(self.body)
    }
}

/// Puts a frame that has only the number of a call.
pub(super) fn put(out: &mut Put<'_>, kind: u8, s: Slot, base: u64) -> Option<()> {
    out.byte(kind)?;
    out.varint(relative(s.0, base))
}

fn status(value: u64) -> Result<u32, Malformed> {
    u32::try_from(value).map_err(|_| Malformed::Number)
}

/// The role of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// An ordinary message.
    #[default]
    Plain,
    /// A message of the stream named by its tag.
    Stream(StreamMark),
    /// A call: its receiver owes a reply.
    Call,
    /// The reply to a call that its receiver has made. The number is absolute: a message has no bases.
    Reply {
        /// The call.
        s: Slot,
        /// The status, as in [`Reply`].
        status: u32,
    },
}

impl Role {
    /// The most bytes that [`Role::encode`] writes.
    pub const MAX: usize = StreamMark::MAX;

    /// The role that a head gives its message.
    ///
    /// # Errors
    /// [`Malformed::Length`] for a value that is too long, or two roles at once; [`Malformed::Truncated`] and
    /// [`Malformed::Number`] for a value that has no call or no status.
    #[inline]
    pub fn of(head: &Head<'_>) -> Result<Self, Malformed> {
        let alone = head.extensions.as_bytes().is_empty();
        if alone && head.stream.is_none() { Ok(Self::Plain) } else { Self::of_marked(head) }
    }

    fn of_marked(head: &Head<'_>) -> Result<Self, Malformed> {
        match (head.stream, Self::of_any(head.extensions)?) {
            (None, role) => Ok(role),
            (Some(mark), Self::Plain) => Ok(Self::Stream(mark)),
            _ => Err(Malformed::Length),
        }
    }

    fn of_any(extensions: Tlvs<'_>) -> Result<Self, Malformed> {
        match (extensions.get(CALL), extensions.get(REPLY)) {
            (None, None) => Ok(Self::Plain),
            (Some(&[]), None) => Ok(Self::Call),
            (None, Some(value)) => {
                let mut rest = Take(value);
                let (s, status) = (Slot(rest.varint()?), status(rest.varint()?)?);
                if rest.is_empty() { Ok(Self::Reply { s, status }) } else { Err(Malformed::Length) }
            }
            _ => Err(Malformed::Length),
        }
    }

    /// How many bytes the role takes in a head behind the tag, including the length of the extensions, if a trace may be beside
    /// it.
    pub(crate) const fn encoded_len_with(&self, traced: bool) -> usize {
        let alone = self.encoded_len();
        match self {
            _ if !traced => alone,
            Self::Plain | Self::Stream(_) => alone + Traceparent::MAX,
            Self::Call | Self::Reply { .. } => alone + Traceparent::EXTENSION,
        }
    }

    /// How many bytes the role takes in a head behind the tag, including the length of the extensions.
    pub const fn encoded_len(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Stream(mark) => mark.encoded_len(),
            Self::Call => 3,
            Self::Reply { s, status } => 3 + varint_len(s.0) + varint_len(*status as u64),
        }
    }

    /// Writes the role to the front of `room`, as a head has it behind the tag. False: there is no room.
    pub fn encode(&self, room: &mut [u8]) -> bool {
        self.encode_with(None, room)
    }

    /// As [`Role::encode`], with `trace` beside it.
    pub(crate) fn encode_with(&self, trace: Option<&Traceparent>, room: &mut [u8]) -> bool {
        self.put(trace, &mut Put::new(room)).is_some()
    }

    fn put(&self, trace: Option<&Traceparent>, out: &mut Put<'_>) -> Option<()> {
        let beside = trace.map_or(0, |_| Traceparent::EXTENSION);
        match *self {
            Self::Plain | Self::Stream(_) => {
                if let Self::Stream(mark) = self {
                    mark.put(out)?;
                }
                if trace.is_some() {
                    out.length(beside)?;
                }
            }
            Self::Call => {
                out.length(2 + beside)?;
                out.varint(CALL)?;
                out.length(0)?;
            }
            Self::Reply { s, status } => {
                let value = varint_len(s.0) + varint_len(u64::from(status));
                out.length(2 + value + beside)?;
                out.varint(REPLY)?;
                out.length(value)?;
                out.varint(s.0)?;
                out.varint(u64::from(status))?;
            }
        }
        let Some(trace) = trace else { return Some(()) };
        let value = trace.to_bytes();
        out.varint(TRACE)?;
        out.length(value.len())?;
        out.bytes(&value)
    }
}
