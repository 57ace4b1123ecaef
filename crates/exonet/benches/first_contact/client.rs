//! One client: a core that makes one call to a server that it has never met.

use std::net::SocketAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use exonet::config::Config;
use exonet::state::SecretKey;
use exonet_proto::node::{Arrival, Boot, Event, Node, Outgoing, Policy};
use exonet_proto::{Mono, Now, Wall};

use crate::target::{Failure, Target};

pub(crate) const METHOD: &str = "echo";
const BODY: &[u8] = &[7; 64];

pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Now {
        let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono: Mono(1_000_000_000 + nanos(self.0.elapsed())), wall: Wall(nanos(wall)) }
    }
}

pub(crate) struct Client {
    node: Node,
    settled: bool,
    pub(crate) datagrams: u64,
}

impl Client {
    /// With a key of its own, which only now comes to be.
    pub(crate) fn new(now: Now, target: &Target) -> Result<Self, Failure> {
        let (mut key, mut seed) = ([0; 32], [0; 32]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut seed)?;
        let config = Config::new(Policy::Anyone);
        let mut node = Node::new(config, SecretKey::from_bytes(key), Boot::Ephemeral, seed, now);
        let call = Outgoing { tag: METHOD.into(), body: BODY.into(), ..Outgoing::default() };
        node.call(now, target.id, &[target.address], call)?;
        Ok(Self { node, settled: false, datagrams: 0 })
    }

    pub(crate) fn hear(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8]) {
        self.datagrams += 1;
        self.node.handle_datagram(
            now,
            Arrival { remote: from, local_ip: None, ecn: 0, pipe: None },
            datagram,
        );
    }

    /// It has its reply: whether it is done, and has said so if it is `polite`.
    pub(crate) fn is_done(&mut self, now: Now, polite: bool) -> bool {
        if self.settled && polite {
            self.node.close(now);
        }
        self.settled && (!polite || self.node.is_quiet())
    }

    /// All that it has to say now.
    pub(crate) fn speak(&mut self, now: Now, buffer: &mut Vec<u8>, mut say: impl FnMut(&[u8])) {
        if self.node.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.node.handle_timeout(now);
        }
        while self.node.poll_transmit(now, 1, buffer).is_some() {
            self.datagrams += 1;
            say(buffer);
        }
        while let Some(event) = self.node.poll_event() {
            self.settled |= matches!(event, Event::Reply { .. } | Event::Outcome { .. });
        }
    }
}
