//! Messages that have left and are withdrawn: they end certainly not delivered, or Delivered.

use super::*;
use crate::id::MessageId;
use crate::message::IncomingBody;
use crate::wire::StreamEnd;

const ASKED: Result<Cancel, CancelError> = Ok(Cancel::Asked);

/// Two nodes with a channel, and a message of `ends[0]` that has left and is not taken.
fn sent(size: usize) -> (Pair, MessageKey) {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = pair.send(0, size);
    pair.pass(10 * MS);
    (pair, key)
}

fn cancel(pair: &mut Pair, key: MessageKey) {
    assert_eq!(pair.ends[0].cancel(pair.now, key), ASKED);
}

fn outcome(pair: &Pair, key: MessageKey) -> Option<Outcome> {
    pair.events.iter().find_map(|event| match event {
        Event::Outcome { key: first, count, outcome, .. } => {
            (0..*count).any(|n| first.nth(n) == key).then_some(*outcome)
        }
        _ => None,
    })
}

fn recv(pair: &mut Pair) -> Option<MessageId> {
    pair.ends[1].recv(pair.now).map(|incoming| incoming.id)
}

fn is_sound(pair: &Pair) -> bool {
    let mut sound = true;
    pair.ends.iter().for_each(|end| end.audit(|holding| sound &= holding.is_sound()));
    sound
}

/// Whether nothing of the withdrawn message is kept at either end.
fn is_over(pair: &mut Pair) -> bool {
    let record = pair.peer(1).inbound.receiver.as_ref();
    let withdrawn = record.is_some_and(|record| !record.withdrawn().is_empty());
    !withdrawn && pair.peer(0).outbound.revokes() == 0 && is_sound(pair)
}

#[test]
fn a_message_that_waits_is_withdrawn_and_its_memory_is_free_at_once() {
    let (mut pair, key) = sent(100);
    assert!(pair.ends[1].cx.received > 0);
    cancel(&mut pair, key);
    let status = pair.ends[0].status(key);
    assert!(matches!(status, Status::InDoubt { withdrawing: true, .. }), "{status:?}");
    pair.pass(10 * MS);
    assert_eq!(outcome(&pair, key), Some(Outcome::Cancelled));
    assert_eq!((pair.ends[1].cx.received, pair.ends[1].counts().revoked), (0, 1));
    assert_eq!((recv(&mut pair), pair.ends[0].counts().withdrawn), (None, 1));
    pair.pass(SECOND);
    assert!(is_over(&mut pair));
    assert_eq!(pair.ends[0].cancel(pair.now, key), Err(CancelError::Settled));
    pair.talk(0);
}

#[test]
fn a_message_that_was_taken_is_delivered() {
    let (mut pair, key) = sent(100);
    pair.cut(1);
    assert!(recv(&mut pair).is_some());
    cancel(&mut pair, key);
    pair.pass(10 * MS);
    pair.mend(1);
    pair.pass(5 * SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Delivered));
    assert!(is_over(&mut pair));
}

#[test]
fn a_deadline_withdraws_what_has_left() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let deadline = Some(now.mono + 100 * MS);
    let mut send = || {
        let message = Outgoing { body: Bytes::from_static(b"x"), deadline, ..Outgoing::default() };
        pair.ends[0].send(now, id, &[at], message).unwrap()
    };
    let keys = [send(), send()];
    pair.pass(10 * MS);
    assert!(recv(&mut pair).is_some());
    pair.pass(SECOND);
    assert_eq!(
        pair.outcomes()[1..],
        [(keys[0], Outcome::Delivered, false), (keys[1], Outcome::Expired, true)]
    );
    assert_eq!(recv(&mut pair), None);
    assert!(is_over(&mut pair));
}

#[test]
fn a_message_at_the_application_is_not_withdrawn() {
    for release in [false, true] {
        let (mut pair, key) = sent(100);
        let handed = pair.ends[1].accept(pair.now).unwrap();
        cancel(&mut pair, key);
        pair.pass(5 * SECOND);
        assert_eq!(outcome(&pair, key), None);
        if release {
            pair.ends[1].release(pair.now, handed.key);
        } else {
            assert!(pair.ends[1].done(pair.now, handed.key));
        }
        pair.pass(5 * SECOND);
        assert_eq!(outcome(&pair, key), Some(if release { Outcome::Cancelled } else { Outcome::Delivered }));
        assert!(recv(&mut pair).is_none() && is_over(&mut pair));
    }
}

#[test]
fn one_of_several_is_withdrawn_by_itself() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, mut queued) = (pair.ends[1].id(), Vec::new());
    let mut all = (0..50).map(|n| [n; 30]);
    let each = |key: MessageKey, n| queued.extend((0..n).map(|i| key.nth(i)));
    pair.ends[0].send_bodies(pair.now, id, &[address(1)], &Alike::default(), &mut all, each).unwrap();
    pair.pass(10 * MS);
    let gone = [0, 7, 8, 9, 49];
    gone.iter().for_each(|n| cancel(&mut pair, queued[*n]));
    pair.pass(10 * MS);
    assert!(is_sound(&pair));
    assert_eq!(pair.ends[1].cx.inbox.len(), 45, "the memory of few is free at once");
    let now = pair.now;
    let taken: Vec<usize> = core::iter::from_fn(|| pair.ends[1].recv(now))
        .map(|incoming| match incoming.body {
            IncomingBody::Whole(body) => body[0].into(),
            body => panic!("{body:?}"),
        })
        .collect();
    assert_eq!(taken, (0..50).filter(|n| !gone.contains(n)).collect::<Vec<_>>());
    pair.pass(SECOND);
    for (n, key) in queued.iter().enumerate() {
        let expected = if gone.contains(&n) { Outcome::Cancelled } else { Outcome::Delivered };
        assert_eq!(outcome(&pair, *key), Some(expected), "{n}");
    }
    // Nothing is asked for: the slots are dropped with the record.
    pair.pass(10 * SECOND);
    assert!(is_over(&mut pair));
}

#[test]
fn a_message_that_has_come_in_part_is_withdrawn() {
    let (mut pair, key) = sent(5 << 20);
    assert!(pair.ends[1].cx.received > 0 && outcome(&pair, key).is_none());
    cancel(&mut pair, key);
    pair.pass(SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Cancelled));
    assert!(pair.ends[1].cx.received == 0 && pair.ends[1].accept(pair.now).is_none() && is_over(&mut pair));
}

/// The frontier does not move: only the withdrawal drops the parts.
#[test]
fn the_parts_of_a_message_that_is_withdrawn_go_though_an_older_one_waits() {
    let (mut pair, older) = sent(100);
    let before = pair.ends[1].cx.received;
    let key = pair.send(0, 5 << 20);
    pair.pass(10 * MS);
    assert!(pair.ends[1].cx.received > before);
    cancel(&mut pair, key);
    pair.pass(SECOND);
    assert_eq!((outcome(&pair, key), outcome(&pair, older)), (Some(Outcome::Cancelled), None));
    assert!(pair.ends[1].cx.received == before && is_sound(&pair));
}

#[test]
fn what_is_lost_is_said_again() {
    for end in [0, 1] {
        let (mut pair, key) = sent(100);
        pair.cut(end);
        cancel(&mut pair, key);
        pair.pass(100 * MS);
        assert!(!pair.mend(end).is_empty());
        assert_eq!(outcome(&pair, key), None);
        pair.pass(5 * SECOND);
        assert_eq!(outcome(&pair, key), Some(Outcome::Cancelled), "{end}");
        assert!(is_over(&mut pair));
    }
}

/// An old message that the application does not take holds back only the frontier.
#[test]
fn withdrawn_slots_are_granted_again_behind_a_message_that_is_not_taken() {
    let mut pair = Pair::new([config(), limited(Limits { slots: 64, ..Limits::default() })]);
    pair.talk(0);
    let old = pair.send(0, 10);
    pair.pass(10 * MS);
    for round in 0..40 {
        let keys: Vec<_> = (0..20).map(|_| pair.send(0, 10)).collect();
        pair.pass(SECOND);
        for key in &keys {
            assert_eq!(pair.ends[0].cancel(pair.now, *key), ASKED, "{round}");
        }
        pair.pass(SECOND);
        assert!(keys.iter().all(|key| outcome(&pair, *key) == Some(Outcome::Cancelled)), "{round}");
        assert!(is_sound(&pair));
    }
    assert_eq!(outcome(&pair, old), None);
    assert!(recv(&mut pair).is_some() && recv(&mut pair).is_none());
    pair.pass(SECOND);
    assert_eq!(outcome(&pair, old), Some(Outcome::Delivered));
    assert!(is_over(&mut pair));
}

#[test]
fn what_a_node_that_ends_gives_back_ends_too() {
    let (mut pair, key) = sent(100);
    // The REVOKE is lost.
    pair.cut(0);
    cancel(&mut pair, key);
    pair.pass(10 * MS);
    pair.mend(0);
    let now = pair.now;
    pair.ends[1].finish(now);
    pair.pass(SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Cancelled));
    assert_eq!(pair.peer(0).outbound.revokes(), 0);
}

#[test]
fn the_death_of_the_receiver_is_the_one_reason_for_doubt() {
    let (mut pair, key) = sent(100);
    pair.cut(0);
    cancel(&mut pair, key);
    pair.pass(10 * MS);
    pair.mend(0);
    pair.restart(1, config());
    pair.pass(60 * SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Unknown));
    assert!(pair.ends[0].peers.get(0).is_none_or(|peer| peer.outbound.revokes() == 0));
}

#[test]
fn calls_ends_of_streams_and_parts_are_not_withdrawn() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let mut say = |end, more| {
        let message = Outgoing { tag: Bytes::from_static(b"log"), ..Outgoing::default() };
        pair.ends[0].send_in_stream(now, id, &[at], message, end, more).unwrap()
    };
    let in_stream = [say(StreamEnd::Open, true), say(StreamEnd::Last, false), say(StreamEnd::Reset, false)];
    let call = pair.call(0);
    pair.pass(10 * MS);
    for key in in_stream.into_iter().chain([call]) {
        assert_eq!(pair.ends[0].cancel(pair.now, key), Err(CancelError::InDoubt));
    }
}

/// A peer that withdraws messages that it has not sent gains nothing, and no other peer loses anything.
#[test]
fn what_was_never_sent_or_is_of_another_record_may_be_withdrawn() {
    let (mut pair, key) = sent(100);
    let (s, r) = match pair.ends[0].status(key) {
        Status::InDoubt { id, .. } => (id.s, id.r),
        status => panic!("{status:?}"),
    };
    let (all, other) = (0..crate::id::MAX_NUMBER, Incarnation(r.0 + 1));
    pair.with(1, |peer, cx, now| peer.on_revoke(cx, now, all.clone(), other));
    pair.pass(SECOND);
    assert_eq!(outcome(&pair, key), None);
    // An old STATE says nothing about it either.
    pair.with(0, |peer, cx, now| peer.on_withdrawn(cx, now, s.0..s.0 + 1, other));
    assert_eq!(outcome(&pair, key), None);
    pair.with(1, |peer, cx, now| peer.on_revoke(cx, now, 0..s.0 + 1, r));
    pair.pass(5 * SECOND);
    assert_eq!(outcome(&pair, key), Some(Outcome::Cancelled));
    pair.talk(0);
    assert!(is_over(&mut pair));
}
