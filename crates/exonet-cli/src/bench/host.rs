//! A core without sockets. The caller sets its clock.

use std::net::SocketAddr;

use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, Event, Node, Outcome};
use exonet_proto::{Mono, NodeId, Now, Wall};

/// The wall clock when the monotonic clock is at zero: a day in 2026.
const EPOCH: u64 = 1_790_000_000_000_000_000;
/// More bytes than any datagram has.
const BUFFER: usize = 2_048;

/// A node and the buffer for what it sends.
pub(super) struct Host {
    pub(super) node: Node,
    pub(super) id: NodeId,
}

/// Both clocks at `mono`.
pub(super) fn at(mono: Mono) -> Now {
    Now { mono, wall: Wall(EPOCH.saturating_add(mono.0)) }
}

impl Host {
    /// A node whose key and random numbers come from `seed`.
    pub(super) fn new(config: Config, seed: [u8; 32], now: Now) -> Self {
        let key = SecretKey::from_bytes(seed);
        let id = key.node_id();
        let node = Node::new(config, key, Boot::Ephemeral, seed, now);
        Self { node, id }
    }

    pub(super) fn hear(&mut self, now: Now, remote: SocketAddr, datagram: &mut [u8]) {
        let arrival = Arrival { remote, local_ip: None, ecn: 0, pipe: None };
        self.node.handle_datagram(now, arrival, datagram);
    }

    /// Passes every datagram that is ready to `send`. Returns how many messages were delivered since the last call.
    pub(super) fn speak(
        &mut self,
        now: Now,
        buffer: &mut Vec<u8>,
        mut send: impl FnMut(SocketAddr, Vec<u8>),
    ) -> u32 {
        while let Some(batch) = self.node.poll_persist() {
            self.node.handle_persisted(now, batch.lsn);
        }
        buffer.reserve(BUFFER);
        while let Some(transmit) = self.node.poll_transmit(now, 1, buffer) {
            send(transmit.remote, buffer.get(..transmit.len).unwrap_or_default().to_vec());
        }
        let mut delivered = 0;
        while let Some(event) = self.node.poll_event() {
            if let Event::Outcome { outcome: Outcome::Delivered, count, .. } = event {
                delivered += count;
            }
        }
        delivered
    }

    pub(super) fn next_call(&self) -> Mono {
        self.node.poll_timeout().unwrap_or(Mono::NEVER)
    }
}
