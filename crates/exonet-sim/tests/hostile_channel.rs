//! A hostile peer with its own channel: acknowledgements, paths, keys, parameters, and openings with its own key.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;

use crate::common::siege::{Intruder, Siege, aftermath, ask, small};
use crate::common::{MS, SECOND, settled};
use exonet_proto::node::{Config, Event, Limits, Outgoing};
use exonet_proto::wire::{Datagram, Params};
use exonet_proto::{Incarnation, MAX_NUMBER, Slot};
use exonet_sim::hostile::{Impostor, Raw, Said};
use exonet_sim::{LinkConfig, NodeIndex, World};

const ACK: u8 = 0x02;

/// The victim's application sends to the intruder: `size` bytes.
fn send(world: &mut World, host: NodeIndex, intruder: &Intruder, size: usize) {
    let message = Outgoing { body: vec![7; size].into(), ..Outgoing::default() };
    let (id, at) = (intruder.it.id(), intruder.at);
    world.name_to(host, at);
    let _ = world.with(host, |node, now| node.send(now, id, &[at], message));
}

/// Grants slots for everything that the victim asks for, like any peer would.
fn grant(intruder: &mut Intruder, world: &mut World) {
    let asked = intruder.said.iter().rev().find_map(|said| match said {
        Said::Ask(ask) => Some(*ask),
        _ => None,
    });
    let Some(ask) = asked else { return };
    let (lo, hi) = (ask.s, Slot(ask.s.0 + ask.n));
    let claim = exonet_proto::wire::Claim { hi, lo, up: hi, closed: false, part: false };
    intruder.say(world, |writer| {
        writer.state_live(Incarnation(0), Incarnation(1), None, claim, std::iter::once(lo.0..hi.0), 1);
    });
}

fn abandon_all(world: &mut World, host: NodeIndex) {
    world.with(host, |node, now| {
        for peer in node.peers() {
            node.abandon_peer(now, &peer);
        }
    });
}

#[test]
fn acknowledgements_of_what_was_never_sent_end_their_own_channel() {
    let (mut world, host, _) = Siege::new("optimistic ACK").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            send(world, host, intruder, 5_000);
            grant(intruder, world);
            let ahead = [1, 100, 1 << 31, MAX_NUMBER - 1_000][tick as usize % 4];
            let largest = intruder.it.newest().unwrap_or(0) + ahead;
            intruder.say_raw(world, &Raw::default().bytes(&[ACK, 0]).numbers(&[largest, 0, 0, 0, 5]));
        }
    });
    assert!(world.node(host).unwrap().stats().malformed > 50);
    abandon_all(&mut world, host);
    aftermath(&mut world, host, "optimistic ACK");
}

#[test]
fn acknowledgements_of_very_many_ranges_and_malformed_ones() {
    let (mut world, host, _) = Siege::new("ACK ranges").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            send(world, host, intruder, 20_000);
            grant(intruder, world);
            let newest = intruder.it.newest().unwrap_or(0);
            let raw = Raw::default().bytes(&[ACK, (tick % 2) as u8]);
            let raw = if tick % 5 == 4 {
                raw.numbers(&[newest, MAX_NUMBER, MAX_NUMBER, 700, 0]).numbers(&vec![0; 1_400])
            } else {
                let further = newest / 2;
                raw.numbers(&[newest, MAX_NUMBER, MAX_NUMBER, further, 0])
                    .numbers(&vec![0; 2 * further as usize])
                    .numbers(&[MAX_NUMBER - tick; 3])
            };
            for _ in 0..4 {
                intruder.say_raw(world, &raw);
            }
        }
    });
    abandon_all(&mut world, host);
    aftermath(&mut world, host, "ACK ranges");
}

#[test]
fn pings_challenges_and_false_responses_by_the_thousand() {
    let (mut world, host, gang) = Siege::new("pings").hold(|world, _, gang, tick| {
        for intruder in gang {
            intruder.hear(world);
            for _ in 0..10 {
                let bytes = tick.to_be_bytes();
                intruder.say(world, |writer| {
                    for _ in 0..40 {
                        writer.ping();
                        writer.path_challenge(bytes);
                        writer.path_response(bytes);
                    }
                });
            }
        }
    });
    let said = &gang[0].said;
    let responses = said.iter().filter(|said| matches!(said, Said::Response(_))).count();
    let packets = said.iter().filter(|said| matches!(said, Said::Ack(_))).count();
    assert!(packets > 500 && responses <= packets, "{packets} {responses}");
    aftermath(&mut world, host, "pings");
}

#[test]
fn frames_that_nobody_knows_and_rubbish_under_valid_keys() {
    Siege::new("unknown frames").hold(|world, _, gang, tick| {
        for intruder in gang {
            intruder.insist(world);
            let kind = (tick % 256) as u8;
            let noise: Vec<u8> = (0..200).map(|_| intruder.it.below(256) as u8).collect();
            let raw = Raw::default().bytes(&[kind]);
            intruder.say_raw(world, &if tick % 2 == 0 { raw.numbers(&[100]).bytes(&noise) } else { raw });
            intruder.say_raw(world, &Raw::default().bytes(&noise));
            let skipped = 1 << intruder.it.below(20);
            intruder.it.skip_numbers(skipped);
        }
    });
}

#[test]
fn closing_and_opening_without_end() {
    let (mut world, host, _) = Siege::new("CLOSE storm").hold(|world, host, gang, tick| {
        for intruder in gang {
            send(world, host, intruder, 100);
            if let Some(packet) = intruder.it.packet(|writer| {
                writer.close(tick);
            }) {
                world.post(intruder.index, intruder.at, intruder.to, &packet);
            }
            let opening = intruder.it.open(Params::default(), |_| {}).unwrap();
            world.post(intruder.index, intruder.at, intruder.to, &opening);
            intruder.hear(world);
        }
    });
    abandon_all(&mut world, host);
    aftermath(&mut world, host, "CLOSE storm");
}

/// New keys every ten milliseconds, each confirmed.
#[test]
fn new_keys_without_end() {
    let (mut world, host, _) = Siege::new("rekey storm").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.hear(world);
            send(world, host, intruder, 3_000);
            grant(intruder, world);
            intruder.say(world, |writer| {
                writer.ping();
            });
            // Restarts in between; a repeated boot id would mean two nodes, with which the victim stops talking.
            let boot_id = (tick / 2).to_be_bytes();
            let params = Params { boot_id, ..Params::default() };
            let opening = intruder.it.open(params, |writer| assert!(ask(writer, 0, 10, 0))).unwrap();
            world.post(intruder.index, intruder.at, intruder.to, &opening);
        }
    });
    abandon_all(&mut world, host);
    aftermath(&mut world, host, "rekey storm");
}

#[test]
fn parameters_at_the_ends_of_their_ranges() {
    let most = MAX_NUMBER;
    let least = Params {
        base: most,
        max_ack_delay: Duration::ZERO,
        max_datagram: 1_200,
        pool_window: 0,
        body_window: 0,
        max_bodies: 0,
        max_message: 0,
        idle_timeout: MS,
        ..Params::default()
    };
    let largest = Params {
        base: most / 2,
        max_ack_delay: Duration::from_micros((1 << 24) - 1),
        max_datagram: most,
        pool_window: most,
        body_window: most,
        max_bodies: most,
        max_message: most,
        idle_timeout: Duration::from_millis(most),
        suites: most,
        ..Params::default()
    };
    for (what, params) in [("least", least), ("largest", largest)] {
        let siege = Siege { params, ..Siege::new(what) };
        let (mut world, host, _) = siege.hold(|world, host, gang, tick| {
            for intruder in gang {
                if tick % 20 == 0 {
                    send(world, host, intruder, 200_000);
                }
                send(world, host, intruder, 100);
                let answers = answer_openings(world, intruder, params);
                if answers == 0 {
                    grant(intruder, world);
                }
            }
        });
        abandon_all(&mut world, host);
        aftermath(&mut world, host, what);
    }
}

/// Answers the openings that have arrived, and handles the other datagrams.
fn answer_openings(world: &mut World, intruder: &mut Intruder, params: Params) -> usize {
    let mut answered = 0;
    for (from, mut datagram) in world.mail(intruder.at) {
        if let Ok(Datagram::Opening(opening)) = Datagram::parse(&mut datagram) {
            let answer = intruder.it.answer(&opening, params, |_| {});
            if let Some(answer) = answer {
                world.post(intruder.index, intruder.at, from, &answer);
                answered += 1;
            }
        } else {
            let said = intruder.it.hear(&datagram);
            intruder.said.extend(said);
        }
    }
    answered
}

/// A peer that declares itself idle at once does not make its victim send openings without end.
#[test]
fn an_idle_timeout_of_nothing_costs_no_handshake_per_round_trip() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let host = world.add(small(), true);
    let params = Params { idle_timeout: MS, ..Params::default() };
    let mut intruder = Intruder::new(&mut world, host);
    intruder.connect(&mut world, params);
    send(&mut world, host, &intruder, 100);
    let before = world.node(host).unwrap().stats().handshakes;
    for _ in 0..6_000 {
        answer_openings(&mut world, &mut intruder, params);
        intruder.said.clear();
        world.run_for(10 * MS);
    }
    let handshakes = world.node(host).unwrap().stats().handshakes - before;
    assert!(handshakes <= 120, "{handshakes} in a minute");
    abandon_all(&mut world, host);
    aftermath(&mut world, host, "idle");
}

#[test]
fn another_address_with_every_packet() {
    let (mut world, host, _) = Siege::new("roaming storm").hold(|world, host, gang, tick| {
        for intruder in gang {
            intruder.hear(world);
            send(world, host, intruder, 2_000);
            grant(intruder, world);
            for _ in 0..4 {
                if tick < 1_000 {
                    intruder.at = world.moves(intruder.index);
                }
                intruder.say(world, |writer| {
                    writer.ping();
                });
            }
        }
    });
    abandon_all(&mut world, host);
    aftermath(&mut world, host, "roaming storm");
}

/// One identity at two places, both of which open, confirm and ask in turn.
#[test]
fn two_that_share_a_key() {
    let mut twins: Option<[Intruder; 2]> = None;
    let mut siege = Siege::new("twins");
    siege.intruders = 1;
    let (mut world, host, _) = siege.hold(|world, host, _, tick| {
        let twins = twins.get_or_insert_with(|| {
            [(); 2].map(|()| {
                let it = Impostor::with_key(world.id(host).unwrap(), [5; 32], world.dice());
                Intruder::with(world, host, it)
            })
        });
        let [a, b] = twins;
        let (one, other) = if tick % 2 == 0 { (a, b) } else { (b, a) };
        let boot_id = [1 + (tick % 2) as u8; 8];
        let params = Params { boot_id, ..Params::default() };
        let opening = one.it.open(params, |writer| assert!(ask(writer, 0, 10, 0))).unwrap();
        world.post(one.index, one.at, one.to, &opening);
        for twin in [one, other] {
            twin.hear(world);
            let (r, hi) = (twin.r, twin.hi.0);
            twin.say(world, |writer| {
                if let Some(mut messages) = writer.messages(r, Slot(hi.saturating_sub(1))) {
                    messages.push(&[1], b"twin");
                }
            });
        }
    });
    let conflicts = world.events(host);
    assert!(conflicts.iter().any(|event| matches!(event, Event::IdentityConflict { .. })));
    assert!(world.taken_from_foes(host) <= 10, "each slot once, whoever sends");
    aftermath(&mut world, host, "twins");
}

/// Identities that cost nothing, each of which opens a channel and sends nothing more.
#[test]
fn thousands_that_open_and_say_nothing() {
    let mut openings = 0;
    let mut addresses = Vec::new();
    let limits = Limits { half_open_per_prefix: 8, ..small().limits };
    let siege = Siege { config: Config { limits, ..small() }, ..Siege::new("half-open") };
    let (mut world, host, _) = siege.hold(|world, host, gang, _| {
        while addresses.len() < 256 * 20 {
            addresses.push(world.moves(gang[0].index));
        }
        for _ in 0..20 {
            let mut it = Impostor::new(world.id(host).unwrap(), world.dice());
            let opening = it.open(Params::default(), |writer| assert!(ask(writer, 0, 10, 0))).unwrap();
            let from = addresses[256 + openings * 64 % (256 * 16)];
            world.post(gang[0].index, from, gang[0].to, &opening);
            openings += 1;
        }
    });
    let stats = world.node(host).unwrap().stats();
    assert!(openings > 4_000 && stats.retries > 2_000, "{openings} {stats:?}");
    // A new friend gets in all the same.
    let friend = world.add(crate::common::open(), false);
    world.send(friend, host, 100).unwrap();
    settled(&mut world, 300 * MS, "a newcomer");
    aftermath(&mut world, host, "half-open");
}

/// Like those above, but each confirms its channel and leaves.
#[test]
fn thousands_that_open_and_confirm() {
    let (mut world, host, _) = Siege::new("confirmed").hold(|world, host, gang, tick| {
        for intruder in gang {
            if tick % 2 == 1 {
                intruder.hear(world);
                intruder.say(world, |writer| {
                    writer.ping();
                    writer.close(0);
                });
                continue;
            }
            intruder.it = Impostor::new(world.id(host).unwrap(), world.dice());
            world.expect_foe(host, intruder.it.id());
            intruder.open(world, Params::default());
        }
    });
    let stats = world.node(host).unwrap().stats();
    assert!(stats.handshakes > 300 && stats.peers == 256, "{stats:?}");
    let friend = world.add(crate::common::open(), false);
    world.send(friend, host, 100).unwrap();
    settled(&mut world, 300 * MS, "a newcomer");
    aftermath(&mut world, host, "confirmed");
}

/// Like those above, but each stays: the table of peers fills, and the peers in it continue.
#[test]
fn more_that_stay_than_there_are_places() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let friend = world.add(crate::common::open(), true);
    world.send(friend, host, 100).unwrap();
    settled(&mut world, 300 * MS, "a friend");
    let mut in_time = 0;
    for _ in 0..300 {
        let mut intruder = Intruder::new(&mut world, host);
        in_time += u32::from(intruder.connect(&mut world, Params::default()));
    }
    world.send(friend, host, 100).unwrap();
    settled(&mut world, 300 * MS, "a friend among them");
    let stats = world.node(host).unwrap().stats();
    assert_eq!((stats.peers, in_time), (256, 255), "{stats:?}");
    aftermath(&mut world, host, "full");
}

/// So few at a time that no cookie is asked for, but for a long time.
#[test]
fn those_who_never_confirm_are_as_few_as_half_open_places() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let mut most = 0;
    for _ in 0..200 {
        let mut intruder = Intruder::new(&mut world, host);
        intruder.open(&mut world, Params::default());
        world.run_for(SECOND / 2);
        most = most.max(world.node(host).unwrap().stats().peers);
    }
    assert_eq!(most, 64);
    aftermath(&mut world, host, "tentative");
}
