//! Nodes with a journal: a crash must not lose, duplicate or make uncertain any message.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::{MS, SECOND, bad_link, open, settled};
use exonet_proto::node::{Config, Durability, Outgoing};
use exonet_sim::{Disk, NodeIndex, Serving, World};

fn config(block: u64) -> Config {
    Config { clock_block: block, ..open() }
}

fn disk(durability: Durability, latency: Duration) -> Disk {
    Disk::slow(latency).with_journal(durability)
}

/// Random traffic both ways while processes die.
fn traffic(world: &mut World, [a, b]: [NodeIndex; 2], dies: &[NodeIndex]) {
    for _ in 0..40 {
        let size = [0, 50, 1_000, 20_000, 90_000][world.dice().below(5) as usize];
        let (from, to) = if world.dice().chance(0.3) { (b, a) } else { (a, b) };
        if world.dice().chance(0.2) {
            // They are kept together, and so are their records.
            let count = 1 + world.dice().below(120) as u32;
            world.send_together((from, to), 50, count, &Outgoing::default());
        } else {
            world.send(from, to, size).unwrap();
        }
        let pause = Duration::from_micros(world.dice().below(60_000));
        world.run_for(pause);
        for node in dies {
            if world.dice().chance(0.1) {
                world.crash(*node);
            }
        }
    }
}

/// Checks that every message is delivered once, and that every sender knows it.
fn all_is_certain(world: &mut World, what: &str) {
    settled(world, 4 * SECOND, what);
    let totals = world.ledger.totals();
    assert_eq!((totals.delivered, totals.unknown), (totals.sent, 0), "{what}: {totals:?}");
    assert_eq!(totals.taken, totals.sent, "{what}");
}

#[test]
fn a_process_that_dies_loses_nothing_that_it_has_written() {
    let mut crashes = 0;
    for seed in 0..120 {
        let mut world = World::new(seed, bad_link(0.05));
        let block = 4 << world.dice().below(20);
        let mut node = || world.add_on(config(block), Some(disk(Durability::Written, Duration::ZERO)));
        let nodes = [node(), node()];
        let dies = [&nodes[..1], &nodes[1..], &nodes[..]][seed as usize % 3];
        traffic(&mut world, nodes, dies);
        let what = format!("seed {seed}");
        assert!(nodes.iter().all(|node| world.has_sound_journal(*node)), "{what}");
        all_is_certain(&mut world, &what);
        crashes += world.coverage().crashes;
    }
    assert!(crashes > 400, "{crashes}");
}

#[test]
fn what_applications_say_of_messages_is_told_across_crashes() {
    let (mut crashes, mut rejected) = (0, 0);
    for seed in 3_000..3_120 {
        let mut world = World::new(seed, bad_link(0.05));
        let block = 4 << world.dice().below(20);
        let mut node = || world.add_on(config(block), Some(disk(Durability::Written, Duration::ZERO)));
        let nodes = [node(), node()];
        nodes.iter().for_each(|node| world.set_judging(*node));
        let dies = [&nodes[..1], &nodes[1..], &nodes[..]][seed as usize % 3];
        traffic(&mut world, nodes, dies);
        let what = format!("seed {seed}");
        settled(&mut world, 6 * SECOND, &what);
        let totals = world.ledger.totals();
        assert_eq!(
            (totals.delivered + totals.withdrawn, totals.unknown),
            (totals.sent, 0),
            "{what}: {totals:?}"
        );
        assert_eq!(totals.taken, totals.delivered, "{what}");
        crashes += world.coverage().crashes;
        rejected += totals.withdrawn;
    }
    assert!(crashes > 400 && rejected > 1_000, "{crashes} {rejected}");
}

#[test]
fn what_applications_say_of_messages_is_true_whatever_is_lost() {
    let (mut unknown, mut withdrawn) = (0, 0);
    for seed in 4_000..4_120 {
        let mut world = World::new(seed, bad_link(0.05));
        let latency = Duration::from_micros(world.dice().below(30_000));
        let disk = match seed % 3 {
            0 => Disk::slow(Duration::ZERO),
            1 => disk(Durability::Written, Duration::ZERO),
            _ => disk(Durability::Forced, latency),
        };
        let mut node = || world.add_on(config(1 << 32), Some(disk.clone()));
        let nodes = [node(), node()];
        nodes.iter().for_each(|node| world.set_judging(*node));
        traffic(&mut world, nodes, &nodes);
        world.run_for(MS);
        world.cut_power(nodes[1]);
        settled(&mut world, 10 * SECOND, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        (unknown, withdrawn) = (unknown + totals.unknown, withdrawn + totals.withdrawn);
    }
    assert!(unknown > 100 && withdrawn > 1_000, "{unknown} {withdrawn}");
}

#[test]
fn what_counts_as_accepted_outlives_a_power_cut() {
    let (mut lost, mut sent, mut delivered) = (0, 0, 0);
    for seed in 1_000..1_120 {
        let mut world = World::new(seed, bad_link(0.05));
        let latency = Duration::from_micros(world.dice().below(30_000));
        let mut node = || world.add_on(config(1 << 32), Some(disk(Durability::Forced, latency)));
        let nodes = [node(), node()];
        let dies = [&nodes[..1], &nodes[1..], &nodes[..]][seed as usize % 3];
        traffic(&mut world, nodes, dies);
        let what = format!("seed {seed}");
        settled(&mut world, 6 * SECOND, &what);
        // No outcome is reported of messages that were lost before they counted as accepted; none that left is
        // uncertain.
        let totals = world.ledger.totals();
        (sent, delivered) = (sent + totals.sent, delivered + totals.delivered);
        assert!(nodes.iter().all(|node| world.has_sound_journal(*node)), "{what}");
        lost += world.coverage().appends_lost;
    }
    assert!(lost > 100, "{lost}");
    assert!(delivered > sent / 2, "{delivered} of {sent}");
}

#[test]
fn a_power_cut_takes_what_was_not_forced_and_everybody_is_told_the_truth() {
    let mut unknown = 0;
    for seed in 0..120 {
        let mut world = World::new(seed, bad_link(0.05));
        let block = 4 << world.dice().below(20);
        let mut node = || world.add_on(config(block), Some(disk(Durability::Written, Duration::ZERO)));
        let nodes = [node(), node()];
        for _ in 0..4 {
            traffic(&mut world, nodes, &nodes[..1]);
            let victim = nodes[world.dice().below(2) as usize];
            // Not at the instant of another crash: the random numbers of a process follow from its start time.
            world.run_for(MS);
            world.cut_power(victim);
        }
        settled(&mut world, 6 * SECOND, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        assert!(totals.delivered > totals.sent / 2, "seed {seed}: {totals:?}");
        unknown += totals.unknown;
    }
    assert!(unknown > 100, "{unknown}");
}

#[test]
fn a_journal_is_replaced_by_what_is_open() {
    let mut world = World::new(7, bad_link(0.02));
    let mut node = || world.add_on(config(64), Some(disk(Durability::Written, Duration::ZERO)));
    let nodes = [node(), node()];
    for _ in 0..20 {
        traffic(&mut world, nodes, &nodes);
    }
    all_is_certain(&mut world, "long");
    assert!(world.coverage().snapshots > 20, "{:?}", world.coverage());
}

#[test]
fn a_call_that_was_taken_before_a_crash_is_known_to_have_failed() {
    let mut failed = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, bad_link(0.05));
        let serves = Config { serves: true, ..config(1 << 32) };
        let stored = Some(disk(Durability::Written, Duration::ZERO));
        let nodes = [world.add(open(), true), world.add_on(serves, stored)];
        world.serve(nodes[1], Serving { within: 50 * MS, size: 100, ..Serving::default() });
        for _ in 0..40 {
            world.call(nodes[0], nodes[1], 100).unwrap();
            let pause = Duration::from_micros(world.dice().below(20_000));
            world.run_for(pause);
            if world.dice().chance(0.1) {
                world.crash(nodes[1]);
            }
        }
        let what = format!("seed {seed}");
        settled(&mut world, 10 * SECOND, &what);
        let totals = world.ledger.totals();
        assert_eq!((totals.replies, totals.unknown), (totals.calls, 0), "{what}: {totals:?}");
        failed += world.coverage().calls_interrupted;
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_node_that_ends_in_order_goes_on_in_its_next_life() {
    for seed in 0..60 {
        let mut world = World::new(seed, bad_link(0.05));
        let mut node = || world.add_on(config(64), Some(disk(Durability::Written, Duration::ZERO)));
        let nodes = [node(), node()];
        for _ in 0..4 {
            traffic(&mut world, nodes, &[]);
            if world.dice().chance(0.5) {
                world.begin_end(nodes[1]);
                let pause = Duration::from_micros(world.dice().below(500_000));
                world.run_for(pause);
            }
            world.end(nodes[1]);
            world.run_for(SECOND);
            world.boot(nodes[1]);
        }
        all_is_certain(&mut world, &format!("seed {seed}"));
    }
}
