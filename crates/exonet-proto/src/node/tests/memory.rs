//! How a node makes room, and what it remembers of forgotten peers.

use core::net::IpAddr;

use super::*;
use crate::half::{Bound, Stamps};
use crate::id::{NodeId, Stamp};
use crate::opening::prefix::Prefix;
use crate::opening::stamping::{Memo, Stamping, Told};

/// An id that no node has.
fn nobody(n: u64) -> NodeId {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&n.to_be_bytes());
    NodeId(id)
}

fn memo(ts: u64) -> Memo {
    Memo { bound: Bound::up_to(Stamp(ts)), told: Told::default() }
}

/// A time whose wall clock was never set.
fn at(mono: Mono) -> Now {
    Now { mono, wall: Wall(0) }
}

#[test]
fn a_peer_to_which_something_is_queued_makes_no_room() {
    let mut pair = Pair::new([limited(Limits { peers: 1, ..Limits::default() }), config()]);
    let key = pair.send(0, 100);
    let other = pair.ends[0].send(
        pair.now,
        SecretKey::from_bytes([9; 32]).node_id(),
        &[address(7)],
        Outgoing::default(),
    );
    assert_eq!(other, Err(SendError::TooManyPeers(1)));
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert_eq!(pair.outcomes(), [(key, Outcome::Delivered, false)]);
}

/// Whether the messages come whole or in parts.
#[test]
fn one_peer_leaves_half_of_the_memory_to_others() {
    let cap = 200_000;
    for (size, count) in [(1_000, 400), (10_000, 40)] {
        let mut pair = Pair::new([config(), limited(Limits { received_bytes: cap, ..Limits::default() })]);
        pair.talk(0);
        for _ in 0..count {
            pair.send(0, size);
        }
        pair.pass(5 * SECOND);
        let held = pair.ends[1].stats().received_bytes;
        let one = size + 400;
        assert!(held > cap / 2 - one && held < cap / 2 + one, "{size}: {held}");
    }
}

/// The record was made by an opening, and confirmed by a packet that does not mention it.
#[test]
fn who_has_slots_of_a_genuine_opening_is_reminded_of_them() {
    let mut pair = Pair::new([Config { sender_linger: 1_000 * SECOND, ..config() }, config()]);
    let key = pair.send(0, 100);
    for end in [0, 1] {
        let said = pair.says(end).remove(0).1;
        if end == 1 {
            pair.ends[0].cancel(pair.now, key).unwrap();
        }
        pair.deliver(1 - end, end, &said);
    }
    pair.pump();
    let inbound = &pair.peer(1).inbound;
    assert!(inbound.receiver.as_ref().unwrap().free() > 0 && !inbound.reminds());
    pair.pass(14 * SECOND);
    assert_eq!(pair.peer(1).inbound.states(), 1, "it has them: the keys were in the same answer");
    pair.pass(2 * SECOND);
    assert_eq!(pair.peer(1).inbound.states(), 2);
}

#[test]
fn strangers_are_counted_by_24_bits_of_ipv4_and_48_of_ipv6() {
    let prefix = |ip: &str| Prefix::told(ip.parse::<IpAddr>().unwrap());
    for (one, other, same) in [
        ("10.1.2.3", "10.1.2.200", true),
        ("10.1.2.3", "10.1.3.3", false),
        ("10.1.2.3", "::ffff:10.1.2.9", true),
        ("2001:db8:1:2::1", "2001:db8:1:ffff::9", true),
        ("2001:db8:1::1", "2001:db8:2::1", false),
    ] {
        assert_eq!(prefix(one) == prefix(other), same, "{one}, {other}");
        assert!(prefix(one).is_some());
    }
    assert_eq!([prefix("127.0.0.1"), prefix("::1"), prefix("::ffff:127.3.0.1")], [None; 3]);
}

/// Forgetting one sender raises the bound of all senders: its old stamps do not become new again.
#[test]
fn bounds_are_remembered_for_300_seconds_and_leave_their_mark() {
    let (mut stamping, mut stamps) = (Stamping::new(true, 0, [], None), Stamps::ephemeral());
    stamps.persisted(Stamp(1_000));
    let now = Mono(0) + SECOND;
    stamping.remember(at(now), &mut stamps, nobody(1), memo(500));
    assert_eq!(stamping.forget_at(), Some(now + 300 * SECOND));
    stamping.forget(at(now + 299 * SECOND), &mut stamps);
    assert_eq!((stamping.memo_of(&nobody(1)), stamps.upper()), (memo(500).bound, Stamp::NONE));
    stamping.forget(at(now + 300 * SECOND), &mut stamps);
    assert_eq!((stamping.memo_of(&nobody(1)), stamps.upper()), (Bound::default(), Stamp(500)));
    assert_eq!(stamping.forget_at(), None);
}

/// A peer that became known again meanwhile is remembered for 300 seconds from then on.
#[test]
fn who_is_forgotten_again_is_remembered_anew() {
    let (mut stamping, mut stamps) = (Stamping::new(true, 0, [], None), Stamps::ephemeral());
    stamps.persisted(Stamp(1_000));
    for seconds in [0, 200] {
        let _: Memo = stamping.recall(&nobody(1));
        stamping.remember(at(Mono(0) + seconds * SECOND), &mut stamps, nobody(1), memo(500));
    }
    stamping.forget(at(Mono(0) + 400 * SECOND), &mut stamps);
    assert_eq!(stamping.memo_of(&nobody(1)), memo(500).bound);
    stamping.forget(at(Mono(0) + 500 * SECOND), &mut stamps);
    assert_eq!(stamping.memo_of(&nobody(1)), Bound::default());
}

#[test]
fn bounds_that_are_remembered_are_16_384_at_most() {
    let (mut stamping, mut stamps) = (Stamping::new(true, 0, [], None), Stamps::ephemeral());
    stamps.persisted(Stamp(100_000));
    for n in 1..=16_385 {
        stamping.remember(at(Mono(n)), &mut stamps, nobody(n), memo(n));
    }
    let remembered = |n| stamping.memo_of(&nobody(n));
    assert_eq!((remembered(1), stamps.upper()), (Bound::default(), Stamp(1)), "the oldest went");
    assert_eq!([2, 16_385].map(remembered), [2, 16_385].map(|n| memo(n).bound));
}

/// A node whose clock was doubted does not rely on it towards peers of whose clock it knows nothing.
#[test]
fn a_node_that_doubts_its_clock_sends_nothing_early_to_strangers() {
    for (doubted, early) in [(false, 1), (true, 0)] {
        let mut pair = Pair::new([0, 1].map(|_| Config { early: true, ..config() }));
        pair.now.wall = Wall(2_000_000_000_000_000_000);
        pair.ends[0].cx.clock_doubted = doubted;
        pair.send(0, 100);
        pair.pass(SECOND);
        assert!(pair.ends[1].recv(pair.now).is_some());
        assert_eq!(pair.ends[0].counts().early_sent, early);
    }
}
