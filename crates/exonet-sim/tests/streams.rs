//! Streams: their messages are taken in order, whatever happens, or their readers are told what is missing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::{MS, SECOND, bad_link, forgotten, open, settled};
use exonet_proto::node::{Cancel, Config, Durability, MessageKey, StreamEnd};
use exonet_sim::{Disk, NodeIndex, World};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn config(block: u64) -> Config {
    Config { clock_block: block, dead_after: 600 * SECOND, ..open() }
}

fn disk(durability: Durability, latency: Duration) -> Disk {
    Disk::slow(latency).with_journal(durability)
}

/// The faults of the processes of a world.
#[derive(Clone, Copy)]
struct Fates<'a> {
    crash: &'a [NodeIndex],
    end: &'a [NodeIndex],
    gives_up: bool,
}

const NONE: Fates<'static> = Fates { crash: &[], end: &[], gives_up: false };

/// A message, and another over the channel that the first one opened, so that the peer has confirmed it to the node.
fn meet(world: &mut World, node: NodeIndex, peer: NodeIndex) {
    for _ in 0..2 {
        world.send(peer, node, 10).unwrap();
        world.run_until_settled(10 * SECOND);
    }
}

/// `node` ends in an orderly way, and starts again.
fn end_and_begin(world: &mut World, node: NodeIndex, peer: NodeIndex) {
    world.begin_end(node);
    for _ in 0..500 {
        if world.has_told_its_end(node) {
            break;
        }
        world.run_for(MS);
    }
    world.end(node);
    let down = Duration::from_millis(world.dice().below(300));
    world.run_for(down);
    world.boot(node);
    // A node that ends before its peer has confirmed a channel to it cannot tell the peer.
    meet(world, node, peer);
}

/// A message, by its sender and its key.
type Sent = (NodeIndex, MessageKey);

/// Withdraws one of these messages, if it has no outcome yet. Returns whether it has left.
fn withdraw_one(world: &mut World, sent: &[Sent]) -> bool {
    let nth = world.dice().below(sent.len() as u64) as usize;
    let (from, key) = sent[nth];
    world.cancel(from, key) == Some(Ok(Cancel::Asked))
}

/// Sends a message in a stream, or outside of streams.
fn send_one(world: &mut World, [a, b]: [NodeIndex; 2], fates: Fates<'_>, sent: &mut Vec<Sent>) {
    let size = [8, 50, 1_000, 20_000, 60_000][world.dice().below(5) as usize];
    // Messages that a node has sent itself may end Unknown when it ends.
    let back = world.dice().chance(0.3) && fates.end.is_empty();
    let (from, to) = if back { (b, a) } else { (a, b) };
    let name = NAMES[world.dice().below(4) as usize];
    let end = match world.dice().below(30) {
        0 => StreamEnd::Last,
        1 => StreamEnd::Reset,
        _ => StreamEnd::Open,
    };
    if world.dice().chance(0.2) {
        world.send(from, to, size).unwrap();
        return;
    }
    // The end of a stream is not withdrawn.
    let late = end == StreamEnd::Open && world.dice().chance(0.1);
    let deadline = late.then(|| Duration::from_micros(world.dice().below(150_000)));
    let Ok((number, key)) = world.say_until(from, to, name, size, end, deadline) else { return };
    match world.dice().below(20) {
        0 => drop(world.cancel(from, key)),
        1 if fates.gives_up => {
            let after = Duration::from_micros(world.dice().below(100_000));
            world.run_for(after);
            world.ledger.excuse(number);
            world.with(from, |node, now| node.abandon(now, key));
        }
        _ => sent.push((from, key)),
    }
}

/// Random traffic in both directions, in streams and outside. Returns the number of withdrawn messages that had left.
fn traffic(world: &mut World, nodes: [NodeIndex; 2], fates: Fates<'_>) -> u64 {
    // The messages of the current processes.
    let (mut sent, mut revoked) = (Vec::new(), 0);
    for _ in 0..60 {
        send_one(world, nodes, fates, &mut sent);
        let pause = Duration::from_micros(world.dice().below(60_000));
        world.run_for(pause);
        if !sent.is_empty() && world.dice().chance(0.3) {
            let recent = sent.len().saturating_sub(6);
            revoked += u64::from(withdraw_one(world, &sent[recent..]));
        }
        for node in fates.crash {
            if world.dice().chance(0.05) {
                world.crash(*node);
                sent.clear();
            }
        }
        for node in fates.end {
            if world.dice().chance(0.03) {
                end_and_begin(world, *node, nodes[0]);
                sent.clear();
            }
        }
    }
    revoked
}

/// Checks that every message is delivered once, or was withdrawn, and that every sender knows it.
fn all_is_certain(world: &mut World, what: &str) {
    settled(world, 20 * SECOND, what);
    let totals = world.ledger.totals();
    assert_eq!((totals.delivered + totals.withdrawn, totals.unknown), (totals.sent, 0), "{what}: {totals:?}");
    assert_eq!(totals.taken, totals.delivered, "{what}");
}

#[test]
fn bad_links_break_no_order_and_what_is_withdrawn_leaves_no_gap() {
    let mut revoked = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, bad_link(0.1));
        let nodes = [world.add(config(1 << 32), true), world.add(config(1 << 32), true)];
        revoked += traffic(&mut world, nodes, NONE);
        all_is_certain(&mut world, &format!("seed {seed}"));
        assert_eq!(world.ledger.missed(), 0, "seed {seed}");
    }
    assert!(revoked > 100, "{revoked}");
}

#[test]
fn what_is_given_up_is_told() {
    for seed in 100..160 {
        let mut world = World::new(seed, bad_link(0.1));
        let nodes = [world.add(config(1 << 32), true), world.add(config(1 << 32), true)];
        traffic(&mut world, nodes, Fates { gives_up: true, ..NONE });
        settled(&mut world, 20 * SECOND, &format!("seed {seed}"));
    }
}

#[test]
fn processes_that_die_break_no_order() {
    let mut crashes = 0;
    for seed in 200..260 {
        let mut world = World::new(seed, bad_link(0.05));
        let nodes = [world.add(config(64), true), world.add(config(1 << 32), true)];
        let dies = [&nodes[..1], &nodes[1..], &nodes[..]][seed as usize % 3];
        traffic(&mut world, nodes, Fates { crash: dies, gives_up: seed % 2 == 0, ..NONE });
        settled(&mut world, 60 * SECOND, &format!("seed {seed}"));
        crashes += world.coverage().crashes;
    }
    assert!(crashes > 100, "{crashes}");
}

#[test]
fn with_journals_processes_that_die_lose_nothing() {
    let mut crashes = 0;
    for seed in 300..400 {
        let mut world = World::new(seed, bad_link(0.05));
        let block = 4 << world.dice().below(20);
        let mut node = || world.add_on(config(block), Some(disk(Durability::Written, Duration::ZERO)));
        let nodes = [node(), node()];
        let dies = [&nodes[..1], &nodes[1..], &nodes[..]][seed as usize % 3];
        traffic(&mut world, nodes, Fates { crash: dies, ..NONE });
        all_is_certain(&mut world, &format!("seed {seed}"));
        assert_eq!(world.ledger.missed(), 0, "seed {seed}");
        crashes += world.coverage().crashes;
    }
    assert!(crashes > 200, "{crashes}");
}

#[test]
fn with_forced_journals_power_cuts_break_no_order() {
    for seed in 400..480 {
        let mut world = World::new(seed, bad_link(0.05));
        let latency = Duration::from_micros(world.dice().below(30_000));
        let durability = if seed % 2 == 0 { Durability::Forced } else { Durability::Written };
        let mut node = || world.add_on(config(1 << 32), Some(disk(durability, latency)));
        let nodes = [node(), node()];
        for _ in 0..3 {
            traffic(&mut world, nodes, Fates { crash: &nodes[..1], ..NONE });
            let victim = nodes[world.dice().below(2) as usize];
            world.run_for(MS);
            world.cut_power(victim);
        }
        settled(&mut world, 60 * SECOND, &format!("seed {seed}"));
    }
}

#[test]
fn an_orderly_end_loses_nothing() {
    for seed in 500..560 {
        let mut world = World::new(seed, bad_link(0.05));
        let nodes = [world.add(config(64), true), world.add(config(1 << 32), true)];
        // An early message may meet another life.
        meet(&mut world, nodes[1], nodes[0]);
        traffic(&mut world, nodes, Fates { end: &nodes[1..], ..NONE });
        settled(&mut world, 120 * SECOND, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        assert_eq!(totals.unknown, 0, "seed {seed}: {totals:?}");
    }
}

#[test]
fn a_stream_that_is_not_read_stops_no_other_and_is_forgotten_in_the_end() {
    for seed in 600..620 {
        let mut world = World::new(seed, bad_link(0.05));
        let nodes = [world.add(config(64), true), world.add(config(1 << 32), true)];
        world.set_unread(nodes[1], "a", true);
        traffic(&mut world, nodes, NONE);
        world.run_for(20 * SECOND);
        let unread = world.ledger.open();
        traffic(&mut world, nodes, NONE);
        world.run_for(20 * SECOND);
        assert!(world.ledger.open() < unread + 40, "seed {seed}: only those of a are open");
        world.set_unread(nodes[1], "a", false);
        all_is_certain(&mut world, &format!("seed {seed}"));
        world.run_for(700 * SECOND);
        forgotten(&mut world, &nodes, 2_000, &format!("seed {seed}"));
    }
}
