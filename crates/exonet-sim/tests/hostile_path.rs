//! An off-path attacker that forges addresses and has recorded everything; and a peer that lies about its address.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::net::{Ipv4Addr, SocketAddr};

use crate::common::siege::{Intruder, small};
use crate::common::{MS, SECOND, all_delivered, bad_link, forgotten, open, settled};
use exonet_proto::crypto::{Cookie, CookieJar, OpeningMac, Retry, RetryKey};
use exonet_proto::node::{Config, Limits, Outgoing};
use exonet_proto::wire::{self, Ask, Claim, Params};
use exonet_proto::{Incarnation, Mono, Slot, Stamp, Wall};
use exonet_sim::hostile::{Impostor, Said};
use exonet_sim::{LinkConfig, NodeIndex, World};

fn elsewhere(i: u32) -> SocketAddr {
    let [_, a, b, c] = i.wrapping_mul(2_654_435_761).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(100, a, b, c), 9_000))
}

/// The victim's application sends a message to the peer.
fn send(world: &mut World, host: NodeIndex, intruder: &Intruder) {
    let message = Outgoing { body: vec![7; 500].into(), ..Outgoing::default() };
    let (id, at) = (intruder.it.id(), intruder.at);
    let _ = world.with(host, |node, now| node.send(now, id, &[at], message));
}

#[track_caller]
fn not_amplified(world: &World, what: &str) {
    for (address, reflected) in &world.wiretap.reflected {
        assert!(!reflected.amplified, "{what}: {address} {reflected:?}");
    }
}

// --- a peer that lies about its address ---

/// A channel that is opened from one address, and seemingly confirmed from another, which belongs to a third host:
/// that host gets three times that packet, no more.
#[test]
fn a_victim_named_in_the_first_packet_gets_no_openings() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let nobody = world.nobody();
    let mut intruder = Intruder::new(&mut world, host);
    intruder.open(&mut world, Params::default());
    world.run_for(20 * MS);
    intruder.hear(&mut world);
    assert!(intruder.it.is_connected());
    let slots = Claim { hi: Slot(100), lo: Slot(0), up: Slot(100), closed: false, part: false };
    let packet = intruder.it.packet(|writer| {
        writer.ping();
        writer.state_live(Incarnation(0), Incarnation(1), None, slots, [], 0);
    });
    world.inject(nobody, intruder.to, packet.unwrap());
    let id = intruder.it.id();
    // Messages for the intruder go to the intruder's apparent address.
    let message = Outgoing { body: vec![7; 5_000].into(), ..Outgoing::default() };
    world.with(host, |node, now| node.send(now, id, &[], message)).unwrap().unwrap();
    world.run_for(100 * SECOND);
    assert!(world.wiretap.reflected[&nobody].given > 0, "the address was believed, and tried");
    not_amplified(&world, "first packet");
    let before = world.wiretap.reflected[&nobody].given;
    world.run_for(4_000 * SECOND);
    assert!(world.wiretap.reflected[&nobody].given <= before + 100);
}

/// A challenge that was answered from another address than it was sent to proves nothing about that address.
#[test]
fn a_victim_named_in_a_response_gets_no_openings() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let nobody = world.nobody();
    let mut intruder = Intruder::connected(&mut world, host);
    world.run_for(100 * MS);
    intruder.at = world.moves(intruder.index);
    intruder.say(&mut world, |writer| {
        writer.ping();
    });
    world.run_for(20 * MS);
    intruder.said.clear();
    intruder.hear(&mut world);
    let challenges = intruder.said.iter().filter_map(|said| match said {
        Said::Challenge(data) => Some(*data),
        _ => None,
    });
    let challenges: Vec<_> = challenges.collect();
    assert!(!challenges.is_empty());
    for data in challenges {
        let packet = intruder.it.packet(|writer| {
            writer.path_response(data);
        });
        world.inject(nobody, intruder.to, packet.unwrap());
    }
    world.run_for(SECOND);
    // The intruder falls silent: the victim reminds it of its slots, and has a message for it.
    let id = intruder.it.id();
    let message = Outgoing { body: vec![7; 500].into(), ..Outgoing::default() };
    world.with(host, |node, now| node.send(now, id, &[], message)).unwrap().unwrap();
    world.run_for(500 * SECOND);
    not_amplified(&world, "response");
}

/// Challenges that seem to come from many places, four to a packet.
#[test]
fn challenges_from_elsewhere_are_answered_within_bounds() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let nobodies: Vec<_> = (0..4).map(|_| world.nobody()).collect();
    let mut intruder = Intruder::connected(&mut world, host);
    for i in 0..3_000_u64 {
        let packet = intruder.it.packet(|writer| {
            for _ in 0..=i % 6 {
                writer.path_challenge(i.to_be_bytes());
            }
            if i % 3 == 0 {
                writer.ask(Ask { s: Slot(i), n: 10, l: Slot(0), ts: Stamp::NONE });
            }
        });
        world.inject(nobodies[(i / 50) as usize % 4], intruder.to, packet.unwrap());
        world.run_for(MS * (1 + i as u32 % 7));
        intruder.hear(&mut world);
        send(&mut world, host, &intruder);
    }
    assert!(world.wiretap.reflected.values().all(|reflected| reflected.given > 0));
    not_amplified(&world, "challenges");
}

// --- off the path ---

/// Openings in the name of a victim: complete, forged, of another version; while the node is loaded and while it is
/// not.
#[test]
fn nobody_gets_thrice_what_was_sent_in_his_name() {
    let mut world = World::new(1, LinkConfig::perfect(5 * MS));
    let host = world.add(small(), true);
    let to = world.address(host).unwrap();
    let victims: Vec<_> = (0..8).map(|_| world.nobody()).collect();
    for i in 0..4_000_usize {
        let mut it = Impostor::new(world.id(host).unwrap(), world.dice());
        let mut opening = it.open(Params::default(), |_| {}).unwrap();
        match i % 4 {
            1 => opening[100] ^= 1,
            2 => opening[0] = 0x21,
            _ => {}
        }
        for copy in 0..3 {
            world.inject(victims[(i + copy) % 8], to, opening.clone());
        }
        if i % 100 == 0 {
            world.run_for(SECOND);
        }
    }
    world.run_for(60 * SECOND);
    let stats = world.node(host).unwrap().stats();
    assert!(stats.retries > 500 && stats.unauthentic > 500, "{stats:?}");
    assert!(world.wiretap.reflected.values().all(|reflected| reflected.given > 0));
    not_amplified(&world, "openings");
}

/// Five times the openings that the node processes, from forged addresses; meanwhile new nodes open channels.
#[test]
fn newcomers_get_in_while_forged_openings_pour_in() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let host = world.add(small(), true);
    let (id, to) = (world.id(host).unwrap(), world.address(host).unwrap());
    let mut most = (0, 0);
    let mut came = Vec::new();
    for i in 0..20_000_u32 {
        let mut it = Impostor::new(id, world.dice());
        let mut opening = it.open(Params::default(), |_| {}).unwrap();
        if i % 2 == 0 {
            // A MAC that any host can make, over random bytes.
            let len = opening.len() - 32;
            opening[8..len].fill(i as u8);
            let mac1 = OpeningMac::new(&id).mac1(&opening[..len]);
            opening[len..len + 16].copy_from_slice(&mac1);
        }
        world.inject(elsewhere(i), to, opening);
        world.run_for(MS / 10);
        if i % 1_000 == 500 {
            came.push(world.add(open(), false));
            world.send(came[came.len() - 1], host, 1_000).unwrap();
        }
        if i % 100 == 0 {
            let stats = world.node(host).unwrap().stats();
            most = (most.0.max(stats.peers), most.1.max(stats.half_open));
        }
    }
    world.run_for(SECOND);
    all_delivered(&world, "newcomers");
    assert_eq!(world.ledger.totals().delivered, 20);
    let stats = world.node(host).unwrap().stats();
    assert!(stats.retries > 10_000, "{stats:?}");
    assert!(most.0 <= 64 + 20 + 1 && most.1 <= 34, "{most:?}");
    came.push(host);
    forgotten(&mut world, &came, 150, "afterwards");
}

/// Every datagram ever sent, whole and with one bit changed, at once and later, to all nodes and from any address,
/// across crashes.
#[test]
fn whatever_was_recorded_does_nothing_anywhere_at_any_time() {
    for seed in 0..8_u64 {
        let mut world = World::new(seed, bad_link(0.02));
        world.wiretap.recording = true;
        let nodes = [world.add(open(), true), world.add(small(), true), world.add(open(), true)];
        for round in 0..6 {
            for (from, to) in [(0, 1), (1, 0), (2, 1), (1, 2)] {
                world.send(nodes[from], nodes[to], [100, 3_000, 90_000][round % 3]).unwrap();
            }
            settled(&mut world, SECOND, "genuine");
            world.run_for([0, 1, 45][round % 3] * SECOND);
        }
        world.wiretap.recording = false;
        let tape = std::mem::take(&mut world.wiretap.recorded);
        for (turn, wait) in [0, 5, 100, 7_200].into_iter().enumerate() {
            world.run_for(wait * SECOND);
            if turn as u64 % 2 == seed % 2 {
                world.crash(nodes[1]);
            }
            for (from, to) in [(0, 1), (1, 2)] {
                world.send(nodes[from], nodes[to], 2_000).unwrap();
            }
            for (i, datagram) in tape.iter().enumerate() {
                let mut data = datagram.data.clone();
                if i as u64 % 3 == seed % 3 {
                    let at = world.dice().below(data.len() as u64) as usize;
                    data[at] ^= 1 << world.dice().below(8);
                }
                let to = match i % 4 {
                    3 => world.address(nodes[i / 4 % 3]).unwrap(),
                    _ => datagram.to,
                };
                let from = if (i + turn) % 2 == 0 { datagram.from } else { elsewhere(i as u32 % 7) };
                world.inject(from, to, data);
                if i % 3 == 0 {
                    world.run_for(MS);
                }
            }
            assert_eq!(world.ledger.violations(), [], "seed {seed}");
        }
        settled(&mut world, 300 * MS, &format!("seed {seed}: sent meanwhile"));
        forgotten(&mut world, &nodes, 50, &format!("seed {seed}"));
    }
}

/// A loaded node asks for cookies, and an attacker that sees openings forges RETRYs with its own cookies.
#[test]
fn forged_questions_for_cookies_delay_and_do_not_prevent() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let limits = Limits { half_open: 8, ..small().limits };
    let host = world.add(Config { limits, ..small() }, true);
    let (id, to) = (world.id(host).unwrap(), world.address(host).unwrap());
    let load = |world: &mut World, round: u32| {
        for i in 0..8 {
            let opening = Impostor::new(id, world.dice()).open(Params::default(), |_| {}).unwrap();
            world.inject(elsewhere(round * 8 + i), to, opening);
        }
    };
    load(&mut world, 0);
    let friend = world.add(open(), false);
    world.wiretap.recording = true;
    world.send(friend, host, 1_000).unwrap();
    world.wiretap.recording = false;
    let opening = world.wiretap.recorded.drain(..).next().unwrap();
    let mac1: [u8; 16] = *opening.data[..opening.data.len() - 16].last_chunk().unwrap();
    let index = wire::ChannelIndex(u32::from_be_bytes(*opening.data[4..].first_chunk().unwrap()));
    let jar = CookieJar::new([7; 32]);
    for i in 0..20_u8 {
        let cookie: Cookie = jar.cookie(Mono(0), elsewhere(i.into()));
        let sealed =
            RetryKey::new(&id).seal(&[i; 24], &Retry { cookie: cookie.clone(), time: Wall(0) }, &mac1);
        let forged = wire::retry(index, &[i; 24], &sealed);
        world.inject(to, opening.from, forged.to_vec());
        // And one that was not made for this opening.
        let sealed = RetryKey::new(&id).seal(&[i; 24], &Retry { cookie, time: Wall(0) }, &[0; 16]);
        world.inject(to, opening.from, wire::retry(index, &[i; 24], &sealed).to_vec());
    }
    assert!(world.sent_by(friend) < 10, "a question is obeyed a few times");
    for round in 1..60 {
        load(&mut world, round);
        assert!(world.node(host).unwrap().stats().half_open >= 4, "loaded all the time");
        world.run_for(SECOND / 4);
    }
    all_delivered(&world, "though loaded all the time");
}

/// Answers and version hints that no node asked for, or that come from an address to which no opening was sent.
#[test]
fn forged_answers_and_hints_do_nothing() {
    let mut world = World::new(1, LinkConfig::perfect(50 * MS));
    let (host, friend) = (world.add(small(), true), world.add(open(), false));
    world.wiretap.recording = true;
    world.send(friend, host, 1_000).unwrap();
    world.wiretap.recording = false;
    let opening = world.wiretap.recorded.drain(..).next().unwrap();
    let before = world.sent_by(friend);
    let id = world.id(friend).unwrap();
    for i in 0..1_000_u64 {
        let mut answer = vec![0x12, 1, 0, 0];
        answer.extend_from_slice(&opening.data[4..8]);
        answer.extend(world.dice().bytes::<4>());
        while answer.len() < 200 {
            answer.extend(world.dice().bytes::<8>());
        }
        let mac1 = OpeningMac::new(&id).mac1(&answer);
        answer.extend(mac1);
        world.inject(opening.to, opening.from, answer);
        let hint = [&[0x1f][..], &opening.data[1..8], &[1, 2 + (i % 200) as u8]].concat();
        world.inject(opening.to, opening.from, hint);
    }
    assert_eq!(world.sent_by(friend), before, "nothing is said to them");
    settled(&mut world, 500 * MS, "the true answer counts");
    all_delivered(&world, "the true answer counts");
}
