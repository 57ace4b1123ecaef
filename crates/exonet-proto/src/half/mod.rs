//! Half-connections: WHAT is delivered. The algorithm of PROTOCOL.md "Half-connection", and nothing else.
//!
//! No bytes, no time, no addresses, no packet numbers: a channel below may come and go at any instant, deliver
//! any datagram ever sent, any number of times, in any order, or never, and nothing here is lost or doubled.
//!
//! Call contract:
//! * One [`Clock`] per node. One [`Sender`] per peer while there is something to send, one `Option<Receiver>` per
//!   peer that sends. Each is advanced only by the calls here.
//! * [`Sender::bind`] before the token leaves; [`Sender::ask`] only after everything that can be bound is.
//! * Whatever arrives goes to [`Receiver::on_ask`], [`Receiver::take`], [`Sender::on_state`]; the answer to an ASK
//!   with `n > 0` and to every token is [`State::of`].
//! * A STATE that finds no sender record is answered with [`Ask::farewell`] if it is live.

mod clock;
mod interval;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod tokens;

pub use clock::{Clock, DEFAULT_BLOCK};
pub use interval::IntervalSet;
pub use receiver::Receiver;
pub use sender::Sender;

use crate::id::{Incarnation, MAX_NUMBER, Slot};

/// `ASK(s, n, l)`: the sender wants the slots `[s, s+n)` and has nothing open below `l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The first number wanted.
    pub s: Slot,
    /// How many; zero closes.
    pub n: u64,
    /// The frontier: no message below is open.
    pub l: Slot,
}

impl Ask {
    /// `ASK(ck, 0, ck)`: this node has nothing open for the peer.
    pub fn farewell(clock: &Clock) -> Self {
        let ck = Slot(clock.ck());
        Self { s: ck, n: 0, l: ck }
    }

    /// One past the last number wanted, unless it is above [`MAX_NUMBER`].
    pub fn end(&self) -> Option<Slot> {
        self.s.0.checked_add(self.n).filter(|end| *end <= MAX_NUMBER).map(Slot)
    }
}

/// `STATE(b, r, live, ...)`: what the receiver knows, in place of grants and acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The amnesia frontier: incarnations below that are not live are of unknown outcome.
    pub b: Incarnation,
    /// The live record's incarnation, or the receiver's `ck`: every incarnation that will ever follow is at
    /// least this.
    pub r: Incarnation,
    /// The claim of the live record, if there is one.
    pub live: Option<Claim>,
}

/// What a live record claims about the slots `lo <= s < up`, and grants up to `hi`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The grant frontier.
    pub hi: Slot,
    /// The claim begins here.
    pub lo: Slot,
    /// The claim ends before here.
    pub up: Slot,
    /// The free slots within the claim: every other number of it was delivered.
    pub free: IntervalSet,
    /// Distinct body bytes that the sender may ever have sent under `r`.
    pub credit: u64,
}

/// What a STATE proves about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The application has it.
    Delivered,
    /// The receiver no longer knows: it happened once or not at all.
    Unknown,
}
