//! Keys that are renewed under traffic, channels that are opened from both sides, identities that are used twice.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, forgotten_after_copies, open, settled};
use exonet_proto::node::{Config, Event};
use exonet_sim::{Disk, LinkConfig, World};

#[test]
fn keys_are_renewed_under_traffic() {
    let mut at_a_fifth_lost = 0;
    for seed in 0..30 {
        let loss = [0.0, 0.02, 0.2][seed as usize % 3];
        let config = Config { rekey_after: 200 * MS, ..open() };
        let mut world = World::new(seed, bad_link(loss));
        let (a, b) = (world.add(config.clone(), true), world.add(config, true));
        for _ in 0..300 {
            let size = world.dice().below(20_000) as usize;
            world.send(a, b, size).unwrap();
            world.send(b, a, 100).unwrap();
            let pause = Duration::from_millis(world.dice().below(40));
            world.run_for(pause);
        }
        settled(&mut world, 400 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        let stats = world.node(a).unwrap().stats();
        if loss < 0.1 {
            assert!(stats.handshakes > 10, "seed {seed}: {}", stats.handshakes);
        } else {
            at_a_fifth_lost += stats.handshakes;
        }
        world.run_for(30 * SECOND);
        let mut quiet = 0;
        for node in [a, b] {
            assert!(!world.events(node).iter().any(|event| matches!(event, Event::IdentityConflict { .. })));
            quiet += world.node(node).unwrap().stats().open_messages;
        }
        assert_eq!(quiet, 0);
    }
    // Each opening or answer that is lost costs 250 ms, 500 ms, 1 s and so on of the six seconds: in one world that
    // may be nearly all.
    assert!(at_a_fifth_lost > 120, "{at_a_fifth_lost} in ten worlds");
}

#[test]
fn renewing_keys_costs_no_retransmission_on_a_clean_link() {
    let config = Config { rekey_after: 300 * MS, ..open() };
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(config.clone(), true), world.add(config, true));
    for _ in 0..500 {
        world.send(a, b, 3_000).unwrap();
        world.run_for(5 * MS);
    }
    settled(&mut world, 300 * MS, "all");
    let (a, b) = (world.node(a).unwrap().stats(), world.node(b).unwrap().stats());
    assert!(a.handshakes >= 6, "{a:?} {b:?}");
    assert_eq!((a.packets_lost, b.duplicates_suppressed, b.strays, a.strays), (0, 0, 0, 0));
}

#[test]
fn keys_that_nobody_uses_are_not_renewed() {
    let config = Config { rekey_after: 10 * SECOND, idle_timeout: 30 * SECOND, ..open() };
    let mut world = World::new(1, bad_link(0.02));
    let (a, b) = (world.add(config.clone(), true), world.add(config, true));
    for _ in 0..30 {
        world.send(a, b, 100).unwrap();
        world.run_for(SECOND);
    }
    assert!(world.node(a).unwrap().stats().handshakes >= 3, "while there is traffic they are");
    forgotten(&mut world, &[a, b], 30, "idle");
}

#[test]
fn openings_that_cross_leave_one_channel() {
    for seed in 0..60 {
        let mut world = World::new(seed, bad_link([0.0, 0.1, 0.4][seed as usize % 3]));
        let (a, b) = (world.add(open(), true), world.add(open(), true));
        for _ in 0..20 {
            world.send(a, b, 500).unwrap();
            world.send(b, a, 500).unwrap();
        }
        settled(&mut world, 5 * SECOND, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        forgotten_after_copies(&mut world, &[a, b], 300, &format!("seed {seed}"));
    }
}

#[test]
fn two_processes_with_one_identity_are_reported() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let b = world.add(open(), true);
    let secret = [7; 32];
    // The second disk is like that of a later life of the first.
    let disks = [0, 1].map(|clock| Disk { clock: clock << 40, life: clock, ..Disk::default() });
    let twins = disks.map(|disk| world.add_with_key(open(), secret, Some(disk)));
    for _ in 0..3 {
        for twin in twins {
            world.send(twin, b, 100).unwrap();
            world.run_for(3 * SECOND);
        }
    }
    let conflict = world.events(b).iter().any(|event| matches!(event, Event::IdentityConflict { .. }));
    assert!(conflict);
}

#[test]
fn a_restart_is_no_conflict() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    for _ in 0..6 {
        world.send(a, b, 100).unwrap();
        world.run_for(3 * SECOND);
        world.crash(a);
    }
    let events = world.events(b);
    assert!(!events.iter().any(|event| matches!(event, Event::IdentityConflict { .. })), "{events:?}");
}

#[test]
fn renewal_alone_keeps_no_channel() {
    let config = Config { rekey_after: 5 * SECOND, ..open() };
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(config.clone(), true), world.add(config, true));
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "one message");
    forgotten(&mut world, &[a, b], 30, "used once");
}
