//! Tests of what the page claims, in the world that it shows.

use core::time::Duration;

use crate::{Link, Memory, Side, World};

const SECOND: Duration = Duration::from_secs(1);

fn settle(world: &mut World) {
    for _ in 0..600 {
        if world.open() == 0 && world.alice.node.is_some() && world.bob.node.is_some() {
            return;
        }
        world.run(SECOND);
    }
    assert_eq!(world.open(), 0, "{:?}", world.counts());
}

#[test]
fn a_thousand_messages_arrive_once_where_a_fifth_is_lost() {
    for seed in 1..4 {
        let mut world = World::new(seed);
        assert_eq!(world.send(1_000, None), 1_000);
        settle(&mut world);
        let counts = world.counts();
        assert_eq!((counts.delivered, counts.taken, counts.duplicates), (1_000, 1_000, 0), "{counts:?}");
        assert!(counts.lost > 20 && counts.copies > 0, "{counts:?}");
    }
}

#[test]
fn killed_with_a_journal_nothing_is_unknown() {
    for side in [Side::Alice, Side::Bob] {
        let mut world = World::new(5);
        world.send(300, None);
        world.run(SECOND / 2);
        assert!(world.open() > 0);
        world.kill(side, Memory::Journal);
        world.run(SECOND * 2);
        settle(&mut world);
        let counts = world.counts();
        assert_eq!((counts.delivered, counts.taken, counts.duplicates, counts.unknown), (300, 300, 0, 0));
    }
}

#[test]
fn a_receiver_that_forgets_leaves_unknown_and_no_double() {
    let mut world = World::new(6);
    world.send(300, None);
    world.run(SECOND / 2);
    world.kill(Side::Bob, Memory::Nothing);
    settle(&mut world);
    let counts = world.counts();
    assert!(counts.unknown > 0, "{counts:?}");
    assert_eq!((counts.delivered + counts.unknown, counts.duplicates), (300, 0), "{counts:?}");
    assert!(counts.taken >= counts.delivered);
}

#[test]
fn a_sender_that_forgets_is_told_nothing_and_doubles_nothing() {
    let mut world = World::new(7);
    world.send(300, None);
    world.run(SECOND / 2);
    world.kill(Side::Alice, Memory::Nothing);
    world.run(SECOND * 2);
    world.send(100, None);
    settle(&mut world);
    let counts = world.counts();
    assert!(counts.forgotten > 0 && counts.duplicates == 0, "{counts:?}");
    assert_eq!(counts.delivered + counts.forgotten, 400, "{counts:?}");
}

#[test]
fn old_packets_deliver_nothing_again() {
    let mut world = World::new(8);
    world.send(200, None);
    settle(&mut world);
    assert_eq!(world.replay(500), 500);
    world.run(SECOND * 5);
    world.kill(Side::Bob, Memory::Nothing);
    world.run(SECOND * 2);
    world.replay(500);
    world.run(SECOND * 5);
    let counts = world.counts();
    assert_eq!((counts.delivered, counts.taken, counts.duplicates), (200, 200, 0), "{counts:?}");
}

#[test]
fn what_cannot_leave_in_time_expires() {
    let mut world = World::new(9);
    // Only the cut disturbs the network.
    world.link.loss = 0;
    world.cut = true;
    world.send(10, Some(SECOND));
    world.run(SECOND * 2);
    world.cut = false;
    settle(&mut world);
    let counts = world.counts();
    assert_eq!((counts.expired + counts.delivered, counts.duplicates), (10, 0), "{counts:?}");
    assert!(counts.expired > 0, "{counts:?}");
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let story = |seed| {
        let mut world = World::new(seed);
        world.link = Link { loss: 300, ..Link::default() };
        world.send(100, None);
        world.run(SECOND);
        world.kill(Side::Bob, Memory::Journal);
        world.run(SECOND * 3);
        world.report().to_owned()
    };
    assert_eq!(story(10), story(10));
    assert_ne!(story(10), story(11));
}

#[test]
fn all_is_forgotten_in_the_end() {
    let mut world = World::new(12);
    world.send(50, None);
    settle(&mut world);
    world.run(SECOND * 60);
    let report = world.report();
    assert_eq!(report.matches("\"knows\":false").count(), 2, "{report}");
}
