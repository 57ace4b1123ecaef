//! A lane that the application does not read blocks only itself (PROTOCOL.md "Lanes").

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, open, settled};
use exonet_proto::node::{Config, Limits, Outgoing, Stats};
use exonet_sim::{LinkConfig, NodeIndex, Serving, World};

/// A pool for a tenth of a second at the rate of these tests.
const POOL: u64 = 128 << 10;

fn limits() -> Limits {
    Limits { pool_window: POOL, lane_window: 8 << 10, lane_pool: POOL, slots: 512, ..Limits::default() }
}

fn serving(limits: Limits) -> Config {
    Config { serves: true, limits, ..open() }
}

/// A caller, and a server with these limits.
fn pair(seed: u64, link: LinkConfig, limits: Limits) -> (World, NodeIndex, NodeIndex) {
    let mut world = World::new(seed, link);
    let (a, b) = (world.add(open(), true), world.add(serving(limits), true));
    world.serve(b, Serving { size: 20, ..Serving::default() });
    (world, a, b)
}

fn stats(world: &World, node: NodeIndex) -> Stats {
    world.node(node).unwrap().stats()
}

fn calls(world: &mut World, (from, to): (NodeIndex, NodeIndex), method: &str, size: usize, n: usize) {
    for _ in 0..n {
        world.call_method(from, to, method, size).unwrap();
    }
}

fn messages(world: &mut World, (from, to): (NodeIndex, NodeIndex), size: usize, n: usize) {
    for _ in 0..n {
        world.send(from, to, size).unwrap();
    }
}

/// The traffic that is not read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unread {
    Nothing,
    Method,
    Messages,
}

/// For two seconds, sends calls of a method that is served and, unless messages are what is not read, messages; in
/// parallel, unread traffic of `size` bytes each, faster than its lane takes it. Returns how many of the former were
/// taken after each tenth of a second.
fn taken_beside(unread: Unread, size: usize, (seed, loss): (u64, f64)) -> Vec<usize> {
    let link = if loss > 0.0 { bad_link(loss) } else { LinkConfig::perfect(10 * MS) };
    let (mut world, a, b) = pair(seed, link, limits());
    world.set_diet(b, unread != Unread::Messages, Some(&["served"]));
    let (mut read, mut counts) = (Vec::new(), Vec::new());
    let mut most = 0;
    for step in 0..40 {
        for _ in 0..20 {
            read.push(world.call_method(a, b, "served", 1_000).unwrap());
            match unread {
                Unread::Nothing => {}
                Unread::Method => {
                    read.push(world.send(a, b, 1_000).unwrap());
                    calls(&mut world, (a, b), "unread", size, 3);
                }
                Unread::Messages => messages(&mut world, (a, b), size, 3),
            }
        }
        world.run_for(50 * MS);
        most = most.max(stats(&world, b).received_bytes as u64);
        if step % 2 == 1 {
            counts.push(read.iter().filter(|number| world.ledger.is_taken(**number)).count());
        }
    }
    assert_eq!(world.ledger.violations(), [], "{unread:?}");
    let Stats { violations, dropped_for_room, .. } = stats(&world, b);
    assert_eq!((violations, dropped_for_room), (0, 0), "{unread:?}: the sender keeps to what there is");
    assert!(most <= 3 * POOL, "{unread:?}: {most}");
    world.set_diet(b, true, None);
    settled(&mut world, 20 * SECOND, "it reads everything");
    all_delivered(&world, "it reads everything");
    forgotten(&mut world, &[a, b], 400, "in the end");
    counts
}

#[test]
fn a_method_that_nobody_serves_stops_nothing_else() {
    for size in [10, 1_000, 10_000] {
        let counts = taken_beside(Unread::Method, size, (1, 0.0));
        // Everything that was sent until one trip ago has been taken.
        let late = (1..).zip(&counts).find(|(tenths, taken)| **taken + 40 < tenths * 80);
        assert_eq!(late, None, "{counts:?}");
    }
    let counts = taken_beside(Unread::Method, 1_000, (2, 0.02));
    assert!(counts[19] >= 1_500, "{counts:?}");
}

#[test]
fn messages_that_nobody_reads_stop_no_calls() {
    for size in [10, 1_000] {
        let counts = taken_beside(Unread::Messages, size, (1, 0.0));
        let late = (1..).zip(&counts).find(|(tenths, taken)| **taken + 20 < tenths * 40);
        assert_eq!(late, None, "{counts:?}");
    }
    let counts = taken_beside(Unread::Messages, 1_000, (2, 0.02));
    assert!(counts[19] >= 750, "{counts:?}");
}

#[test]
fn a_lone_lane_is_as_fast_as_messages() {
    let counts = taken_beside(Unread::Nothing, 0, (1, 0.0));
    let late = (1..).zip(&counts).find(|(tenths, taken)| **taken + 20 < tenths * 40);
    assert_eq!(late, None, "{counts:?}");
}

/// Among thousands of unread lanes, one that is read gets half of the pool, and messages get everything that they need.
#[test]
fn thousands_of_unread_lanes_leave_one_its_share() {
    let limits = Limits { lane_window: 1_024, lane_pool: 256 << 10, replies: 1 << 16, ..Limits::default() };
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), limits);
    world.set_diet(b, true, Some(&["served"]));
    for lane in 0..3_000 {
        let method = format!("unread {lane:05}");
        calls(&mut world, (a, b), &method, 400, 4);
    }
    world.run_for(2 * SECOND);
    let held = stats(&world, b).received_bytes;
    assert!((1_800_000..(3_000 + 256) << 10).contains(&held), "{held}");
    let mut read = Vec::new();
    for _ in 0..200 {
        read.push(world.call_method(a, b, "served", 1_000).unwrap());
        read.push(world.send(a, b, 1_000).unwrap());
    }
    let mut taken = Vec::new();
    for _ in 0..6 {
        world.run_for(25 * MS);
        taken.push(read.iter().filter(|number| world.ledger.is_taken(**number)).count());
    }
    assert_eq!(taken[5], 400, "{taken:?}");
    let Stats { violations, dropped_for_room, .. } = stats(&world, b);
    assert_eq!((violations, dropped_for_room), (0, 0));
    world.set_diet(b, true, None);
    settled(&mut world, 5 * SECOND, "all are read");
    all_delivered(&world, "all are read");
    forgotten(&mut world, &[a, b], 200, "in the end");
}

/// A reply that is too long for a frame waits for a window too, and the messages of its server have their own window.
#[test]
fn messages_that_the_caller_does_not_read_stop_no_replies() {
    let (mut world, a, b) = (World::new(1, LinkConfig::perfect(10 * MS)), open(), serving(limits()));
    let (a, b) = (world.add(Config { limits: limits(), ..a }, true), world.add(b, true));
    world.serve(b, Serving { size: 5_000, ..Serving::default() });
    world.set_reads(a, false);
    messages(&mut world, (b, a), 1_000, 2_000);
    world.run_for(SECOND);
    let calls: Vec<_> = (0..50).map(|_| world.call(a, b, 100).unwrap()).collect();
    world.run_for(SECOND);
    let replied = calls.iter().filter(|call| world.ledger.outcome_of(**call).is_some()).count();
    assert_eq!(replied, 50);
    world.set_reads(a, true);
    settled(&mut world, 5 * SECOND, "it reads");
    all_delivered(&world, "it reads");
}

/// A peer without lanes has a single pool.
#[test]
fn where_one_end_knows_no_lanes_there_are_none() {
    for ends in [[true, false], [false, true], [false, false]] {
        let [a, b] =
            ends.map(|lanes| Limits { lane_window: u64::from(lanes) << 13, lane_pool: 0, ..limits() });
        let mut world = World::new(1, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(Config { limits: a, ..open() }, true), world.add(serving(b), true));
        world.serve(b, Serving { size: 20, ..Serving::default() });
        world.set_diet(b, true, Some(&["served"]));
        calls(&mut world, (a, b), "unread", 1_000, 300);
        world.run_for(SECOND);
        let call = world.call_method(a, b, "served", 1_000).unwrap();
        world.run_for(SECOND);
        assert!(!world.ledger.is_taken(call), "{ends:?}: the pool is full");
        assert_eq!(stats(&world, b).dropped_for_room, 0, "{ends:?}");
        world.set_diet(b, true, None);
        settled(&mut world, SECOND, "all are read");
        all_delivered(&world, "all are read");
    }
}

/// With more methods than lanes, the others wait until fewer methods have open calls.
#[test]
fn lanes_that_are_too_many_take_turns() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Limits { lanes: 8, ..limits() });
    world.send(a, b, 100).unwrap();
    settled(&mut world, SECOND, "they know each other's limits");
    world.set_diet(b, true, Some(&[]));
    for lane in 0..100 {
        let method = format!("lane {lane:05}");
        calls(&mut world, (a, b), &method, 100, 2);
    }
    world.run_for(SECOND);
    assert_eq!((stats(&world, b).waiting, stats(&world, b).dropped_for_room), (16, 0));
    world.set_diet(b, true, None);
    settled(&mut world, 2 * SECOND, "all are read");
    all_delivered(&world, "all are read");
}

/// Calls that are given up in an unread lane stay open there, and in no other lane.
#[test]
fn unread_calls_that_are_given_up_leave_other_lanes_alone() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), limits());
    world.set_diet(b, true, Some(&["served"]));
    for round in 0..20 {
        let calls: Vec<_> = (0..40)
            .map(|_| {
                let message = Outgoing { tag: "unread".into(), ..Outgoing::default() };
                world.call_as(a, b, 1_000, message).unwrap().1
            })
            .collect();
        world.run_for(100 * MS);
        calls.into_iter().for_each(|key| world.abandon(a, key));
        let call = world.call_method(a, b, "served", 1_000).unwrap();
        world.run_for(100 * MS);
        assert!(world.ledger.is_taken(call), "{round}");
    }
    assert_eq!(stats(&world, b).violations, 0);
    assert_eq!(world.ledger.violations(), []);
}

/// A message that could be taken now finds memory: the unread lane that holds most releases its memory, and its
/// messages are sent again.
#[test]
fn memory_that_an_unread_lane_holds_is_given_to_others() {
    let limits = Limits { received_bytes: 128 << 10, replies: 1 << 16, ..Limits::default() };
    for messages in [false, true] {
        let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), limits.clone());
        world.send(a, b, 100).unwrap();
        settled(&mut world, SECOND, "they know each other's limits");
        world.set_diet(b, !messages, Some(&["served"]));
        match messages {
            true => self::messages(&mut world, (a, b), 1_000, 1_000),
            false => calls(&mut world, (a, b), "unread", 1_000, 1_000),
        }
        world.run_for(SECOND);
        assert!(stats(&world, b).received_bytes > 50 << 10, "one peer has half");
        let read: Vec<_> = (0..40).map(|_| world.call_method(a, b, "served", 1_000).unwrap()).collect();
        world.run_for(100 * MS);
        assert!(read.iter().all(|call| world.ledger.is_taken(*call)), "{messages}");
        assert!(stats(&world, b).received_bytes <= 128 << 10);
        world.set_diet(b, true, None);
        settled(&mut world, 20 * SECOND, "all are read");
        all_delivered(&world, "all are read");
    }
}
