//! Half-connections: WHAT is delivered. The algorithm of PROTOCOL.md "Half-connection", and nothing else.
//!
//! No bytes, no time, no addresses, no packet numbers: a channel below may come and go at any instant, deliver
//! any datagram ever sent, any number of times, in any order, or never, and nothing here is lost or doubled.
//!
//! Call contract:
//! * One [`Clock`] per node. One [`Sender`] per peer while there is something to send, one `Option<Receiver>` per
//!   peer that sends. Each is advanced only by the calls here.
//! * [`Sender::bind`] before the token leaves; [`Sender::ask`] only after everything that can be bound is.
//! * Whatever arrives goes to [`Receiver::on_ask`], [`Receiver::take`], [`Sender::on_state`]; [`Answer`] says what
//!   answers an ASK; the answer to every token is [`State::of`].
//! * [`Sender::open_early`] sends the first messages beside the first ASK, under a stamp in place of an incarnation;
//!   [`Receiver::name`] gives such a message the name of the incarnation that it has met, if it may be delivered.
//! * [`Receiver::mark`] where the application says more of a message than that it has it; a VERDICT answers the tokens of
//!   such a slot, and goes to [`Sender::on_verdict`].
//! * [`Receiver::withdraw`] where a sender takes a message back; a WITHDRAWN answers, and goes to [`Sender::on_withdrawn`]. It is said
//!   only once a crash cannot undo it.
//! * Of streams: [`Writers`] says the place of a message when it is bound, [`may_follow`] and [`Readers`] whether it may be taken, and
//!   [`Voids`] what of them was withdrawn.
//! * A STATE that finds no sender record is answered with [`Ask::farewell`] if it is live.

mod clock;
mod early;
mod interval;
mod order;
mod receiver;
mod sender;
mod stamps;
#[cfg(test)]
mod tests;
mod tokens;
mod voids;

pub use clock::{Clock, DEFAULT_BLOCK};
pub use interval::IntervalSet;
pub use order::{Gap, Reader, Readers, Writers, may_follow, opening};
pub use receiver::{Answer, Receiver};
pub use sender::{Progress, Sender};
pub use stamps::{Bound, EVERY, Far, Hull, Stamps, Taken};
pub use voids::{Void, Voids};

use crate::id::{Incarnation, MAX_NUMBER, Slot, Stamp};

/// `ASK(s, n, l, ts)`: the sender wants the slots `[s, s+n)` and has nothing open below `l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The first number wanted.
    pub s: Slot,
    /// How many; zero closes.
    pub n: u64,
    /// The frontier: no message below is open.
    pub l: Slot,
    /// The stamp of the sender's record while a message that was sent early under it is open, else none.
    pub ts: Stamp,
}

impl Ask {
    /// `ASK(ck, 0, ck)`: this node has nothing open for the peer.
    pub fn farewell(clock: &Clock) -> Self {
        let ck = Slot(clock.ck());
        Self { s: ck, n: 0, l: ck, ts: Stamp::NONE }
    }

    /// One past the last number wanted, unless it is above [`MAX_NUMBER`].
    pub fn end(&self) -> Option<Slot> {
        self.s.0.checked_add(self.n).filter(|end| *end <= MAX_NUMBER).map(Slot)
    }
}

/// `STATE(b, r, live, ..., ts, end)`: what the receiver knows, in place of grants and acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The amnesia frontier: incarnations below that are not live are of unknown outcome.
    pub b: Incarnation,
    /// The live record's incarnation, or the receiver's `ck`: every incarnation that will ever follow is at
    /// least this.
    pub r: Incarnation,
    /// The claim of the live record, if there is one.
    pub live: Option<Claim>,
    /// Of what was sent early under the very stamp `ts`, a record that is lost may have taken the slots below `end`, and
    /// nothing else was or will be taken but by the record of this STATE. None: the STATE does not say; nothing that was
    /// sent early gets a slot's name by it.
    pub taken: Option<Taken>,
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
    /// The record is closed, and the STATE is *final*: no free slot of the claim will ever be consumed.
    pub closed: bool,
}

impl Claim {
    /// Whether it says anything of `s`: that it is free, or that it was delivered.
    pub fn covers(&self, s: Slot) -> bool {
        self.lo <= s && s < self.hi.min(self.up)
    }
}

/// What a STATE proves about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The application has it.
    Delivered,
    /// The receiver no longer knows: it happened once or not at all.
    Unknown,
    /// The application does not have it, and will never have it from this slot: the message may take another.
    NotTaken,
}

/// What the application has said of a message whose slot it has not used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// It is done with the message, and has more to say of that than a STATE could.
    Done,
    /// It does not take the message.
    Rejected,
}
