//! Worlds with many faults at once, which the checkers watch.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, bad_link, open};
use core::time::Duration;
use exonet_proto::node::{Config, Limits, MessageKey, Outgoing};
use exonet_sim::{Coverage, Disk, NodeIndex, World};

/// Checks that every promise was kept, and that everything is forgotten within `within`.
#[track_caller]
fn kept(world: &mut World, within: Duration, what: &str) {
    assert!(world.run_until_settled(300 * SECOND), "{what}: {} open", world.ledger.open());
    let quiet = world.run_to_quiet(within);
    if let Some(violation) = world.violations().first() {
        panic!("{what}: {violation}");
    }
    assert!(quiet, "{what}: forgotten peers say nothing");
}

fn total(all: &mut Coverage, one: Coverage) {
    all.lost += one.lost;
    all.duplicated += one.duplicated;
    all.corrupted += one.corrupted;
    all.reordered += one.reordered;
    all.crashes += one.crashes;
    all.writes_lost += one.writes_lost;
    all.writes_torn += one.writes_torn;
    all.writes_failed += one.writes_failed;
    all.moves += one.moves;
    all.handshakes += one.handshakes;
    all.evictions += one.evictions;
    all.suppressed += one.suppressed;
    all.replayed += one.replayed;
    all.retries += one.retries;
    all.dropped_for_room += one.dropped_for_room;
}

/// Sends a message; sometimes with a deadline, sometimes to be withdrawn.
fn send(world: &mut World, from: NodeIndex, to: NodeIndex, regretted: &mut Vec<(NodeIndex, MessageKey)>) {
    let size = [0, 50, 1_000, 20_000, 90_000, 400_000][world.dice().below(6) as usize];
    let hurry = Duration::from_millis(world.dice().below(300));
    let deadline = world.dice().chance(0.3).then(|| world.now() + hurry);
    if let Ok((_, key)) = world.send_as(from, to, size, Outgoing { deadline, ..Outgoing::default() })
        && world.dice().chance(0.3)
    {
        regretted.push((from, key));
    }
}

fn regret(world: &mut World, regretted: &mut Vec<(NodeIndex, MessageKey)>) {
    while !regretted.is_empty() && world.dice().chance(0.7) {
        let at = world.dice().below(regretted.len() as u64) as usize;
        let (node, key) = regretted.swap_remove(at);
        if world.dice().chance(0.5) {
            world.with(node, |node, now| node.cancel(now, key));
        } else {
            world.abandon(node, key);
        }
    }
}

/// Tells every node the addresses of the others: two nodes that have moved while one of them forgot the other cannot
/// find each other by themselves.
fn introduce(world: &mut World, nodes: &[NodeIndex]) {
    let places: Vec<_> = nodes.iter().filter_map(|node| world.id(*node).zip(world.address(*node))).collect();
    for node in nodes {
        world.with(*node, |node, now| places.iter().for_each(|(id, at)| node.add_hint(now, *id, *at)));
    }
}

#[test]
fn deadlines_second_thoughts_crashes_and_moves() {
    let mut all = Coverage::default();
    for seed in 0..60 {
        let mut world = World::new(seed, bad_link([0.0, 0.05, 0.25][seed as usize % 3]));
        let config = Config { clock_block: 64, rekey_after: 500 * MS, ..open() };
        let nodes = [0, 1, 2].map(|_| world.add_on(config.clone(), Some(Disk::slow(2 * MS))));
        let mut regretted = Vec::new();
        for _ in 0..60 {
            let (from, to) = (world.dice().below(3) as usize, world.dice().below(2) as usize);
            send(&mut world, nodes[from], nodes[(from + 1 + to) % 3], &mut regretted);
            let pause = Duration::from_millis(world.dice().below(60));
            world.run_for(pause);
            regret(&mut world, &mut regretted);
            let one = nodes[world.dice().below(3) as usize];
            if world.dice().chance(0.04) {
                world.crash(one);
                regretted.retain(|(node, _)| *node != one);
            } else if world.dice().chance(0.04) {
                world.roam(one);
            }
        }
        introduce(&mut world, &nodes);
        kept(&mut world, 4_000 * SECOND, &format!("seed {seed}"));
        total(&mut all, world.coverage());
    }
    let Coverage { lost, duplicated, corrupted, reordered, crashes, moves, handshakes, .. } = all;
    let least = [lost, duplicated, corrupted, reordered, crashes, moves, handshakes].into_iter().min();
    assert!(least > Some(50), "{all:?}");
    assert!(all.suppressed > 50, "{all:?}");
}

#[test]
fn disks_that_fail_in_every_way() {
    let mut all = Coverage::default();
    for seed in 0..80 {
        let mut world = World::new(seed, bad_link(0.05));
        let config = Config { clock_block: 8, ..open() };
        let latency = Duration::from_millis(world.dice().below(30));
        let nodes = [0, 1].map(|_| world.add_on(config.clone(), Some(Disk::slow(latency))));
        let mut regretted = Vec::new();
        for _ in 0..60 {
            let (from, to) = if world.dice().chance(0.5) { (0, 1) } else { (1, 0) };
            send(&mut world, nodes[from], nodes[to], &mut regretted);
            regretted.clear();
            let pause = Duration::from_millis(world.dice().below(60));
            world.run_for(pause);
            let fault = world.dice().below(40);
            let disk = world.disk(nodes[from]).unwrap();
            match fault {
                0 => disk.stuck = true,
                1 => disk.full = true,
                2 => disk.broken = true,
                3..8 => (disk.stuck, disk.broken) = (false, false),
                8..12 => world.crash(nodes[from]),
                _ => {}
            }
        }
        for node in nodes {
            let disk = world.disk(node).unwrap();
            (disk.stuck, disk.broken) = (false, false);
            world.crash(node);
        }
        kept(&mut world, 4_000 * SECOND, &format!("seed {seed}"));
        total(&mut all, world.coverage());
    }
    let least = [all.writes_lost, all.writes_torn, all.writes_failed, all.crashes].into_iter().min();
    assert!(least > Some(20), "{all:?}");
}

#[test]
fn patience_room_and_records_that_run_out() {
    let mut all = Coverage::default();
    for seed in 0..40 {
        let mut world = World::new(seed, bad_link(0.05));
        let limits = Limits {
            peers: 4,
            slots: 24,
            pool_window: 64 << 10,
            received_bytes: 300 << 10,
            body_window: 128 << 10,
            bodies: 2,
            ..Limits::default()
        };
        let small = Config { limits, dead_after: 20 * SECOND, doubt_timeout: Some(15 * SECOND), ..open() };
        let host = world.add(small.clone(), true);
        let others: Vec<_> = (0..6).map(|_| world.add(small.clone(), true)).collect();
        let mut regretted = Vec::new();
        for _ in 0..80 {
            let other = others[world.dice().below(6) as usize];
            send(&mut world, other, host, &mut regretted);
            if world.dice().chance(0.2) {
                send(&mut world, host, other, &mut regretted);
            }
            regret(&mut world, &mut regretted);
            if world.dice().chance(0.1) {
                let reads = world.dice().chance(0.6);
                world.set_reads(host, reads);
            }
            let pause = [1, 30, 30, 200, 12_000][world.dice().below(5) as usize];
            world.run_for(pause * MS);
        }
        world.set_reads(host, true);
        kept(&mut world, 4_000 * SECOND, &format!("seed {seed}"));
        total(&mut all, world.coverage());
    }
    assert!(all.evictions > 10 && all.dropped_for_room > 20, "{all:?}");
}
