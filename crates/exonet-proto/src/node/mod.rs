//! The node: peers, routing, the ready queue, and the surface that drivers call.
//!
//! # Call contract
//!
//! * Every call passes [`Now`](crate::Now); time never runs back within one node.
//! * After any call: drain [`Node::poll_persist`], [`Node::poll_transmit`] and [`Node::poll_event`], then
//!   sleep until [`Node::poll_timeout`] or the next input. Draining late costs time, never correctness.
//! * A [`Batch`] is made durable in order, then [`Node::handle_persisted`] is called.
//! * Each poll costs O(what is ready), never O(peers).

mod arena;
mod asking;
mod audit;
mod budget;
mod bundling;
mod calls;
mod commands;
mod config;
mod deliveries;
mod epoch;
mod event;
mod filling;
mod frames;
mod halfopen;
mod handshake;
mod inbound;
mod inbox;
mod life;
mod link;
mod lives;
#[allow(clippy::module_inception)]
mod node;
mod opening;
mod outbound;
mod peer;
mod piece;
mod receive;
mod refusals;
mod resets;
mod rest;
mod run;
mod seat;
mod stamping;
mod stats;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

use peer::Peer;

pub use crate::channel::Hedging;
pub use audit::{Holding, Records};
pub use calls::{CallId, FAILED, NO_SUCH_METHOD, TOO_LARGE};
pub use config::{Config, CongestionChoice, Limits, Policy, Takes};
pub use epoch::Prefix;
pub use event::{
    Arrival, Batch, BodyRead, BodyWrite, CancelError, Conflict, DeliveryKey, Early, Event, Incoming,
    IncomingBody, Lsn, MessageKey, OpenMessage, Outcome, Outgoing, Priority, Refusal, ReplyBody, SendError,
    Status, Transmit,
};
pub use node::{Boot, Node};
pub use run::{IncomingRun, View};
pub use seat::{Seat, Work};
pub use stats::{PeerStats, Stats};
