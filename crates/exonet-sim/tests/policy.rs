//! Which peers may talk to a node.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::net::SocketAddr;

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, open, settled};
use exonet_proto::node::{Config, Event, Outcome, Policy, Refusal};
use exonet_proto::wire::Params;
use exonet_sim::hostile::Impostor;
use exonet_sim::{LinkConfig, NodeIndex, World};

/// Any other peer gets no answer.
fn only(ids: impl IntoIterator<Item = exonet_proto::NodeId>) -> Config {
    Config { tell_refused: false, ..Config::new(Policy::Only(ids.into_iter().collect())) }
}

#[test]
fn who_is_refused_is_told_and_leaves_nothing() {
    let mut world = World::new(1, bad_link(0.0));
    let stranger = world.add(open(), true);
    let host = world.add(Config { tell_refused: true, ..only([]) }, true);
    let refused = world.send(stranger, host, 1_000).unwrap();
    world.run_for(5 * SECOND);
    assert_eq!(world.ledger.outcome_of(refused), Some(Outcome::Refused(Refusal::Policy)));
    assert_eq!((world.ledger.totals().taken, world.node(host).unwrap().stats().peers), (0, 0));
    forgotten(&mut world, &[stranger, host], 500, "afterwards");
}

#[test]
fn only_those_listed_get_in_and_others_cost_nothing() {
    let mut world = World::new(1, bad_link(0.0));
    let (friend, stranger) = (world.add(open(), true), world.add(open(), true));
    let host = world.add(only([world.id(friend).unwrap()]), true);
    world.send(friend, host, 1_000).unwrap();
    settled(&mut world, 300 * MS, "a friend");
    let refused = world.send(stranger, host, 1_000).unwrap();
    let from = world.sent_by(host);
    world.run_for(5 * SECOND);
    assert_eq!(world.ledger.outcome_of(refused), None);
    assert_eq!(world.ledger.totals().taken, 1);
    let stats = world.node(host).unwrap().stats();
    assert!(stats.openings_refused > 2 && stats.half_open == 0 && stats.peers <= 1, "{stats:?}");
    let stranger_id = world.id(stranger).unwrap();
    assert_eq!(world.node(host).unwrap().peer_stats(&stranger_id), None);
    assert!(world.sent_by(host) - from < 5, "a stranger is not answered");
    world.with(stranger, |node, now| node.abandon_peer(now, &node.peers()[0]));
    forgotten(&mut world, &[friend, host, stranger], 20, "afterwards");
}

#[test]
fn who_is_sent_to_is_let_in() {
    let mut world = World::new(1, bad_link(0.0));
    let (friend, host) = (world.add(open(), true), world.add(only([]), true));
    world.send(friend, host, 100).unwrap();
    world.run_for(5 * SECOND);
    assert_eq!(world.ledger.totals().taken, 0);
    world.send(host, friend, 100).unwrap();
    settled(&mut world, 2 * SECOND, "sent to first");
    all_delivered(&world, "both ways");
}

#[test]
fn the_application_is_asked_once_and_its_word_counts() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (good, bad) = (world.add(open(), true), world.add(open(), true));
    let host = world.add(Config { tell_refused: false, ..Config::new(Policy::Ask) }, true);
    world.send(good, host, 100).unwrap();
    let refused = world.send(bad, host, 100).unwrap();
    world.run_for(3 * SECOND);
    let mut asked: Vec<_> = world.events(host).into_iter().collect();
    let (good_id, bad_id) = (world.id(good).unwrap(), world.id(bad).unwrap());
    asked.retain(|event| matches!(event, Event::Authorize { .. }));
    let ids: Vec<_> = asked
        .iter()
        .map(|event| if let Event::Authorize { id, .. } = event { *id } else { good_id })
        .collect();
    assert_eq!(ids.len(), 2, "each once: {ids:?}");
    assert!(ids.contains(&good_id) && ids.contains(&bad_id));
    assert_eq!((world.ledger.totals().taken, world.node(host).unwrap().stats().peers), (0, 0));
    let now = world.now();
    world.with(host, |node, now| node.admit(now, good_id, true));
    world.with(host, |node, now| node.admit(now, bad_id, false));
    while world.ledger.totals().delivered == 0 {
        world.run_for(10 * MS);
        assert!(world.now().since(now) < 100 * MS, "the opening that waited is answered at once");
    }
    world.run_for(3 * SECOND);
    let again = world.events(host);
    assert!(
        again.iter().any(|event| matches!(event, Event::Authorize { id, .. } if *id == bad_id)),
        "{again:?}"
    );
    assert_eq!(world.ledger.outcome_of(refused), None);
    assert!(world.node(host).unwrap().peer_stats(&bad_id).is_none());
    world.with(bad, |node, now| node.abandon_peer(now, &node.peers()[0]));
    forgotten(&mut world, &[good, host, bad], 20, "afterwards");
}

fn questions(world: &mut World, host: NodeIndex) -> usize {
    world.events(host).iter().filter(|event| matches!(event, Event::Authorize { .. })).count()
}

#[test]
fn those_who_wait_for_a_word_are_bounded() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(Config::new(Policy::Ask), true);
    for _ in 0..100 {
        let stranger = world.add(open(), false);
        world.send(stranger, host, 100).unwrap();
        world.run_for(10 * MS);
        world.remove(stranger);
    }
    assert_eq!(questions(&mut world, host), 16, "all of one prefix");
    assert_eq!(world.node(host).unwrap().stats().peers, 0);
}

#[test]
fn forged_addresses_leave_places_for_who_proves_one() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(Config::new(Policy::Ask), true);
    let (id, to) = (world.id(host).unwrap(), world.address(host).unwrap());
    for i in 0..1_000_u32 {
        let opening = Impostor::new(id, world.dice()).open(Params::default(), |_| {}).unwrap();
        let [_, _, b, c] = i.to_be_bytes();
        world.inject(SocketAddr::from(([100, b, c, 1], 9_000)), to, opening);
        world.run_for(2 * MS);
    }
    assert_eq!(questions(&mut world, host), 128, "half of all places");
    assert!(world.node(host).unwrap().stats().retries >= 872);
    let stranger = world.add(open(), false);
    world.send(stranger, host, 100).unwrap();
    world.run_for(10 * MS);
    assert_eq!(questions(&mut world, host), 1, "who is there is asked about");
    let id = world.id(stranger).unwrap();
    world.with(host, |node, now| node.admit(now, id, true));
    settled(&mut world, 300 * MS, "let in");
}

#[test]
fn leave_given_to_nobody_leaves_nothing() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let (host, other) = (world.add(Config::new(Policy::Ask), true), world.add(open(), false));
    let id = world.id(other).unwrap();
    world.with(host, |node, now| node.admit(now, id, true));
    assert_eq!(world.node(host).unwrap().stats().peers, 0);
}
