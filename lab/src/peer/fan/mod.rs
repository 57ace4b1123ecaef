//! One message to many members. All members are in the server's process.

mod exonet;
mod multicast;
pub(super) mod nats;
mod tcp;
mod zmq;

use std::net::SocketAddr;

use anyhow::{Result, bail};

pub(super) use self::exonet::{fan as exonet, spread};
pub(super) use self::tcp::fan as tcp;
use super::Setup;
use crate::app::Work;

pub(super) const PEERS: [&[super::Peer]; 3] = [zmq::PEERS, nats::PEERS, multicast::PEERS];

/// For peers that take part in fan-out only.
const fn only(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Fan { .. }) { None } else { Some("it is compared at fan-out only") }
}

/// The number of members, and the number of messages a second.
fn work(setup: &Setup) -> Result<(u32, u32)> {
    let Work::Fan { members, per_second } = setup.work else { bail!("there is no group") };
    Ok((members, per_second))
}

/// The address at which the n-th member listens.
fn listen(setup: &Setup, n: u32) -> Result<SocketAddr> {
    let mut listen = setup.listen;
    listen.set_port(listen.port() + u16::try_from(n)?);
    Ok(listen)
}
