//! The faults of the world: each has its effect, and ends.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, open, pair, settled};
use exonet_sim::{ClockConfig, LinkConfig, NodeSet, World};

fn taken(world: &World) -> u64 {
    world.ledger.totals().taken
}

#[test]
fn a_cut_stops_its_way_until_it_is_mended() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.send(a, b, 10).unwrap();
    settled(&mut world, 300 * MS, "met");
    world.cut(7, NodeSet::default().with(a.0), NodeSet::default().with(b.0));
    world.send(a, b, 10).unwrap();
    world.run_for(60 * SECOND);
    assert_eq!(taken(&world), 1);
    world.mend(7);
    settled(&mut world, 10 * SECOND, "mended");
    assert_eq!(taken(&world), 2);
}

#[test]
fn what_comes_to_a_stuck_process_waits_and_to_a_suspended_machine_is_lost() {
    for (hears, resent) in [(true, false), (false, true)] {
        let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
        world.send(a, b, 10).unwrap();
        settled(&mut world, 300 * MS, "met");
        world.stand_still(b, 150 * MS, hears);
        let before = world.node(b).unwrap().stats().datagrams_in;
        assert!(!world.is_up(b));
        world.send(a, b, 10).unwrap();
        world.run_for(149 * MS);
        assert_eq!(taken(&world), 1, "it stands still");
        world.run_for(MS);
        assert_eq!(taken(&world) == 1, resent, "hears: {hears}");
        settled(&mut world, 300 * MS, "it goes on");
        assert!(world.node(b).unwrap().stats().datagrams_in > before);
    }
}

#[test]
fn behind_a_translator_only_those_get_in_who_were_sent_to_lately() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.set_nat(b, Some(20 * SECOND));
    world.send(a, b, 10).unwrap();
    world.run_for(10 * SECOND);
    assert_eq!(taken(&world), 0, "nobody was sent to");
    world.send(b, a, 10).unwrap();
    settled(&mut world, 2 * SECOND, "b has spoken");
    let port = world.address(b).unwrap().port();
    world.run_for(100 * SECOND);
    world.send(b, a, 10).unwrap();
    assert_ne!(world.address(b).unwrap().port(), port, "its port has been given away");
    settled(&mut world, 300 * MS, "b has spoken again");
}

#[test]
fn an_application_takes_what_it_is_served() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.feed(b, Some(3));
    for _ in 0..10 {
        world.send(a, b, 10).unwrap();
    }
    world.run_for(10 * SECOND);
    assert_eq!(taken(&world), 3);
    world.feed(b, None);
    settled(&mut world, 300 * MS, "all that come");
}

#[test]
fn clocks_go_their_own_way_and_a_boot_may_begin_anew() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let node = world.add(open(), true);
    world.set_clock(node, ClockConfig { drift_ppm: 200, skew_seconds: 0, reboots: true });
    world.run_for(1_000 * SECOND);
    let drifted = world.clock(node);
    assert_eq!(drifted.mono.since(world.now()), 200 * MS);
    world.set_wall(node, -3_600);
    assert_eq!(drifted.wall.0 - world.clock(node).wall.0, 3_600_000_000_000);
    world.crash(node);
    assert!(world.clock(node).mono < drifted.mono);
}

/// No node can know the address of a peer that has moved and has forgotten the nodes that might want it.
#[test]
fn an_application_goes_by_the_address_it_was_told_until_it_asks_again() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.send(a, b, 10).unwrap();
    settled(&mut world, 300 * MS, "met");
    world.run_for(200 * SECOND);
    world.roam(b);
    world.send(a, b, 10).unwrap();
    world.run_for(90 * SECOND);
    assert_eq!(taken(&world), 1, "it looks where it was told");
    world.run_for(20 * SECOND);
    world.send(a, b, 10).unwrap();
    settled(&mut world, 4 * SECOND, "it has asked again");
    assert_eq!((taken(&world), world.coverage().looked_up, world.coverage().told), (3, 1, 0));
}

/// The messages that it has not taken by then arrive in its next life.
#[test]
fn a_node_that_ends_takes_nothing_more() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS));
    world.set_reads(b, false);
    world.send(a, b, 10).unwrap();
    world.run_for(SECOND);
    world.begin_end(b);
    world.set_reads(b, true);
    world.run_for(SECOND);
    assert_eq!((taken(&world), world.ledger.violations()), (0, &[][..]), "it has given the message back");
    assert!(world.has_told_its_end(b));
    world.end(b);
    world.boot(b);
    settled(&mut world, 300 * MS, "its next life takes it");
    assert_eq!(taken(&world), 1);
}
