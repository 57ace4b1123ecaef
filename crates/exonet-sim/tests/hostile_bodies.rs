//! A hostile peer with its own channel: messages, fragments, the pool and memory.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::siege::{Intruder, SHARE, Siege, aftermath, ask, small};
use crate::common::{MS, SECOND, settled};
use exonet_proto::node::{Config, Limits, Outgoing};
use exonet_proto::{Incarnation, MAX_NUMBER, Slot};
use exonet_sim::hostile::{Raw, Said};
use exonet_sim::{LinkConfig, World};

const MESSAGES: u8 = 0x20;
/// With an offset and a length.
const PART: u8 = 0x23;

/// Passes over the granted slots, and asks for `n` new ones.
fn renew(intruder: &mut Intruder, world: &mut World, n: u64) {
    intruder.hear(world);
    let s = intruder.hi.0;
    intruder.say(world, |writer| {
        ask(writer, s, n, s);
    });
}

#[test]
fn fragments_that_contradict_each_other_are_dropped() {
    let (mut world, host, _) = Siege::new("fragments").hold(|world, _, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            if tick % 20 == 0 {
                renew(intruder, world, 64);
            }
            let (r, hi) = (intruder.r, intruder.hi.0);
            for _ in 0..4 {
                let s = Slot(hi.saturating_sub(1 + intruder.it.below(60)));
                let total = [1, 100, 65_536, 65_537, 131_072, 1 << 20, 1 << 41, MAX_NUMBER]
                    [intruder.it.below(8) as usize];
                let offset = intruder.it.below(total);
                let len = (1 + intruder.it.below(300)).min(total - offset) as usize;
                intruder.say(world, |writer| {
                    writer.part(r, s, total, offset, [&[9; 300][..len], &[]]);
                    writer.part(r, s, total, 0, [&[0], &[]]);
                });
            }
        }
    });
    let stats = world.node(host).unwrap().stats();
    assert!(stats.violations > 500, "{stats:?}");
    aftermath(&mut world, host, "fragments");
}

#[test]
fn fragments_beyond_their_message_end_their_own_channel() {
    let (world, host, _) = Siege::new("malformed fragments").hold(|world, _, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            let (r, s) = (intruder.r.0, intruder.hi.0 - 1);
            let raw = Raw::default();
            intruder.say_raw(
                world,
                &match tick % 5 {
                    0 => raw.frame(PART, &[r, s, 9, 3, 10]).bytes(&[0; 2]),
                    1 => raw.frame(PART, &[r, s, 0, 1, 10]),
                    2 => raw.frame(PART, &[r, s, MAX_NUMBER, 9, MAX_NUMBER]).bytes(&[0]),
                    3 => raw.frame(PART, &[r, s, 0, 1_000, 10]).bytes(&[0; 10]),
                    _ => raw.frame(MESSAGES, &[r, s, 0]),
                },
            );
        }
    });
    assert!(world.node(host).unwrap().stats().malformed > 50);
}

/// The first byte of as many messages as there are slots, again and again with new slots.
#[test]
fn one_byte_of_very_many_messages_is_bounded() {
    let mut at = 0;
    let (mut world, host, _) = Siege::new("first bytes").hold(|world, _, gang, tick| {
        for intruder in gang {
            if tick % 100 == 0 {
                renew(intruder, world, 2_048);
            }
            intruder.hear(world);
            let (r, hi) = (intruder.r, intruder.hi.0);
            intruder.say(world, |writer| {
                for _ in 0..80 {
                    at += 1;
                    writer.part(r, Slot(hi.saturating_sub(1 + at % 2_048)), 60_000, 59_999, [&[1], &[]]);
                }
            });
        }
    });
    assert!(world.node(host).unwrap().stats().dropped_for_room > 1_000, "beyond the pool");
    aftermath(&mut world, host, "first bytes");
}

#[test]
fn empty_messages_by_the_hundred_thousand_are_bounded_by_slots() {
    let (mut world, host, _) = Siege::new("empty messages").hold(|world, _, gang, tick| {
        for intruder in gang {
            if tick % 10 == 0 {
                renew(intruder, world, 2_048);
            }
            let (r, hi) = (intruder.r, intruder.hi.0);
            for packet in 0..8 {
                intruder.say(world, |writer| {
                    let mut s = hi.saturating_sub(2_048) + (tick * 8 + packet) * 400 % 2_048;
                    while let Some(mut messages) = writer.messages(r, Slot(s)) {
                        s += 63;
                        while messages.push(&[1], b"") {}
                        if messages.count() < 63 {
                            break;
                        }
                    }
                });
            }
        }
    });
    assert!(world.taken_from_foes(host) > 10_000, "{}", world.taken_from_foes(host));
    aftermath(&mut world, host, "empty messages");
}

/// Messages that wait are passed over by `l`, again and again: the queue of an application that pauses does not grow.
#[test]
fn what_was_given_up_does_not_pile_up_in_the_receive_queue() {
    for streamed in [false, true] {
        let mut world = World::new(1, LinkConfig::perfect(MS));
        let host = world.add(small(), true);
        let mut intruder = Intruder::connected(&mut world, host);
        world.set_reads(host, false);
        let total = if streamed { 1 << 20 } else { 2_000 };
        for _ in 0..3_000 {
            let (r, s) = (intruder.r, intruder.hi.0.max(1) - 1);
            let mut at = 0;
            while at < 2_000 {
                intruder.say(&mut world, |writer| {
                    at += writer.part(r, Slot(s), total, at as u64, [&[1; 2_000][at..], &[]]);
                });
            }
            intruder.say(&mut world, |writer| {
                ask(writer, s + 1, 1, s + 1);
            });
            world.run_for(4 * MS);
            intruder.hear(&mut world);
            intruder.said.clear();
        }
        let waiting = world.node(host).unwrap().stats().waiting;
        assert!(waiting < 20, "streamed {streamed}: {waiting} messages wait");
        assert!(world.node(host).unwrap().stats().received_bytes < SHARE);
        world.set_reads(host, true);
        assert!(world.taken_from_foes(host) <= 1);
        world.run_for(8_000 * SECOND);
        assert_eq!(world.node(host).unwrap().stats().received_bytes, 0);
    }
}

#[test]
fn more_than_the_pool_takes_is_not_held() {
    let (mut world, host, _) = Siege::new("pool").hold(|world, host, gang, tick| {
        // The application takes nothing for a while.
        world.set_reads(host, tick % 50 < 25);
        for intruder in gang {
            if tick % 25 == 0 {
                renew(intruder, world, 2_048);
            }
            let (r, hi) = (intruder.r, intruder.hi.0);
            for i in 0..16 {
                let s = hi.saturating_sub(1 + (tick * 16 + i) % 400);
                intruder.say(world, |writer| {
                    if let Some(mut messages) = writer.messages(r, Slot(s)) {
                        messages.push(&[1], &[3; 1_300]);
                    }
                });
            }
        }
        world.set_reads(host, true);
    });
    aftermath(&mut world, host, "pool");
}

/// Large messages half sent, one byte a minute, for an hour.
#[test]
fn a_slow_drip_holds_its_own_share_and_no_more() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let friend = world.add(super_open(), true);
    let mut intruder = Intruder::connected(&mut world, host);
    for minute in 0..60_u64 {
        let (r, hi) = (intruder.r, intruder.hi.0);
        intruder.say(&mut world, |writer| {
            for i in 0..20 {
                let s = Slot(hi.saturating_sub(1 + i));
                writer.part(r, s, 128 << 10, minute * 7, [&[1], &[]]);
                writer.part(r, s, 1 << 20, minute * 7, [&[1], &[]]);
            }
        });
        world.send(friend, host, 100_000).unwrap();
        settled(&mut world, 300 * MS, "a friend");
        let stats = world.node(host).unwrap().stats();
        assert!(stats.received_bytes <= SHARE, "{stats:?}");
        world.run_for(60 * SECOND);
        intruder.insist(&mut world);
    }
    aftermath(&mut world, host, "a slow drip");
}

fn super_open() -> Config {
    Config { sender_linger: SECOND, ..crate::common::open() }
}

/// A peer with more larger messages than it may have does not make memory scarce: the message that a silent friend has
/// half sent stays.
#[test]
fn a_peer_at_its_own_bound_costs_nobody_else_what_is_there_in_part() {
    let mut world = World::new(1, LinkConfig::limited(5 * MS, 100_000, 20_000));
    let host = world.add(small(), true);
    let friend = world.add(crate::common::open(), true);
    world.send(friend, host, 120_000).unwrap();
    world.run_for(500 * MS);
    assert_eq!(world.ledger.totals().taken, 0, "half of it is there");
    let cut = LinkConfig { loss: 1.0, ..LinkConfig::perfect(5 * MS) };
    world.set_link(friend, host, cut);
    world.run_for(120 * SECOND);
    let (id, held) = (world.id(friend).unwrap(), world.node(host).unwrap().stats().received_bytes);
    assert!(held >= 120_000, "half of it is there: {held}");
    let mut intruder = Intruder::connected(&mut world, host);
    for _ in 0..20 {
        let (r, hi) = (intruder.r, intruder.hi.0);
        intruder.say(&mut world, |writer| {
            for i in 0..40 {
                writer.part(r, Slot(hi.saturating_sub(1 + i)), 128 << 10, 0, [&[1], &[]]);
            }
            for i in 0..30 {
                writer.part(r, Slot(hi.saturating_sub(60)), 128 << 10, 2 * i, [&[1], &[]]);
            }
        });
        world.run_for(50 * MS);
    }
    let after = world.node(host).unwrap().stats();
    assert!(after.dropped_for_room > 100, "{after:?}");
    assert!(after.received_bytes >= held + 4 * (128 << 10), "{after:?}: {id} has lost what it had sent");
}

#[test]
fn grants_never_used_and_messages_never_begun_hold_nothing() {
    let (mut world, host, gang) = Siege::new("hoarding").hold(|world, _, gang, tick| {
        for intruder in gang {
            intruder.hear(world);
            if tick % 5 == 0 {
                intruder.say(world, |writer| {
                    ask(writer, tick * 100, 10_000, 0);
                });
            }
        }
    });
    let free = |world: &World, i: usize| {
        world.node(host).unwrap().peer_stats(&gang[i].it.id()).map(|stats| stats.free_slots)
    };
    assert_eq!((free(&world, 0), free(&world, 1)), (Some(2_048), Some(2_048)));
    aftermath(&mut world, host, "hoarding");
}

/// The victim sends to the intruder, which lies about the bytes that it has.
#[test]
fn lies_about_what_has_arrived_hurt_nobody_else() {
    let (mut world, host, _) = Siege::new("HAVE lies").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            let (id, at) = (intruder.it.id(), intruder.at);
            if tick % 10 == 0 {
                let body = vec![7; 300_000].into();
                let message = Outgoing { body, ..Outgoing::default() };
                world.name_to(host, at);
                let _ = world.with(host, |node, now| node.send(now, id, &[at], message));
            }
            let asked = intruder.said.iter().rev().find_map(|said| match said {
                Said::Ask(ask) => Some(*ask),
                _ => None,
            });
            let tokens: Vec<_> = intruder
                .said
                .drain(..)
                .filter_map(|said| if let Said::Token(r, s) = said { Some((r, s)) } else { None })
                .collect();
            let tokens = tokens.into_iter().take(8);
            let lies: Vec<_> = tokens.map(|at| (at, intruder.number(), intruder.number())).collect();
            intruder.say(world, |writer| {
                if let Some(ask) = asked {
                    let hi = Slot(ask.s.0 + ask.n);
                    let claim =
                        exonet_proto::wire::Claim { hi, lo: ask.s, up: ask.s, closed: false, part: false };
                    writer.state_live(Incarnation(0), Incarnation(1), None, claim, [], 0);
                }
                for ((r, s), prefix, limit) in lies {
                    let islands = (0..32).map(|i| prefix / 2 + i * 10..prefix / 2 + i * 10 + 5);
                    writer.have(r, s, prefix, limit, []);
                    writer.have(r, s, prefix / 2, limit, islands);
                    writer.have(r, s, 0, 0, []);
                }
            });
        }
    });
    world.with(host, |node, now| {
        for peer in node.peers() {
            node.abandon_peer(now, &peer);
        }
    });
    aftermath(&mut world, host, "HAVE lies");
}

/// Two intruders, whose shares exceed all the memory of their victim, leave enough for friends.
#[test]
fn few_peers_do_not_take_the_memory_of_all() {
    let limits = Limits { received_bytes: 4_300 << 10, bodies: 8, ..small().limits };
    let mut siege = Siege::new("memory");
    siege.config = Config { limits, ..small() };
    // Memory is scarce, and the intruders have half of it: messages that are refused are sent again.
    siege.kept = 0.5;
    let (mut world, host, _) = siege.hold(|world, _, gang, tick| {
        for intruder in gang {
            if tick == 0 {
                renew(intruder, world, 2_048);
            }
            intruder.hear(world);
            let (r, hi) = (intruder.r, intruder.hi.0);
            intruder.say(world, |writer| {
                for i in 0..20 {
                    writer.part(r, Slot(hi.saturating_sub(1 + i)), 1 << 30, 0, [&[1], &[]]);
                    writer.part(r, Slot(hi.saturating_sub(20 + i)), 60_000, 0, [&[1], &[]]);
                }
            });
        }
    });
    aftermath(&mut world, host, "memory");
}

#[test]
fn malformed_messages_end_their_channel() {
    let raw = Raw::default;
    crate::common::siege::refused(&[
        raw().frame(PART, &[0, 1, 9, 3, 10]).bytes(&[0, 1]),
        raw().frame(PART, &[0, 1, 0, 1, 10]),
        raw().frame(PART, &[0, 1, MAX_NUMBER, 9, MAX_NUMBER]).bytes(&[0]),
        raw().frame(PART, &[0, 1, 0, 1_000, 10]).bytes(&[0; 10]),
        raw().frame(MESSAGES, &[0, 1]),
        raw().frame(MESSAGES, &[0, 1, 0]),
        raw().frame(MESSAGES, &[0, MAX_NUMBER]).bytes(&[1, 1, 1, 1]),
    ]);
}
