//! Nodes, links and the clock that drives them.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, Event, MessageKey, Node, Outgoing, SendError};
use exonet_proto::{Mono, NodeId, Now, Wall};

use crate::agenda::Agenda;
use crate::check::{self, Checks, Violation};
use crate::clock::EPOCH;
use crate::faults::Cut;
use crate::host::{Host, Waiting, Writing};
use crate::life::Running;
use crate::link::Link;
use crate::moving::Copy;
use crate::trace;
use crate::{Coverage, Dice, Disk, Ledger, LinkConfig, Trace, Wiretap, body};

/// A node of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(pub usize);

#[derive(Debug)]
struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    ecn: u8,
    data: Vec<u8>,
    /// The node that made it, and the step in which that node did so. None: no node made it.
    maker: Option<(usize, u64)>,
}

/// Many nodes of the real core on one virtual clock.
#[derive(Debug)]
pub struct World {
    pub(crate) now: Mono,
    seed: u64,
    dice: Dice,
    pub(crate) hosts: BTreeMap<usize, Host>,
    pub(crate) next_host: usize,
    /// When to call each host.
    agenda: Agenda,
    /// Hosts whose disks may have been changed from outside.
    pub(crate) changed_disks: Vec<NodeIndex>,
    /// The host that has or had each address.
    pub(crate) owners: BTreeMap<SocketAddr, usize>,
    links: BTreeMap<(usize, usize), Link>,
    default_link: LinkConfig,
    pub(crate) cuts: Vec<Cut>,
    /// The old states of moved identities that still run, at the machines that they left.
    pub(crate) copies: Vec<Copy>,
    /// Identities that died with their process.
    pub(crate) gone: Vec<NodeId>,
    flights: BTreeMap<(Mono, u64), Flight>,
    next_flight: u64,
    /// Datagrams that arrived at an address of an outsider: their sources and contents.
    pub(crate) mail: BTreeMap<SocketAddr, Vec<(SocketAddr, Vec<u8>)>>,
    /// The fate of every message.
    pub ledger: Ledger,
    pub(crate) next_message: u64,
    next_address: u16,
    /// How many datagrams left nodes, including lost ones.
    pub datagrams: u64,
    /// How many bytes these datagrams have.
    pub bytes: u64,
    /// Sees every datagram.
    pub wiretap: Wiretap,
    /// The probability that a copy of a datagram arrives from an address that belongs to no node.
    pub spoof: f64,
    /// Whether such copies arrive long before their originals, instead of just before.
    pub spoof_early: bool,
    buffer: Vec<u8>,
    pub(crate) checks: Checks,
    pub(crate) coverage: Coverage,
    /// The log of the run, for a caller that wants it.
    pub trace: Trace,
}

/// The start of virtual time.
const START: u64 = 1_000_000_000_000;
/// The network of the addresses that belong to no node.
const NOBODY: u8 = 192;

impl World {
    /// Makes a world whose links are like `link`, unless they are set otherwise.
    pub fn new(seed: u64, link: LinkConfig) -> Self {
        Self {
            now: Mono(START),
            seed,
            dice: Dice::new(seed),
            hosts: BTreeMap::new(),
            next_host: 0,
            agenda: Agenda::default(),
            changed_disks: Vec::new(),
            owners: BTreeMap::new(),
            links: BTreeMap::new(),
            default_link: link,
            cuts: Vec::new(),
            copies: Vec::new(),
            gone: Vec::new(),
            flights: BTreeMap::new(),
            next_flight: 0,
            mail: BTreeMap::new(),
            ledger: Ledger::default(),
            next_message: 0,
            next_address: 1,
            datagrams: 0,
            bytes: 0,
            wiretap: Wiretap::default(),
            spoof: 0.0,
            spoof_early: true,
            buffer: Vec::new(),
            checks: Checks::default(),
            coverage: Coverage::default(),
            trace: Trace::default(),
        }
    }

    /// Virtual time.
    pub fn now(&self) -> Mono {
        self.now
    }

    /// The current time on the node's own clocks.
    pub fn clock(&self, node: NodeIndex) -> Now {
        let world = Now { mono: self.now, wall: Wall(EPOCH + self.now.0) };
        self.hosts.get(&node.0).map_or(world, |host| host.life.clock.read(self.now))
    }

    /// The dice for what happens to this node at the current time.
    pub(crate) fn dice_of(&self, node: NodeIndex) -> Dice {
        Dice::derived(self.seed, &[1, node.0 as u64, self.now.0])
    }

    /// The world's dice, for workloads.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    // --- nodes ---

    /// Adds a node. With `stored`, it has a disk for its key and its clock, and can restart.
    pub fn add(&mut self, config: Config, stored: bool) -> NodeIndex {
        self.add_on(config, stored.then(Disk::default))
    }

    /// Adds a node with this disk. Without a disk, it is ephemeral.
    pub fn add_on(&mut self, config: Config, disk: Option<Disk>) -> NodeIndex {
        let secret = self.dice.bytes();
        self.add_with_key(config, secret, disk)
    }

    /// Like [`World::add_on`], with a key that another node may have as well.
    pub fn add_with_key(&mut self, config: Config, secret: [u8; 32], disk: Option<Disk>) -> NodeIndex {
        let index = self.next_host;
        self.next_host += 1;
        let now = self.clock(NodeIndex(index));
        let address = self.fresh_address();
        self.owners.insert(address, index);
        let boot = disk.as_ref().map_or(Boot::Ephemeral, Disk::boot);
        let node = Node::new(config.clone(), SecretKey::from_bytes(secret), boot, self.dice.bytes(), now);
        self.checks.settles(node.id(), index);
        self.hosts.insert(index, Host::new(node, secret, config, address, disk, self.now));
        self.pump(NodeIndex(index));
        NodeIndex(index)
    }

    /// Kills the node's process for good.
    pub fn remove(&mut self, node: NodeIndex) {
        if let Some(mut host) = self.hosts.remove(&node.0) {
            self.agenda.set(node.0, None);
            self.forget(node.0, &host.node);
            self.checks.leaves(&host.node.id());
            self.ledger.orphan(host.die());
            self.ledger.orphan(host.journaled.values().map(|(waiting, _)| waiting.number));
        }
    }

    pub(crate) fn fresh_address(&mut self) -> SocketAddr {
        let [hi, lo] = self.next_address.to_be_bytes();
        self.next_address += 1;
        SocketAddr::from((Ipv4Addr::new(10, 0, hi, lo), 7_000))
    }

    /// Adds an address without a node, whose traffic the wiretap counts.
    pub fn nobody(&mut self) -> SocketAddr {
        let [hi, lo] = self.next_address.to_be_bytes();
        self.next_address += 1;
        let address = SocketAddr::from((Ipv4Addr::new(NOBODY, 0, hi, lo), 7_000));
        self.wiretap.reflected.entry(address).or_default();
        address
    }

    /// Sets the link from `a` to `b`, in this direction only.
    pub fn set_link(&mut self, a: NodeIndex, b: NodeIndex, link: LinkConfig) {
        self.link(a.0, b.0).set(link);
    }

    pub(crate) fn link(&mut self, a: usize, b: usize) -> &mut Link {
        let (seed, link) = (self.seed, &self.default_link);
        let dice = || Dice::derived(seed, &[2, a as u64, b as u64]);
        self.links.entry((a, b)).or_insert_with(|| Link::new(link.clone(), dice()))
    }

    /// The id of a node.
    pub fn id(&self, node: NodeIndex) -> Option<NodeId> {
        self.hosts.get(&node.0).map(|host| host.node.id())
    }

    /// The current address of a node.
    pub fn address(&self, node: NodeIndex) -> Option<SocketAddr> {
        self.hosts.get(&node.0).map(|host| host.address)
    }

    /// The core of a node.
    pub fn node(&self, node: NodeIndex) -> Option<&Node> {
        self.hosts.get(&node.0).map(|host| &host.node)
    }

    /// How many datagrams a node has sent.
    pub fn sent_by(&self, node: NodeIndex) -> u64 {
        self.hosts.get(&node.0).map_or(0, |host| host.sent)
    }

    /// The events of a node since the last call, except for outcomes.
    pub fn events(&mut self, node: NodeIndex) -> Vec<Event> {
        self.hosts.get_mut(&node.0).map(|host| std::mem::take(&mut host.events)).unwrap_or_default()
    }

    /// Calls the core of a node as its application, and sends what results.
    pub fn with<T>(&mut self, node: NodeIndex, call: impl FnOnce(&mut Node, Now) -> T) -> Option<T> {
        // The application may name the address of any node.
        self.checks.addresses.chosen(node.0, self.hosts.values().map(|host| host.address));
        self.checks.touched.all = true;
        self.input(node, call)
    }

    /// Like [`World::with`], for calls that name no address.
    pub(crate) fn instruct<T>(
        &mut self,
        node: NodeIndex,
        call: impl FnOnce(&mut Node, Now) -> T,
    ) -> Option<T> {
        self.checks.touched.all = true;
        self.input(node, call)
    }

    fn input<T>(&mut self, node: NodeIndex, call: impl FnOnce(&mut Node, Now) -> T) -> Option<T> {
        let now = self.clock(node);
        let result = call(&mut self.hosts.get_mut(&node.0)?.node, now);
        self.pump(node);
        Some(result)
    }

    /// The guarantees that were broken so far.
    pub fn violations(&self) -> &[Violation] {
        self.ledger.violations()
    }

    /// The coverage of the run so far.
    pub fn coverage(&self) -> Coverage {
        self.hosts.values().fold(self.coverage, |sum, host| sum.with(host.node.counts()))
    }

    // --- messages ---

    /// Sends a message, which the ledger follows.
    ///
    /// # Errors
    /// The errors of the core's `send`.
    pub fn send(&mut self, from: NodeIndex, to: NodeIndex, size: usize) -> Result<u64, SendError> {
        self.send_as(from, to, size, Outgoing::default()).map(|(number, _)| number)
    }

    /// Like [`World::send`], with every property of a message except for its tag and its body.
    ///
    /// # Errors
    /// The errors of the core's `send`.
    pub fn send_as(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        size: usize,
        message: Outgoing,
    ) -> Result<(u64, MessageKey), SendError> {
        let (tag, body) = body::message(self.next_message, size);
        let message = Outgoing { tag, body, ..message };
        self.submit(from, to, false, |node, now, id, address| node.send(now, id, &[address], message))
    }

    /// Begins a message of `len` bytes, at least eight, which [`World::write`] writes. If `len` is odd, the node does
    /// not learn the length before the last byte has been written.
    ///
    /// # Errors
    /// The errors of the core's `send_stream`.
    pub fn send_stream(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        len: u64,
    ) -> Result<(u64, MessageKey), SendError> {
        let known = Some(len).filter(|len| len % 2 == 0);
        let sent = self.submit(from, to, false, |node, now, id, address| {
            node.send_stream(now, id, &[address], Outgoing::default(), known)
        })?;
        let (number, key) = sent;
        if let Some(host) = self.hosts.get_mut(&from.0) {
            host.writing.insert(
                key,
                Writing { number, at: 0, upto: 0, len: usize::try_from(len).unwrap_or(usize::MAX) },
            );
        }
        Ok(sent)
    }

    /// Makes the application write a streamed message up to at least `upto` bytes.
    pub fn write(&mut self, node: NodeIndex, key: MessageKey, upto: usize) {
        if let Some(writing) = self.hosts.get_mut(&node.0).and_then(|host| host.writing.get_mut(&key)) {
            writing.upto = writing.upto.max(upto);
        }
        self.pump(node);
    }

    pub(crate) fn submit(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        call: bool,
        send: impl FnOnce(&mut Node, Now, NodeId, SocketAddr) -> Result<MessageKey, SendError>,
    ) -> Result<(u64, MessageKey), SendError> {
        let (now, number) = (self.clock(from), self.next_message);
        let (id, address) = self.look_up(from, to).ok_or(SendError::Closed)?;
        let host = self.hosts.get_mut(&from.0).ok_or(SendError::Closed)?;
        let key = send(&mut host.node, now, id, address)?;
        self.next_message += 1;
        host.waiting.insert(key, Waiting { number, to: id, call });
        host.sent_at.insert(key, host.node.journal_end());
        self.ledger.sent(number, id, call);
        self.checks.touched.peers.insert(id);
        let verb = if call { "calls" } else { "sends" };
        self.trace.tell(self.now, from.0, format_args!("{verb} m{number} to n{}", to.0));
        self.pump(from);
        Ok((number, key))
    }

    /// Keeps the counts of a process that has ended.
    pub(crate) fn forget(&mut self, index: usize, node: &Node) {
        self.coverage = self.coverage.with(node.counts());
        self.checks.addresses.dies(index);
    }

    /// Delivers a datagram to `to` that no node has sent.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, data: Vec<u8>) {
        self.deliver(Flight { from, to, ecn: 0, data, maker: None });
    }

    /// Lets the world run for `within`. That must be long enough for all nodes to forget each other once the faults
    /// have ended and every message has its outcome. Returns true if the nodes have forgotten each other, and then
    /// send nothing for as long again; anything left is a violation.
    pub fn run_to_quiet(&mut self, within: Duration) -> bool {
        self.run_for(within);
        let (before, said) = (self.ledger.violations().len(), self.datagrams);
        let kept_alive = self.hosts.values().any(|host| host.config.keepalive.is_some());
        for host in self.hosts.values().filter(|host| !host.stopped) {
            check::quiet(host, kept_alive, &mut self.ledger);
        }
        // If no process uses a disk, its journal reports no outcomes.
        let down = self.hosts.values().flat_map(|host| host.journaled.values());
        self.ledger.orphan(down.map(|(waiting, _)| waiting.number));
        self.ledger.close();
        self.run_for(within);
        self.ledger.violations().len() == before && (kept_alive || self.datagrams == said)
    }

    // --- time ---

    /// Lets the world run for `span`.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.step(until) {}
        self.now = until;
    }

    /// Lets the world run until every message has an outcome, for `span` at most. Returns whether all messages have
    /// one.
    pub fn run_until_settled(&mut self, span: Duration) -> bool {
        let until = self.now + span;
        while self.ledger.open() > 0 {
            if !self.step(until) {
                return self.ledger.open() == 0;
            }
        }
        true
    }

    /// The time of the next event; None: there will be no more.
    pub fn next_event(&self) -> Option<Mono> {
        let flight = self.flights.first_key_value().map(|((at, _), _)| *at);
        let times = [flight, self.agenda.first().map(|(at, _)| at)];
        times.into_iter().flatten().min().filter(|at| *at < Mono::NEVER)
    }

    /// When the last datagram in flight arrives.
    pub(crate) fn last_flight(&self) -> Option<Mono> {
        self.flights.last_key_value().map(|((at, _), _)| *at)
    }

    /// Handles the next event that happens by `until`. Returns false when there is none.
    pub(crate) fn step(&mut self, until: Mono) -> bool {
        for node in std::mem::take(&mut self.changed_disks) {
            self.reschedule(node);
        }
        let Some(at) = self.next_event().filter(|at| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        match self.flights.first_entry().filter(|flight| flight.key().0 == at) {
            Some(flight) => {
                let flight = flight.remove();
                self.deliver(flight);
            }
            None => {
                if let Some((_, host)) = self.agenda.first() {
                    self.due(NodeIndex(host));
                }
            }
        }
        true
    }

    /// Calls a host that is due: its disk has finished a write, or its node has asked to be called now.
    fn due(&mut self, index: NodeIndex) {
        let writes = self.hosts.get(&index.0).and_then(Host::writes_until);
        let persists = self.hosts.get(&index.0).and_then(|host| host.persisting.as_ref());
        if writes.is_some_and(|at| at <= self.now) && persists.is_some_and(|(at, _)| *at <= self.now) {
            self.written(index);
        } else if writes.is_some_and(|at| at <= self.now) {
            self.appended(index);
        } else {
            self.timeout(index);
        }
    }

    /// Schedules the next call of a host: when its disk has finished a write, or when its node asks for it. A host
    /// that does not run is not called.
    pub(crate) fn reschedule(&mut self, index: NodeIndex) {
        let host = self.hosts.get(&index.0);
        let due = host.and_then(|host| {
            let own = [host.node.poll_timeout(), host.desk.next()].into_iter().flatten().min();
            let timer = own.map(|at| host.life.clock.reaches(at));
            host.life.does([timer, host.writes_until()].into_iter().flatten().min())
        });
        self.agenda.set(index.0, due);
    }

    /// Makes sure that the host is never called again.
    pub(crate) fn forget_timer(&mut self, host: usize) {
        self.agenda.set(host, None);
    }

    pub(crate) fn timeout(&mut self, index: NodeIndex) {
        let now = self.clock(index);
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return;
        };
        host.node.handle_timeout(now);
        self.pump(index);
    }

    fn deliver(&mut self, mut flight: Flight) {
        let Some(index) = self.owners.get(&flight.to).copied() else {
            return;
        };
        if let Some(mail) = self.mail.get_mut(&flight.to) {
            if let Some((maker, _)) = flight.maker {
                self.checks.addresses.heard(maker, index, flight.to, self.ledger.steps());
            }
            mail.push((flight.from, flight.data));
            return;
        }
        let from = self.owners.get(&flight.from).copied();
        let is_old = flight.maker.is_some_and(|(_, made)| self.is_too_old_for(made, index));
        if is_old || from.is_some_and(|from| self.is_kept_from(from, index)) {
            return;
        }
        let Some(host) = self.hosts.get(&index).filter(|host| host.address == flight.to) else {
            return;
        };
        match host.life.running {
            Running::Still { until, hears: true } if until > self.now => return self.fly(until, flight),
            _ if !host.life.is_up(self.now) => return,
            _ => {}
        }
        if host.life.nat.as_ref().is_some_and(|nat| !nat.admits(self.now, &flight.from)) {
            return;
        }
        if let Some(reflected) = self.wiretap.reflected.get_mut(&flight.from) {
            reflected.taken += flight.data.len() as u64;
        }
        self.checks.addresses.taken(index, flight.from, flight.data.len() as u64, flight.maker);
        if let Some((maker, made)) = flight.maker {
            self.coverage.reordered += u64::from(self.checks.is_reordered(index, (maker, made)));
            self.checks.addresses.heard(maker, index, flight.to, self.ledger.steps() + 1);
        }
        self.touches(flight.from);
        if self.trace.is_on() {
            let (kind, len) = (trace::kind(&flight.data), flight.data.len());
            let from = self.owners.get(&flight.from).copied().unwrap_or(usize::MAX);
            self.trace.tell(self.now, index, format_args!("gets {kind} of {len} from n{from}"));
        }
        let arrival = Arrival { remote: flight.from, local_ip: None, ecn: flight.ecn, pipe: None };
        self.input(NodeIndex(index), |node, now| node.handle_datagram(now, arrival, &mut flight.data));
    }

    /// Notes that the step concerns the host at this address.
    pub(crate) fn touches(&mut self, address: SocketAddr) {
        match self.owners.get(&address) {
            Some(owner) => {
                let peer = self.hosts.get(owner).map(|host| host.node.id());
                self.checks.touched.peers.extend(peer);
            }
            None => self.checks.touched.all = true,
        }
    }

    /// Does everything that a driver does after a call, and runs the checkers.
    pub(crate) fn pump(&mut self, index: NodeIndex) {
        self.ledger.step(self.now);
        let now = self.clock(index);
        if let Some(host) = self.hosts.get_mut(&index.0).filter(|host| host.life.is_up(self.now)) {
            host.life.running = Running::Up;
            host.audit_in = host.audit_in.saturating_sub(1);
            while self.pump_once(index, now) {}
        }
        self.reschedule(index);
        self.checks.look(index.0, &self.hosts, &mut self.ledger);
        if let Some(host) = self.hosts.get_mut(&index.0).filter(|host| host.audit_in == 0) {
            check::audit(host, &mut self.ledger);
        }
    }

    /// Returns whether there may be more to do.
    fn pump_once(&mut self, index: NodeIndex, now: Now) -> bool {
        let Some(host) = self.hosts.get_mut(&index.0) else {
            return false;
        };
        if let (Some(batch), Some(disk)) = (host.node.poll_persist(), &host.disk) {
            host.persisting = Some(disk.begin(self.now, batch, &mut host.dice));
            if disk.is_instant() {
                self.persisted(index);
                return true;
            }
        }
        host.append(self.now, now, &mut self.coverage);
        host.application(now, &mut self.ledger);
        host.append(self.now, now, &mut self.coverage);
        for number in host.took.drain(..) {
            self.trace.tell(self.now, index.0, format_args!("takes {}", Named(number)));
        }
        let progress = self.transmit(index, now);
        // A peer with nothing left to send was removed, and its record may be gone.
        if let Some(host) = self.hosts.get_mut(&index.0) {
            host.append(self.now, now, &mut self.coverage);
        }
        self.note_evictions(index);
        self.heed(index);
        progress
    }

    /// Notes that a peer which a node has forgotten, in any call or poll, concerns another host.
    fn note_evictions(&mut self, index: NodeIndex) {
        let Some(host) = self.hosts.get_mut(&index.0) else { return };
        let evictions = host.node.counts().evictions;
        if evictions > std::mem::replace(&mut host.evictions, evictions) {
            self.checks.touched.all = true;
        }
    }

    fn transmit(&mut self, index: NodeIndex, now: Now) -> bool {
        let mut progress = false;
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(host) = self.hosts.get_mut(&index.0)
            && let Some(transmit) = host.node.poll_transmit(now, 16, &mut buffer)
        {
            progress = true;
            // A datagram that leaves may depend on what was appended to the journal to make it.
            host.append(self.now, now, &mut self.coverage);
            let forgotten = host.life.nat.as_mut().is_some_and(|nat| nat.passes(self.now, transmit.remote));
            if forgotten {
                host.address.set_port(host.address.port() + 1);
                self.owners.insert(host.address, index.0);
            }
            // A node sends these answers even to senders that it does not know.
            if !matches!(trace::kind(&buffer), "reset" | "retry" | "version") {
                host.spoke.insert(transmit.remote, self.now);
            }
            let (from, id) = (host.address, host.node.id());
            let receiver = self.owners.get(&transmit.remote).copied();
            for data in buffer.chunks(transmit.segment) {
                host.sent += 1;
                self.datagrams += 1;
                self.bytes += data.len() as u64;
                self.wiretap.sees(self.now, from, transmit.remote, data);
                let bytes = data.len() as u64;
                let reused = self.checks.keys.sees((index.0, id), receiver, data);
                let amplified = self.checks.addresses.given(index.0, id, transmit.remote, bytes);
                reused.into_iter().chain(amplified).for_each(|breach| self.ledger.report(breach));
            }
            self.touches(transmit.remote);
            for data in buffer.chunks(transmit.segment) {
                self.launch(index.0, from, (transmit.remote, transmit.ecn), data);
            }
        }
        self.buffer = buffer;
        progress
    }

    pub(crate) fn launch(
        &mut self,
        index: usize,
        from: SocketAddr,
        (to, ecn): (SocketAddr, u8),
        data: &[u8],
    ) {
        let Some(target) = self.owners.get(&to).copied() else {
            return;
        };
        let cut = self.cuts.iter().any(|cut| cut.stops(index, target)) || self.is_kept_from(index, target);
        let now = self.now;
        let fate = if cut { Vec::new() } else { self.link(index, target).fate(now, data.len() as u64) };
        if self.trace.is_on() {
            let (kind, len, copies) = (trace::kind(data), data.len(), fate.len());
            let trace = &mut self.trace;
            trace.tell(
                self.now,
                index,
                format_args!("says {kind} of {len} to n{target}, {copies} will arrive"),
            );
        }
        self.coverage.note_fate(&fate);
        let maker = (index, self.ledger.steps());
        let original = fate.first().map(|copy| copy.at);
        for copy in fate {
            let mut data = data.to_vec();
            if let Some(bit) = copy.flipped
                && let Some(byte) = usize::try_from(bit / 8).ok().and_then(|at| data.get_mut(at))
            {
                *byte ^= 1 << (bit % 8);
            }
            let maker = copy.flipped.is_none().then_some(maker);
            self.fly(copy.at, Flight { from, to, ecn, data, maker });
        }
        if self.dice.chance(self.spoof) {
            let early = self.now + Duration::from_millis(1);
            let just = original.map_or(early, |at| Mono(at.0.saturating_sub(1_000)));
            let victims = self.wiretap.reflected.len() as u64;
            let victim = usize::try_from(self.dice.below(victims)).unwrap_or(0);
            if let Some(victim) = self.wiretap.reflected.keys().nth(victim).copied() {
                // The false source address does not change what the maker knew when it made the datagram.
                let flight = Flight { from: victim, to, ecn, data: data.to_vec(), maker: Some(maker) };
                self.fly(if self.spoof_early { early } else { just }, flight);
            }
        }
    }

    fn fly(&mut self, at: Mono, flight: Flight) {
        self.next_flight += 1;
        self.flights.insert((at, self.next_flight), flight);
    }
}

/// A message, as the trace names it.
struct Named(Option<u64>);

impl core::fmt::Display for Named {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(number) => write!(f, "m{number}"),
            None => f.write_str("what nobody sent"),
        }
    }
}
