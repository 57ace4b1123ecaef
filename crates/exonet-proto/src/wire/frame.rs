//! Frames: the contents of a packet's payload once it is opened.

use super::base::{self, stamp};
use super::cursor::Take;
use super::kind;
use super::{Ack, Bases, Early, Have, Malformed, Messages, Params, Reply, RevokeStream, State, Verdict};
use crate::{Incarnation, MAX_NUMBER, Slot, Stamp, Wall};

/// The most slots of a REVOKE or a WITHDRAWN. It keeps a frame of a few bytes cheap for its reader.
pub const MAX_RUN: u64 = 1_024;

/// One frame, borrowed from the payload. Padding is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Asks only for an acknowledgement.
    Ping,
    /// Which packets arrived.
    Ack(Ack<'a>),
    /// The channel ends.
    Close {
        /// The code: see [`close`](super::close).
        code: u64,
    },
    /// To be returned from the address where it arrived.
    PathChallenge([u8; 8]),
    /// The bytes of a challenge.
    PathResponse([u8; 8]),
    /// What the peer declares about itself.
    Params(Params),
    /// The sender wants slots.
    Ask(Ask),
    /// The claim of the receiver of tokens.
    State(State<'a>),
    /// Messages and parts of messages.
    Messages(Messages<'a>),
    /// A token without a body: asks for its fate.
    Token {
        /// The incarnation of its message.
        r: Incarnation,
        /// The slot of its message.
        s: Slot,
    },
    /// The messages in the slots `s` to `s + n - 1` are withdrawn by their sender.
    Revoke {
        /// Their incarnation.
        r: Incarnation,
        /// The slot of the first.
        s: Slot,
        /// How many: at least one, at most [`MAX_RUN`]. `s + n` is at most [`MAX_NUMBER`].
        n: u64,
    },
    /// The messages of a stream in the slots `s` to `s + n - 1` are withdrawn by their sender.
    RevokeStream(RevokeStream<'a>),
    /// The messages in these slots, as in [`Frame::Revoke`], were withdrawn: they certainly were not and will not be delivered.
    Withdrawn {
        /// Their incarnation.
        r: Incarnation,
        /// The slot of the first.
        s: Slot,
        /// How many: at least one, at most [`MAX_RUN`]. `s + n` is at most [`MAX_NUMBER`].
        n: u64,
    },
    /// Which bytes of a message have arrived.
    Have(Have<'a>),
    /// Whole messages that were sent before anything was granted.
    Early(Early<'a>),
    /// Nothing was granted under a stamp, since it is ahead of the clock of the frame's sender.
    StampRejected {
        /// The stamp.
        ts: Stamp,
        /// The time that this clock shows.
        time: Wall,
    },
    /// The reply to a call of the frame's receiver.
    Reply(Reply<'a>),
    /// The frame's sender needs no reply to its call `s` any more.
    ReplyAck(Slot),
    /// Asks for the fate of the call `s` of the frame's sender, which was delivered.
    Probe(Slot),
    /// The call `s` of the frame's receiver is not known here.
    NoCall(Slot),
    /// The call `s` of the frame's receiver has no reply yet.
    Computing(Slot),
    /// The receiving application's verdict on a message of the frame's receiver.
    Verdict(Verdict<'a>),
    /// A frame of a later version, which may be ignored.
    Unknown {
        /// 0x80 to 0xbf.
        kind: u8,
        /// The body, uninterpreted.
        body: &'a [u8],
    },
}

impl Frame<'_> {
    /// Whether the packet must be acknowledged: all frames but ACK, STATE and CLOSE demand it.
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::State(_) | Self::Close { .. })
    }
}

/// `ASK(s, n, l, ts)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The first number wanted.
    pub s: Slot,
    /// How many numbers; zero closes. `s + n` is at most [`MAX_NUMBER`].
    pub n: u64,
    /// No message below this slot is open.
    pub l: Slot,
    /// The stamp of early messages that are open, or none.
    pub ts: Stamp,
}

/// The frames of a payload. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: Take<'a>,
    bases: Bases,
}

impl<'a> Frames<'a> {
    /// The frames of `payload`. The base of its sender is `bases.sender`.
    pub const fn new(payload: &'a [u8], bases: Bases) -> Self {
        Self { rest: Take(payload), bases }
    }

    /// Changes the bases for the frames that follow. PARAMS, which comes first, declares the sender's base.
    pub const fn set_bases(&mut self, bases: Bases) {
        self.bases = bases;
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Padding has hundreds of bytes, and extends to the end.
        let padding = self.rest.0.iter().take_while(|byte| **byte == kind::PADDING).count();
        self.rest.0 = self.rest.0.get(padding..)?;
        let kind = self.rest.byte().ok()?;
        let frame = take(kind, &mut self.rest, self.bases);
        if frame.is_err() {
            self.rest = Take(&[]);
        }
        Some(frame)
    }
}

impl core::iter::FusedIterator for Frames<'_> {}

#[inline]
fn take<'a>(kind: u8, input: &mut Take<'a>, bases: Bases) -> Result<Frame<'a>, Malformed> {
    Ok(match kind {
        kind::PING => Frame::Ping,
        kind::ACK => Frame::Ack(Ack::take(input)?),
        kind::CLOSE => Frame::Close { code: input.varint()? },
        kind::PATH_CHALLENGE => Frame::PathChallenge(*input.array()?),
        kind::PATH_RESPONSE => Frame::PathResponse(*input.array()?),
        kind::PARAMS => Frame::Params(Params::decode(input.prefixed()?)?),
        kind::ASK | kind::ASK_STAMPED => Frame::Ask(Ask::take(input, bases, kind == kind::ASK_STAMPED)?),
        kind::STATE => Frame::State(State::take(input, bases)?),
        kind::MESSAGES..=kind::LAST_MESSAGES => Frame::Messages(Messages::take(kind, input, bases)?),
        kind::TOKEN => Frame::Token {
            r: base::incarnation(input.varint()?, bases.receiver),
            s: base::slot(input.varint()?, bases.sender),
        },
        kind::REVOKE => {
            let (r, s, n) = run(input, bases.reversed())?;
            Frame::Revoke { r, s, n }
        }
        kind::WITHDRAWN => {
            let (r, s, n) = run(input, bases)?;
            Frame::Withdrawn { r, s, n }
        }
        kind::HAVE => Frame::Have(Have::take(input, bases)?),
        kind::EARLY => Frame::Early(Early::take(input, bases)?),
        kind::STAMP_REJECTED => Frame::StampRejected { ts: stamp(input)?, time: Wall(input.varint()?) },
        kind::REPLY => Frame::Reply(Reply::take(input, bases)?),
        kind::REPLY_ACK => Frame::ReplyAck(base::slot(input.varint()?, bases.sender)),
        kind::PROBE => Frame::Probe(base::slot(input.varint()?, bases.sender)),
        kind::NOCALL => Frame::NoCall(base::slot(input.varint()?, bases.receiver)),
        kind::COMPUTING => Frame::Computing(base::slot(input.varint()?, bases.receiver)),
        kind::VERDICT => Frame::Verdict(Verdict::take(input, bases)?),
        kind::REVOKE_STREAM => Frame::RevokeStream(RevokeStream::decode(input.prefixed()?, bases)?),
        kind::FIRST_IGNORABLE..=kind::LAST_IGNORABLE => Frame::Unknown { kind, body: input.prefixed()? },
        _ => return Err(Malformed::UnknownFrame(kind)),
    })
}

/// `r`, `s`, `n`: slots of a record of the end whose base is `bases.sender`.
pub(super) fn run(input: &mut Take<'_>, bases: Bases) -> Result<(Incarnation, Slot, u64), Malformed> {
    let r = base::incarnation(input.varint()?, bases.sender);
    let s = base::slot(input.varint()?, bases.receiver);
    let n = input.varint()?;
    match s.0.checked_add(n) {
        Some(end) if (1..=MAX_RUN).contains(&n) && end <= MAX_NUMBER => Ok((r, s, n)),
        _ => Err(Malformed::Number),
    }
}

impl Ask {
    fn take(input: &mut Take<'_>, bases: Bases, stamped: bool) -> Result<Self, Malformed> {
        let s = base::slot(input.varint()?, bases.sender);
        let n = input.varint()?;
        let l = base::slot(input.varint()?, bases.sender);
        let ts = if stamped { stamp(input)? } else { Stamp::NONE };
        match s.0.checked_add(n) {
            Some(end) if end <= MAX_NUMBER => Ok(Self { s, n, l, ts }),
            _ => Err(Malformed::Number),
        }
    }
}
