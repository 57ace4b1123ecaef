//! Two hosts, the network, and the clock that drives them.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use exonet_proto::node::{Arrival, Event, IncomingBody, Node, Outcome, Outgoing, SendError};
use exonet_proto::{Mono, Now, Wall};

use crate::dice::Dice;
use crate::host::{Host, Memory};
use crate::link::Link;

/// One of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The sender.
    Alice,
    /// The receiver.
    Bob,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Alice => Self::Bob,
            Self::Bob => Self::Alice,
        }
    }

    fn address(self) -> SocketAddr {
        let last = match self {
            Self::Alice => 1,
            Self::Bob => 2,
        };
        SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 3_966))
    }
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) from: Side,
    pub(crate) left: Mono,
    /// When it arrives, unless it is lost.
    pub(crate) due: Mono,
    pub(crate) data: Bytes,
    /// The network loses it on the way.
    pub(crate) lost: bool,
    /// It is an old packet that was recorded and is sent again.
    pub(crate) replayed: bool,
}

/// Counts of what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that Alice's application has sent.
    pub sent: u64,
    /// Messages that Bob's application has taken.
    pub taken: u64,
    /// Taken messages that Bob's application had already.
    pub duplicates: u64,
    /// Outcomes Delivered that Alice's application was told.
    pub delivered: u64,
    /// Outcomes Unknown.
    pub unknown: u64,
    /// Outcomes Expired.
    pub expired: u64,
    /// Outcomes Cancelled or Refused.
    pub not_delivered: u64,
    /// Messages that Alice had when her process lost its memory: their outcomes are not reported.
    pub forgotten: u64,
    /// Packets that either node has sent.
    pub packets: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Copies that the network made.
    pub copies: u64,
    /// Old packets that were sent again.
    pub replayed: u64,
}

/// The number of old packets that are kept for replays.
const HISTORY: usize = 4_000;
/// How long a killed process is down.
const GONE: Duration = Duration::from_millis(1_000);
/// Replayed packets arrive within this time, in nanoseconds.
const REPLAY: u64 = 1_500_000_000;
const BODY: usize = 160;
/// The start of the clock: late enough that no time in the core's past is before zero.
pub(crate) const BEGINNING: Mono = Mono(1_000_000_000);
/// 2027.
const EPOCH: u64 = 1_800_000_000_000_000_000;

/// Alice, Bob, and the network between them.
#[derive(Debug)]
pub struct World {
    pub(crate) now: Mono,
    dice: Dice,
    pub(crate) alice: Host,
    pub(crate) bob: Host,
    /// The properties of the network from now on.
    pub link: Link,
    /// Whether the network is cut.
    pub cut: bool,
    pub(crate) flights: BTreeMap<(Mono, u64), Flight>,
    next: u64,
    history: VecDeque<(Side, Bytes)>,
    taken: BTreeSet<u64>,
    counts: Counts,
    buffer: Vec<u8>,
    pub(crate) report: String,
}

const fn clocks(mono: Mono) -> Now {
    Now { mono, wall: Wall(EPOCH + mono.0) }
}

impl World {
    /// Two fresh nodes that know each other's addresses.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let now = BEGINNING;
        let mut host = || Host::new(dice.bytes(), dice.bytes(), clocks(now));
        let (alice, bob) = (host(), host());
        Self {
            now,
            alice,
            bob,
            dice,
            link: Link::default(),
            cut: false,
            flights: BTreeMap::new(),
            next: 0,
            history: VecDeque::new(),
            taken: BTreeSet::new(),
            counts: Counts::default(),
            buffer: Vec::new(),
            report: String::new(),
        }
    }

    /// The counts so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The number of Alice's messages without an outcome.
    pub fn open(&self) -> usize {
        self.alice.node.as_ref().map_or(0, |node| node.open_messages().len())
    }

    pub(crate) const fn host(&self, side: Side) -> &Host {
        match side {
            Side::Alice => &self.alice,
            Side::Bob => &self.bob,
        }
    }

    const fn host_mut(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Alice => &mut self.alice,
            Side::Bob => &mut self.bob,
        }
    }

    /// Alice sends messages. Returns the number that her node accepted, which is zero while her process is dead.
    pub fn send(&mut self, count: u32, deadline: Option<Duration>) -> u32 {
        let deadline = deadline.map(|after| self.now + after);
        let (bob, now) = (self.bob.id, clocks(self.now));
        let mut accepted = 0;
        while accepted < count
            && let Some(node) = &mut self.alice.node
        {
            let mut body = vec![0; BODY];
            body.splice(..8, self.counts.sent.to_be_bytes());
            let message = Outgoing { body: body.into(), deadline, ..Outgoing::default() };
            let sent: Result<_, SendError> = node.send(now, bob, &[Side::Bob.address()], message);
            if sent.is_err() {
                break;
            }
            self.counts.sent += 1;
            accepted += 1;
        }
        self.pump(Side::Alice);
        accepted
    }

    /// The process of a node is killed, and starts again a second later.
    pub fn kill(&mut self, side: Side, leaves: Memory) {
        let again = self.now + GONE;
        if side == Side::Alice && leaves == Memory::Nothing {
            self.counts.forgotten += self.open() as u64;
        }
        self.host_mut(side).kill(leaves, again);
    }

    /// Sends `count` old packets again; returns how many there were.
    pub fn replay(&mut self, count: u32) -> u32 {
        let mut replayed = 0;
        while replayed < count {
            let pick = usize::try_from(self.dice.below(self.history.len() as u64)).unwrap_or(0);
            let Some((from, data)) = self.history.get(pick).cloned() else { break };
            let left = self.now + Duration::from_nanos(self.dice.below(REPLAY));
            let due = left + self.link.delay;
            self.fly(Flight { from, left, due, data, lost: false, replayed: true });
            replayed += 1;
        }
        self.counts.replayed += u64::from(replayed);
        replayed
    }

    /// Lets the world run for `span`.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.next_event().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let arrives = self.flights.first_entry().filter(|flight| flight.key().0 <= self.now);
            if let Some(flight) = arrives.map(|flight| flight.remove()) {
                self.arrive(&flight);
            } else {
                self.due(Side::Alice);
                self.due(Side::Bob);
            }
        }
        self.now = until;
    }

    fn next_event(&self) -> Option<Mono> {
        let flight = self.flights.first_key_value().map(|((at, _), _)| *at);
        let hosts = [&self.alice, &self.bob].map(|host| match &host.node {
            Some(node) => node.poll_timeout(),
            None => host.starts,
        });
        hosts.into_iter().chain([flight]).flatten().min()
    }

    fn due(&mut self, side: Side) {
        let (at, seed) = (self.now, self.dice.bytes());
        let host = self.host_mut(side);
        match &mut host.node {
            Some(node) if node.poll_timeout().is_some_and(|due| due <= at) => node.handle_timeout(clocks(at)),
            None if host.starts.is_some_and(|starts| starts <= at) => host.start(seed, clocks(at)),
            _ => return,
        }
        self.pump(side);
    }

    fn arrive(&mut self, flight: &Flight) {
        if flight.lost {
            return;
        }
        let (to, now) = (flight.from.other(), clocks(self.now));
        let arrival = Arrival { remote: flight.from.address(), local_ip: None, ecn: 0, pipe: None };
        if let Some(node) = &mut self.host_mut(to).node {
            node.handle_datagram(now, arrival, &mut flight.data.to_vec());
            self.pump(to);
        }
    }

    /// Does everything that a driver does after a call.
    fn pump(&mut self, side: Side) {
        let now = clocks(self.now);
        let Some(mut node) = self.host_mut(side).node.take() else { return };
        loop {
            while let Some(batch) = node.poll_persist() {
                let lsn = batch.lsn;
                self.host_mut(side).keep(batch);
                node.handle_persisted(now, lsn);
            }
            self.append(side, &mut node);
            while let Some(incoming) = node.recv(now) {
                if let IncomingBody::Whole(body) = &incoming.body {
                    self.take(body);
                }
            }
            self.append(side, &mut node);
            self.heed(&mut node);
            if !self.transmit(side, &mut node) {
                break;
            }
        }
        self.host_mut(side).node = Some(node);
    }

    fn append(&mut self, side: Side, node: &mut Node) {
        let now = clocks(self.now);
        self.host_mut(side).journal.append(node, now);
    }

    /// Bob's application gets a message.
    fn take(&mut self, body: &Bytes) {
        let number = body.first_chunk().map(|number| u64::from_be_bytes(*number));
        self.counts.taken += 1;
        if !number.is_some_and(|number| self.taken.insert(number)) {
            self.counts.duplicates += 1;
        }
    }

    /// Alice's application is told the outcomes of its messages.
    fn heed(&mut self, node: &mut Node) {
        while let Some(event) = node.poll_event() {
            let Event::Outcome { outcome, count, .. } = event else { continue };
            let counts = &mut self.counts;
            let counter = match outcome {
                Outcome::Delivered | Outcome::Processed { .. } => &mut counts.delivered,
                Outcome::Unknown => &mut counts.unknown,
                Outcome::Expired => &mut counts.expired,
                _ => &mut counts.not_delivered,
            };
            *counter += u64::from(count);
        }
    }

    fn transmit(&mut self, side: Side, node: &mut Node) -> bool {
        let mut progress = false;
        let mut buffer = core::mem::take(&mut self.buffer);
        while let Some(transmit) = node.poll_transmit(clocks(self.now), 16, &mut buffer) {
            progress = true;
            // A packet that leaves may depend on what was appended to make it.
            self.append(side, node);
            for data in buffer.chunks(transmit.segment.max(1)) {
                self.launch(side, Bytes::copy_from_slice(data));
            }
        }
        self.buffer = buffer;
        progress
    }

    /// A node sends a packet into the network.
    fn launch(&mut self, from: Side, data: Bytes) {
        self.counts.packets += 1;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((from, data.clone()));
        let lost = self.cut || self.dice.chance(self.link.loss);
        self.counts.lost += u64::from(lost);
        let copies = if !lost && self.dice.chance(self.link.duplicate) { 2 } else { 1 };
        self.counts.copies += copies - 1;
        for _ in 0..copies {
            let jitter = u64::try_from(self.link.jitter.as_nanos()).unwrap_or(0);
            let due = self.now + self.link.delay + Duration::from_nanos(self.dice.below(jitter));
            self.fly(Flight { from, left: self.now, due, data: data.clone(), lost, replayed: false });
        }
    }

    fn fly(&mut self, flight: Flight) {
        self.next += 1;
        self.flights.insert((flight.due, self.next), flight);
    }
}
