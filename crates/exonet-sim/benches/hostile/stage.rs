//! A victim, a friend that talks to it, and impostors; joined by memory, on a clock that is moved by hand.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, Event, Node, Outgoing, Policy};
use exonet_proto::wire::{Ask, Params};
use exonet_proto::{Mono, NodeId, Now, Slot, Stamp, Wall};
use exonet_sim::Dice;
use exonet_sim::hostile::{Impostor, Said};

/// Slots that an impostor has from the start: as many as a node grants.
pub const SLOTS: u64 = 32_768;
/// Bytes of a message between friends.
const FRIENDLY: usize = 1_000;

pub struct Stage {
    pub victim: Node,
    pub victim_at: SocketAddr,
    friend: Node,
    friend_at: SocketAddr,
    pub dice: Dice,
    now: Mono,
    /// The victim's application takes what arrives.
    pub reads: bool,
    /// Time that the victim has worked, and what for: datagrams.
    pub worked: Duration,
    pub handled: u64,
    buffer: Vec<u8>,
    /// Datagrams of the victim to the friend, and to anybody else.
    to_friend: Vec<Vec<u8>>,
    pub elsewhere: Vec<(SocketAddr, Vec<u8>)>,
}

/// An impostor whose channel stands, with slots.
pub struct Foe {
    pub it: Impostor,
    pub at: SocketAddr,
    /// Its incarnation there, as it travels.
    pub r: u64,
}

/// An address of which there are as many as one likes, each in another network.
pub fn address(i: u32) -> SocketAddr {
    let [_, a, b, c] = i.to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(100 + a, b, c, 1), 9_000))
}

impl Stage {
    pub fn new() -> Self {
        let now = Mono(1_000_000_000_000);
        let node = |seed: u8| {
            let mut config = Config::new(Policy::Anyone);
            // What an opening costs is to be seen, not what is refused.
            config.limits.openings_per_second = u32::MAX;
            let time = Now { mono: now, wall: Wall(0) };
            Node::new(config, SecretKey::from_bytes([seed; 32]), Boot::Ephemeral, [seed; 32], time)
        };
        Self {
            victim: node(1),
            victim_at: SocketAddr::from(([10, 0, 0, 1], 7_000)),
            friend: node(2),
            friend_at: SocketAddr::from(([10, 0, 1, 1], 7_000)),
            dice: Dice::new(7),
            now,
            reads: true,
            worked: Duration::ZERO,
            handled: 0,
            buffer: Vec::new(),
            to_friend: Vec::new(),
            elsewhere: Vec::new(),
        }
    }

    pub fn id(&self) -> NodeId {
        self.victim.id()
    }

    pub fn now(&self) -> Now {
        Now { mono: self.now, wall: Wall(0) }
    }

    pub fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// A datagram reaches the victim, which does all that comes of it. The clock of the figures runs meanwhile.
    pub fn reach(&mut self, from: SocketAddr, datagram: &mut [u8]) {
        let (now, begun) = (self.now(), Instant::now());
        let arrival = Arrival { remote: from, local_ip: None, ecn: 0, pipe: None };
        self.victim.handle_datagram(now, arrival, datagram);
        self.settle(now);
        self.worked += begun.elapsed();
        self.handled += 1;
    }

    fn settle(&mut self, now: Now) {
        if self.victim.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.victim.handle_timeout(now);
        }
        while self.reads && self.victim.recv(now).is_some() {}
        while let Some(transmit) = self.victim.poll_transmit(now, 64, &mut self.buffer) {
            for datagram in self.buffer.chunks(transmit.segment) {
                if transmit.remote == self.friend_at {
                    self.to_friend.push(datagram.to_vec());
                } else if self.elsewhere.len() < 16 {
                    self.elsewhere.push((transmit.remote, datagram.to_vec()));
                }
            }
        }
        while self.victim.poll_event().is_some() {}
    }

    /// An impostor with a channel, confirmed, with all the slots that there are.
    pub fn foe(&mut self, at: SocketAddr, params: Params) -> Foe {
        let mut it = Impostor::new(self.id(), &mut self.dice);
        let opening = it.open(params, |writer| {
            writer.ask(Ask { s: Slot(0), n: SLOTS, l: Slot(0), ts: Stamp::NONE });
        });
        self.elsewhere.clear();
        self.reach(at, &mut opening.unwrap_or_default());
        let mut r = 0;
        for (_, datagram) in std::mem::take(&mut self.elsewhere) {
            for said in it.hear(&datagram) {
                if let Said::State(_, live, Some(_)) = said {
                    r = live.0.wrapping_sub(it.bases().receiver) & exonet_proto::MAX_NUMBER;
                }
            }
        }
        let packet = it.packet(|writer| {
            writer.ping();
        });
        self.reach(at, &mut packet.unwrap_or_default());
        Foe { it, at, r }
    }

    /// The friend sends `messages`; `between` is called before each datagram that reaches the victim. Gives the time
    /// that the victim worked for the friend, and the datagrams that it took.
    pub fn friendly(&mut self, messages: usize, mut between: impl FnMut(&mut Self)) -> (Duration, u64) {
        let (mut settled, mut sent) = (0, 0);
        let (mut worked, mut datagrams) = (Duration::ZERO, 0);
        let body = Bytes::from(vec![7; FRIENDLY]);
        let mut buffer = Vec::new();
        let mut idle = 0;
        while settled < messages && idle < 200_000 {
            idle += 1;
            self.pass(Duration::from_micros(20));
            let (now, id, at) = (self.now(), self.id(), self.victim_at);
            while sent < messages && sent - settled < 64 {
                let message = Outgoing { body: body.clone(), ..Outgoing::default() };
                if self.friend.send(now, id, &[at], message).is_err() {
                    break;
                }
                sent += 1;
            }
            if self.friend.poll_timeout().is_some_and(|at| at <= now.mono) {
                self.friend.handle_timeout(now);
            }
            let mut out = Vec::new();
            while let Some(transmit) = self.friend.poll_transmit(now, 64, &mut buffer) {
                out.extend(buffer.chunks(transmit.segment).map(<[u8]>::to_vec));
            }
            for mut datagram in out {
                between(self);
                let before = self.worked;
                self.reach(self.friend_at, &mut datagram);
                worked += self.worked - before;
                datagrams += 1;
                idle = 0;
            }
            let begun = Instant::now();
            self.settle(now);
            let settled_in = begun.elapsed();
            worked += settled_in;
            self.worked += settled_in;
            let victim_at = self.victim_at;
            for mut datagram in std::mem::take(&mut self.to_friend) {
                let arrival = Arrival { remote: victim_at, local_ip: None, ecn: 0, pipe: None };
                self.friend.handle_datagram(now, arrival, &mut datagram);
            }
            while let Some(event) = self.friend.poll_event() {
                settled += usize::from(matches!(event, Event::Outcome { .. }));
            }
        }
        (worked, datagrams)
    }
}
