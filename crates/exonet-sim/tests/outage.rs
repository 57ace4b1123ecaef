//! Links that fail for a while, in one direction or both, in the middle of traffic.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, forgotten_after_copies, open, settled};
use core::time::Duration;
use exonet_proto::node::Config;
use exonet_sim::{LinkConfig, NodeIndex, Outage, World};

/// Both ends keep for longer than any outage here what the other may still ask about.
fn patient() -> Config {
    Config { dead_after: 20_000 * SECOND, ..open() }
}

fn fail(world: &mut World, from: NodeIndex, to: NodeIndex, base: &LinkConfig, span: Duration) {
    let now = world.now();
    let outages = vec![Outage { from: now, until: now + span }];
    world.set_link(from, to, LinkConfig { outages, ..base.clone() });
}

/// Traffic, an outage of `span` in the middle of it, more traffic during the outage; then everything settles within
/// `soon`.
fn outage(seed: u64, loss: f64, span: Duration, ways: [bool; 2]) {
    let what = format!("seed {seed}, {span:?} {ways:?}");
    let link = bad_link(loss);
    let mut world = World::new(seed, link.clone());
    let (a, b) = (world.add(patient(), false), world.add(patient(), true));
    for i in 0..30 {
        world.send(a, b, 100 + i * 300).unwrap();
        world.send(b, a, 100 + i * 10).unwrap();
        let pause = world.dice().below(20);
        world.run_for(Duration::from_millis(pause));
    }
    let (ends, [there, back]) = (world.now() + span, ways);
    if there {
        fail(&mut world, a, b, &link, span);
    }
    if back {
        fail(&mut world, b, a, &link, span);
    }
    for _ in 0..10 {
        world.send(a, b, 3_000).unwrap();
        world.send(b, a, 30).unwrap();
        world.run_for(span / 20);
    }
    let silent = world.datagrams;
    world.run_for(ends.since(world.now()));
    let per_second = (world.datagrams - silent) as f64 / (span.as_secs_f64() / 2.0).max(60.0);
    assert!(per_second < 8.0, "{what}: {per_second} datagrams per second into the dark");
    settled(&mut world, 8 * SECOND, &what);
    all_delivered(&world, &what);
    world.send(a, b, 10).unwrap();
    settled(&mut world, 300 * MS, &what);
    forgotten_after_copies(&mut world, &[a, b], 150, &what);
}

const WAYS: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];

#[test]
fn short_outages() {
    for seed in 0..45 {
        let span = [1_000, 3_000, 8_000][seed as usize / 3 % 3] * MS;
        outage(seed, 0.02, span, WAYS[seed as usize % 3]);
    }
}

#[test]
fn outages_longer_than_a_channel_lives() {
    for seed in 0..45 {
        let span = [31, 60, 300][seed as usize / 3 % 3] * SECOND;
        outage(100 + seed, 0.02, span, WAYS[seed as usize % 3]);
    }
}

#[test]
fn outages_of_hours() {
    for seed in 0..9 {
        outage(200 + seed, 0.0, 7_200 * SECOND, WAYS[seed as usize % 3]);
    }
}

#[test]
fn an_outage_longer_than_patience_is_told_honestly() {
    for seed in 0..12 {
        let link = bad_link(0.02);
        let mut world = World::new(seed, link.clone());
        let (a, b) = (world.add(open(), true), world.add(open(), true));
        for i in 0..20 {
            world.send(a, b, 100 + i * 300).unwrap();
            world.send(b, a, 100).unwrap();
            world.run_for(5 * MS);
        }
        fail(&mut world, a, b, &link, 7_200 * SECOND);
        fail(&mut world, b, a, &link, 7_200 * SECOND);
        world.send(a, b, 100).unwrap();
        world.run_for(7_200 * SECOND);
        settled(&mut world, 10 * SECOND, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        assert!(totals.taken >= totals.delivered && totals.taken <= totals.delivered + totals.unknown);
        world.send(a, b, 100).unwrap();
        settled(&mut world, 300 * MS, &format!("seed {seed}"));
        assert_eq!(world.ledger.totals().delivered, totals.delivered + 1, "the pair works again");
    }
}

#[test]
fn many_short_outages_one_after_the_other() {
    for seed in 0..20 {
        let link = bad_link(0.01);
        let mut world = World::new(seed, link.clone());
        let (a, b) = (world.add(patient(), false), world.add(patient(), true));
        for round in 0..12 {
            world.send(a, b, 40_000).unwrap();
            world.send(b, a, 500).unwrap();
            let (from, to) = if round % 2 == 0 { (a, b) } else { (b, a) };
            let span = Duration::from_millis(200 + world.dice().below(3_000));
            fail(&mut world, from, to, &link, span);
            let pause = Duration::from_millis(world.dice().below(4_000));
            world.run_for(pause);
        }
        settled(&mut world, 15 * SECOND, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        forgotten_after_copies(&mut world, &[a, b], 250, &format!("seed {seed}"));
    }
}

/// All slots that were asked for are used up and taken, and the record is dropped while no packet passes. An
/// incarnation that was not forgotten and is over has delivered everything that was bound to it.
#[test]
fn what_a_record_delivered_before_it_went_is_known() {
    let link = LinkConfig::perfect(10 * MS);
    let mut world = World::new(1, link.clone());
    let config = Config { clock_block: 4, early: false, ..patient() };
    let (a, b) = (world.add(config, true), world.add(Config { dead_after: 50 * SECOND, ..open() }, true));
    world.disk(a).unwrap().stuck = true;
    for _ in 0..4 {
        world.send(a, b, 100).unwrap();
    }
    world.run_for(25 * MS);
    fail(&mut world, b, a, &link, 100 * SECOND);
    world.run_for(10 * MS);
    fail(&mut world, a, b, &link, 100 * SECOND);
    world.run_for(99 * SECOND);
    assert_eq!((world.ledger.totals().taken, world.ledger.totals().delivered), (4, 0));
    assert_eq!(world.node(b).unwrap().stats().evictions, 0, "it was drained");
    assert_eq!(world.node(b).unwrap().stats().receiver_records, 0);
    settled(&mut world, 10 * SECOND, "it is heard again");
    all_delivered(&world, "it is heard again");
    world.disk(a).unwrap().stuck = false;
    forgotten(&mut world, &[a, b], 20, "in the end");
}
