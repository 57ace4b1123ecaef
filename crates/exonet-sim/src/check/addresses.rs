//! Limits on the bytes sent to unproven addresses.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::NodeId;

use super::Breach;

/// The bytes that every node has exchanged with every address.
///
/// A node may send three times the bytes that it received from an address (RFC 9000, section 8.1). This limit ends
/// when its application chooses the address, or when the node receives a datagram from a host that made it after it
/// had received the node's datagrams at that address. The checker knows more than the node does, so it forbids
/// nothing that the node may do.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    nodes: BTreeMap<usize, Process>,
}

/// The addresses of one process.
#[derive(Debug, Default)]
struct Process {
    bytes: BTreeMap<SocketAddr, Bytes>,
    /// Addresses that the application chose, or that are proven.
    free: BTreeSet<SocketAddr>,
    /// The addresses at which each receiver has received from this process, and the first step in which it did.
    heard: BTreeMap<usize, BTreeMap<SocketAddr, u64>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    taken: u64,
    given: u64,
}

impl Addresses {
    /// Notes that the process has ended, and with it what it knew.
    pub(crate) fn dies(&mut self, node: usize) {
        self.nodes.remove(&node);
    }

    /// Notes that the application of `node` may have named these addresses.
    pub(crate) fn chosen(&mut self, node: usize, addresses: impl IntoIterator<Item = SocketAddr>) {
        self.nodes.entry(node).or_default().free.extend(addresses);
    }

    /// Notes that `receiver` has received a datagram of `sender` at `to`.
    pub(crate) fn heard(&mut self, sender: usize, receiver: usize, to: SocketAddr, step: u64) {
        let Some(process) = self.nodes.get_mut(&sender).filter(|process| !process.free.contains(&to)) else {
            return;
        };
        process.heard.entry(receiver).or_default().entry(to).or_insert(step);
    }

    /// Notes that a datagram has arrived at `node`. `maker` is the node that made it, and the step, if it arrived
    /// unchanged.
    pub(crate) fn taken(&mut self, node: usize, from: SocketAddr, bytes: u64, maker: Option<(usize, u64)>) {
        let process = self.nodes.entry(node).or_default();
        process.bytes.entry(from).or_default().taken += bytes;
        if let Some((maker, made)) = maker
            && let Some(heard) = process.heard.get_mut(&maker)
        {
            heard.retain(|address, since| {
                let proven = *since <= made;
                if proven {
                    process.free.insert(*address);
                }
                !proven
            });
        }
    }

    /// Checks that `node` may send `bytes` to an address.
    pub(crate) fn given(&mut self, node: usize, by: NodeId, to: SocketAddr, bytes: u64) -> Option<Breach> {
        let process = self.nodes.entry(node).or_default();
        if process.free.contains(&to) {
            return None;
        }
        let sum = process.bytes.entry(to).or_default();
        sum.given += bytes;
        let Bytes { taken, given } = *sum;
        (given > taken * 3).then_some(Breach::Amplified { by, to, taken, given })
    }
}
