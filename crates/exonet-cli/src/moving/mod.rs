//! How an identity goes from one machine to another: what the two ends say to each other.
//!
//! The place that takes it in is a [`door`]: a node of its own that waits for one identity, and puts it together in a [`vestibule`].
//! The place that gives it away is the process that runs the identity, or `exon move` itself where none does: it carries ahead what
//! has settled while the service goes on ([`departing`]); then the node is still, the rest is carried, the identity is ceded,
//! and its key is carried. Up to the ceding, whatever fails, the service goes on here by itself. Each step is a call, which may
//! be made again: a door that has had it says so again.

mod carrying;
mod departing;
mod departure;
mod door;
mod leaving;
mod point;
mod vestibule;

use std::time::Duration;

use exonet::{NodeId, PeerAddr};
use serde::{Deserialize, Serialize};

pub(crate) use departing::{Departing, Undone, Watcher};
pub(crate) use departure::{Asker, Departure};
pub(crate) use door::{Door, take_in};
pub(crate) use leaving::leave;
pub(crate) use point::point;

/// The methods of a door.
const OFFER: &str = "exonet.move.2.offer";
const AHEAD: &str = "exonet.move.2.ahead";
const LOAD: &str = "exonet.move.2.load";
const DEED: &str = "exonet.move.2.deed";
/// The longest load, in bytes.
const LONGEST: u64 = 5 << 30;
/// The most bytes of a load in one call.
const PART: usize = 4 << 20;

/// A move, as it is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The door.
    pub(crate) to: PeerAddr,
    /// How long the door may be silent, but while the service stands still.
    pub(crate) timeout: Duration,
    /// How long it may be silent then, before the service goes on here.
    pub(crate) freeze: Duration,
}

/// A step of a move that is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) step: String,
    pub(crate) ms: f64,
    /// What was carried in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
}

/// What a move came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The generation that lives at the other place.
    pub(crate) generation: u64,
    /// What was carried, and how much of it while the service stood still.
    pub(crate) bytes: u64,
    pub(crate) still_bytes: u64,
    /// For how long neither place has answered: up to when the new one has the key.
    pub(crate) pause_ms: f64,
}

/// Asks a door whether it takes an identity in.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    /// Which identity.
    id: String,
    /// That its holder asks: see [`said`].
    proof: [u8; 16],
}

/// The door has all of a load, durably.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    attempt: [u8; 16],
}

/// The identity lives behind the door.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    generation: u64,
}

/// What the proof of an offer is of: it is good for one caller, which makes one move.
fn said(caller: &NodeId) -> [&[u8]; 2] {
    [b"exonet move", &caller.0]
}
