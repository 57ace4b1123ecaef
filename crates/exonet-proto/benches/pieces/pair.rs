//! Two nodes joined by memory, on virtual time: what they do is the same in every run, to the byte.

use std::net::SocketAddr;

use bytes::Bytes;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, CongestionChoice, Event, Node, Outcome, Outgoing, Policy};
use exonet_proto::{Mono, Now, Wall};

/// What a datagram takes from one node to the other, in nanoseconds.
const FLIGHT: u64 = 100_000;

/// What left a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) datagrams: usize,
    pub(crate) bytes: usize,
}

pub(crate) struct Pair {
    ends: [Node; 2],
    now: Now,
    buffer: Vec<u8>,
    /// Most datagrams that leave an end before the other has a turn.
    pub(crate) segments: usize,
    /// By each end since the beginning.
    pub(crate) sent: [Sent; 2],
}

impl Pair {
    /// Nodes that send at most `datagram` bytes at once, and never more slowly than they can.
    pub(crate) fn new(datagram: u16) -> Self {
        Self::within(4 << 20, datagram)
    }

    /// As [`Pair::new`], with at most `window` bytes under way.
    pub(crate) fn within(window: u64, datagram: u16) -> Self {
        let now = Now { mono: Mono(1_000_000_000), wall: Wall(0) };
        let end = |seed: u8| {
            let config = Config {
                congestion: CongestionChoice::Fixed(window),
                max_loopback_datagram: datagram,
                ..Config::new(Policy::Anyone)
            };
            Node::new(config, SecretKey::from_bytes([seed; 32]), Boot::Ephemeral, [seed; 32], now)
        };
        Self {
            ends: [end(1), end(2)],
            now,
            buffer: Vec::with_capacity(1 << 17),
            segments: 64,
            sent: [Sent::default(); 2],
        }
    }

    fn address(end: usize) -> SocketAddr {
        ([127, 0, 0, 1], 1 + end as u16).into()
    }

    /// Sends `count` messages from the first node to the second, which takes `at_a_time`, until all have their receipts.
    pub(crate) fn send(&mut self, body: &Bytes, count: usize, at_a_time: usize) {
        let to = self.ends[1].id();
        let mut messages = (0..count).map(|_| Outgoing { body: body.clone(), ..Outgoing::default() });
        self.ends[0].send_each(self.now, to, &[Self::address(1)], &mut messages, |_, _| {}).unwrap();
        let mut delivered = 0;
        while delivered < count {
            self.exchange(at_a_time);
            while let Some(event) = self.ends[0].poll_event() {
                if let Event::Outcome { outcome: Outcome::Delivered, count, .. } = event {
                    delivered += count as usize;
                }
            }
            while self.ends[1].poll_event().is_some() {}
        }
    }

    /// What either end sends in one turn goes over, and is taken. Then time passes: a flight, or what both wait for.
    fn exchange(&mut self, at_a_time: usize) {
        let Self { ends, now, buffer, segments, sent } = self;
        let before = *sent;
        for from in 0..2 {
            if let Some(transmit) = ends[from].poll_transmit(*now, *segments, buffer) {
                for datagram in buffer.chunks_mut(transmit.segment) {
                    sent[from].datagrams += 1;
                    sent[from].bytes += datagram.len();
                    let arrival = Arrival { remote: Self::address(from), local_ip: None, ecn: 0, pipe: None };
                    ends[1 - from].handle_datagram(*now, arrival, datagram);
                }
            }
            while ends[1 - from].recv_run(*now, at_a_time).map(|run| run.for_each(drop)).is_some() {}
        }
        now.mono.0 += FLIGHT;
        if *sent == before {
            let next = ends.iter().filter_map(Node::poll_timeout).min().unwrap();
            now.mono = now.mono.max(next);
        }
        for end in ends {
            if end.poll_timeout().is_some_and(|at| at <= now.mono) {
                end.handle_timeout(*now);
            }
        }
    }
}
