//! Rules whose bounds a test cannot reach by sending alone, or that only the internal state of a node shows.

mod bounds;
mod bundling;
mod callers;
mod calls;
mod ending;
mod filling;
mod flow;
mod following;
mod giving_up;
mod journaling;
mod judging;
mod keys;
mod memory;
mod openings;
mod past;
mod paths;
mod pipes;
mod playing;
mod receiving;
mod refusals;
mod resets;
mod restart;
mod scheduling;
mod sending;
mod silence;
mod stamping;
mod streams;
mod together;
mod tracing;
mod twins;
mod unmeasured;
mod voids;
mod waiting;
mod withdrawing;

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::channel::Fate;
use crate::channel::PacketInfo;
use crate::crypto::SecretKey;
use crate::id::{Incarnation, Slot};
use crate::peer::epoch::Carried;
use crate::peer::inbound::{Inbound, Taken};
use crate::peer::{Context, Peer};
use crate::time::{Mono, Now, Wall};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn address(end: usize) -> SocketAddr {
    ([127, 0, 0, 1], 1 + u16::try_from(end).unwrap()).into()
}

fn arrival(end: usize) -> Arrival {
    Arrival { remote: address(end), local_ip: None, ecn: 0, pipe: None }
}

/// Bytes of a message of `total` bytes arrive, from `offset` on. There is memory for any amount.
fn take_part(
    inbound: &mut Inbound,
    (s, r): (Slot, Incarnation),
    total: u64,
    offset: u64,
    data: &[u8],
    limits: &Limits,
) -> Taken {
    let ends = offset + data.len() as u64 == total;
    let part = crate::wire::Part { s, total: Some(total), offset, data, ends };
    inbound.on_part(r, &part, limits, u64::MAX, &mut crate::message::arena::Arena::default())
}

/// Two nodes connected without delay: `ends[0]` has the smaller id.
struct Pair {
    ends: [Node; 2],
    now: Now,
    /// The largest datagram so far.
    largest: usize,
    /// The system refuses datagrams larger than this.
    takes: usize,
    /// The datagrams to the other end, by sender, while the sender is cut off.
    withheld: [Option<Vec<Vec<u8>>>; 2],
    /// The events of `ends[0]`.
    events: Vec<Event>,
}

impl Pair {
    fn new(configs: [Config; 2]) -> Self {
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(0) };
        let mut keys = [1, 2].map(|seed| SecretKey::from_bytes([seed; 32]));
        if keys[0].node_id() > keys[1].node_id() {
            keys.swap(0, 1);
        }
        let [a, b] = keys;
        let [for_a, for_b] = configs;
        let ends = [
            Node::new(for_a, a, Boot::Ephemeral, [1; 32], now),
            Node::new(for_b, b, Boot::Ephemeral, [2; 32], now),
        ];
        Self { ends, now, largest: 0, takes: usize::MAX, withheld: [None, None], events: Vec::new() }
    }

    fn open() -> Self {
        Self::new([config(), config()])
    }

    fn send_as(&mut self, from: usize, size: usize, priority: Priority) -> MessageKey {
        let (id, at) = (self.ends[1 - from].id(), address(1 - from));
        let message = Outgoing { body: Bytes::from(vec![7; size]), priority, ..Outgoing::default() };
        self.ends[from].send(self.now, id, &[at], message).unwrap()
    }

    fn send(&mut self, from: usize, size: usize) -> MessageKey {
        self.send_as(from, size, Priority::Normal)
    }

    /// An empty call from `from`.
    fn call(&mut self, from: usize) -> MessageKey {
        let (id, at) = (self.ends[1 - from].id(), address(1 - from));
        self.ends[from].call(self.now, id, &[at], Outgoing::default()).unwrap()
    }

    /// Delivers everything that is ready, until nothing is.
    fn pump(&mut self) {
        let mut buffer = Vec::new();
        loop {
            let mut busy = false;
            for from in 0..2 {
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, 16, &mut buffer) {
                    busy = true;
                    if transmit.segment > self.takes {
                        self.ends[from].handle_refused(self.now);
                        continue;
                    }
                    for datagram in buffer.chunks_mut(transmit.segment) {
                        self.largest = self.largest.max(datagram.len());
                        if let Some(withheld) = &mut self.withheld[from] {
                            withheld.push(datagram.to_vec());
                            continue;
                        }
                        let arrival = Arrival { ecn: transmit.ecn, ..arrival(from) };
                        self.ends[1 - from].handle_datagram(self.now, arrival, datagram);
                    }
                }
            }
            self.events.extend(core::iter::from_fn(|| self.ends[0].poll_event()));
            if !busy {
                return;
            }
        }
    }

    /// Time passes; the receivers take nothing.
    fn pass(&mut self, span: Duration) {
        let until = self.now.mono + span;
        self.pump();
        while let Some(at) = self.ends.iter().filter_map(Node::poll_timeout).min().filter(|at| *at <= until) {
            self.now.mono = self.now.mono.max(at);
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|at| at <= self.now.mono) {
                    end.handle_timeout(self.now);
                }
            }
            self.pump();
        }
        self.now.mono = until;
    }

    /// A message goes from `from` and is taken. Afterwards there is a channel, which `from` has begun if there was none.
    fn talk(&mut self, from: usize) {
        self.send(from, 100);
        self.pass(SECOND);
        assert!(self.ends[1 - from].recv(self.now).is_some());
        self.pass(SECOND);
    }

    /// Calls `act` for the peer of an end.
    fn with<T>(&mut self, end: usize, act: impl FnOnce(&mut Peer, &mut Context, Now) -> T) -> T {
        let now = self.now;
        let (peer, cx) = self.ends[end].at(0).unwrap();
        act(peer, cx, now)
    }

    /// Reports fates of what it sent to an end.
    fn apply(&mut self, end: usize, fates: &mut Vec<(Carried, Fate)>) {
        self.with(end, |peer, cx, now| peer.apply(cx, now, fates));
    }

    fn peer(&mut self, end: usize) -> &mut Peer {
        self.ends[end].peers.get_mut(0).unwrap()
    }

    /// From now on, the datagrams of `from` are withheld.
    fn cut(&mut self, from: usize) {
        self.withheld[from] = Some(Vec::new());
    }

    /// Ends the cut of `from`. Returns the datagrams withheld since.
    fn mend(&mut self, from: usize) -> Vec<Vec<u8>> {
        self.withheld[from].take().unwrap_or_default()
    }

    /// Delivers a datagram that comes from the address of `from`.
    fn deliver(&mut self, to: usize, from: usize, datagram: &[u8]) {
        self.ends[to].handle_datagram(self.now, arrival(from), &mut datagram.to_vec());
    }

    /// The datagrams that `end` sends now, with their destinations.
    fn says(&mut self, end: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let (now, mut buffer, mut said) = (self.now, Vec::new(), Vec::new());
        while let Some(transmit) = self.ends[end].poll_transmit(now, 16, &mut buffer) {
            said.extend(buffer.chunks(transmit.segment).map(|one| (transmit.remote, one.to_vec())));
        }
        said
    }

    fn touch(&mut self, end: usize) {
        self.ends[end].touch(0);
    }

    /// Replaces `end` by another process with the same key, whose clock is far ahead.
    fn restart(&mut self, end: usize, config: Config) {
        let key = SecretKey::from_bytes(self.ends[end].cx.key.expose().to_owned());
        let life = self.ends[end].cx.life.as_ref().map_or(0, crate::opening::life::Life::number);
        let clock = if life == 0 { 1 << 40 } else { self.ends[end].cx.clock.limit().0 };
        let mut node = Node::new(
            config,
            key,
            Boot::Stored {
                clock,
                life,
                latest: crate::id::Stamp::NONE,
                strays: Vec::new(),
                notes: None,
                journal: None,
            },
            [9; 32],
            self.now,
        );
        let batch = node.poll_persist().unwrap();
        node.handle_persisted(self.now, batch.lsn);
        self.ends[end] = node;
    }

    /// Outcomes at `ends[0]`, and whether they were late.
    fn outcomes(&self) -> Vec<(MessageKey, Outcome, bool)> {
        let outcome = |event: &Event| match event {
            Event::Outcome { key, outcome, late, .. } => Some((*key, *outcome, *late)),
            _ => None,
        };
        self.events.iter().filter_map(outcome).collect()
    }

    fn epoch(&mut self, end: usize) -> &mut crate::peer::epoch::Epoch {
        self.peer(end).link.current.as_deref_mut().unwrap()
    }

    fn handshakes(&self, end: usize) -> u64 {
        self.ends[end].counts().handshakes
    }

    /// `end` renews its keys now.
    fn renew(&mut self, end: usize) {
        self.peer(end).link.reopen = true;
        self.touch(end);
        self.pump();
    }
}

fn config() -> Config {
    Config { early: false, max_loopback_datagram: 0, ..Config::new(Policy::Anyone) }
}

fn limited(limits: Limits) -> Config {
    Config { limits, ..config() }
}

/// A receiving direction whose record has `n` slots, after its STATE has been sent.
fn granted(n: u64, limits: &Limits) -> (Inbound, crate::half::Clock, crate::Incarnation) {
    let (mut inbound, mut clock) = (Inbound::new(Mono(0)), crate::half::Clock::ephemeral());
    let ask = crate::half::Ask { s: Slot(0), n, l: Slot(0), ts: crate::id::Stamp::NONE };
    let _ = inbound.on_ask(Mono(0), &mut clock, limits, ask);
    inbound.state_sent();
    let r = inbound.receiver.as_ref().unwrap().incarnation();
    (inbound, clock, r)
}
