//! The node: peers, routing, the ready queue, and the surface that drivers call.
//!
//! # Call contract
//!
//! * Every call passes [`Now`](crate::Now); time never runs back within one node.
//! * After any call: drain [`Node::poll_persist`], [`Node::poll_transmit`] and [`Node::poll_event`], then
//!   sleep until [`Node::poll_timeout`] or the next input. Draining late costs time, never correctness.
//! * A [`Batch`] is made durable in order, then [`Node::handle_persisted`] is called.
//! * Each poll costs O(what is ready), never O(peers).

mod audit;
mod commands;
mod deliveries;
mod flow;
mod following;
#[allow(clippy::module_inception)]
mod node;
mod openings;
mod peers;
mod pipes;
mod receive;
mod refusals;
mod seat;
mod streaming;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod unacked;

pub use crate::channel::{Hedging, Pipe};
pub use crate::config::{Carrier, Config, CongestionChoice, Limits, Policy, Takes};
pub use crate::event::{
    Arrival, Batch, BodyRead, BodyWrite, Cancel, CancelError, Conflict, Dial, Event, Lsn, Notes, OpenMessage,
    ReplyBody, SendError, Status, Transmit,
};
pub use crate::follow::{
    Again, Carrier as Bearer, Follow, FollowError, FollowerId, Kind, MAX_FOLLOWED, MAX_FOLLOWERS, MAX_STEPS,
    Missed, Packet, Step, What,
};
pub use crate::half::{Far, Gap, Hull, Taken};
pub use crate::id::{CallId, LetterId};
pub use crate::journal::{Append, BadJournal, Durability, OpenLetter, PastOutcome, Position, Recovered};
pub use crate::message::MAX_STREAM_BODY;
pub use crate::message::run::{IncomingRun, View};
pub use crate::message::{
    Alike, Confirm, DeliveryKey, Early, InStream, Incoming, IncomingBody, Keep, MAX_REASON, MessageKey,
    Outcome, Outgoing, Priority, Refusal, Shelf, Verdict, Word,
};
pub use crate::opening::prefix::Prefix;
pub use crate::pattern::call::{FAILED, NO_SUCH_METHOD, TOO_LARGE};
pub use crate::stats::{Figure, PeerFigure, PeerStats, Reading, Stats, Work};
pub use crate::wire::StreamEnd;
pub use audit::{Holding, Records};
pub use flow::{PeerFlow, Presence};
pub use node::{Boot, Node};
pub use seat::Seat;
pub use unacked::{Stand, Unacked};
