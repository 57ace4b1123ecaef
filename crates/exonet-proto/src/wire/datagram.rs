//! Datagrams: six kinds, distinguished by their first byte.

use super::cursor::Take;
use super::version::VersionAnswer;
use super::{Malformed, version};

/// The version of the protocol: the upper four bits of a datagram's first byte.
pub const VERSION: u8 = 1;

/// Length of an opening's clear header, which precedes the Noise message.
pub const OPENING_HEADER: usize = 8;
/// Length of an answer's clear header, which precedes the Noise message.
pub const ANSWER_HEADER: usize = 12;
/// Length of a data packet's clear header, which is the associated data of the sealed bytes behind it.
pub const DATA_HEADER: usize = 9;
/// Length of a datagram MAC.
pub const MAC: usize = 16;
/// Length of the authentication tag at the end of sealed bytes.
pub const TAG: usize = 16;

const EPHEMERAL: usize = 32;
const SEALED_STATIC: usize = 32 + TAG;
const NONCE: usize = 24;
/// A cookie of 16 bytes, the time in 8, and the tag.
const SEALED_COOKIE: usize = 16 + 8 + TAG;

/// Shortest opening. It is padded to this length, so that it proves that the path carries such datagrams, and that no answer
/// exceeds the opening by more than a few bytes.
pub const MIN_OPENING: usize = 1200;
/// Longest opening: it fits IPv6's smallest MTU of 1,280.
pub const MAX_OPENING: usize = 1232;
/// Shortest answer: its payload begins with a copy of the header.
pub const MIN_ANSWER: usize = ANSWER_HEADER + EPHEMERAL + ANSWER_HEADER + TAG + MAC;
/// Longest answer.
pub const MAX_ANSWER: usize = 1232;
/// Length of a RETRY.
pub const RETRY: usize = 8 + NONCE + SEALED_COOKIE;
/// Length of a RESET. It is less than that of the shortest data packet, and a RESET answers only data packets.
pub const RESET: usize = 5 + RESET_TOKEN;
/// Length of the token in a RESET.
pub const RESET_TOKEN: usize = 16;
/// Length of the shortest data packet, without frames.
pub const MIN_DATA: usize = DATA_HEADER + TAG;

const OPENING_OVERHEAD: usize = OPENING_HEADER + EPHEMERAL + SEALED_STATIC + TAG + 2 * MAC;
/// Least payload of frames, padding included, in an opening.
pub const MIN_OPENING_PAYLOAD: usize = MIN_OPENING - OPENING_OVERHEAD;
/// Most payload of frames in an opening.
pub const MAX_OPENING_PAYLOAD: usize = MAX_OPENING - OPENING_OVERHEAD;
/// Most payload of frames in an answer, without the bytes that the handshake puts before them.
pub const MAX_ANSWER_PAYLOAD: usize = MAX_ANSWER - MIN_ANSWER;

const OPENING_KIND: u8 = 0x11;
const ANSWER_KIND: u8 = 0x12;
const RETRY_KIND: u8 = 0x13;
const DATA_KIND: u8 = 0x14;
const RESET_KIND: u8 = 0x15;
/// The kind VERSION, in the lower four bits, under any version.
const VERSION_KIND: u8 = 0xf;

/// Names a channel at the node that chose it at random. It survives changes of address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u32);

/// A datagram, split into its parts.
#[derive(Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// Begins a channel: Noise message 1.
    Opening(Opening<'a>),
    /// Completes a channel: Noise message 2.
    Answer(Answer<'a>),
    /// Requests the opening again, with a cookie.
    Retry(Retry<'a>),
    /// Frames under a channel's keys.
    Data(Data<'a>),
    /// The node that chose a channel's index has restarted, and has lost its keys.
    Reset(Reset<'a>),
    /// A hint at the versions that a node knows.
    Version(VersionAnswer<'a>),
}

/// The parts of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening<'a> {
    /// The AEAD that the initiator wants for data packets.
    pub suite: u8,
    /// The initiator's index: answers and data packets to it bear this.
    pub index: ChannelIndex,
    /// The clear header, bound into the handshake by the Noise prologue.
    pub header: &'a [u8; OPENING_HEADER],
    /// Noise message 1.
    pub noise: &'a [u8],
    /// Keyed by the receiver's identity, over `mac1_input`.
    pub mac1: &'a [u8; MAC],
    /// Keyed by the cookie over `mac2_input`, or zeros.
    pub mac2: &'a [u8; MAC],
    /// The datagram up to `mac1`.
    pub mac1_input: &'a [u8],
    /// The datagram up to `mac2`.
    pub mac2_input: &'a [u8],
}

/// The parts of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The AEAD of the channel's data packets.
    pub suite: u8,
    /// The index from the opening.
    pub to: ChannelIndex,
    /// The responder's index: data packets to it bear this.
    pub index: ChannelIndex,
    /// The clear header, bound into the handshake.
    pub header: &'a [u8; ANSWER_HEADER],
    /// Noise message 2.
    pub noise: &'a [u8],
    /// Keyed by the initiator's identity, over `mac1_input`.
    pub mac1: &'a [u8; MAC],
    /// The datagram up to `mac1`.
    pub mac1_input: &'a [u8],
}

/// The parts of a RETRY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry<'a> {
    /// The index from the opening.
    pub to: ChannelIndex,
    /// The nonce under which `sealed` is sealed.
    pub nonce: &'a [u8; NONCE],
    /// The cookie and the responder's time, sealed.
    pub sealed: &'a [u8; SEALED_COOKIE],
}

/// The parts of a data packet. The frames are opened in place.
#[derive(Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The channel, by the index that this node chose.
    pub index: ChannelIndex,
    /// The low 32 bits of the packet number: see [`expand`](super::expand).
    pub number: u32,
    /// The associated data.
    pub header: &'a [u8; DATA_HEADER],
    /// The sealed frames, and the tag in the last [`TAG`] bytes.
    pub sealed: &'a mut [u8],
}

/// The parts of a RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset<'a> {
    /// The index that the data packet bore.
    pub index: ChannelIndex,
    /// The token that the node that chose this index announced for it in its handshake.
    pub token: &'a [u8; RESET_TOKEN],
}

impl<'a> Datagram<'a> {
    /// Splits `datagram` into its parts. Nothing in it is authenticated yet.
    ///
    /// # Errors
    /// A [`Malformed`] of the datagram as a whole. For [`Malformed::Version`] a [`version_answer`](super::version_answer) may be
    /// due; nothing else is answered.
    #[inline]
    pub fn parse(datagram: &'a mut [u8]) -> Result<Self, Malformed> {
        match *datagram.first().ok_or(Malformed::Empty)? {
            DATA_KIND => Data::parse(datagram).map(Self::Data),
            OPENING_KIND => Opening::parse(datagram).map(Self::Opening),
            ANSWER_KIND => Answer::parse(datagram).map(Self::Answer),
            RETRY_KIND => Retry::parse(datagram).map(Self::Retry),
            RESET_KIND => Reset::parse(datagram).map(Self::Reset),
            kind if kind & 0xf == VERSION_KIND => version::parse(datagram).map(Self::Version),
            kind if kind >> 4 == VERSION => Err(Malformed::Kind(kind & 0xf)),
            kind => Err(Malformed::Version(kind >> 4)),
        }
    }
}

/// Whether a datagram may be an opening, of any version: it belongs to no channel, and may cost far more than a datagram of a
/// channel.
#[inline]
pub fn is_strange(datagram: &[u8]) -> bool {
    let kind = datagram.first().filter(|_| datagram.len() >= MIN_OPENING);
    kind.is_some_and(|kind| *kind == OPENING_KIND || kind >> 4 != VERSION)
}

/// The channel that a datagram belongs to, if it is a data packet. Nothing is authenticated yet.
#[inline]
pub fn channel_of(datagram: &[u8]) -> Option<ChannelIndex> {
    let (header, _) = datagram.split_first_chunk::<DATA_HEADER>()?;
    let [kind, index @ .., _, _, _, _] = header;
    (*kind == DATA_KIND).then_some(ChannelIndex(u32::from_be_bytes(*index)))
}

/// Whether an opening bears a mac2, as an opening of a node with a cookie does.
pub fn bears_cookie(opening: &[u8]) -> bool {
    opening.last_chunk::<MAC>().is_some_and(|mac2| *mac2 != [0; MAC])
}

impl<'a> Opening<'a> {
    fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        if !(MIN_OPENING..=MAX_OPENING).contains(&datagram.len()) {
            return Err(Malformed::Length);
        }
        let (mac2_input, mac2) = datagram.split_last_chunk().ok_or(Malformed::Truncated)?;
        let (mac1_input, mac1) = mac2_input.split_last_chunk().ok_or(Malformed::Truncated)?;
        let (header, noise) = mac1_input.split_first_chunk::<OPENING_HEADER>().ok_or(Malformed::Truncated)?;
        let [_, suite, zero1, zero2, index @ ..] = header;
        reserved(&[*zero1, *zero2])?;
        let index = ChannelIndex(u32::from_be_bytes(*index));
        Ok(Self { suite: *suite, index, header, noise, mac1, mac2, mac1_input, mac2_input })
    }
}

impl<'a> Answer<'a> {
    fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        if !(MIN_ANSWER..=MAX_ANSWER).contains(&datagram.len()) {
            return Err(Malformed::Length);
        }
        let (mac1_input, mac1) = datagram.split_last_chunk().ok_or(Malformed::Truncated)?;
        let (header, noise) = mac1_input.split_first_chunk::<ANSWER_HEADER>().ok_or(Malformed::Truncated)?;
        let [_, suite, zero1, zero2, t0, t1, t2, t3, index @ ..] = header;
        reserved(&[*zero1, *zero2])?;
        let to = ChannelIndex(u32::from_be_bytes([*t0, *t1, *t2, *t3]));
        let index = ChannelIndex(u32::from_be_bytes(*index));
        Ok(Self { suite: *suite, to, index, header, noise, mac1, mac1_input })
    }
}

impl<'a> Retry<'a> {
    fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        if datagram.len() != RETRY {
            return Err(Malformed::Length);
        }
        let mut rest = Take(datagram);
        let [_, zeros @ ..] = rest.array::<4>()?;
        reserved(zeros)?;
        let to = ChannelIndex(u32::from_be_bytes(*rest.array()?));
        Ok(Self { to, nonce: rest.array()?, sealed: rest.array()? })
    }
}

impl<'a> Reset<'a> {
    fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        if datagram.len() != RESET {
            return Err(Malformed::Length);
        }
        let mut rest = Take(datagram);
        let [_, index @ ..] = rest.array::<5>()?;
        Ok(Self { index: ChannelIndex(u32::from_be_bytes(*index)), token: rest.array()? })
    }
}

impl<'a> Data<'a> {
    #[inline]
    fn parse(datagram: &'a mut [u8]) -> Result<Self, Malformed> {
        if datagram.len() < MIN_DATA {
            return Err(Malformed::Truncated);
        }
        let (header, sealed) = datagram.split_first_chunk_mut::<DATA_HEADER>().ok_or(Malformed::Truncated)?;
        let [_, i0, i1, i2, i3, number @ ..] = *header;
        let index = ChannelIndex(u32::from_be_bytes([i0, i1, i2, i3]));
        Ok(Self { index, number: u32::from_be_bytes(number), header, sealed })
    }
}

fn reserved(zeros: &[u8]) -> Result<(), Malformed> {
    if zeros.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Malformed::Reserved) }
}

/// The clear header of an opening. Behind it: Noise message 1, `mac1`, `mac2`.
pub const fn opening_header(suite: u8, index: ChannelIndex) -> [u8; OPENING_HEADER] {
    let [a, b, c, d] = index.0.to_be_bytes();
    [OPENING_KIND, suite, 0, 0, a, b, c, d]
}

/// The clear header of an answer. Behind it: Noise message 2, `mac1`.
pub const fn answer_header(suite: u8, to: ChannelIndex, index: ChannelIndex) -> [u8; ANSWER_HEADER] {
    let [a, b, c, d] = to.0.to_be_bytes();
    let [e, f, g, h] = index.0.to_be_bytes();
    [ANSWER_KIND, suite, 0, 0, a, b, c, d, e, f, g, h]
}

/// The clear header of a data packet with that number. Behind it: the sealed frames and the tag.
pub const fn data_header(index: ChannelIndex, number: u64) -> [u8; DATA_HEADER] {
    let [a, b, c, d] = index.0.to_be_bytes();
    let [.., e, f, g, h] = number.to_be_bytes();
    [DATA_KIND, a, b, c, d, e, f, g, h]
}

/// A whole RESET.
pub fn reset(index: ChannelIndex, token: &[u8; RESET_TOKEN]) -> [u8; RESET] {
    let [a, b, c, d] = index.0.to_be_bytes();
    let mut bytes = [RESET_KIND, a, b, c, d].into_iter().chain(*token);
    core::array::from_fn(|_| bytes.next().unwrap_or_default())
}

/// A whole RETRY.
pub fn retry(to: ChannelIndex, nonce: &[u8; NONCE], sealed: &[u8; SEALED_COOKIE]) -> [u8; RETRY] {
    let [a, b, c, d] = to.0.to_be_bytes();
    let mut bytes = [RETRY_KIND, 0, 0, 0, a, b, c, d].into_iter().chain(*nonce).chain(*sealed);
    core::array::from_fn(|_| bytes.next().unwrap_or_default())
}
