//! Two nodes on bad links, over many seeds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{
    MS, SECOND, all_delivered, bad_link, forgotten, forgotten_after_copies, open, pair, settled,
};
use exonet_proto::node::{Outgoing, Priority};
use exonet_sim::{LinkConfig, World};

#[test]
fn a_first_message_takes_three_trips() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(open(), false), world.add(open(), false));
    world.send(a, b, 100).unwrap();
    world.run_for(30 * MS);
    assert_eq!(world.ledger.totals().taken, 1);
    world.run_for(11 * MS);
    assert_eq!(world.ledger.totals().delivered, 1);
    assert_eq!(world.ledger.violations(), []);
}

/// Messages of all sizes and priorities in both directions, over `seeds`, at this rate of loss.
fn lossy(seeds: core::ops::Range<u64>, loss: f64, messages: usize, largest: usize) {
    for seed in seeds {
        let what = format!("seed {seed}, loss {loss}");
        let (mut world, a, b) = pair(seed, bad_link(loss));
        let sizes = [0, 8, 100, 1_000, 1_400, 5_000, 70_000, 200_000];
        let priorities = [Priority::Urgent, Priority::Normal, Priority::Low, Priority::Bulk];
        for i in 0..messages {
            let size = sizes[world.dice().below(8) as usize].min(largest);
            let priority = priorities[world.dice().below(4) as usize];
            let (from, to) = if world.dice().chance(0.4) { (b, a) } else { (a, b) };
            world.send_as(from, to, size, Outgoing { priority, ..Outgoing::default() }).unwrap();
            if i % 10 == 0 {
                world.run_for(50 * MS);
            }
        }
        settled(&mut world, 20 * SECOND, &what);
        all_delivered(&world, &what);
        // If every second datagram is lost, a farewell takes some tries, and sometimes a new channel.
        forgotten_after_copies(&mut world, &[a, b], if loss > 0.2 { 500 } else { 80 }, &what);
    }
}

#[test]
fn everything_arrives_once_without_loss() {
    lossy(0..80, 0.0, 60, 200_000);
}

#[test]
fn everything_arrives_once_at_little_loss() {
    lossy(100..200, 0.02, 60, 200_000);
}

#[test]
fn everything_arrives_once_at_a_tenth_lost() {
    lossy(200..280, 0.1, 60, 70_000);
}

#[test]
fn everything_arrives_once_at_a_third_lost() {
    lossy(300..360, 0.3, 40, 20_000);
}

#[test]
fn everything_arrives_once_at_half_lost() {
    lossy(400..460, 0.5, 40, 5_000);
}

#[test]
fn a_conversation_goes_on_over_idle_times() {
    for seed in 0..30 {
        let (mut world, a, b) = pair(seed, bad_link(0.05));
        for gap in [0, 1, 9, 11, 29, 31, 45, 70, 300] {
            world.send(a, b, 1_000).unwrap();
            world.send(b, a, 100).unwrap();
            settled(&mut world, SECOND, &format!("seed {seed}, after {gap} s"));
            world.run_for(gap * SECOND);
        }
        all_delivered(&world, &format!("seed {seed}"));
        forgotten(&mut world, &[a, b], 20, &format!("seed {seed}"));
    }
}

#[test]
fn the_same_seed_gives_the_same_datagrams() {
    let run = |seed| {
        let (mut world, a, b) = pair(seed, bad_link(0.1));
        for i in 0..40 {
            let (from, to) = if i % 3 == 0 { (b, a) } else { (a, b) };
            world.send(from, to, 10 + i * 200).unwrap();
            world.run_for(20 * MS);
        }
        world.crash(b);
        world.run_for(100 * SECOND);
        (world.wiretap.fingerprint(), world.datagrams, world.ledger.totals())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}
