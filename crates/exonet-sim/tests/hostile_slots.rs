//! A hostile peer with its own channel: slots, claims and numbers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::common::siege::{Siege, aftermath, ask};
use exonet_proto::node::Outgoing;
use exonet_proto::wire::Claim;
use exonet_proto::{Incarnation, MAX_NUMBER, Slot};
use exonet_sim::hostile::Raw;

const ASK: u8 = 0x10;
const STATE: u8 = 0x11;

#[test]
fn asks_for_very_many_slots_are_bounded() {
    let (mut world, host, gang) = Siege::new("huge asks").hold(|world, _, gang, _| {
        for intruder in gang {
            intruder.hear(world);
            // Never so near the end that there are no numbers left to ask for.
            let s = intruder.number().min(MAX_NUMBER / 2);
            intruder.say(world, |writer| while ask(writer, s, MAX_NUMBER - s, 0) {});
        }
    });
    for intruder in &gang {
        let stats = world.node(host).unwrap().peer_stats(&intruder.it.id()).unwrap();
        assert!(stats.free_slots <= 2_048, "{stats:?}");
    }
    aftermath(&mut world, host, "huge asks");
}

#[test]
fn asks_at_random_numbers_that_run_back_and_contradict_themselves() {
    let (mut world, host, gang) = Siege::new("random asks").hold(|world, _, gang, _| {
        for intruder in gang {
            intruder.hear(world);
            let asks: Vec<_> = (0..60)
                .map(|_| (intruder.number(), intruder.number().min(5_000), intruder.number()))
                .collect();
            intruder.say(world, |writer| {
                for (s, n, l) in asks {
                    ask(writer, s, n.min(MAX_NUMBER - s), l);
                }
            });
        }
    });
    for intruder in &gang {
        let stats = world.node(host).unwrap().peer_stats(&intruder.it.id());
        assert!(stats.is_none_or(|stats| stats.free_slots <= 2_048), "{stats:?}");
    }
    aftermath(&mut world, host, "random asks");
}

#[test]
fn asks_that_overflow_end_their_own_channel() {
    let (world, host, _) = Siege::new("overflow").hold(|world, _, gang, _| {
        for intruder in gang {
            intruder.insist(world);
            let s = MAX_NUMBER - intruder.it.below(3);
            intruder.say_raw(world, &Raw::default().frame(ASK, &[s, 10 + s, 0]));
        }
    });
    assert!(world.node(host).unwrap().stats().malformed > 50);
}

#[test]
fn slots_with_holes_cost_a_bounded_record() {
    let mut s = 0;
    let (mut world, host, gang) = Siege::new("holes").hold(|world, _, gang, _| {
        for intruder in gang {
            intruder.hear(world);
            intruder.say(world, |writer| {
                while ask(writer, s, 1, 0) {
                    s += 2;
                }
            });
        }
    });
    for intruder in &gang {
        let stats = world.node(host).unwrap().peer_stats(&intruder.it.id()).unwrap();
        assert!((2_000..=2_048).contains(&stats.free_slots), "{stats:?}");
    }
    aftermath(&mut world, host, "holes");
}

/// The victim's application sends to the intruder, which answers with every possible claim.
#[test]
fn claims_about_anything_hurt_nobody_else() {
    let (mut world, host, _) = Siege::new("bogus claims").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            let (id, at) = (intruder.it.id(), intruder.at);
            if tick % 4 == 0 {
                let body = vec![7; if tick % 40 == 0 { 150_000 } else { 900 }].into();
                let message = Outgoing { body, ..Outgoing::default() };
                let _ = world.with(host, |node, now| node.send(now, id, &[at], message));
            }
            let [b, r, hi, lo, up] = core::array::from_fn(|_| intruder.number());
            let (lo, up) = (lo.min(up), lo.max(up));
            let part = intruder.it.below(2) > 0;
            let claim = Claim { hi: Slot(hi), lo: Slot(lo), up: Slot(up), closed: false, part };
            let free: Vec<_> = (0..intruder.it.below(60)).map(|i| lo + i * 3..lo + i * 3 + 2).collect();
            intruder.say(world, |writer| {
                writer.state_live(Incarnation(b), Incarnation(r), None, claim, free, 60);
                writer.state_live(Incarnation(0), Incarnation(r), None, claim, [], 0);
                writer.state_gone(Incarnation(r), Incarnation(b), None);
                writer.token(Incarnation(r), Slot(hi));
            });
        }
    });
    world.with(host, |node, now| {
        for peer in node.peers() {
            node.abandon_peer(now, &peer);
        }
    });
    aftermath(&mut world, host, "bogus claims");
}

#[test]
fn claims_of_very_many_ranges_and_malformed_ones() {
    let (world, host, _) = Siege::new("ranges").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            let (id, at) = (intruder.it.id(), intruder.at);
            let message = Outgoing { body: vec![7; 100].into(), ..Outgoing::default() };
            let _ = world.with(host, |node, now| node.send(now, id, &[at], message));
            let state = Raw::default().frame(STATE, &[1, 0, 1, 5]);
            let raw = match tick % 6 {
                // As many ranges as the largest datagram holds.
                0 => {
                    let all: Vec<u64> =
                        [0, 1 << 40, 1 << 20, 32_000].into_iter().chain([1; 64_000]).collect();
                    state.numbers(&all)
                }
                // More than there are; overlapping the end; empty; beyond the numbers; `up` below `lo`.
                1 => state.numbers(&[0, 10, 1 << 20, 65_535, 1, 1]),
                2 => state.numbers(&[0, 10, 1 << 20, 2, 8, 1, 1, 1]),
                3 => state.numbers(&[0, 10, 1 << 20, 1, 1, 0]),
                4 => state.numbers(&[MAX_NUMBER, MAX_NUMBER, 0, 1, MAX_NUMBER, MAX_NUMBER]),
                _ => Raw::default().frame(STATE, &[0x3f, 0, 0]),
            };
            intruder.say_raw(world, &raw);
        }
    });
    assert!(world.node(host).unwrap().stats().malformed > 50);
}

#[test]
fn tokens_of_any_number_deliver_nothing_that_was_not_granted() {
    let (mut world, host, gang) = Siege::new("tokens").hold(|world, _, gang, _| {
        for intruder in gang {
            intruder.hear(world);
            let numbers: Vec<_> = (0..40).map(|_| (intruder.number(), intruder.number())).collect();
            intruder.say(world, |writer| {
                for (r, s) in numbers {
                    writer.token(Incarnation(r), Slot(s));
                    if let Some(mut messages) = writer.messages(Incarnation(r), Slot(s)) {
                        messages.push(&[0], b"x");
                    }
                }
            });
        }
    });
    let record = gang[0].r;
    assert!(gang[1].r != record);
    // Each of those granted at first, once; and under its own incarnation only.
    assert!(world.taken_from_foes(host) <= 20);
    aftermath(&mut world, host, "tokens");
}

#[test]
fn malformed_claims_and_asks_end_their_channel() {
    let state = || Raw::default().frame(STATE, &[1, 0, 1, 5]);
    crate::common::siege::refused(&[
        Raw::default().frame(ASK, &[MAX_NUMBER, 1, 0]),
        Raw::default().frame(ASK, &[MAX_NUMBER - 5, MAX_NUMBER, 0]),
        // More ranges than there are; beyond the end; empty; beyond the numbers; reserved flags.
        state().numbers(&[0, 10, 1 << 20, 65_535, 1, 1]),
        state().numbers(&[0, 10, 1 << 20, 2, 8, 1, 1, 1]),
        state().numbers(&[0, 10, 1 << 20, 1, 1, 0]),
        state().numbers(&[MAX_NUMBER, MAX_NUMBER, 0, 1, MAX_NUMBER, MAX_NUMBER]),
        Raw::default().frame(STATE, &[0x3f, 0, 0]),
    ]);
}
