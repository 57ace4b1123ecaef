//! Half-connections: what is delivered. This is the algorithm of PROTOCOL.md "Half-connection", and nothing else.
//!
//! There are no bytes, no time, no addresses and no packet numbers here. A channel below may come and go at any instant, and
//! deliver any datagram ever sent, any number of times, in any order, or never; still nothing here is lost or doubled.
//!
//! Call contract:
//! * One [`Clock`] per node. One [`Sender`] per peer while there is something to send, one `Option<Receiver>` per
//!   peer that sends. Each is advanced only by the calls here.
//! * Call [`Sender::bind`] before the token leaves, and [`Sender::ask`] only after everything that can be bound is bound.
//! * Everything that arrives goes to [`Receiver::on_ask`], [`Receiver::take`] or [`Sender::on_state`]. [`Answer`] says how to
//!   answer an ASK; the answer to every token is [`State::of`].
//! * [`Sender::open_early`] sends the first messages beside the first ASK, under a stamp in place of an incarnation.
//!   [`Receiver::name`] gives such a message the name of the incarnation that it has met, if it may be delivered.
//! * [`Receiver::mark`] is for an application that says more about a message than that it has it. A VERDICT answers the tokens of
//!   such a slot, and goes to [`Sender::on_verdict`].
//! * [`Receiver::withdraw`] is for a sender that takes a message back. A WITHDRAWN answers, and goes to [`Sender::on_withdrawn`].
//!   It is sent only once a crash cannot undo the withdrawal.
//! * For streams: [`Writers`] gives the place of a message when it is bound, [`may_follow`] and [`Readers`] say whether it may be
//!   taken, and [`Voids`] which of their messages were withdrawn.
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
pub use order::{Gap, KeptPlace, Reader, Readers, Returned, Writers, may_follow, opening};
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
    /// How many numbers; zero closes.
    pub n: u64,
    /// The frontier: no message below it is open.
    pub l: Slot,
    /// The stamp of the sender's record while a message that was sent early under it is open; otherwise none.
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

/// `STATE(b, r, live, ..., ts, end)`: what the receiver knows. It replaces grants and acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The amnesia frontier: the outcomes of messages under lower incarnations that are not live are unknown.
    pub b: Incarnation,
    /// The live record's incarnation, or the receiver's `ck`. Every later incarnation is at least this.
    pub r: Incarnation,
    /// The claim of the live record, if there is one.
    pub live: Option<Claim>,
    /// Of what was sent early under exactly the stamp `ts`, a record that is lost may have taken the slots below `end`. Nothing
    /// else of it was or will be taken, except by the record of this STATE. None: the STATE does not say; then it gives no early
    /// message the name of a slot.
    pub taken: Option<Taken>,
}

/// The claim of a live record about the slots `lo <= s < up`, and its grants up to `hi`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The grant frontier.
    pub hi: Slot,
    /// The claim begins here.
    pub lo: Slot,
    /// The claim ends before here.
    pub up: Slot,
    /// The free slots within the claim: every other slot of the claim was delivered.
    pub free: IntervalSet,
    /// The record is closed, and the STATE is *final*: no free slot of the claim will ever be consumed.
    pub closed: bool,
    /// The claim begins within the record, and says nothing about the slots below `lo`. Otherwise the receiver has heard from
    /// the sender that it has nothing open there.
    pub part: bool,
}

impl Claim {
    /// Whether the claim covers `s`: it says that `s` is free, or that it was delivered.
    pub fn covers(&self, s: Slot) -> bool {
        self.lo <= s && s < self.hi.min(self.up)
    }

    /// The slots below this were passed by the sender. A sender that has a message open there was put back to an earlier state,
    /// by a restored copy of its disk or by a disk that lost what it had forced. The receiver will never say more about it.
    pub fn passed(&self) -> Slot {
        if self.part { Slot(0) } else { self.lo }
    }
}

/// What a STATE proves about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The application has it.
    Delivered,
    /// The receiver does not know any more, or the sender has forgotten that it knew: the message was delivered once or not at
    /// all.
    Unknown,
    /// The application does not have the message, and will never have it from this slot: the message may take another slot.
    NotTaken,
}

/// What the application has said about a message whose slot it has not used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// The application has finished with the message, and says more about it than a STATE could.
    Done,
    /// The application rejects the message.
    Rejected,
}
