//! The protocol core of Exonet: messages between nodes that arrive **exactly once**.
//!
//! It does no I/O, and has no clock and no randomness of its own: time, datagrams, a seed and completed writes go in; datagrams,
//! events, writes and the next deadline come out. The same code runs under an async runtime, in a simulator and in a model
//! checker. `PROTOCOL.md` holds the formats and rules; `ARCHITECTURE.md` the layers.

mod account;
mod backoff;
pub mod channel;
mod config;
pub mod crypto;
mod event;
mod follow;
pub mod half;
mod id;
mod journal;
mod level;
mod message;
pub mod node;
mod opening;
pub mod parts;
mod pattern;
mod peer;
mod stats;
pub mod time;

pub mod wire;

pub use id::{
    Generation, Incarnation, Lineage, MAX_NUMBER, MessageId, NodeId, ParseMessageIdError, ParseNodeIdError,
    Slot, Stamp, Stay,
};
pub use level::DurabilityLevel;
pub use time::{Mono, Now, Wall};
pub use wire::{ParseTraceparentError, Traceparent};
