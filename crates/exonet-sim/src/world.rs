//! Nodes, links and the clock that moves them.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, Event, MessageKey, Node, Outcome, Outgoing, SendError};
use exonet_proto::{Mono, NodeId, Now, Wall};

use crate::host::{Host, Waiting, Writing};
use crate::link::Link;
use crate::{Dice, Disk, Ledger, LinkConfig, Wiretap, body};

/// A node of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(pub usize);

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
    hosts: BTreeMap<usize, Host>,
    next_host: usize,
    /// Whose an address is or was.
    owners: BTreeMap<SocketAddr, usize>,
    links: BTreeMap<(usize, usize), Link>,
    default_link: LinkConfig,
    flights: BTreeMap<(Mono, u64), Flight>,
    next_flight: u64,
    /// What became of every message.
    pub ledger: Ledger,
    next_message: u64,
    next_address: u16,
    /// Datagrams that left nodes, lost or not.
    pub datagrams: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Sees them all.
    pub wiretap: Wiretap,
    /// Probability that a datagram is also seen to come from an address that is nobody's.
    pub spoof: f64,
    /// These copies arrive long before their originals, instead of just before.
    pub spoof_early: bool,
    buffer: Vec<u8>,
}

/// Where virtual time begins.
const START: u64 = 1_000_000_000_000;
/// Network of the addresses that are nobody's.
const NOBODY: u8 = 192;

impl World {
    /// A world whose links are like `link` unless said otherwise.
    pub fn new(seed: u64, link: LinkConfig) -> Self {
        Self {
            now: Mono(START),
            dice: Dice::new(seed),
            hosts: BTreeMap::new(),
            next_host: 0,
            owners: BTreeMap::new(),
            links: BTreeMap::new(),
            default_link: link,
            flights: BTreeMap::new(),
            next_flight: 0,
            ledger: Ledger::default(),
            next_message: 0,
            next_address: 1,
            datagrams: 0,
            bytes: 0,
            wiretap: Wiretap::default(),
            spoof: 0.0,
            spoof_early: true,
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

    // --- nodes ---

    /// A new node. `stored`: it has a disk for its key and its clock, and can restart.
    pub fn add(&mut self, config: Config, stored: bool) -> NodeIndex {
        self.add_on(config, stored.then(Disk::default))
    }

    /// A new node with its disk; without one it is ephemeral.
    pub fn add_on(&mut self, config: Config, disk: Option<Disk>) -> NodeIndex {
        let secret = self.dice.bytes();
        self.add_with_key(config, secret, disk)
    }

    /// As [`World::add_on`], with a key that another node may have as well.
    pub fn add_with_key(&mut self, config: Config, secret: [u8; 32], disk: Option<Disk>) -> NodeIndex {
        let index = self.next_host;
        self.next_host += 1;
        let address = self.fresh_address();
        self.owners.insert(address, index);
        let boot = disk.as_ref().map_or(Boot::Ephemeral, Disk::boot);
        let node =
            Node::new(config.clone(), SecretKey::from_bytes(secret), boot, self.dice.bytes(), self.time());
        self.hosts.insert(index, Host::new(node, secret, config, address, disk));
        self.pump(NodeIndex(index));
        NodeIndex(index)
    }

    /// The node's process dies for good.
    pub fn remove(&mut self, node: NodeIndex) {
        if let Some(mut host) = self.hosts.remove(&node.0) {
            self.ledger.excuse_open();
            self.ledger.orphan(host.die());
        }
    }

    fn fresh_address(&mut self) -> SocketAddr {
        let [hi, lo] = self.next_address.to_be_bytes();
        self.next_address += 1;
        SocketAddr::from((Ipv4Addr::new(10, 0, hi, lo), 7_000))
    }

    /// An address where nobody is, whose traffic the wiretap counts.
    pub fn nobody(&mut self) -> SocketAddr {
        let [hi, lo] = self.next_address.to_be_bytes();
        self.next_address += 1;
        let address = SocketAddr::from((Ipv4Addr::new(NOBODY, 0, hi, lo), 7_000));
        self.wiretap.reflected.entry(address).or_default();
        address
    }

    /// The link from `a` to `b`, one way.
    pub fn set_link(&mut self, a: NodeIndex, b: NodeIndex, link: LinkConfig) {
        self.links.insert((a.0, b.0), Link::new(link));
    }

    /// A node's id.
    pub fn id(&self, node: NodeIndex) -> Option<NodeId> {
        self.hosts.get(&node.0).map(|host| host.node.id())
    }

    /// A node's address now.
    pub fn address(&self, node: NodeIndex) -> Option<SocketAddr> {
        self.hosts.get(&node.0).map(|host| host.address)
    }

    /// The core of a node.
    pub fn node(&self, node: NodeIndex) -> Option<&Node> {
        self.hosts.get(&node.0).map(|host| &host.node)
    }

    /// A node's disk.
    pub fn disk(&mut self, node: NodeIndex) -> Option<&mut Disk> {
        self.hosts.get_mut(&node.0)?.disk.as_mut()
    }

    /// Datagrams that a node has sent.
    pub fn sent_by(&self, node: NodeIndex) -> u64 {
        self.hosts.get(&node.0).map_or(0, |host| host.sent)
    }

    /// What a node has said since the last call, outcomes aside.
    pub fn events(&mut self, node: NodeIndex) -> Vec<Event> {
        self.hosts.get_mut(&node.0).map(|host| std::mem::take(&mut host.events)).unwrap_or_default()
    }

    /// Calls the core of a node, and sends what comes of it.
    pub fn with<T>(&mut self, node: NodeIndex, call: impl FnOnce(&mut Node, Now) -> T) -> Option<T> {
        let now = self.time();
        let result = call(&mut self.hosts.get_mut(&node.0)?.node, now);
        self.pump(node);
        Some(result)
    }

    /// Whether the node's application takes what arrives.
    pub fn set_reads(&mut self, node: NodeIndex, reads: bool) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.reads = reads;
        }
        self.pump(node);
    }

    // --- messages ---

    /// Sends a message, which the ledger follows.
    ///
    /// # Errors
    /// As the core's `send`.
    pub fn send(&mut self, from: NodeIndex, to: NodeIndex, size: usize) -> Result<u64, SendError> {
        self.send_as(from, to, size, Outgoing::default()).map(|(number, _)| number)
    }

    /// As [`World::send`], with all that a message may have but its tag and its body.
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
        let (tag, body) = body::message(self.next_message, size);
        let message = Outgoing { tag, body, ..message };
        self.submit(from, to, |node, now, id, address| node.send(now, id, &[address], message))
    }

    /// Begins a message of `len` bytes, at least eight, that is written by [`World::write`].
    ///
    /// # Errors
    /// As the core's `send_stream`.
    pub fn send_stream(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        len: u64,
    ) -> Result<(u64, MessageKey), SendError> {
        let sent = self.submit(from, to, |node, now, id, address| {
            node.send_stream(now, id, &[address], Outgoing::default(), len)
        })?;
        let (number, key) = sent;
        if let Some(host) = self.hosts.get_mut(&from.0) {
            host.writing.insert(key, Writing { number, at: 0, upto: 0 });
        }
        Ok(sent)
    }

    /// The application wants to have written `upto` bytes of a streamed message.
    pub fn write(&mut self, node: NodeIndex, key: MessageKey, upto: usize) {
        if let Some(writing) = self.hosts.get_mut(&node.0).and_then(|host| host.writing.get_mut(&key)) {
            writing.upto = upto;
        }
        self.pump(node);
    }

    fn submit(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        send: impl FnOnce(&mut Node, Now, NodeId, SocketAddr) -> Result<MessageKey, SendError>,
    ) -> Result<(u64, MessageKey), SendError> {
        let (now, number) = (self.time(), self.next_message);
        let receiver = self.hosts.get(&to.0).map(|host| (host.node.id(), host.address));
        let (Some((id, address)), Some(host)) = (receiver, self.hosts.get_mut(&from.0)) else {
            return Err(SendError::Closed);
        };
        let key = send(&mut host.node, now, id, address)?;
        self.next_message += 1;
        host.waiting.insert(key, Waiting { number, to: to.0 });
        self.ledger.sent(number);
        self.pump(from);
        Ok((number, key))
    }

    // --- what goes wrong ---

    /// The node has another address from now on; what is sent to the old one is lost.
    pub fn roam(&mut self, node: NodeIndex) {
        let address = self.fresh_address();
        if let Some(host) = self.hosts.get_mut(&node.0) {
            self.owners.insert(address, node.0);
            host.address = address;
        }
    }

    /// The node has another port from now on.
    pub fn rebind_port(&mut self, node: NodeIndex) {
        if let Some(host) = self.hosts.get_mut(&node.0) {
            host.address.set_port(host.address.port() + 1);
            self.owners.insert(host.address, node.0);
        }
    }

    /// The node's process dies and starts again at once, with what its disk has.
    ///
    /// A write under way may have reached the disk or not.
    pub fn crash(&mut self, node: NodeIndex) {
        let (now, seed, secret) = (self.time(), self.dice.bytes(), self.dice.bytes());
        let written = self.dice.chance(0.5);
        self.ledger.excuse_open();
        let Some(host) = self.hosts.get_mut(&node.0) else {
            return;
        };
        let persisting = host.persisting.take();
        self.ledger.orphan(host.die());
        let boot = match (&mut host.disk, persisting) {
            (Some(disk), persisting) => {
                if let Some((_, batch)) = persisting.filter(|_| written) {
                    disk.end(&batch);
                }
                host.amnesia = disk.clock;
                disk.boot()
            }
            (None, _) => {
                // A process without a disk comes back as somebody else.
                host.secret = secret;
                Boot::Ephemeral
            }
        };
        host.node = Node::new(host.config.clone(), SecretKey::from_bytes(host.secret), boot, seed, now);
        self.pump(node);
    }

    /// A datagram out of the blue arrives now at `to`.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, data: Vec<u8>) {
        self.deliver(Flight { from, to, data });
    }

    // --- time ---

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
        let timers = self.hosts.iter();
        let timer = timers.filter_map(|(i, host)| Some((host.node.poll_timeout()?, *i))).min();
        let writes = self.hosts.iter().filter_map(|(i, host)| Some((host.persisting.as_ref()?.0, *i)));
        let write = writes.min();
        let times = [flight, timer.map(|(at, _)| at), write.map(|(at, _)| at)];
        let Some(at) = times.into_iter().flatten().min().filter(|at| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        match (flight, write, timer) {
            (Some(flight), ..) if flight == at => {
                if let Some((_, flight)) = self.flights.pop_first() {
                    self.deliver(flight);
                }
            }
            (_, Some((due, index)), _) if due == at => self.written(NodeIndex(index)),
            (.., Some((_, index))) => self.timeout(NodeIndex(index)),
            _ => {}
        }
        true
    }

    fn timeout(&mut self, index: NodeIndex) {
        let now = self.time();
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return;
        };
        host.node.handle_timeout(now);
        let evictions = host.node.counts().evictions;
        if evictions > std::mem::replace(&mut host.evictions, evictions) {
            // What is not known here any more ends Unknown there.
            self.ledger.excuse_open();
        }
        self.pump(index);
    }

    fn written(&mut self, index: NodeIndex) {
        let now = self.time();
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return;
        };
        let (Some((_, batch)), Some(disk)) = (host.persisting.take(), host.disk.as_mut()) else {
            return;
        };
        if disk.broken {
            host.node.handle_persist_failed(now);
        } else {
            disk.end(&batch);
            host.node.handle_persisted(now, batch.lsn);
        }
        self.pump(index);
    }

    fn deliver(&mut self, mut flight: Flight) {
        let Some(index) = self.owners.get(&flight.to).copied() else {
            return;
        };
        if self.hosts.get(&index).is_none_or(|host| host.address != flight.to) {
            return;
        }
        if let Some(reflected) = self.wiretap.reflected.get_mut(&flight.from) {
            reflected.taken += flight.data.len() as u64;
        }
        let arrival = Arrival { remote: flight.from, local_ip: None, ecn: 0 };
        self.with(NodeIndex(index), |node, now| node.handle_datagram(now, arrival, &mut flight.data));
    }

    /// Everything that a driver does after a call.
    fn pump(&mut self, index: NodeIndex) {
        let now = self.time();
        loop {
            let Some(host) = self.hosts.get_mut(&index.0) else {
                return;
            };
            if let (Some(batch), Some(disk)) = (host.node.poll_persist(), &host.disk) {
                host.persisting = Some(disk.begin(self.now, batch, &mut self.dice));
                if disk.latency.is_zero() && !disk.broken {
                    self.written(index);
                    continue;
                }
            }
            host.application(now, &mut self.ledger);
            let progress = self.transmit(index);
            self.heed(index);
            if !progress {
                return;
            }
        }
    }

    fn transmit(&mut self, index: NodeIndex) -> bool {
        let (now, mut progress) = (self.time(), false);
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(host) = self.hosts.get_mut(&index.0)
            && let Some(transmit) = host.node.poll_transmit(now, 16, &mut buffer)
        {
            progress = true;
            let from = host.address;
            for data in buffer.chunks(transmit.segment) {
                host.sent += 1;
                self.datagrams += 1;
                self.bytes += data.len() as u64;
                self.wiretap.sees(self.now, from, transmit.remote, data);
            }
            for data in buffer.chunks(transmit.segment) {
                self.launch(index, from, transmit.remote, data);
            }
        }
        self.buffer = buffer;
        progress
    }

    fn launch(&mut self, index: NodeIndex, from: SocketAddr, to: SocketAddr, data: &[u8]) {
        let Some(target) = self.owners.get(&to).copied() else {
            return;
        };
        let default = &self.default_link;
        let link = self.links.entry((index.0, target)).or_insert_with(|| Link::new(default.clone()));
        let fate = link.fate(self.now, data.len() as u64, &mut self.dice);
        let original = fate.first().map(|(at, _)| *at);
        for (at, corrupt) in fate {
            let mut data = data.to_vec();
            if corrupt {
                let byte = usize::try_from(self.dice.below(data.len() as u64)).unwrap_or(0);
                let flip = 1 << self.dice.below(8);
                if let Some(byte) = data.get_mut(byte) {
                    *byte ^= flip;
                }
            }
            self.fly(at, Flight { from, to, data });
        }
        if self.dice.chance(self.spoof) {
            let early = self.now + Duration::from_millis(1);
            let just = original.map_or(early, |at| Mono(at.0.saturating_sub(1_000)));
            let victims = self.wiretap.reflected.len() as u64;
            let victim = usize::try_from(self.dice.below(victims)).unwrap_or(0);
            if let Some(victim) = self.wiretap.reflected.keys().nth(victim).copied() {
                let flight = Flight { from: victim, to, data: data.to_vec() };
                self.fly(if self.spoof_early { early } else { just }, flight);
            }
        }
    }

    fn fly(&mut self, at: Mono, flight: Flight) {
        self.next_flight += 1;
        self.flights.insert((at, self.next_flight), flight);
    }

    /// The application hears what the node has to say.
    fn heed(&mut self, index: NodeIndex) {
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return;
        };
        let mut outcomes = Vec::new();
        while let Some(event) = host.node.poll_event() {
            match event {
                Event::Outcome { key, outcome, id, .. } => {
                    host.writing.remove(&key);
                    outcomes.extend(host.waiting.remove(&key).map(|waiting| (waiting, outcome, id)));
                }
                event => host.events.push(event),
            }
        }
        for (waiting, outcome, id) in outcomes {
            let amnesia = self.hosts.get(&waiting.to).map_or(0, |host| host.amnesia);
            if outcome == Outcome::Unknown && id.is_some_and(|id| id.r.0 < amnesia) {
                self.ledger.excuse(waiting.number);
            }
            self.ledger.outcome(waiting.number, outcome);
        }
    }
}
