//! Identities that move to other machines while their peers talk with them: no message is lost, duplicated or out of
//! order, and no node talks to the copies that are left behind.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::{MS, SECOND, bad_link, open, settled};
use exonet_proto::Generation;
use exonet_proto::node::{Conflict, Durability, StreamEnd};
use exonet_sim::{Disk, Image, LinkConfig, NodeIndex, World};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A service and its clients, with journals.
fn service(seed: u64, link: LinkConfig, durability: Durability) -> (World, NodeIndex, Vec<NodeIndex>) {
    let mut world = World::new(seed, link);
    let disk = || {
        Disk::slow(if durability == Durability::Forced { 3 * MS } else { Duration::ZERO })
            .with_journal(durability)
    };
    let service = world.add_on(open(), Some(disk()));
    let clients = (0..3).map(|_| world.add_on(open(), Some(disk()))).collect();
    (world, service, clients)
}

fn talk(world: &mut World, service: NodeIndex, clients: &[NodeIndex]) {
    for _ in 0..10 {
        let client = clients[world.dice().below(3) as usize];
        let name = NAMES[world.dice().below(3) as usize];
        let size = [8, 200, 5_000, 60_000][world.dice().below(4) as usize];
        let (from, to) = if world.dice().chance(0.5) { (client, service) } else { (service, client) };
        // The service says nothing while it runs nowhere.
        if world.is_up(from) {
            world.say(from, to, name, size, StreamEnd::Open).unwrap();
        }
        let pause = Duration::from_micros(world.dice().below(20_000));
        world.run_for(pause);
    }
}

/// Each client talks with the service.
fn meet(world: &mut World, service: NodeIndex, clients: &[NodeIndex]) {
    for client in clients {
        world.say(*client, service, "a", 8, StreamEnd::Open).unwrap();
    }
    world.run_for(2 * SECOND);
}

/// The service moves, and only its greeting tells its clients. Returns the copy that is left behind.
fn moves(world: &mut World, service: NodeIndex, clients: &[NodeIndex]) -> Image {
    world.freeze(service);
    let left = world.image(service).unwrap();
    // The process may die before the identity is ceded: then the service continues where it was, as if it had not been
    // frozen.
    if world.dice().chance(0.2) {
        world.boot(service);
        world.freeze(service);
    }
    world.cede(service);
    talk(world, service, clients);
    world.boot(service);
    world.greet(service);
    left
}

/// Checks that every message was taken once, except for those that an application has rejected.
fn all_taken(world: &World, what: &str) {
    let totals = world.ledger.totals();
    assert_eq!(totals.taken + totals.withdrawn, totals.sent, "{what}: {totals:?}");
    assert_eq!(totals.unknown, 0, "{what}: {totals:?}");
}

#[test]
fn streams_go_on_in_order_where_their_service_moves() {
    for seed in 0..24_u64 {
        let durability = if seed % 3 == 0 { Durability::Forced } else { Durability::Written };
        let link = if seed.is_multiple_of(2) { LinkConfig::perfect(5 * MS) } else { bad_link(0.05) };
        let (mut world, service, clients) = service(seed, link, durability);
        for round in 0..6 {
            talk(&mut world, service, &clients);
            drop(moves(&mut world, service, &clients));
            if round % 3 == 2 {
                // Its new machine dies as soon as it speaks again, or a little later.
                let after = Duration::from_micros(world.dice().below(60_000));
                world.run_for(after);
                world.freeze(service);
                world.boot(service);
            }
        }
        talk(&mut world, service, &clients);
        settled(&mut world, 60 * SECOND, &format!("seed {seed}"));
        all_taken(&world, &format!("seed {seed}"));
        let met = |client: &NodeIndex| world.node(*client).unwrap().stay_of(&world.id(service).unwrap());
        assert!(clients.iter().all(|client| met(client).unwrap().generation == Generation(6)), "seed {seed}");
    }
}

/// The copy starts where it was, with everything that it had, and its peers have met the later generation.
#[test]
fn what_is_left_behind_is_told_so_and_heard_by_nobody() {
    for seed in 0..24_u64 {
        let link = if seed.is_multiple_of(2) { LinkConfig::perfect(5 * MS) } else { bad_link(0.05) };
        let (mut world, service, clients) = service(seed, link, Durability::Written);
        talk(&mut world, service, &clients);
        let left = moves(&mut world, service, &clients);
        if seed % 4 < 2 {
            // The copy starts before they have met it.
            world.start_copy(service, left.clone());
        }
        talk(&mut world, service, &clients);
        world.run_for(SECOND);
        let copy = world.start_copy(service, left).unwrap();
        talk(&mut world, service, &clients);
        settled(&mut world, 60 * SECOND, &format!("seed {seed}"));
        all_taken(&world, &format!("seed {seed}"));
        world.run_for(10 * SECOND);
        let told = |client: &NodeIndex| world.node(copy).unwrap().conflict(&world.id(*client).unwrap());
        let said: Vec<_> = clients.iter().filter_map(told).collect();
        assert!(
            !said.is_empty() && said.iter().all(|said| *said == Conflict::Moved),
            "seed {seed}: {said:?}"
        );
    }
}

/// What a service was at its departure is at two places of the next generation. The clients have met the first.
#[test]
fn of_two_holders_of_one_generation_the_one_that_was_met_goes_on() {
    for seed in 0..16_u64 {
        let link = if seed.is_multiple_of(2) { LinkConfig::perfect(5 * MS) } else { bad_link(0.05) };
        let (mut world, service, clients) = service(seed, link, Durability::Written);
        meet(&mut world, service, &clients);
        world.freeze(service);
        world.cede(service);
        // By its numbers, the second holder might be the next life of the first.
        let second = world.second_holder(service, if seed % 4 < 2 { 1 << 40 } else { 0 }).unwrap();
        world.boot(service);
        world.greet(service);
        talk(&mut world, service, &clients);
        world.run_for(SECOND);
        let second = world.start_copy(service, second).unwrap();
        for _ in 0..3 {
            clients.iter().for_each(|client| world.tell_wrong(*client, service, second));
            world.freeze(service);
            world.boot(service);
            talk(&mut world, service, &clients);
            world.greet(second);
            world.run_for(SECOND);
        }
        settled(&mut world, 60 * SECOND, &format!("seed {seed}"));
        all_taken(&world, &format!("seed {seed}"));
        let told = |client: &NodeIndex| world.node(second).unwrap().conflict(&world.id(*client).unwrap());
        let said: Vec<_> = clients.iter().filter_map(told).collect();
        assert!(
            !said.is_empty() && said.iter().all(|said| *said == Conflict::Moved),
            "seed {seed}: {said:?}"
        );
    }
}
