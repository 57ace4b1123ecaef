//! What the core itself costs: two nodes joined by memory, no sockets. Prints messages per second of one thread
//! that does the work of both ends, beside the bare sealing and opening of as many packets.

use std::time::{Duration, Instant};

use bytes::Bytes;
use exonet_proto::crypto::{OpenKey, SealKey, SecretKey, Suite};
use exonet_proto::node::{Arrival, Boot, Config, CongestionChoice, Event, Node, Outgoing, Policy};
use exonet_proto::{Mono, Now, Wall};

struct End {
    node: Node,
    address: std::net::SocketAddr,
}

fn end(seed: u8, port: u16, now: Now) -> End {
    let config = Config { congestion: CongestionChoice::Fixed(4 << 20), ..Config::new(Policy::Anyone) };
    let node = Node::new(config, SecretKey::from_bytes([seed; 32]), Boot::Ephemeral, [seed; 32], now);
    End { node, address: ([127, 0, 0, 1], port).into() }
}

fn deliver(from: &mut End, to: &mut End, now: Now, buffer: &mut Vec<u8>) -> bool {
    let mut any = false;
    while let Some(transmit) = from.node.poll_transmit(now, 64, buffer) {
        any = true;
        for segment in buffer.chunks_mut(transmit.segment) {
            let arrival = Arrival { remote: from.address, local_ip: None, ecn: 0 };
            to.node.handle_datagram(now, arrival, segment);
        }
    }
    any
}

fn run(size: usize, total: u64) -> f64 {
    let begin = Instant::now();
    let clock = || {
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Now { mono: Mono(1_000_000_000 + nanos), wall: Wall(0) }
    };
    let (mut a, mut b) = (end(1, 1, clock()), end(2, 2, clock()));
    let body = Bytes::from(vec![7; size]);
    let (mut sent, mut settled) = (0, 0);
    let mut buffer = Vec::new();
    while settled < total {
        let now = clock();
        while sent < total && sent - settled < 4_096 {
            let message = Outgoing { body: body.clone(), ..Outgoing::default() };
            if a.node.send(now, b.node.id(), &[b.address], message).is_err() {
                break;
            }
            sent += 1;
        }
        loop {
            let mut busy = deliver(&mut a, &mut b, now, &mut buffer);
            while b.node.recv(now).is_some() {}
            busy |= deliver(&mut b, &mut a, now, &mut buffer);
            if !busy {
                break;
            }
        }
        while let Some(event) = a.node.poll_event() {
            settled += u64::from(matches!(event, Event::Outcome { .. }));
        }
        while b.node.poll_event().is_some() {}
        if a.node.poll_timeout().is_some_and(|at| at <= now.mono) {
            a.node.handle_timeout(now);
        }
        if b.node.poll_timeout().is_some_and(|at| at <= now.mono) {
            b.node.handle_timeout(now);
        }
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = total as f64 / begin.elapsed().as_secs_f64();
    rate
}

fn bare(size: usize) -> f64 {
    let key = [3; 32];
    let (seal, open) = (SealKey::new(Suite::Aes128Gcm, &key), OpenKey::new(Suite::Aes128Gcm, &key));
    let mut packet = vec![0; size + 16];
    let begin = Instant::now();
    let mut count = 0_u64;
    while begin.elapsed() < Duration::from_millis(300) {
        for _ in 0..64 {
            let _ = seal.seal_in_place(count, &[0; 9], &mut packet);
            let _ = open.open_in_place(count, &[0; 9], &mut packet);
            count += 1;
        }
    }
    #[allow(clippy::cast_precision_loss)]
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    rate
}

fn main() {
    for (size, total) in [(64, 2_000_000), (1_024, 500_000), (60_000, 20_000), (1_000_000, 2_000)] {
        println!("{size:7} B: {:10.0} messages/s through both ends", run(size, total));
    }
    println!("   1452 B: {:10.0} packets/s of sealing and opening alone", bare(1_427));
}
