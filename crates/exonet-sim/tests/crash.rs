//! Processes that die and start again, and slow disks.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, bad_link, forgotten, forgotten_after_copies, open, settled};
use core::time::Duration;
use exonet_proto::node::{Cancel, Config, Event, Outcome, SendError, Status};
use exonet_sim::{Disk, LinkConfig, NodeIndex, World};

/// `D` in blocks so small that it is written all the time.
fn tiny(block: u64) -> Config {
    Config { clock_block: block, ..open() }
}

/// Random traffic in both directions, with a `crash` in each of `rounds` rounds.
fn traffic(
    world: &mut World,
    [a, b]: [NodeIndex; 2],
    rounds: usize,
    mut crash: impl FnMut(&mut World, usize),
) {
    for round in 0..rounds {
        let size = [0, 50, 1_000, 20_000, 90_000][world.dice().below(5) as usize];
        let (from, to) = if world.dice().chance(0.3) { (b, a) } else { (a, b) };
        world.send(from, to, size).unwrap();
        let pause = Duration::from_micros(world.dice().below(60_000));
        world.run_for(pause);
        crash(world, round);
    }
}

fn after(world: &mut World, nodes: [NodeIndex; 2], what: &str) {
    settled(world, SECOND, what);
    // Envelopes of a dead incarnation are used up by the first message, which may end Unknown.
    world.send(nodes[0], nodes[1], 1_000).unwrap();
    world.send(nodes[1], nodes[0], 1_000).unwrap();
    settled(world, SECOND, what);
    // Then the pair works as before.
    let before = world.ledger.totals().delivered;
    world.send(nodes[0], nodes[1], 1_000).unwrap();
    world.send(nodes[1], nodes[0], 1_000).unwrap();
    settled(world, 400 * MS, what);
    assert_eq!(world.ledger.totals().delivered, before + 2, "{what}");
    forgotten_after_copies(world, &nodes, 80, what);
}

#[test]
fn a_receiver_that_crashes_at_any_time() {
    for seed in 0..60 {
        let mut world = World::new(seed, bad_link(0.05));
        let nodes = [world.add(tiny(1 << 32), true), world.add(tiny(1 << 32), true)];
        traffic(&mut world, nodes, 40, |world, _| {
            if world.dice().chance(0.1) {
                world.crash(nodes[1]);
            }
        });
        after(&mut world, nodes, &format!("seed {seed}"));
        assert!(world.ledger.totals().delivered > 10, "crashes excuse little");
    }
}

#[test]
fn a_sender_that_crashes_at_any_time() {
    for seed in 100..160 {
        let mut world = World::new(seed, bad_link(0.05));
        let nodes = [world.add(tiny(1 << 32), true), world.add(tiny(1 << 32), true)];
        traffic(&mut world, nodes, 40, |world, _| {
            if world.dice().chance(0.1) {
                world.crash(nodes[0]);
            }
        });
        after(&mut world, nodes, &format!("seed {seed}"));
    }
}

#[test]
fn both_crash_with_tiny_blocks_and_slow_disks() {
    for seed in 200..300 {
        let mut world = World::new(seed, bad_link(0.05));
        let disk = |world: &mut World| Disk::slow(Duration::from_millis(world.dice().below(80)));
        let (one, other) = (disk(&mut world), disk(&mut world));
        let block = 4 << world.dice().below(5);
        let nodes = [world.add_on(tiny(block), Some(one)), world.add_on(tiny(block), Some(other))];
        traffic(&mut world, nodes, 40, |world, _| {
            for node in nodes {
                if world.dice().chance(0.08) {
                    world.crash(node);
                }
            }
        });
        after(&mut world, nodes, &format!("seed {seed}, block {block}"));
    }
}

#[test]
fn a_tiny_block_and_a_slow_disk_lose_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed, bad_link(0.02));
        let block = 4 << world.dice().below(5);
        let disk = Some(Disk::slow(20 * MS));
        let nodes = [world.add_on(tiny(block), disk.clone()), world.add_on(tiny(block), disk)];
        traffic(&mut world, nodes, 60, |_, _| {});
        settled(&mut world, 300 * MS, &format!("seed {seed}, block {block}"));
        crate::common::all_delivered(&world, &format!("seed {seed}"));
        assert!(world.disk(nodes[0]).unwrap().clock > 40, "D was written on the way");
        forgotten(&mut world, &nodes, 40, &format!("seed {seed}"));
    }
}

#[test]
fn nothing_leaves_before_the_first_block_is_durable() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let (a, b) = (world.add(open(), false), world.add_on(open(), Some(Disk::slow(10_000 * SECOND))));
    world.send(b, a, 100).unwrap();
    world.send(a, b, 100).unwrap();
    world.run_for(100 * MS);
    assert_eq!(world.sent_by(b), 0);
    // The stamp of the first message takes another write.
    world.run_for(20_200 * SECOND);
    assert_eq!(world.ledger.totals().delivered, 2);
}

#[test]
fn a_failed_write_stops_the_node() {
    for seed in 0..20 {
        let mut world = World::new(seed, bad_link(0.02));
        let (a, b) = (world.add(open(), false), world.add_on(tiny(32), Some(Disk::slow(5 * MS))));
        let mut refused = false;
        for i in 0..100 {
            world.send(a, b, 500).unwrap();
            match world.send(b, a, 500) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, SendError::Closed);
                    refused = true;
                }
            }
            world.run_for(10 * MS);
            if i == 20 {
                world.disk(b).unwrap().broken = true;
            }
        }
        assert!(refused, "seed {seed}");
        assert!(world.events(b).contains(&Event::Stopped), "seed {seed}");
        let said = world.sent_by(b);
        world.run_for(100 * SECOND);
        assert_eq!(world.sent_by(b), said, "a stopped node says nothing");
        assert_eq!(world.node(b).unwrap().poll_timeout(), None);
        assert_eq!(world.ledger.violations(), [], "seed {seed}");
    }
}

#[test]
fn an_answer_that_waits_when_the_disk_fails_stays() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let (a, b) = (world.add(open(), false), world.add(open(), true));
    world.wiretap.recording = true;
    world.send(a, b, 100).unwrap();
    let opening = world.wiretap.recorded.first().unwrap().data.clone();
    let from = world.address(a).unwrap();
    let left = world.with(b, |node, now| {
        let arrival = exonet_proto::node::Arrival { remote: from, local_ip: None, ecn: 0, pipe: None };
        node.handle_datagram(now, arrival, &mut opening.clone());
        node.handle_persist_failed(now);
        node.poll_transmit(now, 1, &mut Vec::new())
    });
    assert_eq!(left, Some(None));
}

#[test]
fn what_was_for_a_vanished_peer_stays_in_doubt_until_given_up() {
    let mut world = World::new(1, bad_link(0.0));
    let (a, b) = (world.add(open(), false), world.add(open(), false));
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "first");
    world.set_reads(b, false);
    let (doubted, key) = world.send_as(a, b, 100, Default::default()).unwrap();
    world.run_for(50 * MS);
    let gone = world.id(b).unwrap();
    world.crash(b);
    world.run_for(3_600 * SECOND);
    let status = world.with(a, |node, _| node.status(key)).unwrap();
    assert!(matches!(status, Status::InDoubt { .. }), "{status:?}");
    world.with(a, |node, now| node.abandon_peer(now, &gone));
    assert_eq!(world.ledger.outcome_of(doubted), Some(Outcome::Unknown));
    forgotten(&mut world, &[a, b], 20, "given up");
}

#[test]
fn a_node_gives_up_after_its_patience() {
    let mut world = World::new(1, bad_link(0.0));
    let config = Config { doubt_timeout: Some(30 * SECOND), ..open() };
    let (a, b) = (world.add(config, false), world.add(open(), false));
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "first");
    world.set_reads(b, false);
    let (doubted, _) = world.send_as(a, b, 100, Default::default()).unwrap();
    world.run_for(50 * MS);
    world.crash(b);
    world.run_for(29 * SECOND);
    assert_eq!(world.ledger.outcome_of(doubted), None);
    world.run_for(2 * SECOND);
    assert_eq!(world.ledger.outcome_of(doubted), Some(Outcome::Unknown));
    forgotten(&mut world, &[a, b], 20, "given up");
}

#[test]
fn what_never_left_is_withdrawn_with_certainty() {
    let mut world = World::new(1, bad_link(0.0));
    let (a, b) = (world.add(open(), false), world.add(open(), false));
    let gone = world.id(b).unwrap();
    let address = world.address(b).unwrap();
    world.remove(b);
    let deadline = Some(world.now() + 5 * SECOND);
    let early = exonet_proto::node::Early::No;
    let message = |deadline| exonet_proto::node::Outgoing { deadline, early, ..Default::default() };
    let keys = world.with(a, |node, now| {
        [None, deadline, None].map(|deadline| node.send(now, gone, &[address], message(deadline)).unwrap())
    });
    let [cancelled, expired, abandoned] = keys.unwrap();
    world.run_for(10 * SECOND);
    let status = |world: &mut World, key| world.with(a, |node, _| node.status(key)).unwrap();
    assert_eq!(status(&mut world, expired), Status::Settled);
    assert_eq!(status(&mut world, cancelled), Status::Queued);
    assert_eq!(world.with(a, |node, now| node.cancel(now, cancelled)), Some(Ok(Cancel::Done)));
    world.with(a, |node, now| node.abandon_peer(now, &gone));
    assert_eq!(status(&mut world, abandoned), Status::Settled);
    let stats = world.node(a).unwrap().stats();
    assert_eq!((stats.withdrawn, stats.unknown), (3, 0));
    forgotten(&mut world, &[a], 20, "nobody there");
}

/// Starts the process several times in a row without telling the peer, so that the indices of the old life look like
/// those of the current one: no RESET is sent.
fn crash_untold(world: &mut World, node: NodeIndex) {
    world.kill(node);
    world.disk(node).unwrap().life += 3;
    world.boot(node);
}

/// The virtual time from the crash of the receiver until every message in doubt is Unknown. `told`: the peer is told
/// that the process is a new one.
fn found_after(seed: u64, idle: Duration, told: bool) -> Duration {
    let mut world = World::new(seed, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(open(), false), world.add(open(), true));
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "first");
    world.set_reads(b, false);
    for _ in 0..20 {
        world.send(a, b, 500).unwrap();
    }
    world.run_for(idle);
    let open = world.ledger.open();
    assert_eq!(open, 20);
    let crash = if told { World::crash } else { crash_untold };
    crash(&mut world, b);
    let begun = world.now();
    settled(&mut world, 5 * SECOND, "after the crash");
    assert_eq!(world.ledger.totals().unknown, 20);
    world.now().since(begun)
}

#[test]
fn a_restart_is_found_soon() {
    for seed in 0..30 {
        for idle in [0, 15, 100, 1_000, 20_000, 100_000] {
            // The next probe, and a round trip each for the RESET, the opening and the ASK.
            let told = found_after(seed, idle * MS, true);
            assert!(told < 700 * MS, "seed {seed}, idle {idle} ms: {told:?}");
            // The next probe, a second of silence, then an opening or two.
            let untold = found_after(seed, idle * MS, false);
            assert!(untold < 1_700 * MS, "seed {seed}, idle {idle} ms: {untold:?}");
        }
    }
}

#[test]
fn a_restart_is_found_soon_though_there_is_always_more_to_send() {
    for seed in 0..10 {
        let mut world = World::new(seed, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(open(), false), world.add(open(), true));
        // Messages that wait until the link is up make a wide window, which a message every 2 ms does not fill for
        // long.
        let trickle = |world: &mut World, ms: u32| {
            for _ in 0..ms / 2 {
                world.send(a, b, 100).unwrap();
                world.run_for(2 * MS);
            }
        };
        for _ in 0..3_000 {
            world.send(a, b, 1_000).unwrap();
        }
        trickle(&mut world, 2_000);
        crash_untold(&mut world, b);
        trickle(&mut world, 1_700);
        let before = world.ledger.totals().unknown;
        assert!(before > 0, "seed {seed}: not found in 1.7 s");
        settled(&mut world, 300 * MS, "after the crash");
    }
}

#[test]
fn a_restart_under_full_traffic_is_found_soon() {
    for seed in 0..20 {
        let mut world = World::new(seed, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(open(), false), world.add(open(), true));
        for _ in 0..100 {
            world.send(a, b, 20_000).unwrap();
        }
        let pause = Duration::from_micros(30_000 + world.dice().below(100_000));
        world.run_for(pause);
        world.crash(b);
        settled(&mut world, 500 * MS, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        assert!(totals.taken + totals.unknown >= 100);
    }
}
