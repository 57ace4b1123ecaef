//! A course, for measuring how nodes use a link: two sides, one shared bottleneck in each direction, and pairs of
//! real nodes. Their applications send without end, or make calls and wait for replies. The course runs on virtual
//! time, so the results are exact, and a run is quick.

mod bottleneck;
mod end;

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::node::{Arrival, Config};
use exonet_proto::{Mono, Now, Wall};

use crate::Dice;
use bottleneck::Bottleneck;
pub use bottleneck::{Marks, Traffic, Way};
use end::{End, Work};
pub use end::{Latencies, PACKET, SIZE};

/// The start of virtual time.
const START: Mono = Mono(1_000_000_000_000);
/// The largest number of segments in one transmission, as drivers request it.
const SEGMENTS: usize = 64;

/// Pairs of nodes across two bottlenecks.
#[derive(Debug)]
pub struct Course {
    now: Mono,
    dice: Dice,
    /// The two directions: there, and back.
    ways: [Bottleneck; 2],
    ends: Vec<End>,
    timers: BTreeSet<(Mono, usize)>,
    flights: BTreeMap<(Mono, u64), Flight>,
    next_flight: u64,
    buffer: Vec<u8>,
    /// How late timers fire.
    pub slack: Duration,
    /// How long a node takes to wake up when a datagram arrives. Then it takes all datagrams that have arrived, and
    /// its application takes all messages.
    pub drowsiness: Duration,
}

/// A datagram in flight.
#[derive(Debug)]
struct Flight {
    from: usize,
    to: usize,
    ecn: u8,
    data: Vec<u8>,
}

/// A pair of nodes: the sender of a stream of messages, or the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(usize);

/// The direction in which the messages or calls of a pair go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Along the first direction of the course.
    There,
    /// Along the second.
    Back,
}

impl Course {
    /// Makes a course without nodes.
    pub fn new(seed: u64, there: Way, back: Way) -> Self {
        let way = |label, way| Bottleneck::new(way, Dice::derived(seed, &[label]));
        Self {
            now: START,
            dice: Dice::derived(seed, &[0]),
            ways: [way(1, there), way(2, back)],
            ends: Vec::new(),
            timers: BTreeSet::new(),
            flights: BTreeMap::new(),
            next_flight: 0,
            buffer: Vec::new(),
            slack: Duration::ZERO,
            drowsiness: Duration::ZERO,
        }
    }

    /// Adds a pair whose sender begins after `wait` to send messages of [`SIZE`] bytes, without end.
    pub fn bulk(&mut self, config: &Config, direction: Direction, wait: Duration) -> Pair {
        self.pair(config, direction, wait, Work::Bulk { open: 0 }, Work::Sink)
    }

    /// Adds a pair in which each end sends to the other, over one channel, like the sender of [`bulk`](Self::bulk).
    pub fn both(&mut self, config: &Config) -> Pair {
        self.pair(config, Direction::There, Duration::ZERO, Work::Bulk { open: 0 }, Work::Bulk { open: 0 })
    }

    /// Adds a pair with this many actors. Each makes one call after the other, with [`SIZE`] bytes, and waits for a
    /// reply of the same size.
    pub fn calls(&mut self, config: &Config, actors: u64) -> Pair {
        self.pair(config, Direction::There, Duration::ZERO, Work::caller(actors), Work::Server)
    }

    /// Adds a pair whose sender submits this many messages at once, of [`SIZE`] bytes each, to a peer that it has
    /// never met. With `calls` they are calls, and each reply has the same size.
    pub fn batch(&mut self, config: &Config, messages: u64, calls: bool) -> Pair {
        let batch = Work::Batch { left: messages, open: 0, calls };
        self.pair(config, Direction::There, Duration::ZERO, batch, Work::Sink)
    }

    /// Lets time pass until the sender of a [`batch`](Self::batch) has all outcomes, for `limit` at most. Returns
    /// when the other end took the last message, and when the sender had the last outcome.
    pub fn run_until_settled(&mut self, pair: Pair, limit: Duration) -> Option<(Duration, Duration)> {
        let (begun, until) = (self.now, self.now + limit);
        while self.now < until && self.ends.get(pair.0).is_some_and(|end| end.settled.is_none()) {
            self.run_for(Duration::from_millis(1));
        }
        let settled = self.ends.get(pair.0)?.settled?;
        let taken = self.ends.get(pair.0 + 1)?.taken?;
        Some((taken.since(begun), settled.since(begun)))
    }

    /// Adds a pair whose sender sends one message of [`SIZE`] bytes at each multiple of `every`, the first after
    /// `wait`.
    pub fn visits(&mut self, config: &Config, wait: Duration, every: Duration) -> Pair {
        let visitor = Work::Visitor { every, next: self.now + wait };
        self.pair(config, Direction::There, wait, visitor, Work::Sink)
    }

    fn pair(
        &mut self,
        config: &Config,
        direction: Direction,
        wait: Duration,
        first: Work,
        second: Work,
    ) -> Pair {
        let at = self.ends.len();
        let way = direction as usize;
        for (work, peer, way) in [(first, at + 1, way), (second, at, 1 - way)] {
            let address = address(self.ends.len());
            let secret = self.dice.bytes();
            self.ends.push(End::new(config.clone(), secret, address, peer, way, work, self.read()));
        }
        let peer = self.ends.get(at + 1).map(|end| (end.node.id(), end.address));
        if let (Some(peer), Some(end)) = (peer, self.ends.get_mut(at)) {
            end.peer_id = Some(peer);
        }
        self.set_timer(at, Some(self.now + wait));
        Pair(at)
    }

    fn read(&self) -> Now {
        Now { mono: self.now, wall: Wall(self.now.0) }
    }

    /// Changes one direction of the course from now on.
    pub fn set_way(&mut self, direction: Direction, way: Way) {
        if let Some(it) = self.ways.get_mut(direction as usize) {
            it.way = way;
        }
    }

    /// The traffic since the last call.
    pub fn take_traffic(&mut self, direction: Direction) -> Traffic {
        self.ways.get_mut(direction as usize).map(|it| std::mem::take(&mut it.traffic)).unwrap_or_default()
    }

    /// The number of messages from the pair's sender that the other end has taken since the last call.
    pub fn take_received(&mut self, pair: Pair) -> u64 {
        self.ends.get_mut(pair.0 + 1).map(|end| std::mem::take(&mut end.received)).unwrap_or_default()
    }

    /// The number of messages that the pair's sender has itself taken since the last call.
    pub fn take_returned(&mut self, pair: Pair) -> u64 {
        self.ends.get_mut(pair.0).map(|end| std::mem::take(&mut end.received)).unwrap_or_default()
    }

    /// The latencies of the calls that have ended since the last call of this function.
    pub fn take_latencies(&mut self, pair: Pair) -> Latencies {
        self.ends.get_mut(pair.0).map(|end| end.take_latencies()).unwrap_or_default()
    }

    /// The node that receives or answers.
    pub fn other_node(&self, pair: Pair) -> Option<&exonet_proto::node::Node> {
        self.ends.get(pair.0 + 1).map(|end| &end.node)
    }

    /// The node that sends or calls.
    pub fn node(&self, pair: Pair) -> Option<&exonet_proto::node::Node> {
        self.ends.get(pair.0).map(|end| &end.node)
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let timer = self.timers.first().map(|(at, _)| *at);
            let flight = self.flights.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = timer.into_iter().chain(flight).min().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(next);
            if flight == Some(next) {
                self.land();
            } else {
                self.ring();
            }
        }
        self.now = until;
    }

    fn land(&mut self) {
        let Some((_, Flight { from, to, ecn, data })) = self.flights.pop_first() else { return };
        let arrival = Arrival { remote: address(from), local_ip: None, ecn, pipe: None };
        let now = self.now;
        let Some(end) = self.ends.get_mut(to) else { return };
        end.inbox.push((arrival, data));
        let wake = (now + self.drowsiness).max(end.rests_until);
        if wake <= now {
            self.take_in(to);
            self.pump(to);
        } else {
            let wake = end.timer.map_or(wake, |timer| timer.min(wake));
            self.set_timer(to, Some(wake));
        }
    }

    fn take_in(&mut self, at: usize) {
        let now = self.read();
        let Some(end) = self.ends.get_mut(at) else { return };
        if end.inbox.is_empty() || now.mono < end.rests_until {
            return;
        }
        for (arrival, mut data) in end.inbox.drain(..) {
            end.node.handle_datagram(now, arrival, &mut data);
        }
        end.rests_until = now.mono + end.node.may_rest();
    }

    fn ring(&mut self) {
        let Some((_, at)) = self.timers.pop_first() else { return };
        self.take_in(at);
        let now = self.read();
        if let Some(end) = self.ends.get_mut(at) {
            end.timer = None;
            end.node.handle_timeout(now);
        }
        self.pump(at);
    }

    /// Runs the application of an end, and sends what results.
    fn pump(&mut self, at: usize) {
        let now = self.read();
        let Some(end) = self.ends.get_mut(at) else { return };
        end.work(now);
        let (to, way) = (end.peer, end.way);
        let Some(way) = self.ways.get_mut(way) else { return };
        while let Some(transmit) = end.node.poll_transmit(now, SEGMENTS, &mut self.buffer) {
            for datagram in self.buffer.chunks(transmit.segment.max(1)) {
                if let Some((arrives, ecn)) = way.pass(now.mono, datagram.len(), transmit.ecn) {
                    let flight = Flight { from: at, to, ecn, data: datagram.to_vec() };
                    self.flights.insert((arrives, self.next_flight), flight);
                    self.next_flight += 1;
                }
            }
        }
        let rested = (!end.inbox.is_empty()).then_some(end.rests_until);
        let due = end.node.poll_timeout().into_iter().chain(end.next_work()).chain(rested).min();
        let wake = due.map(|due| due.max(now.mono) + self.slack);
        self.set_timer(at, wake);
    }

    fn set_timer(&mut self, at: usize, wake: Option<Mono>) {
        let Some(end) = self.ends.get_mut(at) else { return };
        if let Some(old) = end.timer.take() {
            self.timers.remove(&(old, at));
        }
        end.timer = wake;
        if let Some(wake) = wake {
            self.timers.insert((wake, at));
        }
    }
}

fn address(end: usize) -> SocketAddr {
    let [_, _, high, low] = u32::try_from(end).unwrap_or(u32::MAX).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(10, 1, high, low), 7_000))
}
