//! Moves an identity from one machine to another: the protocol of the two ends.
//!
//! The receiving end is a [`door`]: a separate node that waits for one identity, and assembles it in a [`vestibule`].
//! The sending end is the process that runs the identity, or `exon move` itself if no process runs it. It first
//! carries the settled data while the service is still running ([`departing`]). Then the node is frozen, the rest is
//! carried, the identity is ceded, and its key is carried. If anything fails before the identity is ceded, the
//! service continues here on its own. Each step is a call that may be repeated: a door that has already handled it
//! confirms it again.

mod carrying;
mod departing;
mod departure;
mod door;
mod leaving;
mod point;
mod vestibule;

use std::path::PathBuf;
use std::time::Duration;

use exonet::{NodeId, PeerAddr};
use serde::{Deserialize, Serialize};

#[cfg(unix)]
pub(crate) use departing::Watcher;
pub(crate) use departing::{Departing, Undone};
#[cfg(unix)]
pub(crate) use departure::Asker;
pub(crate) use departure::Departure;
pub(crate) use door::{Arrival, Door, take_in};
pub(crate) use leaving::leave;
pub(crate) use point::point;

/// The methods of a door.
const OFFER: &str = "exonet.move.2.offer";
const AHEAD: &str = "exonet.move.2.ahead";
const LOAD: &str = "exonet.move.2.load";
const DEED: &str = "exonet.move.2.deed";
/// The door answers this call when the identity answers at its new place.
const REBIND: &str = "exonet.move.2.rebind";
/// How long the old place waits for the new place to answer as the identity, and how long the door holds this call. The
/// identity has already moved when the wait begins.
const REBIND_TIME: Duration = Duration::from_secs(10);
/// The longest load, in bytes.
const LONGEST: u64 = 5 << 30;
/// The maximum number of bytes of a load in one call.
const PART: usize = 4 << 20;

/// The goal of a move.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    /// A door.
    Door(PeerAddr),
    /// A file with an absolute path. It is encrypted for the node `to`.
    File { to: NodeId, path: PathBuf },
}

impl Goal {
    /// The node for which everything is encrypted.
    pub(crate) const fn node(&self) -> NodeId {
        match self {
            Self::Door(door) => door.id,
            Self::File { to, .. } => *to,
        }
    }
}

/// The parameters of a move.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) goal: Goal,
    /// The longest silence of the door while the service is running.
    pub(crate) timeout: Duration,
    /// The longest silence of the door while the service is frozen, before the service continues here.
    pub(crate) freeze: Duration,
}

impl Plan {
    /// The plan for a move to a file. No door is asked, so the two times do not matter.
    pub(crate) const fn to_file(to: NodeId, path: PathBuf) -> Self {
        Self { goal: Goal::File { to, path }, timeout: Duration::ZERO, freeze: Duration::ZERO }
    }
}

/// A completed step of a move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) step: String,
    pub(crate) ms: f64,
    /// The number of bytes that were carried in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
}

/// The result of a move.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The generation of the identity at the other place.
    pub(crate) generation: u64,
    /// The number of bytes that were carried, and the number of those that were carried while the service was frozen.
    pub(crate) bytes: u64,
    pub(crate) still_bytes: u64,
    /// How long neither place has answered: until the new place answers, or, if it does not say that it answers, until it
    /// has the key.
    pub(crate) pause_ms: f64,
}

/// Asks a door whether it receives an identity.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    /// The id of the identity.
    id: String,
    /// The proof that the holder of the identity asks: see [`said`].
    proof: [u8; 16],
}

/// The door has stored all of a load durably.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    attempt: [u8; 16],
}

/// The identity lives behind the door.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    generation: u64,
}

/// The input of the proof of an offer. The proof is valid for one caller, which makes one move.
fn said(caller: &NodeId) -> [&[u8]; 2] {
    [b"exonet move", &caller.0]
}
