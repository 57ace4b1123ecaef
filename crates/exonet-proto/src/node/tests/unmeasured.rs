//! Messages whose length is not known when they begin.

use super::*;
use crate::event::{BodyRead, BodyWrite};
use crate::message::IncomingBody;

/// A message from `ends[0]` that has no length, with these bytes of its body.
fn begun(pair: &mut Pair, body: &[u8]) -> MessageKey {
    let (id, at) = (pair.ends[1].id(), address(1));
    let key = pair.ends[0].send_stream(pair.now, id, &[at], Outgoing::default(), None).unwrap();
    write(pair, key, body);
    key
}

fn write(pair: &mut Pair, key: MessageKey, body: &[u8]) {
    let mut data = Bytes::copy_from_slice(body);
    let wrote = pair.ends[0].body_write(pair.now, key, &mut data);
    assert_eq!((wrote, data.len()), (BodyWrite::Taken(body.len()), 0));
}

fn end(pair: &mut Pair, key: MessageKey) {
    assert!(pair.ends[0].body_end(pair.now, key));
    assert!(!pair.ends[0].body_end(pair.now, key), "once");
}

/// What there is to read, and whether that was everything.
fn read(pair: &mut Pair, key: DeliveryKey) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    loop {
        match pair.ends[1].body_read(pair.now, key) {
            BodyRead::Data(data) => all.extend_from_slice(&data),
            BodyRead::Pending => return (all, false),
            BodyRead::End => return (all, true),
            BodyRead::Aborted => panic!("aborted"),
        }
    }
}

fn accepted(pair: &mut Pair) -> DeliveryKey {
    accepted_of(pair, |_| true)
}

fn accepted_of(pair: &mut Pair, is_right: impl Fn(Option<u64>) -> bool) -> DeliveryKey {
    let incoming = pair.ends[1].accept(pair.now).unwrap();
    assert!(matches!(incoming.body, IncomingBody::Stream { len } if is_right(len)));
    incoming.key
}

#[test]
fn it_is_read_as_it_comes_and_delivered_at_its_end() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = begun(&mut pair, b"one");
    pair.pass(SECOND);
    let delivery = accepted_of(&mut pair, |len| len.is_none());
    assert_eq!(read(&mut pair, delivery), (b"one".to_vec(), false));
    write(&mut pair, key, b"two");
    pair.pass(SECOND);
    assert_eq!(read(&mut pair, delivery), (b"two".to_vec(), false));
    end(&mut pair, key);
    pair.pass(SECOND);
    assert_eq!(read(&mut pair, delivery), (Vec::new(), true));
    assert!(pair.outcomes().iter().all(|(settled, ..)| *settled != key), "it has not been taken");
    assert!(pair.ends[1].done(pair.now, delivery));
    pair.pass(SECOND);
    assert!(
        pair.outcomes().iter().any(|(settled, outcome, _)| (*settled, *outcome) == (key, Outcome::Delivered))
    );
}

#[test]
fn what_has_not_ended_is_not_taken() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = begun(&mut pair, &[7; 10_000]);
    pair.pass(SECOND);
    let delivery = accepted(&mut pair);
    assert_eq!(read(&mut pair, delivery).0.len(), 10_000);
    assert!(!pair.ends[1].done(pair.now, delivery), "there may be more");
    pair.ends[0].abandon(pair.now, key);
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_none());
    assert_eq!(pair.outcomes().last().unwrap().1, Outcome::Unknown);
}

#[test]
fn an_end_that_is_lost_is_said_again() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = begun(&mut pair, b"all there is");
    pair.pass(SECOND);
    let delivery = accepted(&mut pair);
    pair.cut(0);
    end(&mut pair, key);
    pair.pump();
    assert!(!pair.mend(0).is_empty(), "the end has left");
    pair.pass(2 * SECOND);
    assert_eq!(read(&mut pair, delivery), (b"all there is".to_vec(), true));
}

#[test]
fn one_of_a_few_bytes_is_whole_though_it_ends_before_it_leaves() {
    let mut pair = Pair::open();
    pair.talk(0);
    for body in [&b""[..], b"x"] {
        let key = begun(&mut pair, body);
        end(&mut pair, key);
        pair.pass(SECOND);
        let delivery = accepted_of(&mut pair, |len| len == Some(body.len() as u64));
        assert_eq!(read(&mut pair, delivery), (body.to_vec(), true));
        assert!(pair.ends[1].done(pair.now, delivery));
        pair.pass(SECOND);
        assert_eq!(pair.outcomes().last().unwrap().1, Outcome::Delivered);
    }
    let sender = &pair.peer(0).outbound;
    assert!(sender.bodies == 0 && sender.open.is_empty());
    let receiver = &pair.peer(1).inbound;
    assert_eq!((receiver.held.bytes(), receiver.large), (0, 0));
}

/// How much lanes have open, as counted by the sender and by the receiver.
fn in_lanes(pair: &mut Pair) -> [u64; 2] {
    [pair.peer(0).outbound.lanes.bytes(), pair.peer(1).inbound.held.bytes()]
}

#[test]
fn a_lane_that_is_full_does_not_stop_it_and_has_no_less_room() {
    let limits = Limits { lane_window: 1_024, lane_pool: 0, ..Limits::default() };
    let mut pair = Pair::new([config(), Config { serves: true, ..limited(limits) }]);
    pair.talk(0);
    let (id, at, body) = (pair.ends[1].id(), address(1), [7; 20_000]);
    let key = pair.ends[0].call_stream(pair.now, id, &[at], Outgoing::default(), None).unwrap();
    write(&mut pair, key, &body);
    pair.pass(SECOND);
    assert_eq!(in_lanes(&mut pair), [0, 0], "however much of it has come");
    for _ in 0..9 {
        let call = Outgoing { body: vec![7; 200].into(), ..Outgoing::default() };
        pair.ends[0].call(pair.now, id, &[at], call).unwrap();
    }
    pair.pass(SECOND);
    let full = in_lanes(&mut pair);
    assert!(full[0] == full[1] && full[0] > 400 && pair.peer(0).outbound.unbound() > 0, "{full:?}");
    write(&mut pair, key, &body);
    end(&mut pair, key);
    pair.pass(SECOND);
    let incoming = pair.ends[1].take_any_call(pair.now).unwrap();
    assert!(matches!(incoming.body, IncomingBody::Stream { len: None }));
    assert_eq!(read(&mut pair, incoming.key), (vec![7; 40_000], true));
    assert_eq!(in_lanes(&mut pair), full);
}

#[test]
fn its_window_stops_it_until_it_is_read_and_its_end_too() {
    const WINDOW: usize = 65_536;
    let limits = Limits { body_window: WINDOW as u64, ..Limits::default() };
    let mut pair = Pair::new([limited(limits.clone()), limited(limits)]);
    pair.talk(0);
    let key = begun(&mut pair, &[]);
    // With its head and its end, the message is three windows long.
    let mut body = Bytes::from(vec![7; 3 * WINDOW - 2]);
    for _ in 0..9 {
        pair.ends[0].body_write(pair.now, key, &mut body);
        pair.pass(SECOND);
    }
    assert_eq!(pair.ends[0].body_write(pair.now, key, &mut body), BodyWrite::Taken(0));
    assert_eq!(body.len(), WINDOW - 1, "a window has come, and one is kept to be sent");
    let delivery = accepted(&mut pair);
    assert_eq!(read(&mut pair, delivery).0.len(), WINDOW - 1);
    pair.events.clear();
    pair.pass(SECOND);
    assert!(pair.events.contains(&Event::BodyWritable { key }));
    assert_eq!(pair.ends[0].body_write(pair.now, key, &mut body), BodyWrite::Taken(WINDOW - 1));
    write(&mut pair, key, b"x");
    end(&mut pair, key);
    pair.pass(SECOND);
    assert_eq!(read(&mut pair, delivery), (vec![7; WINDOW], false));
    pair.pass(SECOND);
    let (rest, ended) = read(&mut pair, delivery);
    assert_eq!((rest.len(), ended), (WINDOW, false), "its end is a byte beyond");
    pair.pass(SECOND);
    assert_eq!(read(&mut pair, delivery), (Vec::new(), true));
}

#[test]
fn what_has_come_to_its_end_is_not_sent_again_while_it_waits() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = begun(&mut pair, b"waits");
    end(&mut pair, key);
    pair.pass(10 * SECOND);
    assert_eq!(pair.ends[1].counts().duplicates_suppressed, 0, "probes bring nothing but their answers");
    let delivery = accepted(&mut pair);
    assert_eq!(read(&mut pair, delivery), (b"waits".to_vec(), true));
}

#[test]
fn one_that_is_given_back_comes_again_while_its_start_is_kept() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = begun(&mut pair, b"again");
    end(&mut pair, key);
    // This is before the receiver reports what it has, which is not kept any more then.
    pair.pump();
    let delivery = accepted(&mut pair);
    assert_eq!(read(&mut pair, delivery), (b"again".to_vec(), true));
    pair.ends[1].release(pair.now, delivery);
    pair.pass(5 * SECOND);
    let delivery = accepted(&mut pair);
    assert_eq!(read(&mut pair, delivery), (b"again".to_vec(), true));
}

#[test]
fn none_grows_beyond_what_both_ends_allow() {
    let limits = Limits { message: 100_000, ..Limits::default() };
    let mut pair = Pair::new([config(), Config { limits, ..config() }]);
    pair.talk(0);
    let key = begun(&mut pair, &[7; 60_000]);
    let limit = pair.peer(0).outbound.limits.message;
    let mut data = Bytes::from(vec![7; 60_000]);
    let wrote = pair.ends[0].body_write(pair.now, key, &mut data);
    assert_eq!((wrote, data.len()), (BodyWrite::TooLarge { limit }, 60_000), "of {limit}");
}

#[test]
fn parts_agree_where_it_ends() {
    let limits = Limits { message: 100_000, ..Limits::default() };
    let (mut inbound, _, r) = granted(9, &limits);
    let mut take = |s, total, offset, data: &[u8], ends| {
        let part = crate::wire::Part { s: Slot(s), total, offset, data, ends };
        inbound.on_part(r, &part, &limits, u64::MAX, &mut crate::message::arena::Arena::default())
    };
    assert_eq!(take(3, None, 10, b"ten", false), Taken::Partly);
    assert_eq!(take(3, Some(13), 10, b"ten", true), Taken::Violation, "it has no length");
    assert_eq!(take(3, None, 10, b"t", true), Taken::Violation, "there is more");
    assert_eq!(take(3, None, 13, b"", true), Taken::Partly);
    assert_eq!(take(3, None, 13, b"", true), Taken::Ignored);
    assert_eq!(
        take(3, Some(13), 10, b"ten", true),
        Taken::Violation,
        "its end is known, and it has none all the same"
    );
    assert_eq!(take(3, None, 14, b"", true), Taken::Violation, "it has ended");
    assert_eq!(take(3, None, 13, b"x", false), Taken::Violation);
    assert_eq!(take(3, None, 0, b"\x01 and nine", false), Taken::Announce);

    assert_eq!(take(4, None, 13, b"", true), Taken::Partly);
    assert_eq!(take(4, None, 10, b"", true), Taken::Violation, "its end lies elsewhere");
    assert_eq!(take(4, None, 10, b"ten", false), Taken::Partly);

    assert!(limits.body_window() > 200_000);
    assert_eq!(take(5, None, 200_000, b"x", false), Taken::Violation, "longer than any");
    assert_eq!(take(5, Some(200_000), 0, b"x", false), Taken::Violation);
    assert_eq!(take(6, Some(13), 10, b"ten", true), Taken::Partly);
    assert_eq!(take(6, None, 10, b"ten", true), Taken::Violation, "it has a length");
}
