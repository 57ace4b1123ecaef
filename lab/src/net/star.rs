//! A host, and members that are each joined to it by a link of their own.

use std::net::Ipv4Addr;

use anyhow::Result;

use super::pair::TUNING;
use super::{Awake, Namespace, Tun};
use crate::link::{Link, Shape};

/// The name of each member's interface, at the member and at the host.
const INTERFACES: [&str; 4] = ["spoke0", "spoke1", "spoke2", "spoke3"];

/// The host and its members.
pub(crate) struct Star {
    pub(crate) client: Namespace,
    pub(crate) members: Vec<Namespace>,
    /// Forward is from the host to the member.
    pub(crate) links: Vec<Link>,
    /// Keeps the processors awake while the hosts exist.
    _awake: Option<Awake>,
}

impl Star {
    /// Makes one member for each shape, at most four.
    pub(crate) fn new(spokes: &[[Shape; 2]], seed: u64) -> Result<Self> {
        let (client, mut members, mut links) = (Namespace::new(TUNING)?, Vec::new(), Vec::new());
        for ((shapes, name), n) in spokes.iter().zip(INTERFACES).zip(0..) {
            let member = Namespace::new(TUNING)?;
            let tuns = [client.enter(|| Tun::open(name))??, member.enter(|| Tun::open(name))??];
            for (host, side) in [(&client, 1), (&member, 2)] {
                host.ip(&format!("address add {}/24 dev {name}", address(n, side)))?;
                host.ip(&format!("link set {name} mtu 1500 txqueuelen 20000 up"))?;
            }
            // Links of the same shape do not lose the same packets.
            links.push(Link::start(shapes.clone(), tuns, seed.wrapping_mul(31).wrapping_add(u64::from(n)))?);
            members.push(member);
        }
        Ok(Self { client, members, links, _awake: Awake::ask() })
    }

    /// The address of the n-th member.
    pub(crate) const fn member_ip(n: u8) -> Ipv4Addr {
        address(n, 2)
    }

    /// Packets lost between the hosts and the links, which must be none.
    pub(crate) fn dropped_at_interfaces(&self) -> Result<u64> {
        let mut all = 0;
        for (member, name) in self.members.iter().zip(INTERFACES) {
            all += self.client.dropped_at_interface(name)? + member.dropped_at_interface(name)?;
        }
        Ok(all)
    }
}

const fn address(spoke: u8, side: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, spoke, side)
}
