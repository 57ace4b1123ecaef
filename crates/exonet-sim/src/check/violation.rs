//! Broken guarantees, and when they were seen in the run.

use core::fmt;

use exonet_proto::node::{Holding, Outcome};
use exonet_proto::{Incarnation, Mono, NodeId, Slot};

/// A broken guarantee, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Virtual time.
    pub at: Mono,
    /// The step of the run: every input of a node is a step.
    pub step: u64,
    /// The breach.
    pub breach: Breach,
}

/// The guarantee that was broken. Messages have the numbers of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The message was delivered more than once.
    Duplicate(u64),
    /// The message was taken after one that was sent later in its stream.
    OutOfOrder(u64),
    /// The message was not taken, although the application took a later one of its stream and was not told of the
    /// gap.
    SilentGap(u64),
    /// The message was reported Delivered before it was delivered.
    FalseDelivered(u64),
    /// The message was delivered, although it was reported Expired, Cancelled, Refused or Rejected.
    FalseWithdrawn(u64, Outcome),
    /// A call has the reply to another call, or a reply that no node gave.
    FalseReply(u64),
    /// The application has a call that it cannot answer.
    Unanswerable(u64),
    /// A node took the message after it had told its peers what it had not taken.
    TakenAfterEnd(u64),
    /// An old state of an identity that has moved took the message, although the sender has met the later generation.
    TakenByCopy(u64),
    /// A conflict was reported for this identity, which only one node has.
    FalseConflict(NodeId),
    /// The message was reported Unknown, although both sides still knew its outcome.
    FalseUnknown(u64),
    /// The message has two outcomes.
    TwoOutcomes(u64, Outcome, Outcome),
    /// The message has no outcome, although the world is quiet.
    Vanished(u64),
    /// The core holds fewer messages than wait for an outcome.
    Lost {
        /// Messages that wait for an outcome.
        waiting: usize,
        /// Messages that the core has.
        held: usize,
    },
    /// The message was never sent, or was sent to another node, or was changed on its way.
    Forged,
    /// The two ends have different names for the message.
    Misnamed {
        /// The message.
        message: u64,
        /// The slot to which it was bound.
        bound: (Incarnation, Slot),
        /// Its name elsewhere.
        called: (Incarnation, Slot),
    },
    /// An invariant of the half-connection does not hold.
    Invariant {
        /// The invariant: A to D of PROTOCOL.md "Half-connection", or one that they depend on.
        name: &'static str,
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The values that violate it.
        seen: String,
    },
    /// A packet number does not increase under its keys, so a nonce is used again.
    Nonce {
        /// The node that sealed the packet.
        by: NodeId,
        /// The channel, by its receiver's index.
        index: u32,
        /// The number.
        number: u32,
        /// The number before.
        last: u32,
    },
    /// Two different Noise messages have the same ephemeral key.
    Ephemeral {
        /// The owner of the key.
        by: NodeId,
    },
    /// A node sent more than three times as many bytes to an unproven address as it received from it.
    Amplified {
        /// The sender.
        by: NodeId,
        /// The address.
        to: core::net::SocketAddr,
        /// Bytes received from the address.
        taken: u64,
        /// Bytes sent to the address.
        given: u64,
    },
    /// A node holds more than it may, or its count is wrong.
    Held {
        /// The node.
        node: NodeId,
        /// The kind of the resource, and the amounts.
        holding: Holding,
    },
    /// A node has not forgotten something, although all is quiet.
    NotForgotten {
        /// The node.
        node: NodeId,
        /// What is left.
        what: String,
    },
}

impl Breach {
    /// The name of its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Duplicate(_) => "duplicate",
            Self::OutOfOrder(_) => "out of order",
            Self::SilentGap(_) => "silent gap",
            Self::FalseDelivered(_) => "false-delivered",
            Self::FalseWithdrawn(..) => "false-withdrawn",
            Self::FalseReply(_) => "false-reply",
            Self::Unanswerable(_) => "unanswerable",
            Self::TakenAfterEnd(_) => "taken-after-end",
            Self::TakenByCopy(_) => "taken-by-copy",
            Self::FalseConflict(_) => "false-conflict",
            Self::FalseUnknown(_) => "false-unknown",
            Self::TwoOutcomes(..) => "two-outcomes",
            Self::Vanished(_) => "vanished",
            Self::Lost { .. } => "lost",
            Self::Forged => "forged",
            Self::Misnamed { .. } => "misnamed",
            Self::Invariant { .. } => "invariant",
            Self::Nonce { .. } => "nonce",
            Self::Ephemeral { .. } => "ephemeral",
            Self::Amplified { .. } => "amplified",
            Self::Held { .. } => "held",
            Self::NotForgotten { .. } => "not-forgotten",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, step, breach } = self;
        write!(f, "at {}.{:09} s, step {step}: {breach}", at.0 / 1_000_000_000, at.0 % 1_000_000_000)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(m) => write!(f, "message {m} is delivered again"),
            Self::OutOfOrder(m) => {
                write!(f, "message {m} is taken after one that was sent later in its stream")
            }
            Self::SilentGap(m) => {
                write!(f, "message {m} is not taken, and its stream goes on without a word")
            }
            Self::FalseDelivered(m) => write!(f, "message {m} is reported Delivered and nobody has taken it"),
            Self::FalseWithdrawn(m, outcome) => {
                write!(f, "message {m} is {outcome:?} though it was delivered")
            }
            Self::FalseReply(m) => write!(f, "call {m} has a reply that nobody gave to it"),
            Self::Unanswerable(m) => write!(f, "call {m} was taken and cannot be answered"),
            Self::TakenAfterEnd(m) => write!(f, "message {m} was taken by a node that had ended"),
            Self::TakenByCopy(m) => {
                write!(
                    f,
                    "message {m} was taken by what an identity left behind, and its sender knew where it is"
                )
            }
            Self::FalseConflict(id) => write!(f, "{id:?} is said to be two nodes, and is one"),
            Self::FalseUnknown(m) => write!(f, "message {m} is reported Unknown though both sides know"),
            Self::TwoOutcomes(m, one, other) => write!(f, "message {m} is {one:?} and then {other:?}"),
            Self::Vanished(m) => write!(f, "message {m} has no outcome"),
            Self::Lost { waiting, held } => write!(f, "{waiting} messages wait, the core has {held}"),
            Self::Forged => write!(f, "a message is delivered that nobody sent to there"),
            Self::Misnamed { message, bound, called } => {
                write!(f, "message {message} is bound to {bound:?} and called {called:?}")
            }
            Self::Invariant { name, from, to, seen } => {
                write!(f, "invariant {name} from {} to {}: {seen}", short(from), short(to))
            }
            Self::Nonce { by, index, number, last } => {
                write!(f, "{} seals packet {number} of channel {index:08x} after {last}", short(by))
            }
            Self::Ephemeral { by } => write!(f, "{} uses an ephemeral key twice", short(by)),
            Self::Amplified { by, to, taken, given } => {
                write!(f, "{} sends {given} bytes to {to}, unproven, for {taken}", short(by))
            }
            Self::Held { node, holding } => {
                let Holding { what, held, bound, .. } = holding;
                let peer = holding.peer.map(|peer| format!(" of {}", short(&peer))).unwrap_or_default();
                let than = if holding.exact { "not" } else { "more than" };
                write!(f, "{} has {held} {what}{peer}, {than} {bound}", short(node))
            }
            Self::NotForgotten { node, what } => write!(f, "{} is not quiet: {what}", short(node)),
        }
    }
}

/// The first characters of an id: unique enough within one run.
pub(crate) fn short(id: &NodeId) -> String {
    id.to_string().chars().take(12).collect()
}
