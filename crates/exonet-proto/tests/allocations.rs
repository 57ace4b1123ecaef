//! In steady state the core allocates nothing, whatever leaves and arrives. A binary of its own, with one test: whatever
//! else ran beside it would be counted too.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::alloc::System;

use bytes::Bytes;
use cap::Cap;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{Arrival, Boot, Config, CongestionChoice, Event, Node, Outcome, Outgoing, Policy};
use exonet_proto::{Mono, Now, Wall};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const MILLISECOND: u64 = 1_000_000;

struct Pair {
    ends: [Node; 2],
    now: Now,
    buffer: Vec<u8>,
}

impl Pair {
    fn new(datagram: u16) -> Self {
        let now = Now { mono: Mono(1_000 * MILLISECOND), wall: Wall(0) };
        let end = |seed: u8| {
            let config = Config {
                congestion: CongestionChoice::Fixed(4 << 20),
                max_loopback_datagram: datagram,
                ..Config::new(Policy::Anyone)
            };
            Node::new(config, SecretKey::from_bytes([seed; 32]), Boot::Ephemeral, [seed; 32], now)
        };
        Self { ends: [end(1), end(2)], now, buffer: Vec::with_capacity(1 << 17) }
    }

    fn address(end: usize) -> std::net::SocketAddr {
        ([127, 0, 0, 1], 1 + end as u16).into()
    }

    /// Whatever is ready goes over, and is taken.
    fn settle(&mut self, at_a_time: usize) {
        let Self { ends, now, buffer } = self;
        loop {
            let mut busy = false;
            for from in 0..2 {
                while let Some(transmit) = ends[from].poll_transmit(*now, 64, buffer) {
                    busy = true;
                    for datagram in buffer.chunks_mut(transmit.segment) {
                        let arrival = Arrival { remote: Self::address(from), local_ip: None, ecn: 0 };
                        ends[1 - from].handle_datagram(*now, arrival, datagram);
                    }
                }
                while ends[1 - from].recv_run(*now, at_a_time).map(|run| run.for_each(drop)).is_some() {}
            }
            if !busy {
                break;
            }
        }
    }

    /// Sends `count` messages, and gives how many were delivered until they were.
    fn round(&mut self, body: &Bytes, count: usize, at_a_time: usize) -> usize {
        let to = self.ends[1].id();
        let mut messages = (0..count).map(|_| Outgoing { body: body.clone(), ..Outgoing::default() });
        self.ends[0].send_each(self.now, to, &[Self::address(1)], &mut messages, |_| {}).unwrap();
        let mut delivered = 0;
        for _ in 0..20 {
            self.settle(at_a_time);
            for end in &mut self.ends {
                while let Some(event) = end.poll_event() {
                    delivered +=
                        usize::from(matches!(event, Event::Outcome { outcome: Outcome::Delivered, .. }));
                }
            }
            self.now.mono.0 += MILLISECOND;
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
        delivered
    }
}

#[test]
fn steady_traffic_allocates_nothing() {
    for (size, datagram, at_a_time) in
        [(16, 1_452, 1), (64, 1_452, 64), (1_000, 1_452, 64), (64, 65_000, 64), (1_024, 65_000, 1)]
    {
        let mut pair = Pair::new(datagram);
        let body = Bytes::from(vec![7; size]);
        for _ in 0..100 {
            assert_eq!(pair.round(&body, 300, at_a_time), 300);
        }
        let before = ALLOCATOR.total_allocated();
        for _ in 0..200 {
            assert_eq!(pair.round(&body, 300, at_a_time), 300);
        }
        let bytes = ALLOCATOR.total_allocated() - before;
        assert_eq!(bytes, 0, "bytes allocated for messages of {size} in datagrams of {datagram}");
    }
}
