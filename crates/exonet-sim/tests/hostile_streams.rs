//! A hostile peer with its own channel: streams without end, and false places.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::MS;
use crate::common::siege::{Intruder, Siege, aftermath, ask, small};
use exonet_proto::Slot;
use exonet_proto::node::{Config, Limits};
use exonet_proto::wire::{RevokeStream, StreamMark};
use exonet_sim::hostile::Raw;
use exonet_sim::{LinkConfig, World};

const LANES: usize = 64;
const LAST: u8 = 1;

/// The bytes that a stream may hold are few, so that its limits are reached soon.
fn narrow() -> Config {
    let limits = Limits { lanes: LANES, lane_window: 4 << 10, lane_pool: 64 << 10, ..small().limits };
    Config { limits, ..small() }
}

/// The head of a message with a place in a stream: flags, and age, n, link.
fn head(name: &[u8], flags: u8, place: [u64; 3]) -> Vec<u8> {
    let tagged_in_a_stream = 1 | 4 | 16;
    let head = Raw::default().bytes(&[tagged_in_a_stream, name.len() as u8]).bytes(name);
    head.bytes(&[flags]).numbers(&place).0
}

/// The head of a message in `s`, of one of a few streams, at a place that may be false.
fn false_head(intruder: &mut Intruder, s: u64) -> Vec<u8> {
    let age = if intruder.it.below(4) == 0 { 0 } else { 1 + intruder.number() % (s + 1) };
    let place = [age, intruder.number() % (age + 1), intruder.number() % (s + 2)];
    let flags = if intruder.it.below(8) == 0 { LAST } else { 0 };
    head(&[b'a' + intruder.it.below(5) as u8], flags, place)
}

/// Asks for more slots, and sends `count` messages, from `next` on, whose heads `head` makes.
fn pour(
    world: &mut World,
    intruder: &mut Intruder,
    next: &mut u64,
    count: u64,
    mut head: impl FnMut(&mut Intruder, u64) -> Vec<u8>,
) {
    intruder.insist(world);
    *next = (*next).max(intruder.hi.0.saturating_sub(1_000));
    let (r, from, up) = (intruder.r, *next, intruder.hi.0.min(*next + count));
    let heads: Vec<_> = (from..up).map(|s| head(intruder, s)).collect();
    let hi = intruder.hi.0;
    intruder.say(world, |writer| {
        ask(writer, hi, count, from);
        if let Some(mut messages) = writer.messages(r, Slot(from)) {
            for head in &heads {
                if messages.push(head, b"x") {
                    *next += 1;
                }
            }
        }
    });
}

fn siege(what: &str) -> Siege {
    Siege { config: narrow(), ..Siege::new(what) }
}

#[test]
fn a_peer_that_opens_streams_without_end_has_as_many_as_it_may() {
    let mut next = [0; 2];
    let (mut world, host, _) = siege("names").hold(|world, _, gang, _| {
        for (intruder, next) in gang.iter_mut().zip(&mut next) {
            pour(world, intruder, next, 20, |_, s| head(&s.to_be_bytes(), 0, [0, 0, 0]));
        }
    });
    let taken = world.taken_from_foes(host);
    assert!((LANES..=2 * LANES).contains(&taken), "{taken}");
    aftermath(&mut world, host, "names");
}

#[test]
fn streams_that_open_and_end_without_end_leave_nothing() {
    let mut next = [0; 2];
    let (mut world, host, _) = siege("short streams").hold(|world, _, gang, _| {
        for (intruder, next) in gang.iter_mut().zip(&mut next) {
            pour(world, intruder, next, 20, |_, s| head(&s.to_be_bytes(), LAST, [0, 0, 0]));
        }
    });
    let taken = world.taken_from_foes(host);
    assert!(taken > 20 * LANES, "each was over: {taken}");
    aftermath(&mut world, host, "short streams");
}

/// Ages, numbers and links of every size; some messages wait for a slot that will never be used.
#[test]
fn places_that_lie_hurt_nobody_else() {
    let mut next = [0; 2];
    let (mut world, host, _) = siege("lies").hold(|world, _, gang, _| {
        for (intruder, next) in gang.iter_mut().zip(&mut next) {
            pour(world, intruder, next, 20, false_head);
        }
    });
    assert!(world.taken_from_foes(host) > 20);
    aftermath(&mut world, host, "lies");
}

/// Withdrawals of slots that were used, are free, or were never granted; of one stream under the name and the places of another; and far
/// more of them than are kept.
#[test]
fn withdrawals_that_lie_hurt_nobody_else() {
    let mut next = [0; 2];
    let (mut world, host, _) = siege("withdrawals").hold(|world, _, gang, _| {
        for (intruder, next) in gang.iter_mut().zip(&mut next) {
            pour(world, intruder, next, 20, false_head);
            for _ in 0..40 {
                let s = Slot(intruder.number() % (intruder.hi.0 + 8));
                let mark = StreamMark {
                    age: intruder.number() % (s.0 + 1),
                    n: intruder.number() % (s.0 + 1),
                    link: intruder.number() % (s.0 + 1),
                    ..StreamMark::OPEN
                };
                let mark = StreamMark { n: mark.n.min(mark.age), ..mark };
                let name = [b'a' + intruder.it.below(5) as u8];
                let (r, n) = (intruder.r, 1 + intruder.it.below(3));
                intruder.say(world, |writer| {
                    writer.revoke_stream(RevokeStream { r, s, n, name: &name, mark });
                });
            }
        }
    });
    let stats = world.node(host).unwrap().stats();
    assert!(stats.revoked > 100, "{}", stats.revoked);
    assert!(world.taken_from_foes(host) > 20);
    aftermath(&mut world, host, "withdrawals");
}

/// The first message never arrives, so all that follow wait.
#[test]
fn a_stream_whose_first_message_never_comes_holds_its_window_only() {
    let mut next = [0; 2];
    let (mut world, host, _) = siege("waiting").hold(|world, _, gang, tick| {
        for (intruder, next) in gang.iter_mut().zip(&mut next) {
            if *next == 0 && intruder.hi.0 > 1 {
                *next = 1;
            }
            if tick < 150 {
                pour(world, intruder, next, 20, |_, s| match s {
                    0 => vec![1],
                    _ => head(b"waits", 0, [s, s, s]),
                });
            }
        }
    });
    aftermath(&mut world, host, "waiting");
}

#[test]
fn a_message_whose_place_is_malformed_is_dropped() {
    let untagged = Raw::default().bytes(&[1 | 16, 0]).numbers(&[0, 0]).0;
    let heads = [
        untagged,
        head(b"a", 0, [3, 4, 0]),
        head(b"a", 0, [0, 1, 0]),
        head(b"a", 2, [0, 0, 0]),
        head(b"a", 8, [0, 0, 0]),
    ];
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(narrow(), true);
    for (i, head) in heads.iter().enumerate() {
        let mut intruder = Intruder::connected(&mut world, host);
        intruder.hear(&mut world);
        let before = world.node(host).unwrap().stats().malformed;
        for s in [0, 1] {
            let r = intruder.r;
            intruder.say(&mut world, |writer| {
                let head = if s == 0 { head } else { &vec![1] };
                assert!(writer.messages(r, Slot(s)).unwrap().push(head, b"x"));
            });
            world.run_for(10 * MS);
        }
        assert_eq!(world.node(host).unwrap().stats().malformed, before + 1, "head {i}");
        assert_eq!(world.taken_from_foes(host), i + 1, "head {i}: the channel stands");
    }
}
