//! Callers that vanish: what they leave behind, how other peers are affected, and what happens when they come back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, forgotten, forgotten_vanished, open, settled};
use core::time::Duration;
use exonet_proto::node::{Config, Node, Outcome};
use exonet_sim::{LinkConfig, NodeIndex, Serving, World};

/// How long replies are kept, callers are waited for, and bounds of stamps are remembered.
const KAPPA: Duration = Duration::from_secs(300);
/// A reply that was a message is given up, its sender record closes, and the farewell is lost.
const FAREWELL: Duration = Duration::from_secs(60);

fn serving() -> Config {
    Config { serves: true, ..open() }
}

fn server(world: &mut World, size: usize) -> NodeIndex {
    let host = world.add(serving(), true);
    world.serve(host, Serving { within: 3 * MS, size, ..Serving::default() });
    host
}

/// Cuts the links between the two, or restores them.
fn part(world: &mut World, a: NodeIndex, b: NodeIndex, parted: bool) {
    let link = LinkConfig { loss: if parted { 1.0 } else { 0.0 }, ..LinkConfig::perfect(2 * MS) };
    world.set_link(a, b, link.clone());
    world.set_link(b, a, link);
}

/// A new caller calls once, and vanishes after `life`.
fn call_and_vanish(world: &mut World, host: NodeIndex, early: bool, life: Duration) {
    let caller = world.add(Config { early, ..open() }, false);
    world.call(caller, host, 50).unwrap();
    world.run_for(life);
    world.remove(caller);
}

/// The resources that the node holds for peers, except for bounds of stamps.
fn held(node: &Node) -> Vec<&'static str> {
    let mut all = Vec::new();
    node.audit(|holding| {
        assert!(holding.is_sound(), "{holding:?}");
        all.extend((holding.held > 0 && !holding.what.starts_with("bounds")).then_some(holding.what));
    });
    let stats = node.stats();
    assert_eq!((stats.peers, stats.sender_records, stats.receiver_records, stats.replies), (0, 0, 0, 0));
    all
}

/// The caller vanishes before the reply leaves, while the reply is in flight, when the caller has the reply but has
/// not confirmed it, and later.
#[test]
fn a_thousand_callers_that_vanish_leave_nothing() {
    for size in [50, 5_000] {
        let mut world = World::new(1, LinkConfig::perfect(2 * MS));
        let host = server(&mut world, size);
        world.wiretap.recording = true;
        for i in 0..1_000 {
            // An early call arrives after 2 ms, any other after 6.
            let (early, life) = (i % 2 == 0, [3, 5, 8, 30][i / 2 % 4]);
            call_and_vanish(&mut world, host, early, MS * if early { life } else { life + 4 });
        }
        world.wiretap.recording = false;
        let tape: Vec<_> = world.wiretap.recorded.drain(..).collect();
        assert_eq!(world.node(host).unwrap().peer_count(), 1_000);
        world.run_for(KAPPA + FAREWELL);
        let node = world.node(host).unwrap();
        assert_eq!(held(node), [""; 0], "{size}");
        assert_eq!((node.stats().callers_evicted, node.stats().evictions), (1_000, 1_000), "{size}");
        assert_eq!(world.ledger.totals().taken, 1_000);
        world.run_for(KAPPA);
        assert_eq!(world.node(host).unwrap().poll_timeout(), None, "{size}: nothing is waited for");
        for datagram in &tape {
            world.inject(datagram.from, datagram.to, datagram.data.clone());
            world.run_for(MS);
        }
        world.run_for(SECOND);
        assert_eq!(world.ledger.totals().taken, 1_000, "{size}: none runs again");
        assert_eq!(world.ledger.violations(), [], "{size}");
        // The copies of openings have asked for slots, and might have come from a peer that is there.
        world.run_for(3_600 * SECOND);
        assert_eq!(held(world.node(host).unwrap()), [""; 0], "{size}: an hour later");
    }
}

/// With the keys of before, or as another process.
#[test]
fn a_caller_that_comes_back_calls_anew() {
    for (seed, size) in [(1, 50), (2, 5_000), (3, 50), (4, 5_000)] {
        let mut world = World::new(seed, LinkConfig::perfect(2 * MS));
        let host = server(&mut world, size);
        let callers: Vec<_> = (0..20).map(|_| world.add(open(), true)).collect();
        let mut first = Vec::new();
        for (i, caller) in callers.iter().enumerate() {
            first.push(world.call(*caller, host, 50).unwrap());
            let life = world.dice().below(20);
            world.run_for(Duration::from_millis(3 + life));
            if i % 2 == 0 {
                world.kill(*caller);
            } else {
                part(&mut world, *caller, host, true);
            }
        }
        world.run_for(2 * KAPPA);
        assert_eq!(held(world.node(host).unwrap()), [""; 0], "seed {seed}");
        let mut again = Vec::new();
        for (i, caller) in callers.iter().enumerate() {
            if i % 2 == 0 {
                world.boot(*caller);
            } else {
                part(&mut world, *caller, host, false);
            }
            world.run_for(SECOND);
            again.push(world.call(*caller, host, 50).unwrap());
        }
        // Copies of an opening that has failed for a long time are up to 4 s apart.
        settled(&mut world, 4500 * MS, &format!("seed {seed}"));
        for call in again {
            assert_eq!(world.ledger.outcome_of(call), Some(Outcome::Delivered), "seed {seed}");
        }
        let nodes: Vec<_> = callers.iter().copied().chain([host]).collect();
        forgotten(&mut world, &nodes, 150, &format!("seed {seed}"));
    }
}

/// Callers vanish at the host for an hour.
fn hour(world: &mut World, host: NodeIndex) {
    let before = world.node(host).unwrap().clock().b();
    for _ in 0..60 {
        call_and_vanish(world, host, true, 30 * MS);
        world.run_for(60 * SECOND);
    }
    assert!(world.node(host).unwrap().clock().b() > before, "others might feel it");
}

/// After an hour without a network, a sender is told the outcomes of its messages: they were delivered, and their
/// record has nothing else to do.
#[test]
fn a_sender_away_for_an_hour_hears_that_its_messages_were_delivered() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    // All numbers that it may ask for are used up.
    let config = Config { clock_block: 4, early: false, ..open() };
    let (sender, host) = (world.add(config, true), server(&mut world, 50));
    world.disk(sender).unwrap().stuck = true;
    let messages: Vec<_> = (0..4).map(|_| world.send(sender, host, 100).unwrap()).collect();
    world.run_for(25 * MS);
    world.set_link(host, sender, LinkConfig { loss: 1.0, ..LinkConfig::perfect(10 * MS) });
    world.run_for(10 * MS);
    part(&mut world, sender, host, true);
    assert_eq!((world.ledger.totals().taken, world.ledger.totals().delivered), (4, 0));
    hour(&mut world, host);
    part(&mut world, sender, host, false);
    world.run_for(10 * SECOND);
    for message in messages {
        assert_eq!(world.ledger.outcome_of(message), Some(Outcome::Delivered));
    }
    world.disk(sender).unwrap().stuck = false;
    forgotten_vanished(&mut world, &[sender, host], 40, "in the end");
}
