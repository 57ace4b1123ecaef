//! The head of a message: what travels in front of its body.

use bytes::BufMut;

use super::cursor::Take;
use super::tlv::put_varint;
use super::{Malformed, StreamMark, Tlvs, varint_len};

/// Longest tag, in bytes.
pub const MAX_TAG: usize = 255;

const PRIORITY: u8 = 0b0011;
const HAS_TAG: u8 = 0b0100;
const HAS_EXTENSIONS: u8 = 0b1000;
const IN_STREAM: u8 = 0b0001_0000;
const CONFIRM: u8 = 0b0010_0000;
/// Only [`Head::parse_behind`] reads this.
const ALIKE: u8 = 0b0100_0000;
const RESERVED: u8 = 0b1000_0000 | ALIKE;

/// The head of a message that is alike to the one before it in its frame.
pub(crate) const ALIKE_HEAD: [u8; 1] = [ALIKE];

/// The class of a message: 0 goes first, 3 last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Before everything else: 0.
    pub const URGENT: Self = Self(0);
    /// The default: 1.
    pub const NORMAL: Self = Self(1);
    /// After normal messages: 2.
    pub const LOW: Self = Self(2);
    /// After everything else: 3.
    pub const BULK: Self = Self(3);

    /// The class with this number; `None` above 3.
    pub const fn new(class: u8) -> Option<Self> {
        if class <= Self::BULK.0 { Some(Self(class)) } else { None }
    }

    /// The number of the class: 0 goes first, 3 goes last.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// The head of a message. A message in wire form is its head and then its body, up to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// The class of the message.
    pub priority: Priority,
    /// The sender wants to be told that the message was processed.
    pub confirm: bool,
    /// The tag, for the application; at most [`MAX_TAG`] bytes. Empty means that there is none.
    pub tag: &'a [u8],
    /// The place of the message in the stream named by its tag.
    pub stream: Option<StreamMark>,
    /// Everything else: call, tracing, and extensions of later versions.
    pub extensions: Tlvs<'a>,
}

impl<'a> Head<'a> {
    /// The head in front of `message`, and its length: the body is the rest.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if `message` ends within the head, [`Malformed::Reserved`] for reserved bits,
    /// [`Malformed::Length`] for a tag or extensions that are announced and empty, or a stream without a name;
    /// [`Malformed::Range`] for a place that no message of a stream has.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<(Self, usize), Malformed> {
        match message.first() {
            // Nearly all heads have only a class.
            Some(flags) if flags & !PRIORITY == 0 => {
                Ok((Self { priority: Priority(*flags), ..Self::default() }, 1))
            }
            _ => Self::parse_any(message),
        }
    }

    /// As [`Head::parse`], for a message that stands in a frame right behind one with the head `before`, if that could be read.
    /// The message may say that it is alike.
    ///
    /// # Errors
    /// As [`Head::parse`]; [`Malformed::Reserved`] for a message that says that it is alike, with nothing before it, or with a
    /// message before it that none can be alike to.
    #[inline]
    pub fn parse_behind(before: Option<&Self>, message: &'a [u8]) -> Result<(Self, usize), Malformed> {
        if message.first() != Some(&ALIKE) {
            return Self::parse(message);
        }
        let alike = before.and_then(Self::next).ok_or(Malformed::Reserved)?;
        Ok((alike, ALIKE_HEAD.len()))
    }

    /// The head of a message that stands behind this one and is alike. None: there is no such head.
    fn next(&self) -> Option<Self> {
        let stream = match self.stream {
            Some(mark) => Some(mark.nth(1)?),
            None => None,
        };
        self.extensions.as_bytes().is_empty().then_some(Self { stream, ..*self })
    }

    fn parse_any(message: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let mut rest = Take(message);
        let flags = rest.byte()?;
        if flags & RESERVED != 0 {
            return Err(Malformed::Reserved);
        }
        let confirm = flags & CONFIRM != 0;
        let mut head = Self { priority: Priority(flags & PRIORITY), confirm, ..Self::default() };
        if flags & HAS_TAG != 0 {
            let len = usize::from(rest.byte()?);
            head.tag = some(rest.bytes(len)?)?;
        }
        if flags & IN_STREAM != 0 {
            some(head.tag)?;
            head.stream = Some(StreamMark::take(&mut rest)?);
        }
        if flags & HAS_EXTENSIONS != 0 {
            head.extensions = Tlvs::parse(some(rest.prefixed()?)?)?;
        }
        Ok((head, Take(message).until(rest).0.len()))
    }

    /// How many bytes the head takes on the wire; at least 1.
    pub const fn encoded_len(&self) -> usize {
        let tag = self.tag.len();
        let extensions = self.extensions.as_bytes().len();
        let mut len = 1;
        if tag > 0 {
            len += 1 + tag;
        }
        if let Some(mark) = &self.stream {
            len += mark.encoded_len();
        }
        if extensions > 0 {
            len += varint_len(extensions as u64) + extensions;
        }
        len
    }

    /// Appends the head to `out`, or nothing at all (`false`) if there is no room or the tag is too long.
    pub fn encode(&self, out: &mut impl BufMut) -> bool {
        let Ok(tag) = u8::try_from(self.tag.len()) else {
            return false;
        };
        if out.remaining_mut() < self.encoded_len() {
            return false;
        }
        let extensions = self.extensions.as_bytes();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let mut more = flag(!extensions.is_empty(), HAS_EXTENSIONS) | flag(self.confirm, CONFIRM);
        more |= flag(self.stream.is_some(), IN_STREAM);
        out.put_u8(self.priority.0 | flag(tag > 0, HAS_TAG) | more);
        if tag > 0 {
            out.put_u8(tag);
            out.put_slice(self.tag);
        }
        if let Some(mark) = &self.stream {
            let mut room = [0; StreamMark::MAX];
            mark.encode(&mut room);
            out.put_slice(room.get(..mark.encoded_len()).unwrap_or_default());
        }
        if !extensions.is_empty() {
            put_varint(out, extensions.len() as u64);
            out.put_slice(extensions);
        }
        true
    }
}

/// A part that is announced has at least one byte, so that there is one way to say that it is absent.
const fn some(bytes: &[u8]) -> Result<&[u8], Malformed> {
    if bytes.is_empty() { Err(Malformed::Length) } else { Ok(bytes) }
}
