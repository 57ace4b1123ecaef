//! Nodes that end in an orderly way, again and again, under traffic: the messages that they have not taken wait for
//! their next life.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, all_delivered, bad_link, open, settled};
use core::time::Duration;
use exonet_proto::node::Config;
use exonet_sim::{LinkConfig, NodeIndex, World};

/// How long a node tells its peers what it has not taken.
const FAREWELL: Duration = Duration::from_millis(500);

/// `node` ends like in the library, and starts again after `down`.
fn end(world: &mut World, node: NodeIndex, down: Duration) {
    world.begin_end(node);
    for _ in 0..FAREWELL.as_millis() {
        if world.has_told_its_end(node) {
            break;
        }
        world.run_for(MS);
    }
    world.end(node);
    world.run_for(down);
    world.boot(node);
}

/// Bursts from the first node to the second, which ends now and then; and in the other direction, to one that stays.
/// Returns the number of ends.
fn traffic(world: &mut World, [a, b]: [NodeIndex; 2]) -> u32 {
    let mut ends = 0;
    for _ in 0..40 {
        for _ in 0..1 + world.dice().below(30) {
            let size = [0, 50, 50, 1_000, 20_000, 90_000][world.dice().below(6) as usize];
            world.send(a, b, size).unwrap();
        }
        world.send(b, a, 100).unwrap();
        let pause = Duration::from_micros(world.dice().below(40_000));
        world.run_for(pause);
        if world.dice().chance(0.2) {
            // The messages that it has sent itself are settled first.
            settled(world, 1500 * MS, "before the end");
            for size in [0, 50, 50, 1_000, 70_000] {
                for _ in 0..20 {
                    world.send(a, b, size).unwrap();
                }
            }
            let pause = Duration::from_micros(world.dice().below(60_000));
            world.run_for(pause);
            let down = Duration::from_millis(world.dice().below(300));
            end(world, b, down);
            ends += 1;
        }
    }
    ends
}

#[test]
fn ends_in_good_order_make_nothing_unknown() {
    let mut ends = 0;
    for seed in 0..40 {
        let mut world = World::new(seed, LinkConfig::perfect(10 * MS));
        let config = Config { early: false, ..open() };
        let nodes = [world.add(config.clone(), true), world.add(config, true)];
        ends += traffic(&mut world, nodes);
        settled(&mut world, 800 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
    }
    assert!(ends > 100, "{ends}");
}

#[test]
fn ends_on_bad_links_make_unknown_what_was_not_heard_in_time_and_nothing_else() {
    let (mut unknown, mut sent) = (0, 0);
    for seed in 100..130 {
        let mut world = World::new(seed, bad_link(0.05));
        let nodes = [world.add(open(), true), world.add(open(), true)];
        traffic(&mut world, nodes);
        settled(&mut world, 12 * SECOND, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        assert_eq!(totals.delivered + totals.unknown, totals.sent, "seed {seed}");
        (unknown, sent) = (unknown + totals.unknown, sent + totals.sent);
    }
    println!("{unknown} of {sent} are Unknown");
    assert!(unknown * 200 < sent, "{unknown} of {sent}");
}
