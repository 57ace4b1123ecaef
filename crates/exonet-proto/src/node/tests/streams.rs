//! Streams: order, gaps, ends, and how they survive crashes.

use super::*;
use crate::event::SendError;
use crate::half::Gap;
use crate::message::Verdict;
use crate::message::{InStream, IncomingBody};
use crate::wire::StreamEnd;

/// A short message of a stream from `from`.
pub(super) fn say(pair: &mut Pair, from: usize, name: &'static str, body: &'static str) -> MessageKey {
    say_end(pair, from, name, body, StreamEnd::Open)
}

pub(super) fn say_end(
    pair: &mut Pair,
    from: usize,
    name: &'static str,
    body: &'static str,
    end: StreamEnd,
) -> MessageKey {
    let (id, at) = (pair.ends[1 - from].id(), address(1 - from));
    let message = Outgoing { tag: name.into(), body: body.into(), ..Outgoing::default() };
    pair.ends[from].send_in_stream(pair.now, id, &[at], message, end, false).unwrap()
}

/// The messages of a stream that `end` takes now.
pub(super) fn hear(pair: &mut Pair, end: usize, name: &'static str) -> Vec<(String, Gap)> {
    let (now, id) = (pair.now, pair.ends[1 - end].id());
    let next = || pair.ends[end].recv_stream(now, &id, &name.into());
    core::iter::from_fn(next).map(|said| (text(&said), said.gap)).collect()
}

fn text(said: &InStream) -> String {
    let IncomingBody::Whole(body) = &said.message.body else { return String::new() };
    String::from_utf8_lossy(body).into_owned()
}

pub(super) fn heard(pair: &mut Pair, end: usize, name: &'static str) -> String {
    hear(pair, end, name).into_iter().map(|(body, _)| body).collect()
}

#[test]
fn messages_of_a_stream_come_in_order_and_wait_for_no_other() {
    let mut pair = Pair::open();
    for body in ["1", "2", "3"] {
        say(&mut pair, 0, "a", body);
        say(&mut pair, 0, "b", body);
    }
    pair.send(0, 10);
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some(), "the plain one, alone");
    assert!(pair.ends[1].recv(pair.now).is_none());
    let expected = [("1".to_owned(), Gap::Opens), ("2".to_owned(), Gap::None), ("3".to_owned(), Gap::None)];
    assert_eq!(hear(&mut pair, 1, "b"), expected);
    assert_eq!(hear(&mut pair, 1, "a"), expected);
    pair.pass(SECOND);
    assert!(pair.outcomes().iter().all(|(_, outcome, _)| *outcome == Outcome::Delivered));
    assert_eq!(pair.outcomes().len(), 7);
}

/// Withholds the datagrams of `from` while `act` runs, and returns them.
pub(super) fn withheld(pair: &mut Pair, from: usize, act: impl FnOnce(&mut Pair)) -> Vec<Vec<u8>> {
    pair.cut(from);
    act(pair);
    pair.pump();
    pair.mend(from)
}

/// A pair with a channel, where `0` has envelopes to send with.
pub(super) fn joined() -> Pair {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.events.clear();
    pair
}

pub(super) fn outcome_of(pair: &Pair, key: MessageKey) -> Option<Outcome> {
    pair.outcomes().iter().find(|(of, ..)| *of == key).map(|(_, outcome, _)| *outcome)
}

#[test]
fn a_lost_packet_holds_up_its_own_stream_only() {
    let mut pair = joined();
    let lost = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "a", "1");
    });
    assert_eq!(lost.len(), 1);
    say(&mut pair, 0, "a", "2");
    say(&mut pair, 0, "b", "1");
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), [], "the first may still come");
    assert_eq!(heard(&mut pair, 1, "b"), "1");
    pair.deliver(1, 0, &lost[0]);
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "12");
    pair.deliver(1, 0, &lost[0]);
    pair.pass(SECOND);
    assert_eq!(heard(&mut pair, 1, "a"), "");
}

#[test]
fn the_application_hears_of_a_stream_once_its_first_message_may_be_taken() {
    let mut pair = joined();
    let told = |pair: &mut Pair| {
        let said = core::iter::from_fn(|| pair.ends[1].poll_event());
        said.filter(|event| matches!(event, Event::Stream { .. })).count()
    };
    let lost = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "a", "1");
    });
    say(&mut pair, 0, "a", "2");
    pair.pump();
    assert_eq!(told(&mut pair), 0, "it waits for the first");
    pair.deliver(1, 0, &lost[0]);
    assert_eq!(told(&mut pair), 1);
    say(&mut pair, 0, "a", "3");
    pair.pump();
    assert_eq!(told(&mut pair), 0, "it was told, and has not asked");
    assert_eq!(heard(&mut pair, 1, "a"), "123");
    say(&mut pair, 0, "a", "4");
    pair.pump();
    assert_eq!(told(&mut pair), 1);
}

#[test]
fn what_is_at_the_application_holds_up_what_follows_until_it_is_done() {
    let mut pair = joined();
    let keys: Vec<_> = ["1", "2", "3"].map(|body| say(&mut pair, 0, "a", body)).into();
    pair.pump();
    let (now, id, name) = (pair.now, pair.ends[0].id(), Bytes::from("a"));
    let first = pair.ends[1].take_stream(now, &id, &name).unwrap();
    assert!(pair.ends[1].take_stream(now, &id, &name).is_none(), "the first is not done");
    pair.ends[1].release(now, first.message.key);
    let again = pair.ends[1].take_stream(now, &id, &name).unwrap();
    assert_eq!((text(&again), again.gap, again.message.attempt), ("1".into(), Gap::Opens, 2));
    let verdict = Verdict::new(crate::message::Word::Rejected, 7, "no");
    assert!(pair.ends[1].judge(now, again.message.key, verdict));
    let second = pair.ends[1].take_stream(now, &id, &name).unwrap();
    assert_eq!(
        (text(&second), second.gap),
        ("2".into(), Gap::None),
        "this application has rejected the first itself"
    );
    assert!(pair.ends[1].done(now, second.message.key));
    assert_eq!(heard(&mut pair, 1, "a"), "3");
    pair.pass(SECOND);
    assert_eq!(outcome_of(&pair, keys[0]), Some(Outcome::Rejected { status: 7, attempts: 2 }));
    assert_eq!(outcome_of(&pair, keys[1]), Some(Outcome::Delivered));
}

/// Short messages of one length in a stream from `0` that are queued together: the body of each is its number. They make one
/// bundle.
pub(super) fn say_together(pair: &mut Pair, name: &'static str, numbers: core::ops::Range<u8>) -> MessageKey {
    let (id, at, now) = (pair.ends[1].id(), address(1), pair.now);
    let message =
        |n: u8| Outgoing { tag: name.into(), body: vec![b'a' + n; 40].into(), ..Outgoing::default() };
    let (mut messages, mut keys) = (numbers.clone().map(message), Vec::new());
    let queued = |key, n| keys.push((key, n));
    pair.ends[0].send_each_in_stream(now, id, &[at], &mut messages, queued).unwrap();
    let [(key, n)] = keys[..] else { panic!("{keys:?}") };
    assert_eq!(n, u32::from(numbers.end - numbers.start));
    key
}

/// The numbers that the other end takes of these messages, and the gap before each.
pub(super) fn heard_together(pair: &mut Pair, name: &'static str) -> Vec<(u8, Gap)> {
    let heard = hear(pair, 1, name);
    heard.into_iter().map(|(body, gap)| (body.as_bytes()[0] - b'a', gap)).collect()
}

pub(super) fn in_order(numbers: impl Iterator<Item = u8>) -> Vec<(u8, Gap)> {
    numbers.map(|n| (n, Gap::None)).collect()
}

pub(super) fn is_sound(pair: &Pair) -> bool {
    let mut sound = true;
    pair.ends.iter().for_each(|end| end.audit(|holding| sound &= holding.is_sound()));
    sound
}

#[test]
fn messages_of_a_stream_are_kept_together_and_their_head_leaves_once() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "opens");
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "opens");
    pair.pump();
    let left = withheld(&mut pair, 0, |pair| {
        say_together(pair, "a", 0..20);
        say_together(pair, "a", 20..25);
    });
    let bytes: usize = left.iter().map(Vec::len).sum();
    assert!(bytes < 25 * 42 + 100, "{bytes}: a byte for most heads, and one for most lengths");
    for datagram in left.iter().chain(&left) {
        pair.deliver(1, 0, datagram);
    }
    let (now, id) = (pair.now, pair.ends[0].id());
    let numbers = core::iter::from_fn(|| pair.ends[1].recv_stream(now, &id, &"a".into()));
    let numbers: Vec<_> = numbers.map(|said| (said.n, said.gap, said.end)).collect();
    assert_eq!(numbers, (1..26).map(|n| (n, Gap::None, StreamEnd::Open)).collect::<Vec<_>>());
    pair.pass(SECOND);
    assert!(pair.outcomes().iter().all(|(_, outcome, _)| *outcome == Outcome::Delivered));
    assert_eq!(pair.ends[0].stats().open_messages, 0);
    assert!(is_sound(&pair));
}

#[test]
fn what_is_queued_one_by_one_leaves_its_head_once_too() {
    let mut pair = joined();
    let body = "a body that is long enough to be told from the head that stands before it, which is short";
    let left = withheld(&mut pair, 0, |pair| {
        for _ in 0..10 {
            say(pair, 0, "a", body);
        }
        say_end(pair, 0, "a", "end", StreamEnd::Last);
        say(pair, 0, "a", "next");
    });
    let bytes: usize = left.iter().map(Vec::len).sum();
    assert!(bytes < 10 * (body.len() + 3) + 100, "{bytes}");
    left.iter().for_each(|datagram| pair.deliver(1, 0, datagram));
    let heard = hear(&mut pair, 1, "a");
    assert_eq!(heard.len(), 12);
    assert!(heard[..10].iter().all(|(text, _)| text == body));
    assert_eq!(heard[10..], [("end".into(), Gap::None), ("next".into(), Gap::Opens)]);
}

#[test]
fn bundles_of_several_streams_in_one_frame_have_a_head_each() {
    let mut pair = joined();
    let left = withheld(&mut pair, 0, |pair| {
        say_together(pair, "a", 0..5);
        say_together(pair, "b", 5..10);
        say_together(pair, "a", 10..12);
    });
    assert_eq!(left.len(), 1);
    pair.deliver(1, 0, &left[0]);
    let opened = |mut expected: Vec<(u8, Gap)>| {
        expected[0].1 = Gap::Opens;
        expected
    };
    assert_eq!(heard_together(&mut pair, "b"), opened(in_order(5..10)));
    assert_eq!(heard_together(&mut pair, "a"), opened(in_order((0..5).chain(10..12))));
    pair.pass(SECOND);
    assert!(is_sound(&pair));
}

#[test]
fn a_bundle_stays_within_the_window_of_its_stream() {
    let mut pair = joined();
    for _ in 0..600 {
        say_together(&mut pair, "a", 0..100);
        pair.pump();
    }
    pair.pass(SECOND);
    assert!(pair.ends[0].stats().open_messages == 60_000 && is_sound(&pair));
    assert_eq!(pair.ends[1].counts().dropped_for_room, 0, "what leaves finds room");
    let mut heard = 0;
    while heard < 60_000 {
        let some = heard_together(&mut pair, "a").len();
        assert!(some > 0, "{heard}");
        heard += some;
        pair.pass(SECOND);
    }
    assert_eq!(pair.ends[0].stats().open_messages, 0);
}

#[test]
fn what_leaves_a_bundle_before_it_is_bound_leaves_no_gap() {
    let mut pair = joined();
    let key = say_together(&mut pair, "a", 0..10);
    let now = pair.now;
    for n in [0, 4, 9] {
        pair.ends[0].cancel(now, key.nth(n)).unwrap();
    }
    pair.pump();
    let left = [1, 2, 3, 5, 6, 7, 8];
    let expected: Vec<_> = left.map(|n| (n, if n == 1 { Gap::Opens } else { Gap::None })).into();
    assert_eq!(heard_together(&mut pair, "a"), expected);
    say_together(&mut pair, "a", 10..12);
    pair.ends[0].cancel_stream(now, &pair.ends[1].id(), &"a".into());
    say_together(&mut pair, "a", 12..14);
    pair.pump();
    assert_eq!(heard_together(&mut pair, "a"), in_order(12..14));
    assert!(is_sound(&pair));
}

#[test]
fn what_was_lost_of_a_bundle_comes_again_at_its_place() {
    let mut pair = joined();
    let lost = withheld(&mut pair, 0, |pair| {
        say_together(pair, "a", 0..9);
    });
    say_together(&mut pair, "a", 9..12);
    pair.pump();
    assert_eq!(heard_together(&mut pair, "a"), [], "the first may still come");
    pair.pass(SECOND);
    let mut expected = in_order(0..12);
    expected[0].1 = Gap::Opens;
    assert_eq!(heard_together(&mut pair, "a"), expected);
    lost.iter().for_each(|datagram| pair.deliver(1, 0, datagram));
    pair.pass(SECOND);
    assert_eq!(heard_together(&mut pair, "a"), []);
    assert!(is_sound(&pair));
}

#[test]
fn one_of_a_bundle_that_is_given_up_is_missing_and_no_other() {
    let mut pair = joined();
    let first = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "b", "pins the frontier");
    });
    let key = say_together(&mut pair, "a", 0..4);
    pair.pump();
    let mut last = None;
    let late = withheld(&mut pair, 0, |pair| last = Some(say_together(pair, "a", 4..8)));
    let (now, last) = (pair.now, last.unwrap());
    for n in 0..4 {
        pair.ends[0].abandon(now, last.nth(n));
    }
    say_together(&mut pair, "a", 8..10);
    pair.pump();
    let mut expected = in_order((0..4).chain(8..10));
    (expected[0].1, expected[4].1) = (Gap::Opens, Gap::Missing(4));
    assert_eq!(heard_together(&mut pair, "a"), expected);
    late.iter().chain(&first).for_each(|datagram| pair.deliver(1, 0, datagram));
    pair.pass(SECOND);
    assert_eq!(heard_together(&mut pair, "a"), []);
    assert_eq!(heard(&mut pair, 1, "b"), "pins the frontier");
    assert_eq!(outcome_of(&pair, key), Some(Outcome::Delivered));
    pair.pass(SECOND);
    assert!(is_sound(&pair));
}

#[test]
fn what_comes_back_of_a_bundle_goes_again_in_its_order() {
    let mut pair = joined();
    say_together(&mut pair, "a", 0..6);
    say_together(&mut pair, "a", 6..12);
    pair.pump();
    let now = pair.now;
    let two: Vec<_> =
        (0..2).filter_map(|_| pair.ends[1].recv_stream(now, &pair.ends[0].id(), &"a".into())).collect();
    assert_eq!(two.iter().map(|said| said.n).collect::<Vec<_>>(), [0, 1]);
    pair.ends[1].finish(now);
    pair.pass(SECOND);
    assert_eq!(pair.ends[0].counts().taken_back, 10);
    assert!(is_sound(&pair));
    pair.restart(1, config());
    say_together(&mut pair, "a", 12..14);
    for _ in 0..20 {
        pair.pass(SECOND);
    }
    let mut expected = in_order(2..14);
    expected[0].1 = Gap::Continues(2);
    assert_eq!(
        heard_together(&mut pair, "a"),
        expected,
        "the reader is a process that knows nothing of the first two"
    );
    assert!(is_sound(&pair));
}

#[test]
fn what_never_left_leaves_no_gap() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    let cancelled = say(&mut pair, 0, "a", "x");
    let now = pair.now;
    assert_eq!(pair.ends[0].cancel(now, cancelled), Ok(Cancel::Done));
    say(&mut pair, 0, "a", "2");
    pair.pump();
    let all = hear(&mut pair, 1, "a");
    assert_eq!(all, [("1".into(), Gap::Opens), ("2".into(), Gap::None)]);
}

#[test]
fn what_was_given_up_is_told_as_missing_and_never_comes_late() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "1");
    pair.pass(SECOND);
    let mut gone = None;
    let lost = withheld(&mut pair, 0, |pair| gone = Some(say(pair, 0, "a", "2")));
    let now = pair.now;
    pair.ends[0].abandon(now, gone.unwrap());
    say(&mut pair, 0, "a", "3");
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), [("3".into(), Gap::Missing(1))]);
    pair.deliver(1, 0, &lost[0]);
    pair.pass(SECOND);
    assert_eq!(hear(&mut pair, 1, "a"), []);
    assert_eq!(pair.outcomes()[1].1, Outcome::Unknown);
}

#[test]
fn a_message_follows_the_last_that_is_open_though_one_between_was_given_up() {
    let mut pair = joined();
    let mut gone = None;
    let first = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "a", "1");
    });
    let _: Vec<_> = withheld(&mut pair, 0, |pair| gone = Some(say(pair, 0, "a", "2")));
    let now = pair.now;
    pair.ends[0].abandon(now, gone.unwrap());
    say(&mut pair, 0, "a", "3");
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), [], "the first is open");
    pair.deliver(1, 0, &first[0]);
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), [("1".into(), Gap::Opens), ("3".into(), Gap::Missing(1))]);
}

#[test]
fn what_follows_one_that_was_given_up_goes_on_once_the_frontier_has_passed_it() {
    let mut pair = joined();
    let mut gone = None;
    let _: Vec<_> = withheld(&mut pair, 0, |pair| gone = Some(say(pair, 0, "a", "1")));
    say(&mut pair, 0, "a", "2");
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), []);
    while pair.ends[1].poll_event().is_some() {}
    let now = pair.now;
    pair.ends[0].abandon(now, gone.unwrap());
    pair.pass(SECOND);
    let told = core::iter::from_fn(|| pair.ends[1].poll_event());
    assert_eq!(told.filter(|event| matches!(event, Event::Stream { .. })).count(), 1);
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::Continues(1))]);
}

#[test]
fn a_stream_ends_and_another_of_its_name_begins() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    say_end(&mut pair, 0, "a", "2", StreamEnd::Last);
    say_end(&mut pair, 0, "a", "3", StreamEnd::Reset);
    say(&mut pair, 0, "a", "4");
    pair.pump();
    let (now, id, name) = (pair.now, pair.ends[0].id(), Bytes::from("a"));
    let all: Vec<_> = core::iter::from_fn(|| pair.ends[1].recv_stream(now, &id, &name)).collect();
    let all: Vec<_> = all.iter().map(|said| (text(said), said.n, said.gap, said.end)).collect();
    assert_eq!(
        all,
        [
            ("1".into(), 0, Gap::Opens, StreamEnd::Open),
            ("2".into(), 1, Gap::None, StreamEnd::Last),
            ("3".into(), 0, Gap::Opens, StreamEnd::Reset),
            ("4".into(), 0, Gap::Opens, StreamEnd::Open),
        ]
    );
}

#[test]
fn what_comes_late_of_a_stream_that_has_ended_is_not_taken() {
    let mut pair = joined();
    let first = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "b", "pins the frontier");
    });
    let mut gone = None;
    let late = withheld(&mut pair, 0, |pair| gone = Some(say(pair, 0, "a", "1")));
    let now = pair.now;
    pair.ends[0].abandon(now, gone.unwrap());
    say_end(&mut pair, 0, "a", "2", StreamEnd::Last);
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::Continues(1))]);
    pair.deliver(1, 0, &late[0]);
    assert_eq!(hear(&mut pair, 1, "a"), [], "its slot is free, and its stream has ended");
    assert_eq!(pair.peer(1).inbound.readers.len(), 1, "so that is remembered");
    pair.deliver(1, 0, &first[0]);
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "b"), "pins the frontier");
    pair.pass(20 * SECOND);
    assert_eq!(pair.peer(1).inbound.readers.len(), 1, "that of b");
    assert_eq!(pair.peer(0).outbound.writers.len(), 1);
}

#[test]
fn what_was_given_up_never_comes_late_though_its_slot_is_free() {
    let mut pair = joined();
    let first = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "b", "pins the frontier");
    });
    say(&mut pair, 0, "a", "1");
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "1");
    let mut gone = None;
    let late = withheld(&mut pair, 0, |pair| gone = Some(say(pair, 0, "a", "2")));
    let now = pair.now;
    pair.ends[0].abandon(now, gone.unwrap());
    say(&mut pair, 0, "a", "3");
    pair.pump();
    assert_eq!(hear(&mut pair, 1, "a"), [("3".into(), Gap::Missing(1))]);
    pair.deliver(1, 0, &late[0]);
    assert_eq!(hear(&mut pair, 1, "a"), []);
    pair.deliver(1, 0, &first[0]);
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "b"), "pins the frontier");
}

#[test]
fn an_unread_stream_holds_up_itself_only() {
    let mut pair = joined();
    for _ in 0..2_000 {
        let (id, at) = (pair.ends[1].id(), address(1));
        let message = Outgoing { tag: "unread".into(), body: vec![7; 10_000].into(), ..Outgoing::default() };
        let _ = pair.ends[0].send_in_stream(pair.now, id, &[at], message, StreamEnd::Open, false);
    }
    pair.pass(10 * SECOND);
    for round in 0..20 {
        say(&mut pair, 0, "read", "1");
        pair.send(0, 10_000);
        pair.pass(SECOND);
        assert_eq!(heard(&mut pair, 1, "read"), "1", "{round}");
        assert!(pair.ends[1].recv(pair.now).is_some(), "{round}");
    }
}

/// The lowest message of a stream always finds memory, since the messages that wait for it give way.
#[test]
fn what_waits_for_a_message_gives_way_to_it() {
    for size in [1_000, 5_000] {
        let mut tight = config();
        tight.limits.received_bytes = 8_000;
        let mut pair = Pair::new([config(), tight]);
        pair.talk(0);
        let (id, at) = (pair.ends[1].id(), address(1));
        let big = |pair: &mut Pair, size: usize| {
            let message = Outgoing { tag: "a".into(), body: vec![7; size].into(), ..Outgoing::default() };
            pair.ends[0].send_in_stream(pair.now, id, &[at], message, StreamEnd::Open, false).unwrap();
        };
        let lost = withheld(&mut pair, 0, |pair| big(pair, size));
        (0..20).for_each(|_| big(&mut pair, 1_000));
        pair.pump();
        let now = pair.now;
        for datagram in &lost {
            pair.ends[1].handle_datagram(now, arrival(0), &mut datagram.clone());
        }
        let mut taken = 0;
        for _ in 0..200 {
            taken += hear(&mut pair, 1, "a").len();
            pair.pass(SECOND / 10);
        }
        assert_eq!(taken, 21, "{size}");
    }
}

#[test]
fn a_stream_outlives_the_channel_and_long_silence() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "1");
    pair.pass(SECOND * 3_600);
    say(&mut pair, 0, "a", "2");
    pair.pass(SECOND);
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::None)]);
    say_end(&mut pair, 0, "a", "", StreamEnd::Last);
    pair.pass(SECOND);
    assert_eq!(heard(&mut pair, 1, "a"), "");
    pair.pass(SECOND * 3_600);
    assert_eq!((pair.ends[0].peer_count(), pair.ends[1].peer_count()), (0, 0), "it has ended");
}

#[test]
fn a_receiver_that_has_forgotten_says_where_it_goes_on() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "1");
    pair.pass(SECOND);
    pair.restart(1, config());
    let unknown = say(&mut pair, 0, "a", "2");
    pair.pass(60 * SECOND);
    assert_eq!(outcome_of(&pair, unknown), Some(Outcome::Unknown), "bound before its sender could know");
    say(&mut pair, 0, "a", "3");
    pair.pass(SECOND);
    assert_eq!(hear(&mut pair, 1, "a"), [("3".into(), Gap::Continues(2))]);
}

/// A sender that has forgotten its stream, of which `1` was taken, has begun another of that name with `2`.
pub(super) fn begun_anew() -> Pair {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    pair.pump();
    assert_eq!(heard(&mut pair, 1, "a"), "1");
    pair.pass(SECOND);
    pair.restart(0, config());
    say(&mut pair, 0, "a", "2");
    pair.pass(60 * SECOND);
    pair
}

#[test]
fn a_sender_that_has_forgotten_begins_anew_and_its_reader_hears_so() {
    assert_eq!(hear(&mut begun_anew(), 1, "a"), [("2".into(), Gap::Breaks)]);
}

/// The receiver needs several STATEs to report about all its slots.
#[test]
fn what_a_receiver_that_ends_has_not_taken_comes_again_in_order() {
    let mut pair = joined();
    for n in 0..1_200 {
        say(&mut pair, 0, "a", ["0", "1", "2", "3"][n % 4]);
        say(&mut pair, 0, "b", ["0", "1", "2", "3"][n % 4]);
        pair.send(0, 10);
    }
    pair.pass(SECOND);
    let (now, id, name) = (pair.now, pair.ends[0].id(), Bytes::from("a"));
    assert_eq!(core::iter::from_fn(|| pair.ends[1].recv(now)).count(), 1_200);
    for _ in 0..5 {
        pair.ends[1].recv_stream(now, &id, &name).unwrap();
    }
    pair.ends[1].finish(now);
    pair.pass(SECOND);
    assert!(pair.ends[1].is_finished());
    assert_eq!(pair.ends[0].counts().taken_back, 2_395);
    pair.restart(1, config());
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        pair.pass(SECOND);
        a.extend(hear(&mut pair, 1, "a"));
        b.extend(hear(&mut pair, 1, "b"));
    }
    assert_eq!((a.len(), b.len()), (1_195, 1_200));
    assert_eq!((a[0].1, b[0].1), (Gap::Continues(5), Gap::Opens));
    assert!(a[1..].iter().chain(&b[1..]).all(|(_, gap)| *gap == Gap::None));
    let digits = |all: &[(String, Gap)]| all.iter().map(|(body, _)| body.as_str()).collect::<String>();
    assert_eq!(digits(&b), "0123".repeat(300));
    assert_eq!(digits(&a), "0123".repeat(300)[5..]);
    assert!(pair.outcomes().iter().all(|(_, outcome, _)| *outcome == Outcome::Delivered));
}

#[test]
fn a_name_and_a_length_are_checked_before_anything_is_queued() {
    let mut pair = joined();
    let (id, at) = (pair.ends[1].id(), address(1));
    let mut send = |tag: Vec<u8>, size: usize| {
        let message = Outgoing { tag: tag.into(), body: vec![0; size].into(), ..Outgoing::default() };
        pair.ends[0].send_in_stream(pair.now, id, &[at], message, StreamEnd::Open, false)
    };
    assert_eq!(send(vec![], 1), Err(SendError::NoName));
    assert_eq!(send(vec![1; 256], 1), Err(SendError::TagTooLong(256)));
    let limit = super::super::MAX_STREAM_BODY;
    assert_eq!(
        send(vec![1; 255], limit + 1),
        Err(SendError::TooLarge { size: limit as u64 + 1, limit: limit as u64 })
    );
    assert!(send(vec![1; 255], limit).is_ok());
    pair.pass(SECOND);
    let name = Bytes::from(vec![1; 255]);
    let sender = pair.ends[0].id();
    assert!(pair.ends[1].recv_stream(pair.now, &sender, &name).is_some());
}

/// Two nodes with journals.
pub(super) struct Journaled {
    pub(super) pair: Pair,
    pub(super) written: [Vec<u8>; 2],
}

impl Journaled {
    pub(super) fn new() -> Self {
        let mut this = Self { pair: Pair::open(), written: [Vec::new(), Vec::new()] };
        (0..2).for_each(|end| this.boot(end));
        this
    }

    /// Starts the process of `end` with what is written.
    fn boot(&mut self, end: usize) {
        let pair = &mut self.pair;
        let key = SecretKey::from_bytes(pair.ends[end].cx.key.expose().to_owned());
        let found = crate::journal::Recovered::read(&self.written[end]).unwrap();
        let journal = Some((crate::journal::Durability::Written, Box::new(found)));
        let life = pair.ends[end].cx.life.as_ref().map_or(0, crate::opening::life::Life::number);
        let clock = if life == 0 { 1 << 40 } else { pair.ends[end].cx.clock.limit().0 };
        let boot = Boot::Stored {
            clock,
            life,
            latest: crate::id::Stamp::NONE,
            strays: Vec::new(),
            notes: None,
            journal,
        };
        pair.ends[end] = Node::new(config(), key, boot, [9; 32], pair.now);
        self.write();
    }

    pub(super) fn write(&mut self) {
        for (end, written) in self.pair.ends.iter_mut().zip(&mut self.written) {
            while let Some(records) = end.poll_journal() {
                written.extend(records.to_vec());
            }
            while let Some(batch) = end.poll_persist() {
                end.handle_persisted(self.pair.now, batch.lsn);
            }
        }
    }

    /// Replaces what `end` has written by a snapshot, without what has ended.
    pub(super) fn snapshot(&mut self, end: usize) {
        self.write();
        self.written[end] = self.pair.ends[end].snapshot(self.pair.now);
    }

    pub(super) fn crash(&mut self, end: usize) {
        self.write();
        self.boot(end);
    }

    pub(super) fn pass(&mut self, span: Duration) {
        let step = MS * 20;
        for _ in 0..span.as_millis() / step.as_millis() {
            self.pair.pass(step);
            self.write();
        }
    }
}

/// Both nodes crash in turn, between any two messages. The only effect is that messages that were not acknowledged come again.
#[test]
fn with_journals_no_crash_breaks_a_stream() {
    for snapshots in [false, true] {
        let mut both = Journaled::new();
        let mut all = Vec::new();
        for round in 0..12 {
            for body in ["1", "2", "3"] {
                say(&mut both.pair, 0, "a", body);
                say(&mut both.pair, 0, "b", body);
            }
            if round % 3 != 1 {
                both.pass(SECOND);
            }
            let (now, id) = (both.pair.now, both.pair.ends[0].id());
            if let Some(first) = both.pair.ends[1].recv_stream(now, &id, &Bytes::from("a")) {
                all.push((text(&first), first.gap));
            }
            if snapshots {
                both.snapshot(round % 2);
            }
            both.crash(round % 2);
            both.pass(SECOND * 8);
            all.extend(hear(&mut both.pair, 1, "a"));
            both.write();
        }
        both.pass(SECOND * 20);
        all.extend(hear(&mut both.pair, 1, "a"));
        assert_eq!(all[0], ("1".into(), Gap::Opens));
        assert!(all[1..].iter().all(|(_, gap)| *gap == Gap::None), "{all:?}");
        assert_eq!(all.iter().map(|(body, _)| body.as_str()).collect::<String>(), "123".repeat(12));
        let b = hear(&mut both.pair, 1, "b");
        assert_eq!(b.iter().map(|(body, _)| body.as_str()).collect::<String>(), "123".repeat(12));
        assert!(b[1..].iter().all(|(_, gap)| *gap == Gap::None), "{b:?}");
        say_end(&mut both.pair, 0, "a", "", StreamEnd::Last);
        both.pass(SECOND);
        both.crash(0);
        say(&mut both.pair, 0, "a", "4");
        both.pass(SECOND * 8);
        let end = hear(&mut both.pair, 1, "a");
        assert_eq!(end, [(String::new(), Gap::None), ("4".into(), Gap::Opens)]);
        both.crash(1);
        say(&mut both.pair, 0, "a", "5");
        both.pass(SECOND * 8);
        assert_eq!(hear(&mut both.pair, 1, "a"), [("5".into(), Gap::None)]);
    }
}
