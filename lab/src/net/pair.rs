//! A client's and a server's host, joined by an emulated link or by a virtual cable.

use std::net::Ipv4Addr;

use anyhow::Result;
use exonet_sim::Signal;

use super::{Awake, Namespace, Tun};
use crate::link::{Link, Shape};

/// The host that opens connections.
pub(crate) const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The host that waits for them.
pub(crate) const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// All addresses of this network, a /9, are the client host's too: for clients in many places.
pub(crate) const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);

const INTERFACE: &str = "link0";

/// Two hosts.
pub(crate) struct Pair {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    /// None: a virtual cable.
    pub(crate) link: Option<Link>,
    /// For as long as there are hosts.
    _awake: Option<Awake>,
}

impl Pair {
    /// Hosts joined by a link of this shape, forward from the client to the server; or by a virtual cable.
    pub(crate) fn new(shapes: Option<[Shape; 2]>, seed: u64) -> Result<Self> {
        let (client, server) = (Namespace::new(TUNING)?, Namespace::new(TUNING)?);
        let marks = shapes.iter().flatten().any(|shape| shape.codel == Some(Signal::Mark));
        let link = match shapes {
            Some(shapes) => {
                let tuns = [client.enter(|| Tun::open(INTERFACE))??, server.enter(|| Tun::open(INTERFACE))??];
                Some((shapes, tuns))
            }
            None => {
                client.ip(&format!(
                    "link add {INTERFACE} type veth peer name {INTERFACE} netns {}",
                    server.tid()
                ))?;
                None
            }
        };
        for (host, ip) in [(&client, CLIENT_IP), (&server, SERVER_IP)] {
            host.ip(&format!("address add {ip}/24 dev {INTERFACE}"))?;
            // Nothing may be lost between a host and the link: only the link's own queue drops.
            host.ip(&format!("link set {INTERFACE} mtu 1500 txqueuelen 20000 up"))?;
            if marks {
                // TCP asks for ECN only where it is told to.
                host.set("net.ipv4.tcp_ecn", "1")?;
            }
        }
        client.ip(&format!("route add local {ELSEWHERE}/9 dev lo"))?;
        // By way of one neighbour: a host that has to ask for each of ten thousand remembers a thousand.
        server.ip(&format!("route add {ELSEWHERE}/9 via {CLIENT_IP} dev {INTERFACE}"))?;
        let link = link.map(|(shapes, tuns)| Link::start(shapes, tuns, seed)).transpose()?;
        Ok(Self { client, server, link, _awake: Awake::ask() })
    }

    /// Packets lost between the hosts and the link, which must be none.
    pub(crate) fn dropped_at_interfaces(&self) -> Result<u64> {
        Ok(self.client.dropped_at_interface(INTERFACE)? + self.server.dropped_at_interface(INTERFACE)?)
    }
}

/// The parameters of a host's kernel: buffers that hold any of the links, and nothing remembered between runs.
pub(super) const TUNING: &[(&str, &str)] = &[
    // No neighbour discovery among what is counted.
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    ("net.ipv4.tcp_rmem", "4096 131072 16777216"),
    ("net.ipv4.tcp_wmem", "4096 65536 16777216"),
    ("net.ipv4.ip_local_port_range", "1025 65000"),
];
