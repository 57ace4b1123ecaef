//! Applications that do not read, or read slowly; bodies that are written and read in pieces.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, open, settled};
use exonet_proto::node::{
    BodyRead, Config, DeliveryKey, Event, Incoming, IncomingBody, Limits, Outcome, Outgoing, SendError, Stats,
};
use exonet_sim::{Disk, LinkConfig, NodeIndex, World};

const MIB: usize = 1 << 20;

fn limited(limits: Limits) -> Config {
    Config { limits, ..open() }
}

/// A queue with room for more than the tests send.
fn roomy() -> Config {
    limited(Limits { queued_bytes: 1 << 30, ..Limits::default() })
}

fn stats(world: &World, node: NodeIndex) -> Stats {
    world.node(node).unwrap().stats()
}

fn accept(world: &mut World, node: NodeIndex) -> Option<Incoming> {
    world.with(node, |node, now| node.accept(now)).flatten()
}

/// Waits for a streamed message.
fn stream(world: &mut World, node: NodeIndex) -> DeliveryKey {
    for _ in 0..1_000 {
        if let Some(incoming) = accept(world, node) {
            assert!(matches!(incoming.body, IncomingBody::Stream { .. }));
            return incoming.key;
        }
        world.run_for(10 * MS);
    }
    panic!("nothing came");
}

/// Reads up to `bytes` of a body, in virtual time; returns the bytes that were read.
fn read(world: &mut World, node: NodeIndex, key: DeliveryKey, bytes: usize) -> (Vec<u8>, BodyRead) {
    let mut got = Vec::new();
    for _ in 0..10_000 {
        match world.with(node, |node, now| node.body_read(now, key)).unwrap() {
            BodyRead::Data(data) => got.extend_from_slice(&data),
            BodyRead::Pending => world.run_for(10 * MS),
            end => return (got, end),
        }
        if got.len() >= bytes {
            return (got, BodyRead::Pending);
        }
    }
    (got, BodyRead::Pending)
}

#[test]
fn an_application_that_does_not_read_holds_the_sender_up() {
    for (seed, loss) in [(1, 0.0), (2, 0.02), (3, 0.1)] {
        let limits = Limits { pool_window: 256 << 10, ..Limits::default() };
        let mut world = World::new(seed, bad_link(loss));
        let (a, b) = (world.add(open(), true), world.add(limited(limits), true));
        world.set_reads(b, false);
        for i in 0..2_000 {
            world.send(a, b, 100 + i % 3_000).unwrap();
        }
        let mut most = 0;
        for _ in 0..200 {
            world.run_for(50 * MS);
            most = most.max(stats(&world, b).received_bytes);
        }
        assert!(most > 150 << 10 && most <= 400 << 10, "{most}");
        assert_eq!((world.ledger.totals().delivered, stats(&world, b).violations), (0, 0));
        let before = world.datagrams;
        world.run_for(60 * SECOND);
        assert!(
            world.datagrams - before < 1_500,
            "{} datagrams while nothing moves",
            world.datagrams - before
        );
        world.set_reads(b, true);
        settled(&mut world, 1500 * MS, "it reads again");
        all_delivered(&world, "it reads again");
        forgotten(&mut world, &[a, b], 30, "in the end");
    }
}

#[test]
fn copies_of_what_waits_are_not_kept() {
    let link = LinkConfig { duplicate: 0.6, jitter: 5 * MS, ..LinkConfig::perfect(10 * MS) };
    let mut world = World::new(1, link);
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    world.set_reads(b, false);
    for _ in 0..100 {
        world.send(a, b, 1_000).unwrap();
    }
    world.run_for(5 * SECOND);
    assert_eq!(stats(&world, b).received_bytes, 100 * (1_001 + 160));
    world.set_reads(b, true);
    settled(&mut world, 300 * MS, "it reads");
    all_delivered(&world, "it reads");
}

#[test]
fn many_senders_fill_no_more_than_the_node_takes() {
    let limits = Limits { received_bytes: MIB, pool_window: 512 << 10, ..Limits::default() };
    let mut world = World::new(1, bad_link(0.01));
    let b = world.add(limited(limits), true);
    world.set_reads(b, false);
    let senders: Vec<_> = (0..8).map(|_| world.add(open(), true)).collect();
    for sender in &senders {
        for _ in 0..20 {
            world.send(*sender, b, 40_000).unwrap();
        }
        world.send(*sender, b, 2 * MIB).unwrap();
        world.send(*sender, b, 6 * MIB).unwrap();
    }
    let mut in_vain = 0;
    for round in 0..30 {
        world.run_for(100 * MS);
        let Stats { received_bytes, dropped_for_room, .. } = stats(&world, b);
        assert!(received_bytes <= MIB + 1_500, "{received_bytes}");
        if round == 9 {
            in_vain = dropped_for_room;
        }
    }
    let (first, then) = (in_vain, stats(&world, b).dropped_for_room - in_vain);
    assert!(first > 0 && then < 5_000, "{then} messages found no room in two seconds, after {first}");
}

#[test]
fn what_found_no_room_comes_again_though_others_flow() {
    let limits = Limits { received_bytes: 20_000, ..Limits::default() };
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let (a, b) = (world.add(open(), true), world.add(limited(limits), true));
    world.set_reads(b, false);
    let old: Vec<_> = (0..30).map(|_| world.send_as(a, b, 1_000, Outgoing::default()).unwrap().0).collect();
    world.run_for(300 * MS);
    assert!(stats(&world, b).dropped_for_room > 0);
    world.set_reads(b, true);
    for _ in 0..3_000 {
        world.send(a, b, 10).unwrap();
        world.run_for(MS);
    }
    let delivered = |number: &&u64| world.ledger.outcome_of(**number) == Some(Outcome::Delivered);
    assert_eq!(old.iter().filter(delivered).count(), old.len());
}

/// Many small messages in one packet, and messages that become whole: the overhead of the queue for each message
/// counts too.
#[test]
fn room_is_for_all_that_is_held() {
    for (cap, size) in [(2_000, 20), (100_000, 33_280)] {
        let limits = Limits { received_bytes: cap, ..Limits::default() };
        let mut world = World::new(1, LinkConfig::perfect(MS));
        let (a, b) = (world.add(open(), true), world.add(limited(limits), true));
        world.set_reads(b, false);
        for _ in 0..100 {
            world.send(a, b, size).unwrap();
        }
        world.run_for(5 * SECOND);
        let held = stats(&world, b).received_bytes;
        // No peer has more than what is left for all.
        assert!(held > cap / 4 && held <= cap, "{held} of {cap}");
        world.set_reads(b, true);
        settled(&mut world, 5 * SECOND, "it reads");
        all_delivered(&world, "it reads");
    }
}

#[test]
fn what_found_no_room_comes_again() {
    let limits = Limits { received_bytes: 5 * MIB, ..Limits::default() };
    let mut world = World::new(1, LinkConfig::limited(5 * MS, 50_000_000, 1_000_000));
    let b = world.add(limited(limits), true);
    world.set_reads(b, false);
    let first = world.add(open(), true);
    for _ in 0..50 {
        world.send(first, b, 60_000).unwrap();
    }
    world.run_for(SECOND);
    let senders: Vec<_> = (0..4).map(|_| world.add(open(), true)).collect();
    for sender in &senders {
        world.send(*sender, b, 900 << 10).unwrap();
        world.send(*sender, b, 6 * MIB).unwrap();
        for _ in 0..30 {
            world.send(*sender, b, 40_000).unwrap();
        }
    }
    world.run_for(10 * SECOND);
    assert!(stats(&world, b).dropped_for_room > 0);
    world.set_reads(b, true);
    settled(&mut world, 2 * SECOND, "it reads again");
    all_delivered(&world, "it reads again");
    let nodes: Vec<_> = senders.into_iter().chain([b, first]).collect();
    forgotten(&mut world, &nodes, 50, "in the end");
}

#[test]
fn a_full_queue_says_so_and_says_when_it_is_not() {
    let limits = Limits { queued_messages: 10, ..Limits::default() };
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(limited(limits), true), world.add(open(), true));
    for _ in 0..10 {
        world.send(a, b, 100).unwrap();
    }
    assert_eq!(world.send(a, b, 100), Err(SendError::Full));
    settled(&mut world, 300 * MS, "ten");
    assert!(world.events(a).iter().any(|event| matches!(event, Event::Sendable { .. })));
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "one more");
}

#[test]
fn large_bodies_both_ways_over_bad_links() {
    for seed in 0..6 {
        let limits = Limits { body_window: 512 << 10, stream_above: 300 << 10, ..Limits::default() };
        let mut world = World::new(seed, bad_link(0.01));
        let (a, b) = (world.add(limited(limits.clone()), true), world.add(limited(limits), true));
        for size in [70_000, 250_000, 400_000, 2 * MIB] {
            world.send(a, b, size).unwrap();
            world.send(b, a, size).unwrap();
        }
        let (_, key) = world.send_stream(a, b, 3 * MIB as u64).unwrap();
        world.write(a, key, 3 * MIB);
        let (_, small) = world.send_stream(b, a, 5_000).unwrap();
        world.write(b, small, 5_000);
        settled(&mut world, 2 * SECOND, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        forgotten(&mut world, &[a, b], 50, &format!("seed {seed}"));
    }
}

#[test]
fn what_the_peer_does_not_take_never_leaves() {
    let mut world = World::new(1, bad_link(0.0));
    let modest = Limits { message: 10_000, ..Limits::default() };
    let (a, b) = (world.add(open(), true), world.add(limited(modest), true));
    let (large, _) = world.send_as(a, b, 50_000, Outgoing::default()).unwrap();
    world.send(a, b, 10_000).unwrap();
    settled(&mut world, 300 * MS, "both");
    assert_eq!(world.ledger.outcome_of(large), Some(Outcome::Cancelled));
    assert_eq!(world.ledger.totals().delivered, 1);
    let refused = world.send_as(a, b, 50_000, Outgoing::default());
    assert!(matches!(refused, Err(SendError::TooLarge { limit: 10_000, .. })), "{refused:?}");
    forgotten(&mut world, &[a, b], 20, "in the end");
}

#[test]
fn a_large_message_without_a_slot_does_not_hold_up_one_that_has() {
    let mut world = World::new(1, bad_link(0.0));
    let single = Limits { slots: 1, ..Limits::default() };
    let (a, b) = (world.add(open(), true), world.add(limited(single), true));
    for _ in 0..3 {
        world.send(a, b, 400_000).unwrap();
    }
    settled(&mut world, SECOND, "one slot");
    all_delivered(&world, "one slot");
}

#[test]
fn every_ping_is_answered_or_said_to_be_lost() {
    let mut world = World::new(1, bad_link(0.0));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    let (id, address) = (world.id(b).unwrap(), world.address(b).unwrap());
    for cookie in 0..100 {
        world.with(a, |node, now| node.ping(now, id, &[address], cookie)).unwrap().unwrap();
    }
    world.run_for(5 * SECOND);
    let pongs = world.events(a).iter().filter(|event| matches!(event, Event::Pong { .. })).count();
    assert_eq!(pongs, 100);
}

#[test]
fn twenty_bodies_at_once() {
    let mut world = World::new(1, LinkConfig::limited(5 * MS, 50_000_000, 500_000));
    let (a, b) = (world.add(roomy(), true), world.add(open(), true));
    for _ in 0..20 {
        world.send(a, b, 2 * MIB).unwrap();
    }
    let begun = world.now();
    settled(&mut world, 3 * SECOND, "all");
    all_delivered(&world, "all");
    let took = world.now().since(begun);
    assert!(took < 3 * SECOND, "40 MiB at 50 MB/s: {took:?}");
}

#[test]
fn a_writer_with_less_room_than_the_window_it_is_granted_goes_on() {
    for (seed, window) in [0, 64 << 10, 200 << 10, 1 << 20].into_iter().enumerate() {
        let mut world = World::new(seed as u64, bad_link(0.01));
        let small = Limits { body_window: window, ..Limits::default() };
        let (a, b) = (world.add(limited(small), true), world.add(open(), true));
        for len in [3 * MIB as u64, 9 * MIB as u64 + 17] {
            let (_, key) = world.send_stream(a, b, len).unwrap();
            world.write(a, key, len as usize);
            settled(&mut world, 30 * SECOND, &format!("window {window}, {len} bytes"));
            let told = world.events(a).iter().any(|event| matches!(event, Event::BodyWritable { .. }));
            assert!(told, "window {window}: the application learns that there is room");
        }
        all_delivered(&world, &format!("window {window}"));
    }
}

#[test]
fn a_slow_writer_and_a_slow_reader() {
    let mut world = World::new(1, bad_link(0.02));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    let (_, key) = world.send_stream(a, b, 10 * MIB as u64).unwrap();
    for step in 1..=10 {
        world.write(a, key, step * MIB / 2);
        world.run_for(5 * SECOND);
        assert_eq!(world.ledger.totals().delivered, 0);
    }
    world.set_reads(b, false);
    world.write(a, key, 10 * MIB);
    world.run_for(60 * SECOND);
    assert!(stats(&world, b).received_bytes <= (4 * MIB) + (64 << 10));
    for _ in 0..10 {
        world.set_reads(b, true);
        world.set_reads(b, false);
        world.run_for(20 * SECOND);
    }
    world.set_reads(b, true);
    settled(&mut world, 300 * MS, "in the end");
    all_delivered(&world, "in the end");
    forgotten(&mut world, &[a, b], 20, "in the end");
}

#[test]
fn done_before_the_end_delivers_nothing() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    world.set_reads(b, false);
    world.send(a, b, 8 * MIB).unwrap();
    let key = stream(&mut world, b);
    let (got, _) = read(&mut world, b, key, MIB);
    assert!(got.len() >= MIB);
    assert_eq!(world.with(b, |node, now| node.done(now, key)), Some(false));
    assert_eq!(world.with(b, |node, now| node.body_read(now, key)), Some(BodyRead::Aborted));
    world.run_for(5 * SECOND);
    assert_eq!(world.ledger.totals().delivered, 0);
    world.set_reads(b, true);
    settled(&mut world, 300 * MS, "from the start");
    all_delivered(&world, "from the start");
    forgotten(&mut world, &[a, b], 20, "in the end");
}

#[test]
fn a_body_given_back_comes_again_from_the_start() {
    for seed in 0..10 {
        let mut world = World::new(seed, bad_link(0.02));
        let (a, b) = (world.add(open(), true), world.add(open(), true));
        world.set_reads(b, false);
        world.send(a, b, 3 * MIB).unwrap();
        for at in [1, 100_000, 2 * MIB, 3 * MIB] {
            let key = stream(&mut world, b);
            let (got, _) = read(&mut world, b, key, at);
            assert!(got.len() >= at);
            world.with(b, |node, now| node.release(now, key));
        }
        world.set_reads(b, true);
        settled(&mut world, 800 * MS, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        // Mostly 50, but each datagram that is lost here causes others.
        forgotten(&mut world, &[a, b], 600, &format!("seed {seed}"));
    }
}

/// The bytes that were written and read are gone at either end: the message cannot be sent again.
#[test]
fn a_written_body_given_back_after_its_start_is_gone_ends_unknown() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    world.set_reads(b, false);
    let (number, key) = world.send_stream(a, b, 20 * MIB as u64).unwrap();
    world.write(a, key, 20 * MIB);
    let delivery = stream(&mut world, b);
    read(&mut world, b, delivery, 6 * MIB);
    world.run_for(SECOND);
    world.ledger.excuse(number);
    world.with(b, |node, now| node.release(now, delivery));
    settled(&mut world, 1500 * MS, "given back");
    assert_eq!(world.ledger.outcome_of(number), Some(Outcome::Unknown));
    world.run_for(SECOND);
    assert_eq!(stats(&world, b).received_bytes, 0);
    world.set_reads(b, true);
    world.send(a, b, 100).unwrap();
    settled(&mut world, 300 * MS, "the next");
    forgotten(&mut world, &[a, b], 20, "in the end");
}

#[test]
fn a_body_that_nobody_reads_blocks_only_itself() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let (a, b) = (world.add(roomy(), true), world.add(open(), true));
    world.set_reads(b, false);
    world.send(a, b, 16 * MIB).unwrap();
    let ignored = stream(&mut world, b);
    world.set_reads(b, true);
    for _ in 0..100 {
        world.send(a, b, 10_000).unwrap();
        world.send(a, b, 200_000).unwrap();
    }
    world.send(a, b, 16 * MIB).unwrap();
    world.run_for(10 * SECOND);
    assert_eq!(world.ledger.totals().delivered, 201);
    world.with(b, |node, now| node.release(now, ignored));
    settled(&mut world, 3 * SECOND, "given back");
    all_delivered(&world, "given back");
}

#[test]
fn the_reader_of_an_abandoned_body_is_told() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    world.set_reads(b, false);
    let (number, key) = world.send_stream(a, b, 20 * MIB as u64).unwrap();
    world.write(a, key, 3 * MIB);
    let delivery = stream(&mut world, b);
    let (got, _) = read(&mut world, b, delivery, 3 * MIB - 1);
    assert!(got.len() < 3 * MIB + 1);
    while world.with(b, |node, now| node.body_read(now, delivery)) != Some(BodyRead::Pending) {
        world.run_for(MS);
    }
    world.events(b);
    world.ledger.excuse(number);
    world.with(a, |node, now| node.abandon(now, key));
    world.run_for(SECOND);
    assert!(world.events(b).contains(&Event::BodyReadable { key: delivery }));
    assert_eq!(world.with(b, |node, now| node.body_read(now, delivery)), Some(BodyRead::Aborted));
    assert_eq!(world.with(b, |node, now| node.done(now, delivery)), Some(false));
    assert_eq!(stats(&world, b).received_bytes, 0, "its memory is given back");
    forgotten(&mut world, &[a, b], 20, "in the end");
}

/// Nothing is left to send or to ask for, but the receiver has to be told.
#[test]
fn what_waits_and_is_abandoned_is_dropped_there() {
    for streamed in [false, true] {
        let mut world = World::new(1, LinkConfig::perfect(5 * MS));
        let (a, b) = (world.add(open(), true), world.add(open(), true));
        for _ in 0..50 {
            world.send(a, b, 100).unwrap();
        }
        settled(&mut world, 300 * MS, "envelopes in stock");
        world.set_reads(b, false);
        let size = if streamed { 3 * MIB } else { 50_000 };
        let (number, key) = world.send_as(a, b, size, Outgoing::default()).unwrap();
        world.run_for(SECOND);
        assert!(stats(&world, b).received_bytes >= 50_000);
        world.ledger.excuse(number);
        world.with(a, |node, now| node.abandon(now, key));
        world.run_for(100 * MS);
        assert_eq!(stats(&world, b).received_bytes, 0);
        world.set_reads(b, true);
        assert_eq!(world.ledger.totals().taken, 50);
    }
}

#[test]
fn given_up_bytes_do_not_use_up_the_window() {
    for seed in 0..4 {
        let limits = Limits { pool_window: 256 << 10, ..Limits::default() };
        let mut world = World::new(seed, LinkConfig { jitter: MS, ..LinkConfig::perfect(10 * MS) });
        let (a, b) = (world.add(open(), true), world.add(limited(limits), true));
        world.send(a, b, 100).unwrap();
        settled(&mut world, 300 * MS, "first");
        world.set_reads(b, false);
        for round in 0..40 {
            let keys: Vec<_> =
                (0..100).map(|_| world.send_as(a, b, 3_000, Outgoing::default()).unwrap()).collect();
            let large = world.send_as(a, b, 700_000, Outgoing::default()).unwrap();
            world.run_for((round % 5) * 10 * MS);
            for (number, key) in keys.into_iter().chain([large]) {
                world.ledger.excuse(number);
                world.with(a, |node, now| node.abandon(now, key));
            }
            world.run_for(20 * MS);
        }
        world.run_for(2 * SECOND);
        world.set_reads(b, true);
        world.run_for(SECOND);
        let (before, begun) = (world.ledger.totals().delivered, world.now());
        for _ in 0..300 {
            world.send(a, b, 3_000).unwrap();
        }
        settled(&mut world, 300 * MS, &format!("seed {seed}"));
        assert_eq!(world.ledger.totals().delivered, before + 300);
        let took = world.now().since(begun);
        assert_eq!(stats(&world, b).violations, 0, "the two ends agree on what may be sent");
        assert!(took < 200 * MS, "seed {seed}: {took:?}");
        forgotten(&mut world, &[a, b], 20, &format!("seed {seed}"));
    }
}

#[test]
fn envelopes_that_the_clock_does_not_allow_are_not_asked_for_in_every_packet() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let config = Config { clock_block: 16, ..limited(Limits { slots: 16, ..Limits::default() }) };
    let sender = world.add_on(config.clone(), Some(Disk::slow(148 * MS)));
    let receiver = world.add(config, false);
    world.send_stream(sender, receiver, 70_000).unwrap();
    world.run_for(SECOND);
    assert!(world.datagrams < 60, "{} datagrams while nothing is written", world.datagrams);
}

#[test]
fn what_a_silent_peer_left_in_part_makes_room_for_others() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(limited(Limits { received_bytes: 300 << 10, ..Limits::default() }), true);
    let (gone, other) = (world.add(open(), false), world.add(open(), false));
    let (_, key) = world.send_stream(gone, host, 200 << 10).unwrap();
    world.write(gone, key, 100 << 10);
    world.run_for(SECOND);
    world.remove(gone);
    world.run_for(70 * SECOND);
    assert!(stats(&world, host).received_bytes > 200 << 10, "set aside");
    world.send(other, host, 120 << 10).unwrap();
    settled(&mut world, 300 * MS, "the other's");
    assert_eq!(world.ledger.totals().delivered, 1);
}
