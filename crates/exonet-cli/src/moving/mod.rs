//! How an identity goes from one machine to another: what the two ends say to each other.
//!
//! The place that takes it in is a [`door`]: a node of its own that waits for one identity. The place that gives it away
//! [leaves](leaving): it stops the process that runs the identity, carries the load, cedes the identity, and carries the deed. Each step is
//! a call, which may be made again: a door that has had it says so again.

mod door;
mod leaving;

use exonet::NodeId;
use serde::{Deserialize, Serialize};

pub(crate) use door::{Door, take_in};
pub(crate) use leaving::{Moved, leave};

/// The methods of a door.
const OFFER: &str = "exonet.move.1.offer";
const LOAD: &str = "exonet.move.1.load";
const DEED: &str = "exonet.move.1.deed";
/// The longest load, in bytes.
const LONGEST: u64 = 5 << 30;

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
