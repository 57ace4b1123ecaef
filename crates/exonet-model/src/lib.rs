//! An exhaustive, explicit-state search through the half-connection and calls (PROTOCOL.md "Half-connection", "Calls").
//!
//! The network of the model may deliver any datagram ever sent, any number of times, in any order, at any time, or
//! never. Nodes crash, evict records, grant any part of what is asked for, and have a journal or not. The search checks the
//! invariants in every state that it reaches. From every state, all has to come to rest once the network is fair and
//! there are no more faults.
//!
//! The search runs the real code: a copy of `exonet-proto/src/half`, and of a node's state of calls, made when this
//! crate is built. The **mutants** of `mutants/half.txt` and `mutants/calls.txt` are branches in that copy. With none
//! active, the copy is the code to the letter (a test compares). With one active, a rule is missing: then the search
//! has to find a violation, or the list has to say why there is none. This shows that the search finds violations, and
//! that every rule is needed.
//!
//! Two shortcuts keep the space small, and lose no violation:
//!
//! * A datagram that a timer could send at this moment (an ASK again, a token again, a STATE) is in the network at
//!   once. This adds no behaviour, because the datagram need not arrive.
//! * A network that holds more datagrams allows more steps. So the search does not follow a state whose network is
//!   contained in that of a state with the same nodes, reached before in no more steps. It keeps a set of *maximal*
//!   networks for every state of the nodes.
//!
//! [`World`] is the nodes and the ledger; [`Space`] adds the network. [`explore()`] goes from state to state and finds the
//! shortest path to a violation. [`search()`] first covers the space with one network for each state of the nodes. This
//! takes seconds where [`explore()`] would take hours.
//!
//! A new kind of datagram needs a variant of [`Datagram`], steps in [`Step`], state in `Node`, and promises in the
//! ledger and the invariants. The search itself does not change. `calls` is an example.
//!
//! The model has no clocks: a sender opens under any stamp, `latest` of a receiver rises at any time, and nodes forget stamps
//! at any time.

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

/// Modules of the original that the copy uses, at the same paths.
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
    /// The key of a message at its node. The model numbers all messages.
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
