//! The control socket: how commands talk to the process that runs a stored identity.
//!
//! One process at a time runs an identity, and no other command can read its journal meanwhile. Another command asks
//! that process, over a Unix socket in the identity's directory ([`place`]). Only the owner of the lock binds the
//! socket. Requests and replies are lines of JSON ([`protocol`]), each no longer than [`wire::LONGEST_LINE`].
//!
//! Only the user that runs the node is served. A client may be slow, or send anything: the number of clients is
//! limited, and so is the time for a request. The node does not wait for a client.
#![cfg_attr(not(unix), allow(dead_code, reason = "there is no process to talk to"))]

#[cfg(unix)]
mod answers;
#[cfg(unix)]
mod client;
#[cfg(unix)]
mod departure;
pub(crate) mod figures;
#[cfg(unix)]
mod handover;
#[cfg(unix)]
mod inbox;
#[cfg(unix)]
mod look;
#[cfg(not(unix))]
mod nowhere;
pub(crate) mod past;
#[cfg(unix)]
pub(crate) mod place;
pub(crate) mod protocol;
#[cfg(unix)]
mod retry;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod trace;
#[cfg(unix)]
mod wire;

use std::sync::Arc;

use exonet::{MessageId, Receipt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use self::past::Past;
use self::protocol::{Places, Retried, Room, Settled};
#[cfg(unix)]
use crate::failure::Failure;

#[cfg(unix)]
pub(crate) use self::client::{Client, Giver, Heard, Hearer, too_long};
#[cfg(not(unix))]
pub(crate) use self::nowhere::{Client, Control, Giver, Heard, Hearer, available, too_long};
#[cfg(unix)]
pub(crate) use self::server::{Bound, Control};
#[cfg(unix)]
pub(crate) use self::wire::{Lines, is_foreign, is_trusted, say};

/// Fails where the system has no control socket, for commands that do nothing without one.
#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "as where there is none")]
pub(crate) fn available(_: &str) -> Result<(), Failure> {
    Ok(())
}

/// The role of the process that runs the identity.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// A command that does its own work.
    Command(&'static str),
    /// `exon up`, which accepts messages from other commands.
    Up(Desk),
    /// `exon listen --exec`, which retries dead letters.
    Worker(mpsc::UnboundedSender<Again>),
}

/// A dead letter that a worker is asked to retry.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) id: MessageId,
    /// Receives the result.
    pub(crate) told: oneshot::Sender<Retried>,
}

impl Role {
    /// The name of the process for people.
    pub(crate) const fn command(&self) -> &'static str {
        match self {
            Self::Command(command) => command,
            Self::Up(_) => "up",
            Self::Worker(_) => "listen",
        }
    }
}

/// The channels through which `exon up` accepts messages from other commands.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// Messages that were handed over, whose outcomes are awaited.
    pub(crate) handed: mpsc::UnboundedSender<Handed>,
    /// The newest outcomes.
    pub(crate) past: Arc<Past>,
    /// Set to true to end the node.
    pub(crate) end: Arc<watch::Sender<bool>>,
    pub(crate) places: Places,
    /// The most that the node keeps for one peer.
    pub(crate) room: Room,
}

/// A message of a handover, and its number in the journal, if the journal has it.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) taken: Taken,
    pub(crate) number: Option<u64>,
}

/// A message that the node has accepted, and the asker that waits for its outcome.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) receipt: Receipt,
    pub(crate) size: usize,
    pub(crate) asker: Option<Asker>,
}

/// The receiver of outcomes of a handover.
#[derive(Debug)]
pub(crate) struct Asker {
    /// The number of the message within the handover.
    pub(crate) n: u64,
    pub(crate) tell: mpsc::UnboundedSender<(Settled, OwnedSemaphorePermit)>,
    /// A place among the outcomes that the client has not read; the place is released when the client has read the
    /// outcome.
    pub(crate) place: OwnedSemaphorePermit,
}
