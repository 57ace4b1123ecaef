//! Calls: they run at most once, and end with exactly one outcome.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod common;

use common::{MS, SECOND, all_delivered, open, settled};
use exonet_proto::node::Config;
use exonet_sim::{LinkConfig, NodeIndex, Serving, World};

fn serving() -> Config {
    Config { serves: true, ..open() }
}

/// A caller without a disk, a server with one.
fn pair(seed: u64, link: LinkConfig, how: Serving) -> (World, NodeIndex, NodeIndex) {
    let mut world = World::new(seed, link);
    let (a, b) = (world.add(open(), false), world.add(serving(), true));
    world.serve(b, how);
    (world, a, b)
}

/// The first byte of each datagram that was recorded.
fn kinds(world: &World) -> Vec<u8> {
    world.wiretap.recorded.iter().map(|datagram| datagram.data[0]).collect()
}

#[test]
fn a_first_call_takes_one_round_trip_and_three_datagrams() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Serving::default());
    world.wiretap.recording = true;
    world.call(a, b, 100).unwrap();
    world.with(a, |node, now| node.close(now));
    world.run_for(20 * MS);
    all_delivered(&world, "after one round trip");
    assert_eq!(kinds(&world), [0x11, 0x12, 0x14]);
    let quiet = world.node(a).unwrap().is_quiet();
    assert!(quiet, "all is said");
    world.run_for(100 * SECOND);
    settled(&mut world, SECOND, "quiet");
}
