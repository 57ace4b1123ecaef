//! Openings that are forged, replayed, or too many.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::net::{Ipv4Addr, SocketAddr};

use crate::common::{MS, SECOND, all_delivered, forgotten, forgotten_after_copies, open, settled};
use exonet_proto::NodeId;
use exonet_proto::crypto::{OpeningMac, RetryKey};
use exonet_proto::node::{Config, Limits};
use exonet_proto::wire::{Datagram, Params};
use exonet_sim::hostile::Impostor;
use exonet_sim::{LinkConfig, NodeIndex, World};

/// An address in another network, `per_prefix` of them per /24.
fn elsewhere(i: u32, per_prefix: u32) -> SocketAddr {
    let [_, a, b, c] = (i / per_prefix).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(100 + a, b, c, (i % per_prefix) as u8), 9_000))
}

/// Bytes that pass as an opening until the public-key work is done.
fn forged(world: &mut World, to: &NodeId) -> Vec<u8> {
    let mut datagram = vec![0x11, 0, 1];
    while datagram.len() < 1_200 - 32 {
        datagram.extend(world.dice().bytes::<8>());
    }
    datagram.truncate(1_200 - 32);
    datagram[1..4].fill(0);
    let mac = OpeningMac::new(to).mac1(&datagram);
    datagram.extend(mac);
    datagram.extend([0; 16]);
    datagram
}

/// The opening of a fresh node that has a message for `to`.
fn genuine(world: &mut World, to: NodeIndex) -> Vec<u8> {
    let stranger = world.add(open(), false);
    world.set_link(stranger, to, LinkConfig { loss: 1.0, ..LinkConfig::perfect(MS) });
    world.wiretap.recording = true;
    world.send(stranger, to, 100).unwrap();
    world.wiretap.recording = false;
    let data = world.wiretap.recorded.drain(..).next().unwrap().data;
    assert_eq!(data[0], 0x11);
    world.remove(stranger);
    data
}

fn small() -> Config {
    let limits =
        Limits { half_open: 64, half_open_per_prefix: 8, openings_per_second: 2_000, ..Limits::default() };
    Config { limits, ..open() }
}

#[test]
fn a_genuine_peer_gets_in_among_ten_thousand_forged_openings() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (host, a) = (world.add(small(), true), world.add(open(), true));
    let (id, to) = (world.id(host).unwrap(), world.address(host).unwrap());
    for i in 0..10_000 {
        let datagram = forged(&mut world, &id);
        world.inject(elsewhere(i, 200), to, datagram);
        if i == 2_000 {
            world.send(a, host, 1_000).unwrap();
        }
        // 10,000 per second: five times what the node processes.
        world.run_for(MS / 10);
    }
    let stats = world.node(host).unwrap().stats();
    all_delivered(&world, "during the attack");
    assert!(stats.retries > 5_000, "{stats:?}");
    assert!(stats.unauthentic > 100, "public-key work was done: {stats:?}");
    assert!(stats.unauthentic < 600, "and bounded: {stats:?}");
    assert_eq!(stats.half_open, 0);
    forgotten(&mut world, &[host, a], 20, "after the attack");
}

#[test]
fn a_genuine_peer_gets_in_among_replayed_openings() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (host, a) = (world.add(small(), true), world.add(open(), true));
    let to = world.address(host).unwrap();
    let openings: Vec<_> = (0..300).map(|_| genuine(&mut world, host)).collect();
    world.run_for(30 * SECOND);
    let mut most = 0;
    for i in 0..10_000_u32 {
        let datagram = openings[i as usize % openings.len()].clone();
        world.inject(elsewhere(i, 200), to, datagram);
        if i == 2_000 {
            world.send(a, host, 1_000).unwrap();
        }
        most = most.max(world.node(host).unwrap().stats().half_open);
        world.run_for(MS);
    }
    let stats = world.node(host).unwrap().stats();
    assert_eq!(world.ledger.totals().delivered, 1, "during the attack");
    // When it is half full, it admits only initiators that prove their address: the genuine one.
    assert!((32..=33).contains(&most), "{most}");
    assert!(stats.peers <= 34, "{stats:?}");
    forgotten_after_copies(&mut world, &[host, a], 20, "after the attack");
    // Messages in the openings arrived once, however often the openings were replayed.
    let taken = usize::try_from(world.ledger.totals().taken).unwrap();
    assert!((1..=most).contains(&taken), "{taken}");
    assert_eq!(world.ledger.violations(), []);
}

#[test]
fn one_prefix_does_not_take_all_places() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(small(), true);
    let to = world.address(host).unwrap();
    for i in 0..40 {
        let datagram = genuine(&mut world, host);
        world.inject(elsewhere(i, 200), to, datagram);
        world.run_for(MS);
    }
    let stats = world.node(host).unwrap().stats();
    // Half of its places are for initiators whose address is not proven; the other half for those that prove it.
    assert_eq!((stats.half_open, stats.retries, stats.openings_refused), (4, 36, 0));
    let (outsider, _) = world.outsider();
    for _ in 0..40 {
        let (mut it, at) = (Impostor::new(world.id(host).unwrap(), world.dice()), world.moves(outsider));
        let first = it.open(Params::default(), |_| {}).unwrap();
        world.post(outsider, at, to, &first);
        world.run_for(3 * MS);
        world.mail(at).iter().for_each(|(_, datagram)| drop(it.hear(datagram)));
        if it.has_cookie() {
            world.post(outsider, at, to, &it.again().unwrap());
            world.run_for(3 * MS);
        }
    }
    let stats = world.node(host).unwrap().stats();
    assert_eq!((stats.half_open, stats.retries, stats.openings_refused), (4 + 8, 36 + 36, 32));
    forgotten_after_copies(&mut world, &[host], 20, "expired");
}

#[test]
fn one_prefix_does_not_spend_the_budget() {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(small(), true);
    let (id, to) = (world.id(host).unwrap(), world.address(host).unwrap());
    let (outsider, at) = world.outsider();
    let mut cookie = None;
    for _ in 0..10_000 {
        let mut datagram = forged(&mut world, &id);
        let (body, mac2) = datagram.split_last_chunk_mut::<16>().unwrap();
        if let Some(cookie) = &cookie {
            *mac2 = OpeningMac::mac2(cookie, body);
        }
        let mac1 = *body.last_chunk().unwrap();
        world.post(outsider, at, to, &datagram);
        world.run_for(if cookie.is_none() { 3 * MS } else { MS / 10 });
        for (_, mut retry) in world.mail(at) {
            if let Ok(Datagram::Retry(retry)) = Datagram::parse(&mut retry)
                && let Ok(retry) = RetryKey::new(&id).open(retry.nonce, &mac1, retry.sealed)
            {
                cookie = Some(retry.cookie);
            }
        }
    }
    assert!(cookie.is_some());
    let stats = world.node(host).unwrap().stats();
    // An eighth of 2,000 a second, for a little longer than one second.
    assert!((250..400).contains(&stats.unauthentic), "{stats:?}");
    assert!(stats.openings_refused > 9_000, "{stats:?}");
}

/// Every datagram that two nodes ever sent arrives again, later, from any address.
#[test]
fn whatever_is_replayed_at_any_time_delivers_nothing_and_leaves_nothing() {
    for seed in 0..12 {
        let mut world = World::new(seed, crate::common::bad_link(0.02));
        world.wiretap.recording = true;
        let (a, b) = (world.add(open(), true), world.add(open(), true));
        for _ in 0..4 {
            world.send(a, b, 3_000).unwrap();
            world.send(b, a, 100).unwrap();
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
                // The pair is talking at that time.
                world.send(a, b, 100).unwrap();
                world.run_for(100 * MS);
            }
            for datagram in &tape {
                let from = if seed % 2 == 0 { datagram.from } else { elsewhere(1, 1) };
                world.inject(from, datagram.to, datagram.data.clone());
                world.run_for(MS);
            }
        }
        world.run_for(30 * SECOND);
        assert_eq!(world.ledger.violations(), [], "seed {seed}");
        settled(&mut world, 300 * MS, "what was sent meanwhile");
        forgotten_after_copies(&mut world, &[a, b], 20, &format!("seed {seed}"));
    }
}

#[test]
fn one_replayed_opening_of_a_forgotten_peer_is_gone_in_time() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let host = world.add(open(), true);
    let to = world.address(host).unwrap();
    let datagram = genuine(&mut world, host);
    world.run_for(600 * SECOND);
    for round in 0..5 {
        let before = world.bytes;
        world.inject(elsewhere(round, 1), to, datagram.clone());
        assert_eq!(world.node(host).unwrap().stats().half_open, 1);
        world.run_for(4_000 * SECOND);
        let stats = world.node(host).unwrap().stats();
        assert_eq!((stats.half_open, stats.peers, stats.receiver_records), (0, 0, 0));
        assert_eq!(world.node(host).unwrap().poll_timeout(), None);
        assert!(world.bytes - before < 200, "one answer, no reminders: {} bytes", world.bytes - before);
    }
}

#[test]
fn rubbish_is_counted_and_costs_nothing() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let (a, b) = (world.add(open(), true), world.add(open(), true));
    world.wiretap.recording = true;
    for _ in 0..20 {
        world.send(a, b, 1_000).unwrap();
        world.send(b, a, 1_000).unwrap();
    }
    settled(&mut world, 300 * MS, "genuine");
    world.wiretap.recording = false;
    let tape = std::mem::take(&mut world.wiretap.recorded);
    let (to, before) = (world.address(b).unwrap(), world.node(b).unwrap().stats());
    world.run_for(5 * SECOND);
    let (said, peers) = (world.sent_by(b), world.node(b).unwrap().stats().peers);
    let mut given = 0;
    let nobody = world.nobody();
    for datagram in &tape {
        for kind in 0..6 {
            let mut data = datagram.data.clone();
            let at = world.dice().below(data.len() as u64) as usize;
            match kind {
                0 => data.truncate(at),
                1 => data[0] = world.dice().bytes::<1>()[0],
                2 => data[0] ^= 0x20, // another version
                3 => data[at] ^= 1 << world.dice().below(8),
                4 => data.extend([0]),
                _ => data = (0..at).map(|_| world.dice().bytes::<1>()[0]).collect(),
            }
            // Random bytes may also ask for another version.
            let hint = matches!(kind, 2 | 5) && data.len() >= 1_200;
            let sent = world.sent_by(b);
            world.inject(nobody, to, data);
            if world.sent_by(b) > sent {
                given += 1;
                assert!(hint || kind == 1 || kind == 3, "kind {kind}: an answer to rubbish");
            }
        }
        // The node's own datagrams come back.
        world.inject(nobody, datagram.from, datagram.data.clone());
    }
    let after = world.node(b).unwrap().stats();
    let counted = |stats: exonet_proto::node::Stats| {
        stats.malformed + stats.unauthentic + stats.strays + stats.replayed
    };
    assert!(counted(after) - counted(before) > tape.len() as u64 * 5, "{after:?}");
    assert_eq!((after.peers, after.received), (peers, before.received));
    assert!(world.sent_by(b) - said <= given);
    let reflected = world.wiretap.reflected[&nobody];
    assert!(reflected.given * 50 < reflected.taken, "{reflected:?}");
    // The pair was not affected.
    world.send(a, b, 1_000).unwrap();
    settled(&mut world, 300 * MS, "afterwards");
    assert_eq!(world.ledger.totals().taken, 41);
}

#[test]
fn a_hint_at_versions_is_smaller_than_the_question() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let host = world.add(open(), true);
    let to = world.address(host).unwrap();
    let nobody = world.nobody();
    for len in [1, 8, 60, 1_199] {
        world.inject(nobody, to, [&[0x21][..], &vec![7; len - 1]].concat());
    }
    assert_eq!(world.sent_by(host), 0);
    world.inject(nobody, to, [&[0x2f][..], &[7; 1_199]].concat());
    assert_eq!(world.sent_by(host), 0, "hints are not answered");
    world.inject(nobody, to, [&[0x21][..], &[7; 1_199]].concat());
    assert_eq!(world.sent_by(host), 1);
    assert!(world.wiretap.reflected[&nobody].given < 20);
}

#[test]
fn an_opening_that_was_answered_gets_the_same_answer() {
    let mut world = World::new(1, LinkConfig::perfect(10 * MS));
    let host = world.add(open(), true);
    let to = world.address(host).unwrap();
    let datagram = genuine(&mut world, host);
    world.wiretap.recording = true;
    for _ in 0..3 {
        world.inject(elsewhere(1, 1), to, datagram.clone());
        world.run_for(MS);
    }
    let answers: Vec<_> = world.wiretap.recorded.iter().map(|datagram| &datagram.data).collect();
    assert_eq!(answers.len(), 5, "two for each copy");
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let stats = world.node(host).unwrap().stats();
    assert_eq!((stats.half_open, stats.receiver_records), (1, 1));
}
