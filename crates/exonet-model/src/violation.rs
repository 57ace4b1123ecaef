//! The violations that a search can find.

use std::fmt;

/// The promises. The letters are those of the invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A: every number from the sender's `sck` to the receiver's `hi` is a free slot.
    A,
    /// B: for every envelope, and every token that is not delivered, there is a slot, or its record was forgotten.
    B,
    /// C: a receiver grants only what the sender asked for.
    C,
    /// D: a number names at most one message, across crashes; an incarnation names one record.
    D,
    /// E: a message is delivered at most once.
    E,
    /// F: every outcome that the sending application gets is true.
    F,
    /// G: with a fair network and no further faults, every message is settled and every record is dropped.
    G,
    /// A message that no node holds, and that has no outcome.
    Vanished,
    /// Unknown, though no node has forgotten anything.
    Unknown,
    /// A number in use above what is durable, or a sender record out of order.
    Reserve,
    /// More slots than the node was willing to grant.
    Grant,
    /// An ASK that waits for room is forgotten, or one that is met is kept.
    Unmet,
    /// Envelopes of a live record thrown away, a message bound under an incarnation known to be dead, or an early one
    /// that has met a live incarnation not bound under it.
    Waste,
    /// `sck` has passed an early message that is open.
    Passed,
    /// An early message is open, and its slot is held by a receiver to which its stamp is new.
    Bound,
    /// An early message was delivered and is open, and no STATE will tell.
    Told,
    /// What is known of stamps is not durable, or not `upper <= latest`.
    Stamps,
    /// A mark on a slot that is not free.
    Marks,
    /// A reply that is not the one to its call.
    Reply,
    /// The state of calls is inconsistent, or exceeds its bounds.
    Calls,
    /// An assertion of the code failed.
    Assertion,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
            Self::G => "G",
            Self::Vanished => "vanished",
            Self::Unknown => "unknown",
            Self::Reserve => "reserve",
            Self::Grant => "grant",
            Self::Unmet => "unmet",
            Self::Waste => "waste",
            Self::Passed => "passed",
            Self::Bound => "bound",
            Self::Told => "told",
            Self::Stamps => "stamps",
            Self::Marks => "marks",
            Self::Reply => "reply",
            Self::Calls => "calls",
            Self::Assertion => "assertion",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub kind: Kind,
    /// How it was broken.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.what)
    }
}

pub(crate) type Checked = Result<(), Violation>;

pub(crate) fn ensure(holds: bool, kind: Kind, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation { kind, what: what() }) }
}
