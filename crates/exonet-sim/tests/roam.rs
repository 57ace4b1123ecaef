//! Nodes whose addresses change, and an attacker that pretends that they do.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, open, pair, settled};
use core::time::Duration;
use exonet_proto::node::Config;
use exonet_sim::{LinkConfig, NodeIndex, World};

/// Traffic in both directions while `change` happens every now and then.
fn moving(world: &mut World, [a, b]: [NodeIndex; 2], mut change: impl FnMut(&mut World, usize)) {
    for round in 0..60 {
        let size = [50, 1_000, 20_000, 90_000][world.dice().below(4) as usize];
        // The applications always name the addresses where the nodes first met: a node that moves has to tell its
        // peer.
        world.send(a, b, size).unwrap();
        world.send(b, a, 200).unwrap();
        let pause = Duration::from_millis(world.dice().below(80));
        world.run_for(pause);
        change(world, round);
    }
}

#[test]
fn one_end_moves_many_times() {
    for seed in 0..40 {
        let (mut world, a, b) = pair(seed, bad_link(0.02));
        let mover = if seed % 2 == 0 { a } else { b };
        moving(&mut world, [a, b], |world, round| {
            if round % 12 == 5 {
                world.roam(mover);
            }
        });
        settled(&mut world, 400 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        forgotten(&mut world, &[a, b], 40, &format!("seed {seed}"));
    }
}

#[test]
fn a_port_changes_under_traffic() {
    for seed in 0..20 {
        let (mut world, a, b) = pair(seed, bad_link(0.02));
        moving(&mut world, [a, b], |world, round| {
            if round % 8 == 3 {
                world.rebind_port(a);
            }
        });
        settled(&mut world, 300 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
    }
}

#[test]
fn both_ends_move_at_once_and_are_told() {
    for seed in 0..40 {
        let (mut world, a, b) = pair(seed, bad_link(0.02));
        moving(&mut world, [a, b], |world, round| {
            if round % 20 == 10 {
                world.roam(a);
                world.roam(b);
                world.tell(a, b);
                world.tell(b, a);
            }
        });
        settled(&mut world, 300 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
    }
}

/// The only hint is the peer's first address: the peer was heard from another one since.
#[test]
fn where_a_peer_was_last_heard_is_where_it_is_looked_for() {
    let link = LinkConfig::perfect(10 * MS);
    let mut world = World::new(1, link.clone());
    let (a, b) =
        (world.add(open(), false), world.add(Config { sender_linger: 500 * SECOND, ..open() }, true));
    world.send(b, a, 100).unwrap();
    settled(&mut world, 300 * MS, "first");
    world.roam(a);
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "moved");
    let now = world.now();
    let outages = vec![exonet_sim::Outage { from: now, until: now + 400 * SECOND }];
    world.set_link(a, b, LinkConfig { outages, ..link });
    world.run_for(50 * SECOND);
    let peer = world.id(a).unwrap();
    let stats = world.node(b).unwrap().peer_stats(&peer).unwrap();
    assert_eq!(stats.remote, None, "the channel has ended");
    world.wiretap.recording = true;
    assert_eq!(world.with(b, |node, now| node.ping(now, peer, &[], 2)), Some(Ok(())));
    let first = world.wiretap.recorded.iter().find(|datagram| datagram.from == world.address(b).unwrap());
    assert_eq!(first.map(|datagram| datagram.to), world.address(a));
}

#[test]
fn who_only_receives_and_moves_is_found_again() {
    for seed in 0..20 {
        let (mut world, a, b) = pair(seed, bad_link(0.02));
        world.send(a, b, 100).unwrap();
        settled(&mut world, 400 * MS, "first");
        let (id, old) = (world.id(b).unwrap(), world.address(b).unwrap());
        for _ in 0..20 {
            let body = vec![0; 20_000].into();
            let message = exonet_proto::node::Outgoing { body, ..Default::default() };
            world.with(a, |node, now| node.send(now, id, &[old], message)).unwrap().unwrap();
        }
        world.set_reads(b, false);
        world.run_for(25 * MS);
        world.roam(b);
        world.run_for(130 * SECOND);
        assert_eq!(world.node(a).unwrap().stats().open_messages, 20);
        let mut received = 0;
        while world.with(b, |node, now| node.recv(now)).flatten().is_some() {
            received += 1;
        }
        assert_eq!(received, 20, "seed {seed}: its own reminders showed where it is");
    }
}

/// Copies of each datagram, with this probability, seem to come from another address and arrive first.
fn spoofed(seed: u64, probability: f64, mut change: impl FnMut(&mut World, usize, [NodeIndex; 2])) {
    let what = format!("seed {seed}, {probability}");
    let mut world = World::new(seed, LinkConfig { jitter: 2 * MS, ..LinkConfig::perfect(10 * MS) });
    world.spoof = probability;
    for _ in 0..3 {
        world.nobody();
    }
    let (a, b) = (world.add(open(), false), world.add(open(), true));
    moving(&mut world, [a, b], |world, round| change(world, round, [a, b]));
    settled(&mut world, 5 * SECOND, &what);
    all_delivered(&world, &what);
    world.spoof = 0.0;
    forgotten(&mut world, &[a, b], 180, &what);
    for reflected in world.wiretap.reflected.values() {
        assert!(reflected.taken > 0, "{what}");
        assert!(!reflected.amplified, "{what}: {reflected:?}");
    }
}

#[test]
fn copies_from_elsewhere_lead_nobody_astray() {
    for seed in 0..20 {
        spoofed(seed, 0.05, |_, _, _| {});
        spoofed(seed, 0.5, |_, _, _| {});
        spoofed(seed, 1.0, |_, _, _| {});
    }
}

#[test]
fn copies_from_elsewhere_while_one_end_moves() {
    for seed in 100..120 {
        spoofed(seed, 0.1, |world, round, nodes| {
            if round % 20 == 10 {
                world.roam(nodes[seed as usize % 2]);
            }
        });
    }
}

#[test]
fn traffic_stays_where_it_is_under_spoofing() {
    let run = |spoof| {
        let mut world = World::new(5, LinkConfig::limited(10 * MS, 12_500_000, 200_000));
        world.spoof = spoof;
        world.spoof_early = false;
        world.nobody();
        let (a, b) = (world.add(open(), false), world.add(open(), true));
        let begun = world.now();
        world.send(a, b, 8 << 20).unwrap();
        settled(&mut world, 3 * SECOND, "large");
        world.now().since(begun)
    };
    let (calm, attacked) = (run(0.0), run(0.2));
    assert!(attacked < calm * 3, "{attacked:?}, without the attack {calm:?}");
}
