//! Everything that is owed, waits or is known about a peer has a bound; what was lost because of it is owed again.

use super::*;
use crate::channel::Fate;
use crate::channel::path::PathAddr;
use crate::half::Ask;
use crate::id::Stamp;
use crate::message::Early;
use crate::message::lane::Lane;
use crate::opening::stamping::Stamping;
use crate::peer::epoch::Carried;

#[test]
fn eight_addresses_of_a_peer_are_known_the_latest_first() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    (10..30).for_each(|end| pair.peer(0).add_hint(address(end)));
    let latest: Vec<_> = (22..30).rev().map(address).collect();
    assert_eq!(pair.peer(0).hints, latest);
}

#[test]
fn pings_that_wait_are_64_and_the_others_are_lost() {
    let mut pair = Pair::open();
    let (id, now) = (pair.ends[1].id(), pair.now);
    (0..100).for_each(|cookie| pair.ends[0].ping(now, id, &[address(1)], cookie).unwrap());
    assert_eq!(pair.peer(0).link.pings.len(), 64);
    let lost = core::iter::from_fn(|| pair.ends[0].poll_event());
    let lost: Vec<_> = lost.filter(|event| matches!(event, Event::Pong { rtt: None, .. })).collect();
    assert_eq!(lost.len(), 36);
}

#[test]
fn what_waits_outside_of_channels_is_bounded() {
    let mut pair = Pair::open();
    pair.talk(0);
    let at = PathAddr { remote: address(7), local: None, pipe: None };
    (0..9).for_each(|n| pair.peer(0).link.respond(at, [n; 8]));
    assert_eq!(pair.peer(0).link.responses.len(), 4, "answers to challenges");
    (0..2_000).for_each(|_| pair.ends[0].cx.push_loose(arrival(7), Box::new([1])));
    assert_eq!(pair.ends[0].cx.loose(), 1_024, "datagrams");
    let mut stamping = Stamping::new(false, 2, [], None);
    (0..300).for_each(|_| stamping.defer(arrival(7), Box::new([1])));
    assert_eq!(stamping.take_deferred().len(), 256, "openings that wait for the disk");
}

#[test]
fn haves_that_are_owed_are_32() {
    let (mut inbound, _, r) = granted(100, &Limits::default());
    (0..100).for_each(|s| inbound.on_probe(Mono(0), Slot(s), r));
    assert_eq!(inbound.haves.len(), 32);
}

#[test]
fn states_are_a_millisecond_apart() {
    let (mut inbound, _, _) = granted(9, &Limits::default());
    inbound.state_left(Mono(0) + MS);
    assert!(!inbound.state_owed());
    inbound.owe_state(Mono(0) + MS);
    assert!(!inbound.state_due(Mono(0) + 2 * MS - Duration::from_nanos(1)));
    assert!(inbound.state_due(Mono(0) + 2 * MS));
    let half = Mono(0) + MS * 3 / 2;
    assert!(inbound.state_may_leave(half, true), "with an ACK");
    assert!(!inbound.state_may_leave(half, false), "where data would have less room for it");
    assert!(!inbound.state_may_leave(Mono(half.0 - 1), true));
}

#[test]
fn a_state_of_one_message_does_not_wait_for_a_millisecond() {
    const NEAR: Duration = Duration::from_micros(10);
    let lone = Mono(0) + 2 * MS + Duration::from_micros(50);
    // A STATE left after 2 ms; then `messages` were used up.
    let used_beside = |waiting: u64, messages: &[u64], answered: Mono, rtt: Duration| {
        let (mut inbound, _, r) = granted(9, &Limits::default());
        for s in 0..waiting {
            inbound.on_whole(s..s + 1, r, &Lane::Plain, 1, &Limits::default());
        }
        inbound.on_answer(answered);
        inbound.state_left(Mono(0) + 2 * MS);
        for n in messages {
            inbound.on_used(Mono(0) + 2 * MS, *n, rtt);
            inbound.owe_state(Mono(0) + 2 * MS);
        }
        inbound
    };
    let used = |messages: &[u64], answered, rtt| used_beside(0, messages, answered, rtt);
    let one = used(&[1], Mono(0) + MS, NEAR);
    assert!(!one.state_due(lone - Duration::from_nanos(1)) && one.state_due(lone));
    // What is due may leave: otherwise the node would be called again and again until it may.
    let mut overtaken = used(&[1, 1], Mono(0), NEAR);
    overtaken.on_answer(Mono(0) + 2 * MS);
    for inbound in [&one, &overtaken] {
        assert!(inbound.state_due(lone) && inbound.state_may_leave(lone, false));
    }
    let far = used(&[1], Mono(0), 20 * MS);
    let several = used(&[2], Mono(0), NEAR);
    let answered = used(&[1], Mono(0) + 2 * MS, NEAR);
    let covered = used_beside(1, &[1], Mono(0), NEAR);
    for inbound in [&several, &answered, &far, &covered] {
        assert!(!inbound.state_due(lone) && !inbound.state_may_leave(lone, false));
        assert!(inbound.state_due(Mono(0) + 3 * MS));
    }
}

#[test]
fn a_state_or_a_farewell_that_was_lost_is_owed_again() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.pass(SECOND);
    for (fate, again) in [(Fate::Acked, false), (Fate::Lost, true)] {
        pair.apply(1, &mut vec![(Carried::State { nth: 0 }, fate)]);
        assert_eq!(pair.peer(1).inbound.state_owed(), again);
        pair.apply(1, &mut vec![(Carried::Farewell, fate)]);
        assert_eq!(pair.peer(1).outbound.farewell_due, again, "there is no record");
        pair.apply(0, &mut vec![(Carried::Farewell, fate)]);
        assert!(!pair.peer(0).outbound.farewell_due, "another record has been opened since");
    }
}

/// A peer that misses the STATE asks again.
#[test]
fn a_state_without_a_record_is_worth_no_channel() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    let now = pair.now.mono;
    let peer = pair.peer(0);
    (peer.outbound, peer.inbound) = (crate::peer::outbound::Outbound::new(now, false), Inbound::new(now));
    peer.inbound.owe_state(now);
    assert!(!peer.wants_channel(now));
    let ask = Ask { s: Slot(0), n: 1, l: Slot(0), ts: Stamp::NONE };
    let _ = peer.inbound.on_ask(now, &mut crate::half::Clock::ephemeral(), &Limits::default(), ask);
    assert!(peer.wants_channel(now));
}

#[test]
fn a_time_of_zero_says_nothing_of_a_clock() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    pair.peer(0).note_time(Wall(5_000), Wall(0));
    assert_eq!(pair.peer(0).told.ahead, None);
    pair.peer(0).note_time(Wall(5_000), Wall(3_000));
    assert_eq!(pair.peer(0).told.ahead, Some(2_000));
}

#[test]
fn a_sign_of_life_may_be_for_one_peer() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, now) = (pair.ends[1].id(), pair.now);
    pair.ends[0].keep_alive(now, &id, Some(10 * SECOND));
    pair.pass(100 * SECOND);
    assert!(pair.peer(0).link.is_connected());
}

#[test]
fn what_has_a_deadline_leaves_early_if_asked_to_and_32_at_most_do() {
    let year = 365 * 24 * 3_600 * SECOND;
    for (early, deadline, messages, left) in [
        (Early::AsNode, None, 40, 32),
        (Early::AsNode, Some(year), 1, 0),
        (Early::Yes, Some(year), 1, 1),
        (Early::No, None, 1, 0),
    ] {
        let mut pair = Pair::new([0, 1].map(|_| Config { early: true, ..config() }));
        pair.now.wall = Wall(2_000_000_000_000_000_000);
        let (id, deadline) = (pair.ends[1].id(), deadline.map(|span| pair.now.mono + span));
        for _ in 0..messages {
            let message = Outgoing { early, deadline, ..Outgoing::default() };
            pair.ends[0].send(pair.now, id, &[address(1)], message).unwrap();
        }
        pair.pump();
        assert_eq!(pair.ends[0].counts().early_sent, left, "{early:?}, {messages}");
    }
}

/// Only bound messages are in doubt.
#[test]
fn what_has_not_left_is_not_given_up() {
    let impatient = Config { doubt_timeout: Some(10 * SECOND), ..config() };
    let mut pair = Pair::new([impatient, config()]);
    pair.cut(0);
    let key = pair.send(0, 100);
    pair.pass(30 * SECOND);
    assert_eq!(pair.ends[0].status(key), Status::Queued);
}
