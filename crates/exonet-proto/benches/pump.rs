//! What the core itself costs: two nodes joined by memory, no sockets. One thread does the work of both ends.
//!
//! Prints messages per second of processor time, which a busy machine disturbs least, and bytes allocated per message,
//! which it does not disturb at all; beside them the bare sealing and opening of packets. `pump SIZE MESSAGES` runs one
//! size alone: for a profiler that counts instructions.

use std::alloc::System;
use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet_proto::crypto::{OpenKey, SealKey, SecretKey, Suite};
use exonet_proto::node::{Arrival, Boot, Config, CongestionChoice, Event, Node, Outgoing, Policy};
use exonet_proto::{Mono, Now, Wall};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Messages under way at most.
const OPEN: u64 = 4_096;

struct End {
    node: Node,
    address: std::net::SocketAddr,
}

fn end(seed: u8, port: u16, now: Now, datagram: u16) -> End {
    let config = Config {
        congestion: CongestionChoice::Fixed(4 << 20),
        max_loopback_datagram: datagram,
        ..Config::new(Policy::Anyone)
    };
    let node = Node::new(config, SecretKey::from_bytes([seed; 32]), Boot::Ephemeral, [seed; 32], now);
    End { node, address: ([127, 0, 0, 1], port).into() }
}

fn deliver(from: &mut End, to: &mut End, now: Now, buffer: &mut Vec<u8>) -> bool {
    let mut any = false;
    while let Some(transmit) = from.node.poll_transmit(now, 64, buffer) {
        any = true;
        for segment in buffer.chunks_mut(transmit.segment) {
            let arrival = Arrival { remote: from.address, local_ip: None, ecn: 0, pipe: None };
            to.node.handle_datagram(now, arrival, segment);
        }
    }
    any
}

/// Processor time of this process, where the system tells; else the time since `begin`.
fn worked(begin: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next().and_then(|nanos| nanos.parse().ok()));
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

struct Pump {
    a: End,
    b: End,
    begin: Instant,
    body: Bytes,
    buffer: Vec<u8>,
}

impl Pump {
    fn new(size: usize, datagram: u16) -> Self {
        let begin = Instant::now();
        let now = at(begin);
        let (a, b) = (end(1, 1, now, datagram), end(2, 2, now, datagram));
        Self { a, b, begin, body: Bytes::from(vec![7; size]), buffer: Vec::new() }
    }

    fn run(&mut self, total: u64) {
        let Self { a, b, begin, body, buffer } = self;
        let (mut sent, mut settled) = (0, 0);
        while settled < total {
            let now = at(*begin);
            let most = (total - sent).min(OPEN - (sent - settled));
            let messages = (0..most).map(|_| Outgoing { body: body.clone(), ..Outgoing::default() });
            // Full says only that the rest has to wait.
            let _ = a.node.send_each(now, b.node.id(), &[b.address], &mut messages.into_iter(), |_, n| {
                sent += u64::from(n);
            });
            loop {
                let mut busy = deliver(a, b, now, buffer);
                while b.node.recv_run(now, 64).map(|run| run.for_each(drop)).is_some() {}
                busy |= deliver(b, a, now, buffer);
                if !busy {
                    break;
                }
            }
            while let Some(event) = a.node.poll_event() {
                if let Event::Outcome { count, .. } = event {
                    settled += u64::from(count);
                }
            }
            while b.node.poll_event().is_some() {}
            for end in [&mut *a, &mut *b] {
                if end.node.poll_timeout().is_some_and(|at| at <= now.mono) {
                    end.node.handle_timeout(now);
                }
            }
        }
    }
}

fn at(begin: Instant) -> Now {
    let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Now { mono: Mono(1_000_000_000 + nanos), wall: Wall(0) }
}

#[allow(clippy::cast_precision_loss)]
fn measure(size: usize, datagram: u16, total: u64) {
    let mut pump = Pump::new(size, datagram);
    pump.run(total / 4);
    let (time, memory) = (worked(pump.begin), ALLOCATOR.stats().bytes_allocated);
    pump.run(total);
    let (time, memory) = (worked(pump.begin) - time, ALLOCATOR.stats().bytes_allocated - memory);
    println!(
        "{size:7} B in datagrams of {datagram:5} B: {:10.0} messages/s through both ends, {:7.1} bytes allocated each",
        total as f64 / time.as_secs_f64(),
        memory as f64 / total as f64,
    );
}

#[allow(clippy::cast_precision_loss)]
fn bare(size: usize) {
    let key = [3; 32];
    let (seal, open) = (SealKey::new(Suite::Aes128Gcm, &key), OpenKey::new(Suite::Aes128Gcm, &key));
    let mut packet = vec![0; size];
    let begin = Instant::now();
    let time = worked(begin);
    let mut count = 0_u64;
    while begin.elapsed() < Duration::from_millis(300) {
        for _ in 0..64 {
            let _ = seal.seal_in_place(count, &[0; 9], &mut packet);
            let _ = open.open_in_place(count, &[0; 9], &mut packet);
            count += 1;
        }
    }
    let rate = count as f64 / (worked(begin) - time).as_secs_f64();
    println!("{size:7} B: {rate:10.0} packets/s of sealing and opening alone");
}

fn main() {
    let given: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    if let [size, total] = given[..] {
        return measure(usize::try_from(size).unwrap_or(usize::MAX), 65_000, total);
    }
    for datagram in [1_452, 65_000] {
        for (size, total) in [(64, 2_000_000), (1_024, 500_000), (60_000, 20_000), (1_000_000, 2_000)] {
            measure(size, datagram, total);
        }
        bare(usize::from(datagram) - 9);
    }
}
