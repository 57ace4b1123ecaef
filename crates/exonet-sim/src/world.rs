//! Nodes, links and the clock that moves them.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, Event, IncomingBody, MessageKey, Node, Outgoing, SendError};
use exonet_proto::{Mono, NodeId, Now, Wall};

use crate::{Dice, Ledger, LinkConfig};

/// A node of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(pub usize);

#[derive(Debug)]
struct Host {
    node: Node,
    secret: [u8; 32],
    config: Config,
    address: SocketAddr,
    /// The disk: `D`.
    clock: u64,
    stored: bool,
    /// The messages that it waits to hear of.
    waiting: BTreeMap<MessageKey, u64>,
    /// It takes what arrives as soon as it arrives.
    reads: bool,
}

#[derive(Debug)]
struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    data: Vec<u8>,
}

/// Many nodes of the real core on one virtual clock.
#[derive(Debug)]
pub struct World {
    now: Mono,
    dice: Dice,
    hosts: Vec<Host>,
    links: BTreeMap<(usize, usize), LinkConfig>,
    default_link: LinkConfig,
    flights: BTreeMap<(Mono, u64), Flight>,
    next_flight: u64,
    /// What became of every message.
    pub ledger: Ledger,
    next_message: u64,
    next_address: u16,
    /// Datagrams that a link carried, lost or not.
    pub datagrams: u64,
    /// Bytes of these.
    pub bytes: u64,
    buffer: Vec<u8>,
}

/// Where virtual time begins.
const START: u64 = 1_000_000_000_000;
/// Bytes in front of every body: the message's number.
const NUMBER: usize = 8;

impl World {
    /// A world whose links are like `link` unless said otherwise.
    pub fn new(seed: u64, link: LinkConfig) -> Self {
        Self {
            now: Mono(START),
            dice: Dice::new(seed),
            hosts: Vec::new(),
            links: BTreeMap::new(),
            default_link: link,
            flights: BTreeMap::new(),
            next_flight: 0,
            ledger: Ledger::default(),
            next_message: 0,
            next_address: 1,
            datagrams: 0,
            bytes: 0,
            buffer: Vec::new(),
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Mono {
        self.now
    }

    fn time(&self) -> Now {
        Now { mono: self.now, wall: Wall(self.now.0) }
    }

    /// The world's dice, for workloads.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// A new node. `stored`: it has a disk for its key and its clock, and can restart.
    pub fn add(&mut self, config: Config, stored: bool) -> NodeIndex {
        let secret = self.dice.bytes();
        let address = self.fresh_address();
        let boot = if stored { Boot::Stored { clock: 0 } } else { Boot::Ephemeral };
        let node = Node::new(config.clone(), SecretKey::from_bytes(secret), boot, self.dice.bytes(), self.time());
        let waiting = BTreeMap::new();
        self.hosts.push(Host { node, secret, config, address, clock: 0, stored, waiting, reads: true });
        let index = NodeIndex(self.hosts.len() - 1);
        self.pump(index);
        index
    }

    fn fresh_address(&mut self) -> SocketAddr {
        let [hi, lo] = self.next_address.to_be_bytes();
        self.next_address += 1;
        SocketAddr::from((Ipv4Addr::new(10, 0, hi, lo), 7_000))
    }

    /// The link from `a` to `b`, one way.
    pub fn set_link(&mut self, a: NodeIndex, b: NodeIndex, link: LinkConfig) {
        self.links.insert((a.0, b.0), link);
    }

    /// A node's id.
    pub fn id(&self, node: NodeIndex) -> Option<NodeId> {
        self.hosts.get(node.0).map(|host| host.node.id())
    }

    /// The core of a node.
    pub fn node(&self, node: NodeIndex) -> Option<&Node> {
        self.hosts.get(node.0).map(|host| &host.node)
    }

    /// Calls the core of a node, and sends what comes of it.
    pub fn with<T>(&mut self, node: NodeIndex, call: impl FnOnce(&mut Node, Now) -> T) -> Option<T> {
        let now = self.time();
        let result = call(&mut self.hosts.get_mut(node.0)?.node, now);
        self.pump(node);
        Some(result)
    }

    /// Whether the node's application takes what arrives.
    pub fn set_reads(&mut self, node: NodeIndex, reads: bool) {
        if let Some(host) = self.hosts.get_mut(node.0) {
            host.reads = reads;
        }
        self.pump(node);
    }

    /// Sends a message of at least eight bytes, which the ledger follows.
    ///
    /// # Errors
    /// As the core's `send`.
    pub fn send(&mut self, from: NodeIndex, to: NodeIndex, size: usize) -> Result<u64, SendError> {
        self.send_as(from, to, size, Outgoing::default()).map(|(number, _)| number)
    }

    /// As [`World::send`], with all that a message may have but its body.
    ///
    /// # Errors
    /// As the core's `send`.
    pub fn send_as(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        size: usize,
        message: Outgoing,
    ) -> Result<(u64, MessageKey), SendError> {
        let (now, number) = (self.time(), self.next_message);
        let Some((id, address)) = self.hosts.get(to.0).map(|host| (host.node.id(), host.address)) else {
            return Err(SendError::Closed);
        };
        let Some(host) = self.hosts.get_mut(from.0) else { return Err(SendError::Closed) };
        let message = Outgoing { body: body(number, size), ..message };
        let key = host.node.send(now, id, &[address], message)?;
        self.next_message += 1;
        host.waiting.insert(key, number);
        self.ledger.sent(number);
        self.pump(from);
        Ok((number, key))
    }

    /// The node has another address from now on.
    pub fn roam(&mut self, node: NodeIndex) {
        let address = self.fresh_address();
        if let Some(host) = self.hosts.get_mut(node.0) {
            host.address = address;
        }
    }

    /// The node's process dies and starts again at once, with what its disk has.
    pub fn crash(&mut self, node: NodeIndex) {
        let (now, seed) = (self.time(), self.dice.bytes());
        self.ledger.excuse_open();
        let Some(host) = self.hosts.get_mut(node.0) else { return };
        self.ledger.orphan(std::mem::take(&mut host.waiting).into_values());
        let boot = if host.stored { Boot::Stored { clock: host.clock } } else { Boot::Ephemeral };
        if !host.stored {
            // A process without a disk comes back as somebody else.
            host.secret = self.dice.bytes();
        }
        host.node = Node::new(host.config.clone(), SecretKey::from_bytes(host.secret), boot, seed, now);
        self.pump(node);
    }

    /// Lets the world run for `span`.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.step(until) {}
        self.now = until;
    }

    /// Lets the world run until every message has an outcome, for `span` at most. True when they all have.
    pub fn run_until_settled(&mut self, span: Duration) -> bool {
        let until = self.now + span;
        while self.ledger.open() > 0 {
            if !self.step(until) {
                return self.ledger.open() == 0;
            }
        }
        true
    }

    /// The next thing that happens before `until`. False when nothing does.
    fn step(&mut self, until: Mono) -> bool {
        let flight = self.flights.first_key_value().map(|((at, _), _)| *at);
        let timers = self.hosts.iter().enumerate();
        let timer = timers.filter_map(|(i, host)| Some((host.node.poll_timeout()?, i))).min();
        let next = [flight, timer.map(|(at, _)| at)].into_iter().flatten().min();
        let Some(at) = next.filter(|at| *at <= until) else { return false };
        self.now = self.now.max(at);
        if flight == Some(at) {
            self.arrive();
        } else if let Some((_, index)) = timer {
            self.with(NodeIndex(index), |node, now| node.handle_timeout(now));
        }
        true
    }

    fn arrive(&mut self) {
        let Some((_, mut flight)) = self.flights.pop_first() else { return };
        let Some(index) = self.hosts.iter().position(|host| host.address == flight.to) else { return };
        let arrival = Arrival { remote: flight.from, local_ip: None, ecn: 0 };
        self.with(NodeIndex(index), |node, now| node.handle_datagram(now, arrival, &mut flight.data));
    }

    /// Everything that a driver does after a call.
    fn pump(&mut self, index: NodeIndex) {
        let now = self.time();
        let Some(host) = self.hosts.get_mut(index.0) else { return };
        loop {
            while let Some(batch) = host.node.poll_persist() {
                host.clock = batch.clock;
                host.node.handle_persisted(now, batch.lsn);
            }
            if host.reads {
                while let Some(message) = host.node.recv(now) {
                    if let IncomingBody::Whole(body) = &message.body {
                        self.ledger.taken(number_of(body));
                    }
                }
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            let mut progress = false;
            while let Some(transmit) = host.node.poll_transmit(now, 16, &mut buffer) {
                progress = true;
                for data in buffer.chunks(transmit.segment) {
                    self.datagrams += 1;
                    self.bytes += data.len() as u64;
                    let flight = (host.address, transmit.remote, data);
                    launch(&mut self.flights, &mut self.next_flight, &mut self.dice, now.mono, &self.default_link, flight);
                }
            }
            self.buffer = buffer;
            while let Some(event) = host.node.poll_event() {
                if let Event::Outcome { key, outcome, .. } = event
                    && let Some(number) = host.waiting.remove(&key)
                {
                    self.ledger.outcome(number, outcome);
                }
            }
            if !progress {
                return;
            }
        }
    }
}

fn launch(
    flights: &mut BTreeMap<(Mono, u64), Flight>,
    next: &mut u64,
    dice: &mut Dice,
    now: Mono,
    link: &LinkConfig,
    (from, to, data): (SocketAddr, SocketAddr, &[u8]),
) {
    for (at, corrupt) in link.fate(now, dice) {
        let mut data = data.to_vec();
        if corrupt {
            let at = usize::try_from(dice.below(data.len() as u64)).unwrap_or(0);
            let flip = 1 << dice.below(8);
            if let Some(byte) = data.get_mut(at) {
                *byte ^= flip;
            }
        }
        *next += 1;
        flights.insert((at, *next), Flight { from, to, data });
    }
}

/// A body that bears its number and is otherwise determined by it.
fn body(number: u64, size: usize) -> Bytes {
    let mut body = number.to_be_bytes().to_vec();
    let filler = (NUMBER..size).map(|i| (number as usize).wrapping_mul(31).wrapping_add(i).to_le_bytes()[0]);
    body.extend(filler);
    body.into()
}

/// The number of a body that is as it was sent.
fn number_of(received: &Bytes) -> Option<u64> {
    let number = u64::from_be_bytes(*received.first_chunk()?);
    (*received == body(number, received.len())).then_some(number)
}
impl World {
    /// dbg
    pub fn dump(&self, node: NodeIndex) {
        if let Some(host) = self.hosts.get(node.0) { eprintln!("now {:?} timeout {:?} {}", self.now, host.node.poll_timeout(), host.node.dump()); }
    }
}
