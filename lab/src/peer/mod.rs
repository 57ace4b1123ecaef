//! The transports that are compared, one file each. Every one is set up as its own documentation advises for this use;
//! [`Peer::tuning`] says how.

mod exonet;
mod frames;
mod quic;
mod tasks;
mod tcp;
mod udp;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::app::{Meter, Role, Work};

/// A transport, in one of its configurations.
pub(crate) struct Peer {
    /// As on the command line.
    pub(crate) name: &'static str,
    /// As in tables and figures.
    pub(crate) label: &'static str,
    /// How it is set up.
    pub(crate) tuning: &'static str,
    /// Whether what it promises to deliver it must have delivered.
    pub(crate) reliable: bool,
    does: fn(Work) -> bool,
    /// Why it cannot run on this machine, if it cannot.
    missing: fn() -> Option<String>,
    run: fn(&Setup, &Arc<Meter>) -> Result<()>,
}

/// What a process of a peer is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// [`Peer::name`].
    pub(crate) peer: String,
    pub(crate) role: Role,
    pub(crate) work: Work,
    /// Length of every message.
    pub(crate) bytes: usize,
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    /// What the server said of itself; for clients.
    pub(crate) server: String,
    /// What the link holds in flight and in its queue, in bytes, for peers whose window must be told. 0: no link.
    pub(crate) window: usize,
}

impl Setup {
    /// The server tells how it is reached; clients find it in `server`.
    fn hello(&self, server: &str) {
        crate::child::say("ready", &server);
    }

    fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    /// The server's address, where that is all that it said.
    fn server_address(&self) -> Result<SocketAddr> {
        self.server.parse().with_context(|| format!("{:?} is no address", self.server))
    }
}

/// All that exist, whether they are here or not, in the order of tables.
pub(crate) fn all() -> impl Iterator<Item = &'static Peer> {
    let groups: [&[Peer]; 4] = [exonet::PEERS, tcp::PEERS, quic::PEERS, udp::PEERS];
    groups.into_iter().flatten()
}

/// The one of this name.
pub(crate) fn find(name: &str) -> Result<&'static Peer> {
    let found = all().find(|peer| peer.name == name);
    found.with_context(|| format!("there is no peer {name:?}; `lab list` names them"))
}

impl Peer {
    /// Whether it can do this kind of work.
    pub(crate) fn does(&self, work: Work) -> bool {
        (self.does)(work)
    }

    /// Why it cannot run on this machine, if it cannot.
    pub(crate) fn missing(&self) -> Option<String> {
        (self.missing)()
    }
}

/// Runs one end of a connection in this process, for ever.
pub(crate) fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let peer = find(&setup.peer)?;
    if !peer.does(setup.work) {
        bail!("{} does not do that", peer.name);
    }
    (peer.run)(setup, meter)
}

const fn nothing_missing() -> Option<String> {
    None
}

const fn everything(_: Work) -> bool {
    true
}

const fn one_connection(work: Work) -> bool {
    !matches!(work, Work::Crowd { .. })
}
