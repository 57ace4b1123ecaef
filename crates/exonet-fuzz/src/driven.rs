//! A real node with its surroundings: time, a perfect disk, and an application that takes messages.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeSet;

use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{
    Arrival, BodyRead, Boot, Config, DeliveryKey, Event, IncomingBody, Limits, MessageKey, Node, Outcome,
    Policy,
};
use exonet_proto::{MessageId, Mono, NodeId, Now, Wall};

/// How often timers may fire at one instant; after that, the node counts as one whose timer never ends.
const PATIENCE: u32 = 100;

/// A real node.
pub(crate) struct Driven {
    pub(crate) node: Node,
    pub(crate) addr: SocketAddr,
    /// It takes messages as soon as they arrive.
    pub(crate) reads: bool,
    reading: BTreeSet<DeliveryKey>,
    /// The messages that were taken, each once.
    pub(crate) taken: BTreeSet<MessageId>,
    /// The keys of the messages without an outcome.
    pub(crate) open: BTreeSet<MessageKey>,
    pub(crate) delivered: u64,
}

/// A configuration with limits small enough for a fuzzer to reach.
pub(crate) fn config(policy: Policy) -> Config {
    let limits = Limits {
        peers: 8,
        strays: 2,
        half_open: 4,
        half_open_per_prefix: 3,
        openings_per_second: 50,
        queued_messages: 32,
        queued_bytes: 1 << 18,
        queued_in_memory: 1 << 12,
        message: 1 << 20,
        whole_message: 1 << 20,
        slots: 64,
        pool_window: 1 << 16,
        lane_window: 1 << 12,
        lane_pool: 1 << 15,
        lanes: 64,
        body_window: 1 << 16,
        bodies: 2,
        stream_above: 1 << 17,
        replies: 4,
        reply_bytes: 1 << 12,
        received_bytes: 4 << 20,
        connections: 8,
        connections_per_peer: 2,
    };
    Config { limits, ..Config::new(policy) }
}

impl Driven {
    pub(crate) fn new(config: Config, secret: u8, now: Mono) -> Self {
        let key = SecretKey::from_bytes([secret; 32]);
        let node = Node::new(config, key, Boot::Ephemeral, [secret; 32], at(now));
        let addr = SocketAddr::from((Ipv4Addr::new(10, 1, 0, secret), 7_000));
        let (reading, taken, open) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { node, addr, reads: true, reading, taken, open, delivered: 0 }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.node.id()
    }

    /// A datagram arrives.
    pub(crate) fn hear(&mut self, now: Mono, from: SocketAddr, data: &mut [u8]) {
        self.node.handle_datagram(
            at(now),
            Arrival { remote: from, local_ip: None, ecn: 0, pipe: None },
            data,
        );
    }

    /// Does everything that a driver does after a call. Returns the datagrams that leave, with their destinations.
    pub(crate) fn pump(&mut self, now: Mono) -> Vec<(SocketAddr, Vec<u8>)> {
        let (mut out, mut buffer) = (Vec::new(), Vec::new());
        loop {
            if let Some(batch) = self.node.poll_persist() {
                self.node.handle_persisted(at(now), batch.lsn);
            }
            self.application(now);
            let before = out.len();
            while let Some(transmit) = self.node.poll_transmit(at(now), 16, &mut buffer) {
                assert_eq!(transmit.len, buffer.len());
                out.extend(buffer.chunks(transmit.segment).map(|data| (transmit.remote, data.to_vec())));
                assert!(out.len() - before < 4_096, "a node sends without end");
            }
            self.heed();
            if out.len() == before {
                return out;
            }
        }
    }

    fn application(&mut self, now: Mono) {
        if !self.reads {
            return;
        }
        while let Some(incoming) = self.node.recv(at(now)) {
            match incoming.body {
                IncomingBody::Whole(_) => self.delivery(incoming.id),
                IncomingBody::Stream { .. } => {
                    self.reading.insert(incoming.key);
                }
            }
        }
        let reading: Vec<_> = self.reading.iter().copied().collect();
        for key in reading {
            loop {
                match self.node.body_read(at(now), key) {
                    BodyRead::Data(data) => assert!(!data.is_empty()),
                    BodyRead::Pending => break,
                    BodyRead::End => {
                        self.node.done(at(now), key);
                        self.reading.remove(&key);
                        break;
                    }
                    BodyRead::Aborted => {
                        self.node.release(at(now), key);
                        self.reading.remove(&key);
                        break;
                    }
                }
            }
        }
    }

    fn delivery(&mut self, id: MessageId) {
        assert!(self.taken.insert(id), "{id} was delivered twice");
    }

    fn heed(&mut self) {
        while let Some(event) = self.node.poll_event() {
            if let Event::Outcome { key, count, outcome, .. } = event {
                assert!((0..count).all(|n| self.open.remove(&key.nth(n))), "a message has two outcomes");
                self.delivered += if outcome == Outcome::Delivered { u64::from(count) } else { 0 };
            }
        }
    }

    /// When its next timer fires.
    pub(crate) fn rings_at(&self) -> Option<Mono> {
        self.node.poll_timeout()
    }

    /// Lets its timers fire until `until`, and passes the datagrams that leave to `post`. `now` is `until` afterwards.
    pub(crate) fn wait(
        &mut self,
        now: &mut Mono,
        until: Mono,
        mut post: impl FnMut(&mut Self, Mono, Vec<(SocketAddr, Vec<u8>)>),
    ) {
        let mut patience = PATIENCE;
        while let Some(due) = self.rings_at().filter(|due| *due <= until) {
            patience = if due > *now { PATIENCE } else { patience - 1 };
            assert!(patience > 0, "a timer rings for ever");
            *now = due.max(*now);
            self.node.handle_timeout(at(*now));
            let out = self.pump(*now);
            post(self, *now, out);
        }
        *now = until.max(*now);
    }
}

/// Both clocks, which agree.
pub(crate) fn at(mono: Mono) -> Now {
    Now { mono, wall: Wall(mono.0) }
}

/// The start of time.
pub(crate) const START: Mono = Mono(1_000_000_000_000);

/// A duration in milliseconds.
pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
