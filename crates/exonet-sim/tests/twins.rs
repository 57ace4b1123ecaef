//! Two nodes with one identity, because a state directory was copied: both ends are told, and from then on no delivery
//! is claimed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, bad_link, open, settled};
use exonet_proto::node::{Conflict, Outcome};
use exonet_sim::{Disk, LinkConfig, NodeIndex, World};

/// The disk of a copy whose original has been started `lives` times.
fn copied(lives: u64) -> Disk {
    Disk { clock: lives << 32, life: lives, ..Disk::default() }
}

/// A peer, and two nodes with one identity.
fn twins(seed: u64, link: LinkConfig, disks: [Disk; 2]) -> (World, NodeIndex, [NodeIndex; 2]) {
    let mut world = World::new(seed, link);
    let peer = world.add(open(), true);
    let twins = disks.map(|disk| world.add_with_key(open(), [7; 32], Some(disk)));
    (world, peer, twins)
}

/// The conflict of identities that this node reports for the other.
fn says(world: &World, node: NodeIndex, other: NodeIndex) -> Option<Conflict> {
    world.node(node).unwrap().conflict(&world.id(other).unwrap())
}

/// Whether all three nodes know of the conflict.
fn is_known(world: &World, peer: NodeIndex, twins: [NodeIndex; 2]) -> bool {
    says(world, peer, twins[0]) == Some(Conflict::Theirs)
        && twins.iter().all(|twin| says(world, *twin, peer) == Some(Conflict::Ours))
}

fn link(seed: u64) -> LinkConfig {
    if seed.is_multiple_of(2) { LinkConfig::perfect(10 * MS) } else { bad_link(0.05) }
}

#[test]
fn copies_that_send_are_told_and_claim_nothing_from_then_on() {
    for seed in 0..40 {
        // In some worlds one is a later life, as if the original ran while it was copied.
        let disks = [copied(3), copied(3 + seed / 2 % 2)];
        let (mut world, peer, twins) = twins(seed, link(seed), disks);
        let mut rounds = 0;
        while !is_known(&world, peer, twins) {
            for twin in twins {
                world.send(twin, peer, 100).unwrap();
            }
            world.run_for(100 * MS);
            rounds += 1;
            assert!(rounds < 200, "seed {seed}: nobody is told");
        }
        let before = world.ledger.totals().delivered;
        let later: Vec<u64> = (0..20).map(|n| world.send(twins[n % 2], peer, 100).unwrap()).collect();
        settled(&mut world, 5 * SECOND, &format!("seed {seed}"));
        assert_eq!(world.ledger.totals().delivered, before, "seed {seed}");
        assert!(later.iter().all(|message| world.ledger.outcome_of(*message) == Some(Outcome::Cancelled)));
    }
}

#[test]
fn copies_that_take_turns_are_told_before_anything_of_the_second_is_taken() {
    for seed in 0..40 {
        let (mut world, peer, [first, second]) = twins(seed, link(seed), [copied(3), copied(3)]);
        for _ in 0..3 {
            world.send(first, peer, 100).unwrap();
        }
        settled(&mut world, 10 * SECOND, &format!("seed {seed}, the first"));
        assert_eq!(world.ledger.totals().delivered, 3);
        let later: Vec<u64> = (0..3).map(|_| world.send(second, peer, 100).unwrap()).collect();
        settled(&mut world, 20 * SECOND, &format!("seed {seed}, the second"));
        assert_eq!(says(&world, peer, first), Some(Conflict::Theirs), "seed {seed}");
        assert_eq!(says(&world, second, peer), Some(Conflict::Ours), "seed {seed}");
        assert!(later.iter().all(|message| !world.ledger.is_taken(*message)), "seed {seed}");
        assert_eq!(world.ledger.totals().delivered, 3, "seed {seed}");
    }
}

#[test]
fn copies_that_receive_are_told_and_nothing_is_delivered_from_then_on() {
    for seed in 0..40 {
        let (mut world, peer, twins) = twins(seed, link(seed), [copied(3), copied(4)]);
        let mut rounds = 0;
        while says(&world, peer, twins[0]).is_none() {
            // The peer receives from both, and continues with the one that came last.
            let twin = twins[rounds / 20 % 2];
            if rounds % 20 == 0 {
                world.send(twin, peer, 100).unwrap();
            }
            world.send(peer, twin, 100).unwrap();
            world.run_for(100 * MS);
            rounds += 1;
            assert!(rounds < 400, "seed {seed}: the peer does not find out");
        }
        let delivered = world.ledger.totals().delivered;
        let later: Vec<u64> = (0..20).map(|n| world.send(peer, twins[n % 2], 100).unwrap()).collect();
        settled(&mut world, 30 * SECOND, &format!("seed {seed}"));
        let told = twins.iter().filter(|twin| says(&world, **twin, peer) == Some(Conflict::Ours)).count();
        assert!(told >= 1, "seed {seed}");
        // The delivery of a twin's own messages may have been claimed before.
        let late = world.ledger.totals().delivered - delivered;
        assert_eq!(late, 0, "seed {seed}: delivered late");
        assert!(later.iter().all(|message| world.ledger.outcome_of(*message) == Some(Outcome::Cancelled)));
    }
}

/// Each crash makes another process, and datagrams of all of them arrive late and twice.
#[test]
fn crashes_and_replays_are_no_conflict() {
    for seed in 0..40 {
        let mut world = World::new(seed, bad_link(0.1));
        let (a, b) = (world.add(open(), true), world.add(open(), true));
        for round in 0..60 {
            world.send(a, b, 100).unwrap();
            world.send(b, a, 100).unwrap();
            // Processes that start at the same instant would draw the same secrets from the world's dice.
            let pause = 1 + world.dice().below(600) as u32;
            world.run_for(MS * pause);
            world.crash(if round % 3 == 0 { b } else { a });
        }
        settled(&mut world, 60 * SECOND, &format!("seed {seed}"));
        assert_eq!((says(&world, a, b), says(&world, b, a)), (None, None), "seed {seed}");
    }
}
