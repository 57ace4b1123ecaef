//! Streams: the place of a message in a stream, as its head gives it.

use super::cursor::{Put, Take};
use super::{Malformed, varint_len};
use crate::MAX_NUMBER;

/// The message is the last of its stream.
const LAST: u8 = 0b001;
/// The stream ends before its sender has sent everything: only with [`LAST`].
const RESET: u8 = 0b010;
/// The next message of the stream continues this one.
const MORE: u8 = 0b100;

/// The place of a message in a stream, whose name is the tag of the message (PROTOCOL.md "Streams").
///
/// Slots are given as distances from the slot of the message, so that they stay short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamMark {
    /// How many slots before this one the message was that opened the stream; zero: this message opens it.
    pub age: u64,
    /// How many messages of the stream were bound before this one.
    pub n: u64,
    /// How many slots before this one the message lies that has to be taken first; zero: there is no such message.
    pub link: u64,
    /// Whether the stream goes on behind this message.
    pub end: StreamEnd,
    /// The next message of the stream continues this one: they are parts of one.
    pub more: bool,
}

/// Whether a stream goes on behind a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamEnd {
    /// The stream goes on.
    #[default]
    Open,
    /// The message is the last of its stream.
    Last,
    /// The message is the last of its stream, and its sender has given up what was to come before.
    Reset,
}

impl StreamMark {
    /// The place of a message behind which the stream goes on, before the message is bound.
    pub const OPEN: Self = Self { age: 0, n: 0, link: 0, end: StreamEnd::Open, more: false };

    /// The most bytes that a place takes.
    pub const MAX: usize = 25;

    /// The place of the `n`th message behind this one, if all of them have consecutive slots. None: the stream ends before.
    pub fn nth(&self, n: u64) -> Option<Self> {
        if n == 0 {
            return Some(*self);
        }
        let open = self.end == StreamEnd::Open;
        let age = self.age.checked_add(n).filter(|age| open && *age <= MAX_NUMBER)?;
        Some(Self { age, n: self.n.checked_add(n)?, link: 1, end: StreamEnd::Open, more: false })
    }

    /// How many bytes the place takes in a head.
    pub const fn encoded_len(&self) -> usize {
        1 + varint_len(self.age) + varint_len(self.n) + varint_len(self.link)
    }

    pub(crate) fn take(input: &mut Take<'_>) -> Result<Self, Malformed> {
        let flags = input.byte()?;
        let end = match flags & (LAST | RESET) {
            0 => StreamEnd::Open,
            LAST => StreamEnd::Last,
            RESET => return Err(Malformed::Reserved),
            _ => StreamEnd::Reset,
        };
        if flags & !(LAST | RESET | MORE) != 0 {
            return Err(Malformed::Reserved);
        }
        let (age, n, link) = (input.varint()?, input.varint()?, input.varint()?);
        // Each message before it in the stream had a slot of its own, from the opening one on.
        if n > age {
            return Err(Malformed::Range);
        }
        Ok(Self { age, n, link, end, more: flags & MORE != 0 })
    }

    pub(super) fn put(&self, out: &mut Put<'_>) -> Option<()> {
        out.byte(self.flags())?;
        out.varint(self.age)?;
        out.varint(self.n)?;
        out.varint(self.link)
    }

    fn flags(&self) -> u8 {
        let end = match self.end {
            StreamEnd::Open => 0,
            StreamEnd::Last => LAST,
            StreamEnd::Reset => LAST | RESET,
        };
        end | if self.more { MORE } else { 0 }
    }

    /// Writes the place to the front of `room`. False: there is no room.
    pub(crate) fn encode(&self, room: &mut [u8]) -> bool {
        self.put(&mut Put::new(room)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: [StreamMark; 4] = [
        StreamMark { age: 0, n: 0, link: 0, end: StreamEnd::Open, more: false },
        StreamMark { age: 0, n: 0, link: 5, end: StreamEnd::Last, more: false },
        StreamMark { age: 1 << 40, n: 70, link: 1 << 20, end: StreamEnd::Reset, more: false },
        StreamMark {
            age: crate::MAX_NUMBER,
            n: crate::MAX_NUMBER,
            link: crate::MAX_NUMBER,
            end: StreamEnd::Open,
            more: true,
        },
    ];

    #[test]
    fn what_is_written_is_read_again_and_nothing_shorter_is() {
        for mark in MARKS {
            let mut room = [0; StreamMark::MAX];
            assert!(mark.encode(&mut room));
            let bytes = &room[..mark.encoded_len()];
            let mut rest = Take(bytes);
            assert_eq!(StreamMark::take(&mut rest), Ok(mark));
            assert!(rest.is_empty());
            for len in 0..bytes.len() {
                assert_eq!(StreamMark::take(&mut Take(&bytes[..len])), Err(Malformed::Truncated));
            }
            assert!(!mark.encode(&mut [0; StreamMark::MAX][..mark.encoded_len() - 1]));
        }
    }

    #[test]
    fn what_no_sender_writes_is_malformed() {
        let read = |bytes: &[u8]| StreamMark::take(&mut Take(bytes));
        assert_eq!(read(&[RESET, 0, 0, 0]), Err(Malformed::Reserved));
        assert_eq!(read(&[8, 0, 0, 0]), Err(Malformed::Reserved));
        for n in [1, 3] {
            let more = read(&[0, n - 1, n, 0]);
            assert_eq!(more, Err(Malformed::Range), "more before it than there are slots");
        }
        let again = StreamMark { age: 1, ..StreamMark::OPEN };
        assert_eq!(read(&[0, 1, 0, 0]), Ok(again), "the first, which has left from another slot before");
    }
}
