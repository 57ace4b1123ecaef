//! Calls: they run at most once, and end with exactly one outcome.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;
use std::collections::VecDeque;

use crate::common::{MS, SECOND, all_delivered, bad_link, settled};
use bytes::Bytes;
use exonet_proto::node::{
    BodyWrite, CallId, Cancel, CancelError, Config, Early, Event, IncomingBody, Limits, NO_SUCH_METHOD,
    Outcome, Outgoing, ReplyBody, Status, TOO_LARGE,
};
use exonet_sim::{LinkConfig, NodeIndex, Serving, World};

/// Calls, and replies, leave with the handshake.
fn open() -> Config {
    Config { early: true, ..crate::common::open() }
}

fn serving() -> Config {
    Config { serves: true, ..open() }
}

/// A caller without a disk, a server with one.
fn pair(seed: u64, link: LinkConfig, how: Serving) -> (World, NodeIndex, NodeIndex) {
    let mut world = World::new(seed, link);
    let (a, b) = (world.add(open(), false), world.add(serving(), true));
    world.serve(b, how);
    (world, a, b)
}

/// The first byte of each datagram that was recorded.
fn kinds(world: &World) -> Vec<u8> {
    world.wiretap.recorded.iter().map(|datagram| datagram.data[0]).collect()
}

#[test]
fn a_first_call_takes_one_round_trip_and_three_datagrams() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Serving::default());
    world.wiretap.recording = true;
    world.call(a, b, 100).unwrap();
    world.with(a, |node, now| node.close(now));
    world.run_for(20 * MS);
    all_delivered(&world, "after one round trip");
    assert_eq!(kinds(&world), [0x11, 0x12, 0x14]);
    let quiet = world.node(a).unwrap().is_quiet();
    assert!(quiet, "all is said");
    world.run_for(100 * SECOND);
    settled(&mut world, 300 * MS, "quiet");
}

/// The only packet that follows is the farewell, 10 s later: a server whose STATE was read need not remind its caller.
#[test]
fn a_first_caller_that_stays_is_acknowledged_and_hears_no_more() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(50 * MS), Serving::default());
    world.call(a, b, 100).unwrap();
    world.run_for(9 * SECOND);
    all_delivered(&world, "after one round trip");
    let said = |world: &World| [a, b].map(|end| world.node(end).unwrap().stats().datagrams_out);
    assert_eq!(said(&world), [2, 2], "the call, the reply, and an acknowledgement of each");
    world.run_for(20 * SECOND);
    assert_eq!(said(&world), [3, 3], "its farewell");
    world.run_for(100 * SECOND);
    settled(&mut world, 300 * MS, "quiet");
}

/// Drops everything from `a` to `b`, or nothing.
fn deaf(world: &mut World, a: NodeIndex, b: NodeIndex, deaf: bool) {
    let loss = if deaf { 1.0 } else { 0.0 };
    world.set_link(a, b, LinkConfig { loss, ..LinkConfig::perfect(10 * MS) });
}

/// The number of replies that a node keeps.
fn replies(world: &World, node: NodeIndex) -> u64 {
    let mut replies = 0;
    world.node(node).unwrap().audit(|h| replies += if h.what == "replies" { h.held } else { 0 });
    replies
}

/// Checks that nothing is left at either end, after the longest linger.
#[track_caller]
fn quiet(world: &mut World, what: &str) {
    let quiet = world.run_to_quiet(4_000 * SECOND);
    assert_eq!(world.ledger.violations(), [], "{what}");
    assert!(quiet, "{what}");
}

#[test]
fn calls_of_every_size_are_answered_over_a_bad_network() {
    let sizes = [0, 8, 900, 1_040, 1_200, 60_000, 70_000, 1_500_000];
    for (seed, (size, reply)) in (0..).zip(sizes.iter().flat_map(|s| sizes.map(|r| (*s, r)))) {
        let how = Serving { within: 30 * MS, size: reply, ..Serving::default() };
        let (mut world, a, b) = pair(seed, bad_link(0.05), how);
        for _ in 0..3 {
            world.call(a, b, size).unwrap();
        }
        settled(&mut world, 2 * SECOND, &format!("seed {seed}, {size} there, {reply} back"));
        all_delivered(&world, &format!("seed {seed}, {size} there, {reply} back"));
        quiet(&mut world, &format!("seed {seed}, {size} there, {reply} back"));
    }
}

#[test]
fn many_calls_both_ways_among_messages() {
    for seed in 0..40 {
        let mut world = World::new(seed, bad_link(0.1));
        let nodes = [world.add(serving(), true), world.add(serving(), true), world.add(serving(), true)];
        for node in nodes {
            world.serve(node, Serving { within: 2_000 * MS, fails: 0.1, size: 300, ..Serving::default() });
        }
        for i in 0..150 {
            let (from, to) = (nodes[i % 3], nodes[(i + 1 + i / 3 % 2) % 3]);
            let size = [0, 50, 3_000][world.dice().below(3) as usize];
            if world.dice().chance(0.7) {
                world.call(from, to, size).unwrap();
            } else {
                world.send(from, to, size).unwrap();
            }
            let pause = Duration::from_micros(world.dice().below(20_000));
            world.run_for(pause);
        }
        settled(&mut world, 6 * SECOND, &format!("seed {seed}"));
        all_delivered(&world, &format!("seed {seed}"));
        quiet(&mut world, &format!("seed {seed}"));
    }
}

#[test]
fn a_lost_reply_comes_again() {
    for within in [0, 1, 50, 300, 2_000] {
        let how = Serving { within: within * MS, ..Serving::default() };
        let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), how);
        world.call(a, b, 100).unwrap();
        settled(&mut world, 2 * SECOND, "a channel");
        world.call(a, b, 100).unwrap();
        world.run_for(5 * MS);
        deaf(&mut world, b, a, true);
        world.run_for(within * MS + 500 * MS);
        assert_eq!(world.ledger.open(), 1);
        deaf(&mut world, b, a, false);
        settled(&mut world, 600 * MS, &format!("within {within} ms"));
        all_delivered(&world, &format!("within {within} ms"));
        quiet(&mut world, &format!("within {within} ms"));
    }
}

#[test]
fn a_lost_reply_ack_leaves_no_reply_behind() {
    let how = Serving { within: 100 * MS, ..Serving::default() };
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), how);
    world.call(a, b, 100).unwrap();
    world.run_for(30 * MS);
    deaf(&mut world, a, b, true);
    settled(&mut world, 300 * MS, "the reply is there");
    world.run_for(2 * SECOND);
    assert!(!world.node(b).unwrap().is_quiet(), "nobody has said so");
    assert_eq!(replies(&world, b), 1);
    deaf(&mut world, a, b, false);
    world.run_for(2 * SECOND);
    assert_eq!(replies(&world, b), 0, "the next copy draws a REPLY_ACK");
    assert_eq!(world.node(b).unwrap().stats().replies_forgotten, 0);
    quiet(&mut world, "in the end");
}

#[test]
fn a_reply_is_kept_for_its_time_and_then_the_call_is_unknown() {
    let kept = Config { reply_kept: 20 * SECOND, ..serving() };
    for (away, outcome) in [(15, Outcome::Delivered), (25, Outcome::Unknown)] {
        let mut world = World::new(1, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(open(), false), world.add(kept.clone(), true));
        world.serve(b, Serving { within: 100 * MS, ..Serving::default() });
        world.call(a, b, 100).unwrap();
        world.run_for(25 * MS);
        // The call is known to be delivered; from now on nothing passes.
        deaf(&mut world, a, b, true);
        deaf(&mut world, b, a, true);
        world.run_for(away * SECOND);
        deaf(&mut world, a, b, false);
        deaf(&mut world, b, a, false);
        settled(&mut world, 3 * SECOND, &format!("{away} s"));
        assert_eq!(world.ledger.outcome_of(0), Some(outcome), "{away} s");
        assert_eq!(world.node(b).unwrap().stats().replies_forgotten, u64::from(away > 20));
        quiet(&mut world, &format!("{away} s"));
    }
}

/// Only its number distinguishes a call from the one before it, whatever arrives late.
#[test]
fn a_late_copy_of_a_call_never_draws_the_reply_to_the_next() {
    for seed in 0..50 {
        let link = LinkConfig { duplicate: 0.3, replay: 0.5, replay_after: SECOND, ..bad_link(0.2) };
        let how = Serving { within: 20 * MS, size: 8, ..Serving::default() };
        let (mut world, a, b) = pair(seed, link, how);
        for _ in 0..40 {
            world.call(a, b, 20).unwrap();
            settled(&mut world, 1500 * MS, &format!("seed {seed}"));
        }
        all_delivered(&world, &format!("seed {seed}"));
        quiet(&mut world, &format!("seed {seed}"));
    }
}

#[test]
fn a_server_that_crashes_at_any_point_runs_nothing_twice() {
    let (mut unknown, mut delivered) = (0, 0);
    for seed in 0..300 {
        let how = Serving { within: 60 * MS, size: 20, ..Serving::default() };
        let (mut world, a, b) = pair(seed, bad_link(0.02), how);
        if seed % 2 == 0 {
            world.call(a, b, 20).unwrap();
            settled(&mut world, 800 * MS, "a channel");
        }
        world.call(a, b, 20).unwrap();
        let wait = Duration::from_micros(seed * 500);
        world.run_for(wait);
        world.crash(b);
        settled(&mut world, SECOND, &format!("seed {seed}"));
        let totals = world.ledger.totals();
        unknown += totals.unknown;
        delivered += totals.delivered;
        quiet(&mut world, &format!("seed {seed}"));
    }
    assert!(unknown > 30 && delivered > 150 + 30, "{unknown} unknown, {delivered} delivered");
}

#[test]
fn a_server_that_dies_while_computing_is_found_soon() {
    let how = Serving { never: 1.0, ..Serving::default() };
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), how);
    for i in 0..10 {
        let call = world.call(a, b, 20).unwrap();
        let before = world.datagrams;
        world.run_for(600 * SECOND + i * 500 * MS);
        let said = world.datagrams - before;
        assert!(said < 600, "{said} datagrams in ten minutes");
        assert_eq!(world.ledger.outcome_of(call), None, "it takes its time");
        world.crash(b);
        // The probe that is not answered, the longest silence before an opening, and a new channel.
        settled(&mut world, 5_000 * MS + 2 * SECOND + 100 * MS, "after the crash");
        assert_eq!(world.ledger.outcome_of(call), Some(Outcome::Unknown));
        // The next call is not bound to a slot of the dead process.
    }
    quiet(&mut world, "after the crashes");
}

#[test]
fn a_caller_that_crashes_gets_no_reply_to_what_it_has_forgotten() {
    for seed in 0..200 {
        let mut world = World::new(seed, bad_link(0.02));
        let (a, b) = (world.add(serving(), true), world.add(serving(), true));
        world.serve(
            b,
            Serving { within: 60 * MS, size: if seed % 3 == 0 { 5_000 } else { 20 }, ..Serving::default() },
        );
        for _ in 0..3 {
            world.call(a, b, 20).unwrap();
        }
        world.run_for(Duration::from_micros(seed * 500));
        world.crash(a);
        world.call(a, b, 20).unwrap();
        settled(&mut world, 600 * MS, &format!("seed {seed}"));
        quiet(&mut world, &format!("seed {seed}"));
    }
}

#[test]
fn whatever_is_replayed_at_any_time_runs_nothing_and_answers_nothing() {
    for seed in 0..12 {
        let how = Serving { within: 10 * MS, size: 20, ..Serving::default() };
        let (mut world, a, b) = pair(seed, bad_link(0.02), how);
        world.wiretap.recording = true;
        for _ in 0..4 {
            world.call(a, b, 20).unwrap();
            settled(&mut world, 800 * MS, "genuine");
            world.run_for(45 * SECOND);
        }
        world.wiretap.recording = false;
        let tape = std::mem::take(&mut world.wiretap.recorded);
        for wait in [0, 20, 400, 7_200] {
            world.run_for(wait * SECOND);
            if seed % 2 == 0 {
                world.crash(b);
            }
            if seed % 3 == 0 {
                world.call(a, b, 20).unwrap();
                world.run_for(5 * MS);
            }
            for datagram in &tape {
                world.inject(datagram.from, datagram.to, datagram.data.clone());
                world.run_for(MS);
            }
        }
        settled(&mut world, 800 * MS, &format!("seed {seed}"));
        quiet(&mut world, &format!("seed {seed}"));
    }
}

#[test]
fn two_thousand_callers_leave_the_server_as_it_was() {
    let mut world = World::new(1, LinkConfig::perfect(2 * MS));
    let host = world.add(Config { dead_after: 60 * SECOND, ..serving() }, true);
    world.serve(host, Serving { within: 3 * MS, size: 50, ..Serving::default() });
    let mut callers = VecDeque::new();
    for i in 0..2_000 {
        let caller = world.add(open(), false);
        world.call(caller, host, 50).unwrap();
        world.run_for(8 * MS);
        // Most close in an orderly way, some vanish.
        if i % 20 != 0 {
            world.with(caller, |node, now| node.close(now));
        }
        callers.push_back(caller);
        if callers.len() > 4 {
            world.remove(callers.pop_front().unwrap());
        }
    }
    world.run_for(SECOND);
    callers.into_iter().for_each(|caller| world.remove(caller));
    all_delivered(&world, "two thousand");
    quiet(&mut world, "two thousand");
}

#[test]
fn a_call_that_has_not_left_expires_or_is_cancelled() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Serving::default());
    deaf(&mut world, a, b, true);
    let deadline = Some(world.now() + SECOND);
    let (expired, _) = world.call_as(a, b, 20, Outgoing { deadline, ..Outgoing::default() }).unwrap();
    let late = Outgoing { early: Early::No, ..Outgoing::default() };
    let (cancelled, key) = world.call_as(a, b, 20, late).unwrap();
    assert_eq!(world.with(a, |node, now| node.cancel(now, key)), Some(Ok(Cancel::Done)));
    world.run_for(2 * SECOND);
    assert_eq!(world.ledger.outcome_of(expired), Some(Outcome::Expired));
    assert_eq!(world.ledger.outcome_of(cancelled), Some(Outcome::Cancelled));
    deaf(&mut world, a, b, false);
    quiet(&mut world, "neither ran");
    assert_eq!(world.ledger.totals().taken, 0);
}

#[test]
fn a_call_that_has_left_ends_at_its_deadline() {
    let how = Serving { within: Duration::ZERO, never: 1.0, ..Serving::default() };
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), how);
    let deadline = Some(world.now() + SECOND);
    let (call, _) = world.call_as(a, b, 20, Outgoing { deadline, ..Outgoing::default() }).unwrap();
    world.run_for(999 * MS);
    assert_eq!(world.ledger.outcome_of(call), None);
    world.run_for(2 * MS);
    assert_eq!(world.ledger.outcome_of(call), Some(Outcome::Unknown));
    world.drop_calls(b);
    quiet(&mut world, "late");
    assert_eq!(world.node(a).unwrap().stats().calls_unknown, 1);
}

#[test]
fn calls_wait_apart_by_method_and_are_refused_without_running() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Serving::default());
    world.set_reads(b, false);
    let (id, at) = (world.id(b).unwrap(), world.address(b).unwrap());
    let tagged = |tag: &'static str, size| Outgoing {
        tag: tag.into(),
        body: vec![7; size].into(),
        ..Outgoing::default()
    };
    world.with(a, |node, now| {
        for (method, size) in [("one", 1), ("two", 2), ("none", 3_000_000), ("none", 30), ("one", 4)] {
            node.call(now, id, &[at], tagged(method, size)).unwrap();
        }
        node.send(now, id, &[at], tagged("one", 5)).unwrap();
    });
    world.run_for(SECOND);
    let mut called: Vec<_> =
        world.events(b).into_iter().filter(|e| matches!(e, Event::Called { .. })).collect();
    called.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(called, ["none", "one", "two"].map(|method| Event::Called { method: method.into() }));
    world.with(b, |node, now| {
        node.refuse_calls(now, &"none".into(), NO_SUCH_METHOD);
        assert_eq!(node.stats().computing, 0, "refused");
        let message = node.recv(now).unwrap();
        assert_eq!((message.call, node.recv(now)), (None, None));
        for (method, sizes) in [("two", &[2][..]), ("one", &[1, 4])] {
            for size in sizes {
                let incoming = node.take_call(now, &method.into()).unwrap();
                assert_eq!(
                    (&incoming.tag, &incoming.body),
                    (&method.into(), &IncomingBody::Whole(vec![7; *size].into()))
                );
                assert!(node.reply(now, incoming.call.unwrap(), 0, Bytes::new()));
            }
            assert_eq!(node.take_call(now, &method.into()), None);
        }
        assert_eq!(node.take_any_call(now), None);
    });
    world.run_for(SECOND);
    let mut replies: Vec<_> = world
        .events(a)
        .into_iter()
        .filter_map(|event| match event {
            Event::Reply { status, .. } => Some(status),
            _ => None,
        })
        .collect();
    replies.sort_unstable();
    assert_eq!(replies, [0, 0, 0, NO_SUCH_METHOD, NO_SUCH_METHOD]);
    quiet(&mut world, "answered");
}

#[test]
fn a_call_may_be_written_as_it_goes_and_answered_before_its_end() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Serving::default());
    world.set_reads(b, false);
    let (id, at) = (world.id(b).unwrap(), world.address(b).unwrap());
    let len = 20_000_000;
    let key = world
        .with(a, |node, now| node.call_stream(now, id, &[at], Outgoing::default(), Some(len)).unwrap())
        .unwrap();
    let mut data = Bytes::from(vec![7; 12_000_000]);
    for waits in ["no more than the window", "nor than another that nobody reads"] {
        world.with(a, |node, now| node.body_write(now, key, &mut data));
        assert!(!data.is_empty(), "{waits}");
        world.run_for(SECOND);
    }
    world.events(a);
    let incoming = world.with(b, |node, now| node.take_any_call(now).unwrap()).unwrap();
    assert_eq!(incoming.body, IncomingBody::Stream { len: Some(len) });
    assert!(world.with(b, |node, now| node.cut(now, incoming.key)).unwrap());
    world.run_for(SECOND);
    assert!(world.events(a).contains(&Event::BodyWritable { key }), "who writes learns that it is in vain");
    assert_eq!(world.with(a, |node, now| node.body_write(now, key, &mut data)), Some(BodyWrite::Gone));
    assert!(world.with(b, |node, now| node.reply(now, incoming.call.unwrap(), 3, Bytes::new())).unwrap());
    world.run_for(SECOND);
    let replied = world.events(a).iter().any(|event| matches!(event, Event::Reply { status: 3, .. }));
    assert!(replied);
    quiet(&mut world, "cut");
}

#[test]
fn a_call_that_is_given_up_ends_unknown_and_its_reply_is_dropped() {
    for reply in [20, 5_000, 1_500_000] {
        let how = Serving { within: 100 * MS, size: reply, ..Serving::default() };
        let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), how);
        let (call, key) = world.call_as(a, b, 20, Outgoing::default()).unwrap();
        world.run_for(30 * MS);
        assert!(world.ledger.is_taken(call));
        assert_eq!(world.with(a, |node, now| node.cancel(now, key)), Some(Err(CancelError::InDoubt)));
        world.abandon(a, key);
        assert_eq!(world.ledger.outcome_of(call), Some(Outcome::Unknown));
        world.run_for(2 * SECOND);
        assert_eq!(replies(&world, b), 0, "the server need not keep it");
        assert_eq!(world.node(b).unwrap().stats().replies_forgotten, 0);
        quiet(&mut world, "given up");
    }
}

#[test]
fn who_does_not_serve_fails_calls_at_once() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(open(), false), world.add(open(), true));
    let (_, key) = world.call_as(a, b, 20, Outgoing::default()).unwrap();
    world.run_for(20 * MS);
    all_delivered(&world, "answered with the handshake");
    let status = world.with(a, |node, _| node.status(key));
    assert_eq!(status, Some(Status::Settled));
    quiet(&mut world, "no serving");
}

#[test]
fn beyond_the_caps_the_oldest_reply_goes_and_never_a_call() {
    for (limits, most) in [
        (Limits { replies: 3, ..Limits::default() }, 3),
        (Limits { reply_bytes: 3 * (160 + 500), ..Limits::default() }, 3),
    ] {
        let mut world = World::new(1, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(open(), false), world.add(Config { limits, ..serving() }, true));
        world.serve(b, Serving { within: 200 * MS, size: 500, ..Serving::default() });
        for _ in 0..10 {
            world.call(a, b, 20).unwrap();
        }
        world.run_for(25 * MS);
        deaf(&mut world, a, b, true);
        deaf(&mut world, b, a, true);
        world.run_for(300 * MS);
        assert_eq!(replies(&world, b), most);
        deaf(&mut world, a, b, false);
        deaf(&mut world, b, a, false);
        settled(&mut world, 500 * MS, "after the cut");
        let totals = world.ledger.totals();
        assert_eq!((totals.taken, totals.delivered), (10, most));
        quiet(&mut world, "after the cut");
    }
}

#[test]
fn an_answer_waits_for_a_reply_for_a_moment() {
    for seed in 0..10 {
        let how = Serving { within: 2 * MS, ..Serving::default() };
        let (mut world, a, b) = pair(seed, LinkConfig::perfect(10 * MS), how);
        world.wiretap.recording = true;
        world.call(a, b, 100).unwrap();
        world.with(a, |node, now| node.close(now));
        world.run_for(22 * MS);
        all_delivered(&world, "computed for a moment");
        assert_eq!(kinds(&world), [0x11, 0x12, 0x14], "seed {seed}");
    }
}

/// An application that takes calls one by one.
#[test]
fn only_a_call_that_was_taken_is_answered_and_only_once() {
    let (mut world, a, b) = pair(1, LinkConfig::perfect(10 * MS), Serving::default());
    world.set_reads(b, false);
    let (id, at) = (world.id(b).unwrap(), world.address(b).unwrap());
    let tagged = Outgoing { tag: (&b"method"[..]).into(), ..Outgoing::default() };
    let key = world.with(a, |node, now| node.call(now, id, &[at], tagged).unwrap()).unwrap();
    world.run_for(50 * MS);
    let Some(Status::InDoubt { id: sent, .. }) = world.node(a).map(|node| node.status(key)) else {
        panic!("it has left")
    };
    let caller = world.id(a).unwrap();
    world.with(b, |node, now| {
        assert_eq!(node.recv(now), None, "a call is no message");
        assert_eq!(node.take_call(now, &Bytes::from_static(b"other")), None);
        let call = CallId { caller, s: sent.s };
        assert!(!node.reply(now, call, 0, Bytes::new()), "not taken yet");
        let incoming = node.take_call(now, &Bytes::from_static(b"method")).unwrap();
        assert_eq!((incoming.call, &incoming.tag[..]), (Some(call), &b"method"[..]));
        assert!(node.reply(now, call, 7, Bytes::from_static(b"once")));
        assert!(!node.reply(now, call, 8, Bytes::from_static(b"twice")));
        assert!(!node.drop_call(now, call));
    });
    world.run_for(50 * MS);
    let body = ReplyBody::Whole(Bytes::from_static(b"once"));
    assert!(world.events(a).contains(&Event::Reply { key, id: sent, status: 7, body }));
    quiet(&mut world, "once");
}

#[test]
fn a_reply_that_is_longer_than_the_caller_takes_says_so() {
    let small = Config { limits: Limits { message: 3_000, ..Limits::default() }, ..open() };
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(small, false), world.add(serving(), true));
    world.set_reads(b, false);
    let (id, at) = (world.id(b).unwrap(), world.address(b).unwrap());
    for early in [true, false] {
        let key = world.with(a, |node, now| node.call(now, id, &[at], Outgoing::default()).unwrap()).unwrap();
        // At first its server does not know how much it takes.
        world.run_for(if early { 11 * MS } else { SECOND });
        world.with(b, |node, now| {
            let call = node.take_any_call(now).unwrap().call.unwrap();
            assert!(node.reply(now, call, 0, vec![0; 5_000].into()));
        });
        world.run_for(SECOND);
        let body = &ReplyBody::Whole(Bytes::new());
        let said = |event: &Event| matches!(event, Event::Reply { key: k, status: TOO_LARGE, body: b, .. } if *k == key && b == body);
        assert!(world.events(a).iter().any(said), "early {early}");
    }
    quiet(&mut world, "too large");
}

/// A server forgets a call that it computes neither because its record dies, nor because other peers need the room.
#[test]
fn a_call_that_is_computed_is_forgotten_by_nothing_but_a_crash() {
    for peers in [200, 2] {
        let limits = Limits { peers, ..Limits::default() };
        let config = Config { dead_after: 20 * SECOND, limits, ..serving() };
        let mut world = World::new(1, LinkConfig::perfect(10 * MS));
        let (a, b) = (world.add(open(), true), world.add(config, true));
        world.serve(b, Serving { never: 1.0, ..Serving::default() });
        let call = world.call(a, b, 20).unwrap();
        world.run_for(SECOND);
        deaf(&mut world, a, b, true);
        deaf(&mut world, b, a, true);
        world.run_for(100 * SECOND);
        for _ in 0..4 {
            for _ in 0..2 {
                let other = world.add(open(), false);
                world.send(other, b, 20).unwrap();
            }
            world.run_for(200 * SECOND);
        }
        deaf(&mut world, a, b, false);
        deaf(&mut world, b, a, false);
        world.run_for(10 * SECOND);
        world.drop_calls(b);
        settled(&mut world, 300 * MS, &format!("{peers} peers"));
        assert_eq!(world.ledger.outcome_of(call), Some(Outcome::Delivered));
        quiet(&mut world, &format!("{peers} peers"));
    }
}

/// The bytes of delivered calls are no longer open: giving the calls up must not release them again.
#[test]
fn giving_up_calls_that_were_delivered_leaves_no_bytes_open() {
    let limits = Limits { pool_window: 64 << 10, ..Limits::default() };
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(open(), false), world.add(Config { limits, ..serving() }, true));
    world.serve(b, Serving { never: 1.0, ..Serving::default() });
    for _ in 0..600 {
        let (_, key) = world.call_as(a, b, 20, Outgoing::default()).unwrap();
        world.run_for(30 * MS);
        world.abandon(a, key);
    }
    world.set_reads(b, false);
    for _ in 0..150 {
        world.send(a, b, 1_000).unwrap();
    }
    world.run_for(SECOND);
    let stats = world.node(b).unwrap().stats();
    assert_eq!((stats.violations, stats.dropped_for_room), (0, 0), "no more than there is room for");
    world.set_reads(b, true);
    world.drop_calls(b);
    settled(&mut world, 300 * MS, "all else");
    quiet(&mut world, "all else");
}

#[test]
fn a_long_reply_may_take_longer_than_replies_are_kept() {
    let kept = Config { reply_kept: 2 * SECOND, ..serving() };
    let mut world = World::new(1, LinkConfig::limited(10 * MS, 100_000, 50_000));
    let (a, b) = (world.add(open(), false), world.add(kept, true));
    world.serve(b, Serving { size: 1_500_000, ..Serving::default() });
    world.call(a, b, 20).unwrap();
    settled(&mut world, 60 * SECOND, "at 100 kB a second");
    all_delivered(&world, "at 100 kB a second");
    quiet(&mut world, "at 100 kB a second");
}
