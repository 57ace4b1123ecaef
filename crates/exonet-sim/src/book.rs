//! The addresses of other nodes that an application knows.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::{Mono, NodeId};

use crate::host::Host;
use crate::{NodeIndex, World};

/// How long an application uses an address before it looks it up again.
const LASTS: Duration = Duration::from_secs(300);

/// An address, and when it was looked up.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: SocketAddr,
    at: Mono,
}

/// The addresses that one application has been told. They become stale: if a peer has moved since, only the protocol
/// can find it, until the application looks its address up again.
#[derive(Debug, Default)]
pub(crate) struct Book(BTreeMap<NodeId, Entry>);

impl Book {
    /// Returns the address that the application has for `id`, whose true address is `address`. The application gets
    /// the true address when it asks for the first time, and when its entry is old. Also returns whether the entry
    /// was wrong and has now been corrected.
    pub(crate) fn look_up(&mut self, now: Mono, id: NodeId, address: SocketAddr) -> (SocketAddr, bool) {
        let new = Entry { address, at: now };
        let entry = self.0.entry(id).or_insert(new);
        let before = entry.address;
        if entry.at + LASTS <= now {
            *entry = new;
        }
        (entry.address, entry.address != before)
    }

    /// Tells the application the address of `id`.
    pub(crate) fn is_told(&mut self, now: Mono, id: NodeId, address: SocketAddr) {
        self.0.insert(id, Entry { address, at: now });
    }
}

impl World {
    /// Makes the application of `node` give this address to its core from now on, so that the address need not be
    /// proven.
    pub fn name_to(&mut self, node: NodeIndex, address: SocketAddr) {
        self.checks.addresses.chosen(node.0, [address]);
    }

    /// Returns the address that the application of `from` has for `to`. The application gives it to its core,
    /// whatever happens to the message.
    pub(crate) fn look_up(&mut self, from: NodeIndex, to: NodeIndex) -> Option<(NodeId, SocketAddr)> {
        let (id, is_at) = self.hosts.get(&to.0).map(|host| (host.node.id(), host.address))?;
        let (address, renewed) = self.hosts.get_mut(&from.0)?.book.look_up(self.now, id, is_at);
        self.coverage.looked_up += u64::from(renewed);
        self.checks.addresses.chosen(from.0, [address]);
        Some((id, address))
    }

    /// Tells the application of `node` the current address of `peer`.
    pub fn tell(&mut self, node: NodeIndex, peer: NodeIndex) {
        let Some((id, address)) = self.id(peer).zip(self.address(peer)) else { return };
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.book.is_told(self.now, id, address);
            self.coverage.told += 1;
            self.trace.tell(self.now, node.0, format_args!("is told where n{} is", peer.0));
        }
        self.checks.addresses.chosen(node.0, [address]);
        self.instruct(node, |node, now| node.add_hint(now, id, address));
    }

    /// Tells the application of `node` that `peer` is at the address of `other`, which is wrong.
    pub fn tell_wrong(&mut self, node: NodeIndex, peer: NodeIndex, other: NodeIndex) {
        let Some((id, address)) = self.id(peer).zip(self.address(other)) else { return };
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.book.is_told(self.now, id, address);
        }
        self.checks.addresses.chosen(node.0, [address]);
        self.instruct(node, |node, now| node.add_hint(now, id, address));
    }

    /// Tells a node the address of a peer for which it has messages, if the node cannot know that address: since
    /// `since`, the node has sent nothing to the address, and the peer has sent nothing to the node's own address.
    /// `since` must be so long ago that the node has tried every address that it knows. A node that the peer has
    /// reached must find the peer by itself.
    pub(crate) fn tell_the_lost(&mut self, since: Mono) {
        let mut lost = Vec::new();
        for (index, host) in self.hosts.iter().filter(|(_, host)| host.life.is_up(self.now)) {
            let wanted: BTreeSet<NodeId> = host.waiting.values().map(|waiting| waiting.to).collect();
            let spoke = |by: &Host, to: &Host| by.spoke.get(&to.address).is_some_and(|at| *at >= since);
            let others = self.hosts.iter().filter(|(_, peer)| {
                wanted.contains(&peer.node.id()) && !spoke(host, peer) && !spoke(peer, host)
            });
            lost.extend(others.map(|(peer, _)| (NodeIndex(*index), NodeIndex(*peer))));
        }
        lost.into_iter().for_each(|(node, peer)| self.tell(node, peer));
    }
}
