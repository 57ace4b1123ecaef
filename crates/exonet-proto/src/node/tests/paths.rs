//! Paths: which packets go where.

use super::*;
use crate::channel::{PathAddr, Roaming};

#[test]
fn datagrams_are_no_larger_than_the_peer_takes() {
    let mut pair =
        Pair::new([Config { max_datagram: 9_000, ..config() }, Config { max_datagram: 1_300, ..config() }]);
    pair.send(0, 900_000);
    pair.pass(30 * SECOND);
    assert_eq!(pair.largest, 1_300);
}

#[test]
fn what_the_first_link_does_not_take_goes_smaller() {
    let mut pair = Pair::new([1, 2].map(|_| Config { max_datagram: 65_000, ..config() }));
    for takes in [usize::MAX, 2_000] {
        // The way out has changed, and what waits was cut for the former path.
        (pair.takes, pair.largest) = (takes, 0);
        for _ in 0..5 {
            pair.send(0, 900_000);
        }
        pair.pass(30 * SECOND);
        while pair.ends[1].recv(pair.now).is_some() {
            pair.pass(SECOND);
        }
        let expected = if takes == usize::MAX { 65_000..=65_000 } else { 1_452..=2_000 };
        assert!(expected.contains(&pair.largest), "{}", pair.largest);
        assert_eq!(pair.peer(0).outbound.letters, 0);
    }
    assert_eq!(pair.ends[0].stats().packets_lost, 0);
}

#[test]
fn what_was_said_last_goes_to_the_address_on_trial_too() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.send(0, 100);
    let packet = pair.says(0).remove(0).1;
    pair.deliver(1, 7, &packet);
    pair.now.mono += 2 * MS;
    let there = pair.says(1).iter().filter(|(to, _)| *to == address(7)).count();
    assert!(there > 1, "a challenge, and a copy of ACK and STATE");
}

#[test]
fn an_address_that_is_not_proven_gets_no_more_than_it_may() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, now) = (pair.ends[0].id(), pair.now);
    pair.ends[1].ping(now, id, &[], 1).unwrap();
    pair.pass(SECOND);
    let link = &mut pair.peer(1).link;
    assert!(link.recovery.rtt().is_measured());
    let from = PathAddr { remote: address(7), local: None, pipe: None };
    link.roaming = Some(Roaming::unproven(now.mono, from, link.recovery.timing(), [0; 8]));
    pair.send(1, 50_000);
    assert_eq!(pair.says(1), [], "nothing has come from there");
}

#[test]
fn large_datagrams_go_to_loopback_addresses_only() {
    let config = Config { max_datagram: 1_452, max_loopback_datagram: 65_000, ..config() };
    let to = |ip: &str| config.datagrams_to(ip.parse().unwrap());
    assert_eq!(["127.0.0.1", "::1", "::ffff:127.9.9.9"].map(to), [65_000; 3]);
    assert_eq!(["192.0.2.1", "2001:db8::1"].map(to), [1_452; 2]);
    let mut pair = Pair::new([config.clone(), config]);
    pair.send(0, 2_000_000);
    pair.pass(30 * SECOND);
    assert_eq!(pair.largest, 65_000, "and the peer takes them");
}
