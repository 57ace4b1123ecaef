//! The control socket: how commands talk to the process that runs a stored identity.
//!
//! One process at a time runs an identity, so another command cannot look into its journal meanwhile. It asks that process, over
//! a Unix socket in the identity's directory ([`place`]). The owner of the lock binds the socket, and nobody else does. Requests and
//! replies are lines of JSON ([`protocol`]), each no longer than [`wire::LONGEST_LINE`].
//!
//! Only the user that runs the node is served. A client may be slow, or send what it likes: it has a place among few, and time for
//! one request. The node does not wait for it.
#![cfg_attr(not(unix), allow(dead_code, reason = "there is nobody to talk to"))]

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
#[cfg(unix)]
mod place;
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

use self::protocol::{Places, Retried, Settled};

#[cfg(unix)]
pub(crate) use self::client::{Client, Giver, Heard, Hearer, too_long};
#[cfg(not(unix))]
pub(crate) use self::nowhere::{Client, Control, Giver, Heard, Hearer, too_long};
#[cfg(unix)]
pub(crate) use self::server::Control;

/// What the process does that runs the identity.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// A command that does its own work.
    Command(&'static str),
    /// `exon up`, which takes messages of others.
    Up(Desk),
    /// `exon listen --exec`, which tries dead letters again.
    Worker(mpsc::UnboundedSender<Again>),
}

/// A dead letter that a worker is asked to try again.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) id: MessageId,
    /// Hears how that ends.
    pub(crate) told: oneshot::Sender<Retried>,
}

impl Role {
    /// As people call the process.
    pub(crate) const fn command(&self) -> &'static str {
        match self {
            Self::Command(command) => command,
            Self::Up(_) => "up",
            Self::Worker(_) => "listen",
        }
    }
}

/// Where `exon up` takes what others hand over.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// To be waited for.
    pub(crate) taken: mpsc::UnboundedSender<Taken>,
    /// Set to true by who wants the node to end.
    pub(crate) end: Arc<watch::Sender<bool>>,
    pub(crate) places: Places,
}

/// A message that was handed over, and who wants to know what becomes of it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) receipt: Receipt,
    pub(crate) size: usize,
    pub(crate) asker: Option<Asker>,
}

/// The end of a handover that hears outcomes.
#[derive(Debug)]
pub(crate) struct Asker {
    /// Which of its messages.
    pub(crate) n: u64,
    pub(crate) tell: mpsc::UnboundedSender<(Settled, OwnedSemaphorePermit)>,
    /// A place among the outcomes that it has not read: it is given back when it has.
    pub(crate) place: OwnedSemaphorePermit,
}
