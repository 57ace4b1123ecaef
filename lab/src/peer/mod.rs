//! The transports that are compared, one file each. Every one is set up as its own documentation advises for this use;
//! [`Peer::tuning`] says how. What a sender may queue is the same for all ([`Setup::buffer`]), as far as they let it be set.

mod blocking;
mod certificate;
mod cold;
mod contact;
mod durable;
mod enet;
mod envelope;
mod exonet;
mod fan;
mod frames;
mod http2;
mod kcp;
mod quic;
mod sctp;
mod session;
mod tasks;
mod tcp;
mod udp;
mod udt;
mod zmq;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::app::{CROWD_PART, From, Meter, Role, Work};
use crate::net::{CLIENT_IP, ELSEWHERE};

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
    cannot: fn(Work) -> Option<&'static str>,
    /// Why it cannot run on this machine, if it cannot.
    missing: fn() -> Option<String>,
    run: fn(&Setup, &Arc<Meter>) -> Result<()>,
}

/// The instructions for a process of a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// [`Peer::name`].
    pub(crate) peer: String,
    pub(crate) role: Role,
    pub(crate) work: Work,
    /// The number of this process, where several processes are one end together.
    pub(crate) part: u32,
    /// Length of every message.
    pub(crate) bytes: usize,
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    /// The server's description of itself; for clients.
    pub(crate) server: String,
    /// The bytes that the link holds in flight and in its queue, for peers whose window must be set. 0: no link.
    pub(crate) window: usize,
    /// Where what outlives processes is kept; empty where nothing is.
    pub(crate) disk: String,
}

impl Setup {
    /// The server tells how it is reached; clients find it in `server`.
    fn hello(&self, server: &str) {
        crate::child::say("ready", &server);
    }

    fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    /// How much a sender may queue, in bytes: four times what the link and its queue hold.
    fn buffer(&self) -> u32 {
        const LEAST: usize = 256 << 10;
        const MOST: usize = 16 << 20;
        let buffer = if self.window == 0 { MOST } else { self.window.saturating_mul(4).clamp(LEAST, MOST) };
        u32::try_from(buffer).unwrap_or(u32::MAX)
    }

    /// Whether this end sends nothing until something comes.
    fn waits_for_others(&self) -> bool {
        !matches!((self.work, self.role), (Work::OneWay, Role::Client) | (Work::BothWays, _))
    }

    /// Where the n-th client of this process is.
    fn client_address(&self, n: u32) -> Ipv4Addr {
        let n = self.part * CROWD_PART + n;
        match self.work {
            Work::Contact { from: From::Everywhere, .. } | Work::Crowd { .. } | Work::Sessions { .. } => {
                Ipv4Addr::from_bits(ELSEWHERE.to_bits() | (n << 8) | 1)
            }
            _ => CLIENT_IP,
        }
    }

    /// The server's address, where that is all that it said.
    fn server_address(&self) -> Result<SocketAddr> {
        self.server.parse().with_context(|| format!("{:?} is no address", self.server))
    }
}

/// All that exist, whether they are here or not, in the order of tables.
pub(crate) fn all() -> impl Iterator<Item = &'static Peer> {
    let groups = [
        exonet::PEERS,
        tcp::PEERS,
        http2::PEERS,
        quic::PEERS,
        contact::PEERS,
        session::PEERS,
        durable::PEERS,
        sctp::PEERS,
        enet::PEERS,
        kcp::PEERS,
        udt::PEERS,
        zmq::PEERS,
        udp::PEERS,
    ];
    groups.into_iter().chain(fan::PEERS).flatten()
}

/// The one of this name.
pub(crate) fn find(name: &str) -> Result<&'static Peer> {
    let found = all().find(|peer| peer.name == name);
    found.with_context(|| format!("there is no peer {name:?}; `lab list` names them"))
}

impl Peer {
    /// Whether it can do this kind of work.
    pub(crate) fn does(&self, work: Work) -> bool {
        self.cannot(work).is_none()
    }

    /// Why it cannot do this kind of work, if it cannot.
    pub(crate) fn cannot(&self, work: Work) -> Option<&'static str> {
        (self.cannot)(work)
    }

    /// How many of so many members must have each message to a group.
    pub(crate) fn required(&self, members: u32) -> u32 {
        match self.name {
            "exonet-any" | "exonet-balanced" => 1,
            "exonet-quorum" => members.div_ceil(2),
            _ => members,
        }
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

/// The parts of an IPv4 address, in host byte order.
fn v4(address: SocketAddr) -> Result<(u32, u16)> {
    match address {
        SocketAddr::V4(v4) => Ok((u32::from(*v4.ip()), v4.port())),
        SocketAddr::V6(_) => bail!("{address} is not of IPv4"),
    }
}

/// In place of a peer whose library was not there when this was built.
#[allow(dead_code)] // where all libraries are there
fn absent(setup: &Setup, _: &Arc<Meter>) -> Result<()> {
    bail!("{} was not built", setup.peer)
}

const fn nothing_missing() -> Option<String> {
    None
}

const fn one_connection(work: Work) -> Option<&'static str> {
    match work {
        Work::Crowd { .. } | Work::Sessions { .. } => {
            Some("the lab runs only one connection of it in a process")
        }
        Work::Contact { .. } => Some("the lab runs only one connection of it, and does not begin new ones"),
        Work::Fan { .. } => Some("the lab runs only one connection of it"),
        Work::Spread { .. } | Work::Download { .. } => Some("it has no groups"),
        Work::Durable { .. } => Some("it keeps nothing on the disk"),
        _ => None,
    }
}

/// The reason why a peer that sends one way and hears nothing cannot do this work.
const fn one_way(work: Work) -> Option<&'static str> {
    if matches!(work, Work::OneWay) { None } else { Some("it only sends, or only receives") }
}

const fn calls(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Calls { .. }) { None } else { Some("it does calls only") }
}

const fn contact_only(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Contact { .. }) { None } else { Some("it is compared at first contact only") }
}

/// For peers that the lab drives as single connections only.
const fn no_group(work: Work) -> Option<&'static str> {
    match work {
        Work::Fan { .. } | Work::Spread { .. } | Work::Download { .. } => Some("the lab has no group of it"),
        Work::Durable { .. } => Some("it keeps nothing on the disk"),
        _ => None,
    }
}

/// For the modes of a group.
const fn mode(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Fan { .. }) { None } else { spread(work) }
}

/// For what other rows of a fan-out say.
const fn spread(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Spread { .. }) { None } else { Some("it is a mode of a group") }
}

/// For windows of the application's own.
const fn transfer(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Cold { calls: false, .. }) { None } else { Some("it transfers a file only") }
}

/// For peers that are compared as sessions only.
const fn sessions_only(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Sessions { .. }) { None } else { Some("it is compared as sessions only") }
}

const fn not_both_ways(work: Work) -> Option<&'static str> {
    match work {
        Work::BothWays | Work::Sessions { .. } => Some("it answers only"),
        work => no_group(work),
    }
}
