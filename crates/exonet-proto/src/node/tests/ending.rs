//! A node that ends for good reports what it has not taken.

use super::*;

/// `ends[1]` ends, and tells its peer.
fn end(pair: &mut Pair) {
    let now = pair.now;
    pair.ends[1].finish(now);
    pair.pass(SECOND);
    assert!(pair.ends[1].is_finished());
}

#[test]
fn what_was_not_taken_is_queued_again_and_taken_by_the_next_life() {
    let mut pair = Pair::open();
    pair.talk(0);
    let small: Vec<_> = (0..40).map(|_| pair.send(0, 100)).collect();
    let mut bodies = (0..40).map(|_| [7; 30]);
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let mut together = Vec::new();
    let queued = |key: MessageKey, n| together.extend((0..n).map(|i| key.nth(i)));
    pair.ends[0].send_bodies(now, id, &[at], &Alike::default(), &mut bodies, queued).unwrap();
    let large = pair.send(0, 200_000);
    pair.pass(SECOND);
    (0..10).for_each(|_| assert!(pair.ends[1].recv(pair.now).is_some()));
    pair.pass(10 * MS);
    assert!(matches!(pair.ends[0].status(small[39]), Status::InDoubt { .. }));
    let before = pair.outcomes().len();
    end(&mut pair);
    assert_eq!(pair.outcomes().len(), before, "none of it has an outcome");
    let all: Vec<_> = small.iter().chain(&together).copied().chain([large]).collect();
    let open = all.iter().filter(|key| pair.ends[0].status(**key) != Status::Settled);
    assert!(open.clone().all(|key| pair.ends[0].status(*key) == Status::Queued));
    let open: Vec<_> = open.copied().collect();
    assert_eq!((open.len(), pair.ends[0].counts().taken_back), (71, 71));
    assert_eq!(pair.ends[0].cancel(pair.now, open[0]), Ok(Cancel::Done), "it can be cancelled again");
    pair.restart(1, config());
    let mut taken = 0;
    for _ in 0..40 {
        pair.pass(SECOND);
        taken += core::iter::from_fn(|| pair.ends[1].recv(pair.now)).count();
    }
    assert_eq!(taken, 70);
    let outcomes = pair.outcomes();
    let of = |key: &MessageKey| outcomes.iter().find(|(of, ..)| of == key).map(|(_, outcome, _)| *outcome);
    assert_eq!(of(&open[0]), Some(Outcome::Cancelled));
    assert!(outcomes.iter().all(|(_, outcome, _)| *outcome != Outcome::Unknown), "{outcomes:?}");
}

#[test]
fn what_comes_back_after_its_deadline_expires() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let deadline = Some(now.mono + 100 * MS);
    // One part of a message of several parts is not withdrawn.
    let message = Outgoing { tag: Bytes::from_static(b"log"), deadline, ..Outgoing::default() };
    let end_of = crate::wire::StreamEnd::Open;
    let key = pair.ends[0].send_in_stream(now, id, &[at], message, end_of, true).unwrap();
    pair.pass(SECOND);
    assert!(matches!(pair.ends[0].status(key), Status::InDoubt { late: true, .. }));
    end(&mut pair);
    assert!(pair.outcomes().contains(&(key, Outcome::Expired, true)), "{:?}", pair.outcomes());
}

#[test]
fn nothing_leaves_early_to_a_peer_that_has_ended_until_it_grants_again() {
    let mut pair = Pair::new([Config { early: true, ..config() }, config()]);
    pair.now.wall = Wall(1_800_000_000_000_000_000);
    pair.talk(0);
    let early = pair.ends[0].counts().early_sent;
    end(&mut pair);
    let now = pair.now;
    pair.ends[1].leave_all(now);
    pair.pump();
    let key = pair.send(0, 100);
    pair.restart(1, config());
    pair.pass(20 * SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert_eq!((pair.ends[0].status(key), pair.ends[0].counts().early_sent), (Status::Settled, early));
    assert!(pair.outcomes().contains(&(key, Outcome::Delivered, false)));
}

#[test]
fn a_node_that_has_ended_takes_and_grants_nothing() {
    let mut pair = Pair::open();
    pair.talk(1);
    pair.send(0, 100);
    pair.pass(SECOND);
    end(&mut pair);
    assert!(pair.ends[1].recv(pair.now).is_none());
    let key = pair.send(0, 100);
    pair.pass(SECOND);
    assert_eq!((pair.ends[0].status(key), pair.ends[1].recv(pair.now)), (Status::Queued, None));
    assert_eq!(pair.ends[1].stats().receiver_records, 0);
}

/// An ephemeral identity is gone with its node: messages for it end at once, and with certainty where that is known.
#[test]
fn an_ephemeral_node_that_ends_leaves_nothing_open() {
    let mut pair = Pair::open();
    pair.talk(0);
    let keys: Vec<_> = (0..40).map(|_| pair.send(0, 100)).collect();
    pair.pass(SECOND);
    (0..10).for_each(|_| assert!(pair.ends[1].recv(pair.now).is_some()));
    let (now, before) = (pair.now, pair.outcomes().len());
    pair.ends[1].finish(now);
    // Only the last packet arrives.
    drop(pair.says(1));
    pair.ends[1].leave_all(now);
    let queued = pair.send(0, 100);
    pair.pump();
    let outcomes = pair.outcomes().split_off(before);
    let of = |key: &MessageKey| outcomes.iter().find(|(of, ..)| of == key).map(|(_, outcome, _)| *outcome);
    let ended = Outcome::Refused(crate::node::Refusal::Ended);
    assert!(keys[..10].iter().all(|key| of(key) == Some(Outcome::Delivered)), "{outcomes:?}");
    assert!(keys[10..].iter().all(|key| of(key) == Some(ended)), "{outcomes:?}");
    assert_eq!(of(&queued), Some(ended));
    pair.pass(SECOND);
    assert!(pair.ends[0].open_messages().is_empty());
}

/// The notice is repeated, since nothing confirms it; and only peers that had something for this node get it.
#[test]
fn the_end_of_an_ephemeral_node_is_heard_though_words_of_it_are_lost() {
    let mut pair = Pair::open();
    pair.talk(0);
    end(&mut pair);
    let queued = pair.send(0, 100);
    pair.pass(SECOND);
    assert_eq!(pair.ends[0].status(queued), Status::Queued);
    let before = pair.outcomes().len();
    assert!(pair.ends[1].foretell_end().is_some());
    assert!(!pair.says(1).is_empty());
    assert!(pair.ends[1].foretell_end().is_some());
    pair.pump();
    let ended = Outcome::Refused(crate::node::Refusal::Ended);
    assert_eq!(pair.outcomes().split_off(before), [(queued, ended, false)]);
    let now = pair.now;
    pair.ends[1].leave_all(now);
    pair.pass(SECOND);
    assert!(pair.ends[0].open_messages().is_empty());
    // A node to which nothing was sent does not repeat the notice, nor does a node whose identity lives on.
    let mut sender = Pair::open();
    sender.talk(1);
    end(&mut sender);
    assert_eq!(sender.ends[1].foretell_end(), None);
    let mut stored = Pair::open();
    stored.restart(1, config());
    stored.talk(0);
    end(&mut stored);
    assert_eq!(stored.ends[1].foretell_end(), None);
}

/// A message that no final STATE decides ends Unknown at once, and does not wait for its sender's patience.
#[test]
fn what_an_ephemeral_node_leaves_undecided_is_unknown_at_once() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(0);
    let bound = pair.send(0, 100);
    pair.pump();
    let (now, before) = (pair.now, pair.outcomes().len());
    pair.ends[1].finish(now);
    drop(pair.says(1));
    // Nothing can be said about its record any more.
    pair.peer(1).inbound.receiver = None;
    pair.ends[1].leave_all(now);
    pair.pump();
    assert_eq!(pair.outcomes().split_off(before), [(bound, Outcome::Unknown, false)]);
}

/// A stored identity lives again: its peers keep the messages for it.
#[test]
fn a_stored_node_never_ends_for_good() {
    let mut pair = Pair::open();
    pair.restart(1, config());
    pair.talk(0);
    let key = pair.send(0, 100);
    pair.pass(SECOND);
    let now = pair.now;
    pair.ends[1].finish(now);
    pair.ends[1].leave_all(now);
    pair.pump();
    assert_eq!(pair.ends[0].status(key), Status::Queued);
}

/// An ephemeral node that is merely idle, or closes and has not finished, sends no such notice.
#[test]
fn an_idle_ephemeral_node_does_not_end_for_good() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = pair.send(0, 100);
    pair.pass(SECOND);
    let now = pair.now;
    pair.ends[1].close(now);
    pair.ends[1].leave_all(now);
    pair.pump();
    pair.pass(SECOND);
    assert!(matches!(pair.ends[0].status(key), Status::InDoubt { .. }));
}

#[test]
fn the_last_word_does_not_wait_for_its_turn() {
    let (mut inbound, mut clock, _) = granted(4, &Limits::default());
    let now = Mono(0) + SECOND;
    inbound.state_left(now);
    inbound.owe_state(now);
    assert!(!inbound.state_may_leave(now, false), "one has just left");
    inbound.close(now, Some(MS));
    inbound.on_timeout(now, &mut clock, &config());
    assert!(inbound.state_may_leave(now, false) && inbound.state_due(now));
}
