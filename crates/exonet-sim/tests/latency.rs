//! Small messages in parallel with a large one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::{MS, SECOND, all_delivered, open, settled};
use exonet_proto::node::{Config, Limits, Outgoing, Priority};
use exonet_sim::{LinkConfig, World};

/// 100 Mbit/s with a queue of 20 ms.
fn link() -> LinkConfig {
    LinkConfig::limited(10 * MS, 12_500_000, 250_000)
}

fn busy() -> Config {
    Config { limits: Limits { queued_bytes: 1 << 30, ..Limits::default() }, ..open() }
}

/// Delivery times of small messages while 64 MiB of `bulk` are in flight.
fn delays(bulk: Priority, small: Priority) -> Vec<Duration> {
    let mut world = World::new(1, link());
    let (a, b) = (world.add(busy(), true), world.add(busy(), true));
    world.send_as(a, b, 64 << 20, Outgoing { priority: bulk, ..Outgoing::default() }).unwrap();
    world.run_for(SECOND);
    let mut delays = Vec::new();
    for _ in 0..50 {
        let (taken, begun) = (world.ledger.totals().taken, world.now());
        world.send_as(a, b, 200, Outgoing { priority: small, ..Outgoing::default() }).unwrap();
        while world.ledger.totals().taken == taken {
            world.run_for(MS);
            assert!(world.now().since(begun) < 5 * SECOND);
        }
        delays.push(world.now().since(begun));
        world.run_for(20 * MS);
    }
    assert_eq!(world.ledger.totals().taken, 50, "the large one is still under way");
    settled(&mut world, 8 * SECOND, "in the end");
    all_delivered(&world, "in the end");
    delays.sort();
    delays
}

#[test]
fn small_messages_pass_a_large_one() {
    for (bulk, small) in [(Priority::Normal, Priority::Normal), (Priority::Bulk, Priority::Urgent)] {
        let delays = delays(bulk, small);
        // In one direction: 10 ms, and 20 ms of queue at worst; 60 ms more where a packet was lost.
        assert!(delays[25] < 25 * MS, "median {:?}", delays[25]);
        assert!(delays[49] < 50 * MS, "worst {:?}", delays[49]);
    }
}

#[test]
fn a_large_message_uses_the_link() {
    let mut world = World::new(1, link());
    let (a, b) = (world.add(busy(), true), world.add(busy(), true));
    let begun = world.now();
    world.send(a, b, 64 << 20).unwrap();
    settled(&mut world, 15 * SECOND, "alone");
    let took = world.now().since(begun);
    assert!(took < 8 * SECOND, "64 MiB at 12.5 MB/s take 5.4 s at best: {took:?}");
}

#[test]
fn urgent_messages_pass_a_queue_of_normal_ones() {
    let mut world = World::new(1, link());
    let (a, b) = (world.add(busy(), true), world.add(busy(), true));
    for _ in 0..20_000 {
        world.send(a, b, 1_000).unwrap();
    }
    world.run_for(500 * MS);
    let begun = world.now();
    let urgent = Outgoing { priority: Priority::Urgent, ..Outgoing::default() };
    let (number, _) = world.send_as(a, b, 100, urgent).unwrap();
    while world.ledger.outcome_of(number).is_none() {
        world.run_for(MS);
    }
    assert!(world.ledger.open() > 5_000, "the queue is still long");
    let took = world.now().since(begun);
    assert!(took < 60 * MS, "{took:?}");
}
