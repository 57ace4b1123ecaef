//! Numbers on the wire are relative to bases, so that they are short.

use super::Malformed;
use super::cursor::Take;
use crate::{Incarnation, MAX_NUMBER, Slot, Stamp};

/// The bases of the two ends of a channel: each end declares one in its parameters, and a number `x` of its clock
/// travels as `(x - base) mod 2^62`. Zero until declared.
///
/// A slot comes from the clock of the *token sender*, an incarnation from that of the *token receiver*. Hence ASK, MESSAGES and
/// TOKEN carry slots relative to `sender` and incarnations relative to `receiver`. STATE and HAVE flow the other way, so for them
/// it is reversed. The same holds for the frames of calls: REPLY_ACK and PROBE flow from the caller; REPLY, NOCALL and COMPUTING
/// flow to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bases {
    /// The base of the node that sends the frame. At most [`MAX_NUMBER`].
    pub sender: u64,
    /// The base of the node that receives the frame. At most [`MAX_NUMBER`].
    pub receiver: u64,
}

impl Bases {
    /// The same channel as seen by frames of the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { sender: self.receiver, receiver: self.sender }
    }
}

/// The form of `x` on the wire.
pub(super) const fn relative(x: u64, base: u64) -> u64 {
    x.wrapping_sub(base) & MAX_NUMBER
}

const fn absolute(x: u64, base: u64) -> u64 {
    x.wrapping_add(base) & MAX_NUMBER
}

/// A slot from its wire form.
pub(super) const fn slot(x: u64, base: u64) -> Slot {
    Slot(absolute(x, base))
}

/// An incarnation from its wire form.
pub(super) const fn incarnation(x: u64, base: u64) -> Incarnation {
    Incarnation(absolute(x, base))
}

/// A stamp that names something: zero is malformed.
pub(super) fn stamp(input: &mut Take<'_>) -> Result<Stamp, Malformed> {
    let ts = Stamp(input.varint()?);
    if ts.is_some() { Ok(ts) } else { Err(Malformed::Number) }
}
