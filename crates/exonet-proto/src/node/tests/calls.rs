//! Calls: rules that only the internal state of a node shows.

use super::*;
use crate::pattern::call::{Caller, MAX_REPLY_ACKS};
use crate::wire::Role;

const S: Slot = Slot(7);

/// A call of `ends[0]` that `ends[1]` has taken.
fn taken() -> (Pair, MessageKey, CallId) {
    let mut pair = Pair::new([config(), Config { serves: true, ..config() }]);
    let key = pair.call(0);
    pair.pass(SECOND);
    let call = pair.ends[1].take_any_call(pair.now).unwrap().call.unwrap();
    (pair, key, call)
}

const SHORT: Bytes = Bytes::from_static(b"reply");

fn long() -> Bytes {
    Bytes::from(vec![7; 5_000])
}

fn is_replied(pair: &Pair, key: MessageKey, with: Bytes) -> bool {
    let with = ReplyBody::Whole(with);
    let reply = |event: &Event| match event {
        Event::Reply { key: its, status: 0, body, .. } => *its == key && *body == with,
        _ => false,
    };
    pair.events.iter().any(reply)
}

#[test]
fn what_is_said_of_a_call_goes_with_its_reply() {
    let (mut pair, _, call) = taken();
    assert!(pair.ends[1].reply(pair.now, call, 0, SHORT));
    pair.pass(SECOND);
    pair.call(0);
    for (_, said) in pair.says(0) {
        pair.deliver(1, 0, &said);
    }
    let call = pair.ends[1].take_any_call(pair.now).unwrap().call.unwrap();
    assert_eq!(pair.says(1).len(), 0, "STATE and ACK wait");
    assert!(pair.ends[1].reply(pair.now, call, 0, SHORT));
    assert_eq!(pair.says(1).len(), 1);
}

#[test]
fn a_reply_of_a_kilobyte_waits_for_no_slot() {
    let (mut pair, key, call) = taken();
    let body = Bytes::from(vec![7; 1_024]);
    assert!(pair.ends[1].reply(pair.now, call, 0, body.clone()));
    let said = pair.says(1);
    pair.cut(1);
    said.iter().for_each(|(_, datagram)| pair.deliver(0, 1, datagram));
    pair.pump();
    assert!(is_replied(&pair, key, body));
}

#[test]
fn a_caller_whose_last_reply_makes_room_for_one_of_another_is_not_busy() {
    let (mut pair, _, call) = taken();
    pair.pass(SECOND);
    pair.cut(1);
    assert!(pair.ends[1].reply(pair.now, call, 0, SHORT));
    pair.pass(SECOND);
    assert_eq!(pair.ends[1].census.busy, 1, "the reply is kept");
    // Another caller replaces the first; one reply is always kept.
    pair.mend(1);
    pair.ends[1].cx.config.limits.reply_bytes = 0;
    let key = SecretKey::from_bytes([3; 32]);
    pair.ends[0] = Node::new(config(), key, Boot::Ephemeral, [3; 32], pair.now);
    pair.call(0);
    pair.pass(SECOND);
    let call = pair.ends[1].take_any_call(pair.now).unwrap().call.unwrap();
    assert!(pair.ends[1].reply(pair.now, call, 0, SHORT));
    assert_eq!(pair.ends[1].counts().replies_forgotten, 1);
    assert_eq!(pair.ends[1].census.busy, 1, "only the second caller");
    pair.pass(SECOND);
    assert!(pair.ends[1].is_quiet());
}

#[test]
fn giving_up_all_messages_to_a_caller_gives_up_no_reply() {
    let (mut pair, key, call) = taken();
    assert!(pair.ends[1].reply(pair.now, call, 0, long()));
    pair.ends[1].abandon_peer(pair.now, &call.caller);
    pair.pass(SECOND);
    assert!(is_replied(&pair, key, long()));
}

#[test]
fn giving_up_a_call_that_was_delivered_asks_nothing() {
    let (mut pair, key, _) = taken();
    pair.pass(SECOND);
    pair.ends[0].abandon(pair.now, key);
    assert!(!pair.peer(0).outbound.ask_due, "the peer holds nothing of it");
}

#[test]
fn a_long_reply_that_is_unknown_is_sent_again() {
    let (mut pair, key, call) = taken();
    assert!(pair.ends[1].reply(pair.now, call, 0, long()));
    for end in [1, 0] {
        for (_, said) in pair.says(end) {
            pair.deliver(1 - end, end, &said);
        }
    }
    assert!(!pair.says(1).is_empty(), "the reply, which is lost");
    let Node { peers, cx, .. } = &mut pair.ends[0];
    let clock = &mut cx.clock;
    assert!(peers.get_mut(0).unwrap().inbound.evict(clock), "and so is what it was bound to");
    pair.pass(5 * SECOND);
    assert!(is_replied(&pair, key, long()));
}

#[test]
fn a_long_reply_that_was_delivered_is_not_kept() {
    let (mut pair, key, call) = taken();
    assert!(pair.ends[1].reply(pair.now, call, 0, long()));
    assert_eq!(pair.ends[1].stats().replies, 1);
    pair.pass(SECOND);
    assert!(is_replied(&pair, key, long()));
    assert_eq!(pair.ends[1].stats().replies, 0);
}

#[test]
fn a_reply_leaves_again_when_its_packet_is_lost() {
    let (mut pair, key, call) = taken();
    pair.cut(1);
    assert!(pair.ends[1].reply(pair.now, call, 0, SHORT));
    pair.pump();
    assert_eq!(pair.mend(1).len(), 1, "the reply");
    let fates = &mut vec![(crate::peer::epoch::Carried::Reply { s: call.s }, crate::channel::Fate::Lost)];
    pair.apply(1, fates);
    pair.touch(1);
    pair.pump();
    assert!(is_replied(&pair, key, SHORT));
}

/// Whatever STATEs have said so far.
#[test]
fn a_call_that_has_its_reply_is_delivered() {
    let mut pair = Pair::new([config(), Config { serves: true, ..config() }]);
    let key = pair.call(0);
    pair.pump();
    let Status::InDoubt { id, .. } = pair.ends[0].status(key) else { panic!("bound") };
    pair.with(0, |peer, cx, now| {
        peer.on_reply(cx, now, &crate::wire::Reply { s: id.s, status: 0, body: &SHORT });
    });
    pair.pump();
    assert!(is_replied(&pair, key, SHORT));
    assert!(pair.peer(0).outbound.sender.as_ref().unwrap().is_idle(), "nothing is in doubt");
}

#[test]
fn a_call_that_ends_at_its_deadline_is_late() {
    let mut pair = Pair::new([config(), Config { serves: true, ..config() }]);
    let (id, deadline) = (pair.ends[1].id(), Some(pair.now.mono + SECOND));
    let message = Outgoing { deadline, ..Outgoing::default() };
    let key = pair.ends[0].call(pair.now, id, &[address(1)], message).unwrap();
    pair.pass(2 * SECOND);
    assert!(pair.outcomes().contains(&(key, Outcome::Unknown, true)));
}

/// Until a STATE says so, nothing else proves that a call was delivered.
#[test]
fn computing_is_not_heard_of_a_call_that_is_not_known_to_be_delivered() {
    let (mut caller, mut store) = (Caller::default(), crate::message::Store::default());
    let source = crate::message::Source::Whole(Bytes::new());
    let key = store.insert(crate::message::Letter::new(0, Outgoing::default(), source, Role::Call));
    caller.bound(S, key);
    caller.computing(Mono(0), S);
    assert_eq!((caller.deadline(true), caller.on_no_call(S)), (Mono::NEVER, None));
    caller.delivered(Mono(0), S, SECOND);
    caller.computing(Mono(0), S);
    assert_eq!((caller.deadline(true), caller.on_no_call(S)), (Mono(0) + 2 * SECOND, Some(key)));
}

#[test]
fn reply_acks_that_are_owed_are_bounded() {
    let mut caller = Caller::default();
    (0..3_000).for_each(|s| assert_eq!(caller.on_reply(Slot(s), Mono(0)), None));
    assert_eq!(caller.counts().1, MAX_REPLY_ACKS);
}

/// REPLY_ACK leaves in time, though there is nothing else to send.
#[test]
fn a_reply_ack_waits_for_no_longer_than_an_acknowledgement_may() {
    let mut caller = Caller::default();
    caller.on_reply(S, Mono(0) + 5 * MS);
    caller.on_reply(Slot(8), Mono(0) + 9 * MS);
    assert_eq!(caller.deadline(true), Mono(0) + 5 * MS);
    assert!(!caller.reply_acks_due(Mono(0) + 4 * MS) && caller.reply_acks_due(Mono(0) + 5 * MS));
}
