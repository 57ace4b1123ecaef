//! One message to many members, which are all in the server's process.

mod exonet;
mod multicast;
mod nats;
mod tcp;
mod zmq;

use std::net::SocketAddr;

use anyhow::{Result, bail};

pub(super) use self::exonet::{fan as exonet, spread};
pub(super) use self::tcp::fan as tcp;
use super::Setup;
use crate::app::Work;

pub(super) const PEERS: [&[super::Peer]; 3] = [zmq::PEERS, nats::PEERS, multicast::PEERS];

/// Of who does nothing else.
const fn only(work: Work) -> Option<&'static str> {
    if matches!(work, Work::Fan { .. }) { None } else { Some("it is compared at fan-out only") }
}

/// How many members there are, and how many messages a second go to all of them.
fn work(setup: &Setup) -> Result<(u32, u32)> {
    let Work::Fan { members, per_second } = setup.work else { bail!("there is no group") };
    Ok((members, per_second))
}

/// Where the n-th member listens.
fn listen(setup: &Setup, n: u32) -> Result<SocketAddr> {
    let mut listen = setup.listen;
    listen.set_port(listen.port() + u16::try_from(n)?);
    Ok(listen)
}
