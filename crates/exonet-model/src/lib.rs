//! An exhaustive, explicit-state search through the half-connection and calls (PROTOCOL.md "Half-connection", "Calls").
//!
//! The network of the model may deliver any datagram ever sent, any number of times, in any order, at any time, or
//! never. Nodes crash, forget records under pressure, grant as much as they like, and journal, or do not. In every
//! state that can be reached the invariants are checked, and from every one all has to come to rest once the network
//! is fair and nothing fails any more.
//!
//! What is searched is the code itself: a copy of `exonet-proto/src/half`, and of what a node holds of calls, made when
//! this crate is built, in which the **mutants** of `mutants/half.txt` and `mutants/calls.txt` are planted as branches. With none active it is the code to the letter (a
//! test compares). With one active a rule is missing, and the search has to find a violation, or the list has to say
//! why there is none: this is how we know that the search can find anything, and that no rule is idle.
//!
//! Two observations keep the space small, and lose no violation:
//!
//! * A datagram that a timer could send at this moment (an ASK again, a token again, a STATE) is in the network at
//!   once. Whether it was sent is the network's business anyway: it need not arrive.
//! * The more the network holds, the more can happen. So a state whose network is contained in that of one with the
//!   same nodes, reached before in no more steps, is not followed: a set of *maximal* networks is kept for every
//!   state of the nodes.
//!
//! [`World`] is the nodes and what they promised; [`Space`] adds the network. [`explore()`] goes from state to state and
//! finds the shortest way to a violation. [`search()`] first covers the space with one network for each state of the
//! nodes: it proves, in seconds, what would take the other hours.
//! A new kind of datagram is a variant of [`Datagram`], its steps in [`Step`], its state in `Node`, and its promises in
//! the ledger and the invariants; searching stays as it is. `calls` is an example.
//!
//! Clocks play no part: a sender opens under any stamp there is, `latest` of a receiver rises at any time, and what is known
//! of stamps is forgotten at any time.

// A model is a test: an index out of range is a fault of the model, and has to end it. Its numbers are small: at most 3
// nodes, 60 numbers each, and as many datagrams as a set of bits holds.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod bits;
mod calls;
mod catalogue;
mod check;
mod config;
mod cover;
mod datagram;
pub mod exhaust;
mod explore;
mod fingerprint;
mod journal;
mod ledger;
pub mod moving;
mod mutant;
mod node;
mod report;
mod rest;
pub mod schemata;
mod source;
mod space;
pub mod sql;
mod step;
pub mod streaming;
mod violation;
mod walk;
mod world;

#[allow(warnings, clippy::all, clippy::pedantic)] // where it comes from it is checked
mod copy {
    include!(concat!(env!("OUT_DIR"), "/half.rs"));
    include!(concat!(env!("OUT_DIR"), "/calls.rs"));
}
use copy::half;

/// What the copy finds where the original has it.
#[allow(dead_code)] // calls use a part of it
#[path = "../../exonet-proto/src/backoff.rs"]
mod backoff;
mod id {
    pub(crate) use exonet_proto::{Incarnation, MAX_NUMBER, Slot, Stamp};
}
mod wire {
    pub(crate) use exonet_proto::wire::{StreamEnd, StreamMark};
}
mod time {
    pub(crate) use exonet_proto::Mono;
}
mod message {
    /// What names a message at its node: the model numbers them all.
    pub(crate) type MessageKey = crate::ledger::Letter;
}

pub use catalogue::{configs, find as find_config};
pub use config::{Bound, Calls, Config, Drop, Grants, Memory};
pub use cover::search;
pub use datagram::{Datagram, Packet};
pub use explore::{Explored, Finding, Limits, Progress, explore};
pub use ledger::Letter;
pub use mutant::{
    LIST as MUTANTS, Mutant, STREAMS as STREAM_MUTANTS, find as find_mutant, with as with_mutant,
};
pub use report::{json, scene_json, summary, trace};
pub use space::{Space, State};
pub use step::Step;
pub use violation::{Kind, Violation};
pub use walk::{Walked, walk};
pub use world::World;
