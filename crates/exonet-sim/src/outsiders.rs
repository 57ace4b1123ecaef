//! Hosts that are not nodes: they send and receive datagrams.

use core::net::SocketAddr;

use exonet_proto::NodeId;

use crate::{NodeIndex, World};

impl World {
    /// Adds a host that is not a node: it sends datagrams with [`World::post`], and receives them with
    /// [`World::mail`]. The index is for its links, and for [`World::moves`].
    pub fn outsider(&mut self) -> (NodeIndex, SocketAddr) {
        let index = NodeIndex(self.next_host);
        self.next_host += 1;
        (index, self.moves(index))
    }

    /// Gives an outsider one more address.
    pub fn moves(&mut self, outsider: NodeIndex) -> SocketAddr {
        let address = self.fresh_address();
        self.owners.insert(address, outsider.0);
        self.mail.insert(address, Vec::new());
        address
    }

    /// Makes an outsider send a datagram over its links.
    pub fn post(&mut self, outsider: NodeIndex, from: SocketAddr, to: SocketAddr, data: &[u8]) {
        self.launch(outsider.0, from, (to, 0), data);
    }

    /// Expects messages of `foe` at `node`. They are not in the ledger: they may be anything, and each may be taken
    /// once at most.
    pub fn expect_foe(&mut self, node: NodeIndex, foe: NodeId) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.foes.insert(foe);
        }
    }

    /// The number of messages of foes that a node's application has taken.
    pub fn taken_from_foes(&self, node: NodeIndex) -> usize {
        self.hosts.get(&node.0).map_or(0, |host| host.from_foes.len())
    }

    /// The datagrams that have arrived at an outsider's address since the last call, with their sources.
    pub fn mail(&mut self, at: SocketAddr) -> Vec<(SocketAddr, Vec<u8>)> {
        self.mail.get_mut(&at).map(std::mem::take).unwrap_or_default()
    }
}
