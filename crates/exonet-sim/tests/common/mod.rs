//! Helpers that the scenario tests share.

#![allow(dead_code, unreachable_pub)]

pub mod heavy;
pub mod siege;

use core::time::Duration;

use exonet_proto::node::{Config, Node, Policy};
use exonet_sim::{LinkConfig, NodeIndex, World};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

pub fn open() -> Config {
    Config::new(Policy::Anyone)
}

/// A link with every fault at once.
pub fn bad_link(loss: f64) -> LinkConfig {
    LinkConfig {
        loss,
        duplicate: 0.02,
        corrupt: 0.01,
        jitter: 8 * MS,
        replay: 0.01,
        replay_after: 60 * SECOND,
        ..LinkConfig::perfect(10 * MS)
    }
}

/// A world of two nodes: the first ephemeral, the second with a disk.
pub fn pair(seed: u64, link: LinkConfig) -> (World, NodeIndex, NodeIndex) {
    let mut world = World::new(seed, link);
    let (a, b) = (world.add(open(), false), world.add(open(), true));
    (world, a, b)
}

/// Checks that no promise was broken so far, and that every message has an outcome `within` this time. The bounds in
/// the tests are two to three times the longest time that was seen over all of their seeds, and at least 300 ms.
#[track_caller]
pub fn settled(world: &mut World, within: Duration, what: &str) {
    let settled = world.run_until_settled(within);
    assert_eq!(world.ledger.violations(), [], "{what}");
    assert!(settled, "{what}: {:?}, {} open", world.ledger.totals(), world.ledger.open());
}

/// Checks that every message was delivered, and taken once.
#[track_caller]
pub fn all_delivered(world: &World, what: &str) {
    let totals = world.ledger.totals();
    assert_eq!((totals.delivered, totals.taken), (totals.sent, totals.sent), "{what}");
    assert_eq!(world.ledger.violations(), [], "{what}");
}

/// Peers are forgotten 10 s after the last message, when records close, and 30 s of an idle channel: that was 41 s.
/// The longest time that was seen, where farewells were lost, is 84 s.
const FORGETS: Duration = Duration::from_secs(120);
/// A peer that has vanished is forgotten after 231 s.
const FORGETS_VANISHED: Duration = Duration::from_secs(500);
/// Old copies of openings make tentative peers, which stay for an hour.
const FORGETS_COPIES: Duration = Duration::from_secs(4_000);
/// The bounds of the stamps of a peer that has gone stay this much longer.
const STAMPS: Duration = Duration::from_secs(301);

/// Checks that the nodes forget everything in the end, and send at most `most` datagrams until then: about twice the
/// number that was seen.
#[track_caller]
pub fn forgotten(world: &mut World, nodes: &[NodeIndex], most: u64, what: &str) {
    forget(world, nodes, most, [FORGETS, STAMPS], what);
}

/// Like [`forgotten`], where some nodes have vanished.
#[track_caller]
pub fn forgotten_vanished(world: &mut World, nodes: &[NodeIndex], most: u64, what: &str) {
    forget(world, nodes, most, [FORGETS_VANISHED, STAMPS], what);
}

/// Like [`forgotten`], where copies of openings arrive later.
#[track_caller]
pub fn forgotten_after_copies(world: &mut World, nodes: &[NodeIndex], most: u64, what: &str) {
    forget(world, nodes, most, [FORGETS_COPIES; 2], what);
}

/// Checks that all peers are forgotten within the first time, and everything within the second time after that.
#[track_caller]
fn forget(world: &mut World, nodes: &[NodeIndex], most: u64, [peers, everything]: [Duration; 2], what: &str) {
    let all = |world: &World, is: fn(&Node) -> bool| nodes.iter().all(|node| is(world.node(*node).unwrap()));
    let before = world.datagrams;
    let has_gone = |node: &Node| node.stats().peers == 0;
    let until = world.now() + peers;
    while world.now() < until && !all(world, has_gone) {
        world.run_for(SECOND);
    }
    assert!(all(world, has_gone), "{what}: peers are known after {peers:?}");
    let until = world.now() + everything;
    while world.now() < until && !all(world, |node| node.stats().peers == 0 && node.poll_timeout().is_none())
    {
        world.run_for(SECOND);
    }
    for node in nodes {
        let stats = world.node(*node).unwrap().stats();
        assert_eq!((stats.peers, stats.half_open, stats.received_bytes), (0, 0, 0), "{what}: {node:?}");
        assert_eq!(world.node(*node).unwrap().poll_timeout(), None, "{what}: {node:?} waits for nothing");
    }
    let chatter = world.datagrams - before;
    assert!(chatter < most, "{what}: {chatter} datagrams while quiet");
    let before = world.datagrams;
    world.run_for(4_000 * SECOND);
    assert_eq!(world.datagrams, before, "{what}: forgotten peers say nothing");
}
