//! Messages of streams that have left and are withdrawn: they leave no gap, and no message comes before one that it follows.

use super::streams::{
    Journaled, begun_anew, hear, heard, heard_together, in_order, is_sound, joined, outcome_of, say, say_end,
    say_together, withheld,
};
use super::*;
use crate::half::Gap;
use crate::wire::StreamEnd;

const CANCELLED: Option<Outcome> = Some(Outcome::Cancelled);

fn cancel(pair: &mut Pair, key: MessageKey) {
    assert_eq!(pair.ends[0].cancel(pair.now, key), Ok(Cancel::Asked));
}

/// What is due is said, and nothing is sent again.
fn say_due(pair: &mut Pair) {
    pair.pass(Duration::ZERO);
}

fn told(pair: &mut Pair) -> usize {
    let said = core::iter::from_fn(|| pair.ends[1].poll_event());
    said.filter(|event| matches!(event, Event::Stream { .. })).count()
}

/// Nothing is kept of what was withdrawn, at either end.
fn is_over(pair: &mut Pair) -> bool {
    let inbound = &pair.peer(1).inbound;
    let kept = inbound.receiver.as_ref().is_some_and(|record| !record.withdrawn().is_empty());
    let voids = inbound.readers.voids.len();
    let revokes = pair.peer(0).outbound.revokes();
    (kept, voids, revokes, is_sound(pair)) == (false, 0, 0, true)
}

#[test]
fn any_message_of_a_stream_is_withdrawn_and_leaves_no_gap() {
    for gone in 0..3 {
        let mut pair = joined();
        let keys = ["1", "2", "3"].map(|body| say(&mut pair, 0, "a", body));
        pair.pump();
        cancel(&mut pair, keys[gone]);
        say_due(&mut pair);
        assert_eq!(outcome_of(&pair, keys[gone]), CANCELLED);
        say(&mut pair, 0, "a", "4");
        say_due(&mut pair);
        let all = hear(&mut pair, 1, "a");
        let expected: Vec<_> =
            ["1", "2", "3", "4"].into_iter().filter(|body| *body != ["1", "2", "3"][gone]).collect();
        assert_eq!(all.iter().map(|(body, _)| body.as_str()).collect::<Vec<_>>(), expected);
        assert_eq!(all[0].1, Gap::Opens);
        assert!(all[1..].iter().all(|(_, gap)| *gap == Gap::None), "{all:?}");
        pair.pass(20 * SECOND);
        assert!(is_over(&mut pair), "{gone}: {:?}", pair.peer(1).inbound.readers);
    }
}

#[test]
fn what_follows_a_withdrawn_message_waits_for_the_one_before_it() {
    let mut pair = joined();
    let lost = withheld(&mut pair, 0, |pair| {
        say(pair, 0, "a", "1");
    });
    let keys = ["2", "3"].map(|body| say(&mut pair, 0, "a", body));
    say(&mut pair, 0, "a", "4");
    pair.pump();
    keys.iter().for_each(|key| cancel(&mut pair, *key));
    say_due(&mut pair);
    assert_eq!(outcome_of(&pair, keys[1]), CANCELLED);
    assert_eq!((hear(&mut pair, 1, "a"), told(&mut pair)), (vec![], 0), "the first may still come");
    pair.deliver(1, 0, &lost[0]);
    assert_eq!(told(&mut pair), 1);
    assert_eq!(hear(&mut pair, 1, "a"), [("1".into(), Gap::Opens), ("4".into(), Gap::None)]);
    pair.pass(20 * SECOND);
    assert!(is_over(&mut pair));
}

/// A message that is not read keeps the frontier of the sender where it is.
fn pinned() -> Pair {
    let mut pair = joined();
    say(&mut pair, 0, "b", "pins the frontier");
    pair.pump();
    assert_eq!(told(&mut pair), 1);
    pair
}

#[test]
fn what_waited_for_a_message_that_is_withdrawn_is_told_of() {
    let mut pair = pinned();
    let mut first = None;
    withheld(&mut pair, 0, |pair| first = Some(say(pair, 0, "a", "1")));
    say(&mut pair, 0, "a", "2");
    pair.pump();
    assert_eq!(told(&mut pair), 0);
    cancel(&mut pair, first.unwrap());
    say_due(&mut pair);
    assert_eq!(told(&mut pair), 1);
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::Opens)]);
}

/// One word withdraws a message that is lost, and one that has come and lies before another.
#[test]
fn what_lies_behind_a_message_that_is_withdrawn_is_told_of() {
    let mut pair = pinned();
    let mut first = None;
    withheld(&mut pair, 0, |pair| first = Some(say(pair, 0, "a", "1")));
    let second = say(&mut pair, 0, "a", "2");
    say(&mut pair, 0, "a", "3");
    pair.pump();
    cancel(&mut pair, first.unwrap());
    cancel(&mut pair, second);
    say_due(&mut pair);
    assert_eq!((pair.peer(1).inbound.readers.voids.len(), told(&mut pair)), (1, 1));
    assert_eq!(hear(&mut pair, 1, "a"), [("3".into(), Gap::Opens)]);
    assert!(is_sound(&pair));
}

#[test]
fn a_deadline_withdraws_messages_of_a_stream() {
    let mut pair = joined();
    let (now, id, at) = (pair.now, pair.ends[1].id(), address(1));
    let deadline = Some(now.mono + 100 * MS);
    let mut say_late = |body: &'static str| {
        let message = Outgoing { tag: "a".into(), body: body.into(), deadline, ..Outgoing::default() };
        pair.ends[0].send_in_stream(now, id, &[at], message, StreamEnd::Open, false).unwrap()
    };
    let keys = [say_late("1"), say_late("a body of another length")];
    say(&mut pair, 0, "a", "2");
    pair.pass(SECOND);
    assert!(keys.iter().all(|key| outcome_of(&pair, *key) == Some(Outcome::Expired)));
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::Opens)]);
    pair.pass(20 * SECOND);
    assert!(is_over(&mut pair));
}

#[test]
fn messages_of_a_bundle_are_withdrawn_one_by_one_and_many_with_one_word() {
    let mut pair = joined();
    let key = say_together(&mut pair, "a", 0..20);
    pair.pump();
    let held = pair.ends[1].cx.received;
    let gone = [0, 3, 4, 5, 6, 7, 12];
    gone.iter().for_each(|n| cancel(&mut pair, key.nth(*n)));
    say_due(&mut pair);
    assert_eq!(pair.peer(1).inbound.readers.voids.len(), 3, "runs");
    assert_eq!(pair.ends[1].cx.received, held / 20 * 13, "the memory of those is free at once");
    say_together(&mut pair, "a", 20..22);
    pair.pump();
    let mut expected = in_order((0..22).filter(|n| !gone.contains(&u32::from(*n))));
    expected[0].1 = Gap::Opens;
    assert_eq!(heard_together(&mut pair, "a"), expected);
    pair.pass(20 * SECOND);
    assert!(gone.iter().all(|n| outcome_of(&pair, key.nth(*n)) == CANCELLED));
    assert!(is_over(&mut pair));
}

/// The receiver ends while a REVOKE is under way, or WITHDRAWN, or after both.
#[test]
fn what_a_receiver_that_ends_gives_back_goes_on_without_what_was_withdrawn() {
    for cut in [Some(0), Some(1), None] {
        let mut pair = joined();
        let keys = ["1", "2", "3"].map(|body| say(&mut pair, 0, "a", body));
        pair.pump();
        let (now, id, name) = (pair.now, pair.ends[0].id(), Bytes::from("a"));
        assert!(pair.ends[1].recv_stream(now, &id, &name).is_some());
        pair.pump();
        cut.into_iter().for_each(|end| pair.cut(end));
        cancel(&mut pair, keys[1]);
        say_due(&mut pair);
        cut.into_iter().for_each(|end| drop(pair.mend(end)));
        pair.ends[1].finish(now);
        pair.pass(SECOND);
        assert_eq!(outcome_of(&pair, keys[1]), CANCELLED);
        pair.restart(1, config());
        pair.pass(60 * SECOND);
        let heard = hear(&mut pair, 1, "a");
        // What was withdrawn here has its place, which the next process knows nothing of.
        let before = if cut == Some(0) { 1 } else { 2 };
        assert_eq!(heard, [("3".into(), Gap::Continues(before))], "{cut:?}");
    }
}

/// It ends before its word of a message gets through: that is heard all the same, and the message does not come again.
#[test]
fn a_receiver_that_ends_gives_nothing_back_that_it_has_rejected() {
    let mut pair = joined();
    let keys = ["1", "2"].map(|body| say(&mut pair, 0, "a", body));
    pair.pump();
    pair.cut(1);
    let (now, id, name) = (pair.now, pair.ends[0].id(), Bytes::from("a"));
    let first = pair.ends[1].take_stream(now, &id, &name).unwrap();
    assert!(pair.ends[1].judge(now, first.message.key, Verdict::new(Word::Rejected, 7, "")));
    pair.pump();
    pair.ends[1].finish(now);
    pair.mend(1);
    pair.pass(SECOND);
    assert_eq!(outcome_of(&pair, keys[0]), Some(Outcome::Rejected { status: 7, attempts: 1 }));
    assert_eq!(pair.ends[0].counts().taken_back, 1, "that behind it alone");
    pair.restart(1, config());
    pair.pass(60 * SECOND);
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::Continues(1))]);
}

/// Messages of the stream `a` are sent, with these ends. One is given up. The receiver ends, so that those before it come back.
/// At last another is sent. Gives what its next process hears.
fn heard_after(lines: &[(&'static str, StreamEnd)], given_up: usize) -> Vec<(String, Gap)> {
    let mut pair = joined();
    let keys: Vec<_> = lines.iter().map(|(body, end)| say_end(&mut pair, 0, "a", body, *end)).collect();
    pair.pump();
    let now = pair.now;
    pair.ends[0].abandon(now, keys[given_up]);
    pair.ends[1].finish(now);
    pair.pass(SECOND);
    assert_eq!(pair.ends[0].counts().taken_back, keys.len() as u64 - 1);
    pair.restart(1, config());
    say(&mut pair, 0, "a", "last");
    pair.pass(60 * SECOND);
    hear(&mut pair, 1, "a")
}

/// A message behind another was given up: the reader misses it at its place, though the one before it comes back.
#[test]
fn what_was_given_up_is_missed_where_the_one_before_it_comes_back() {
    let heard = heard_after(&[("1", StreamEnd::Open), ("2", StreamEnd::Open)], 1);
    assert_eq!(heard, [("1".into(), Gap::Opens), ("last".into(), Gap::Missing(1))]);
}

/// The reader does not take the next stream for the same.
#[test]
fn an_end_that_was_given_up_is_missed_where_the_message_before_it_comes_back() {
    let heard = heard_after(&[("1", StreamEnd::Open), ("2", StreamEnd::Last)], 1);
    assert_eq!(heard, [("1".into(), Gap::Opens), ("last".into(), Gap::Breaks)]);
}

#[test]
fn what_was_given_up_is_missed_where_the_end_of_the_stream_before_comes_back() {
    let heard = heard_after(&[("1", StreamEnd::Last), ("2", StreamEnd::Open)], 1);
    assert_eq!(heard, [("1".into(), Gap::Opens), ("last".into(), Gap::Continues(1))]);
}

#[test]
fn a_reader_that_has_heard_of_a_break_has_the_next_stream_from_its_start() {
    let mut pair = begun_anew();
    let (now, id, name) = (pair.now, pair.ends[0].id(), Bytes::from("a"));
    for gap in [Gap::Breaks, Gap::Opens] {
        let said = pair.ends[1].take_stream(now, &id, &name).unwrap();
        assert_eq!(said.gap, gap);
        pair.ends[1].break_stream(&id, &name, said.message.id);
        pair.ends[1].release(now, said.message.key);
    }
    assert_eq!(hear(&mut pair, 1, "a"), [("2".into(), Gap::Opens)]);
}

/// The journal has the places that are kept, whether it was cut since or not; and of bundles too.
#[test]
fn with_a_journal_a_message_keeps_its_place_over_a_crash() {
    for snapshot in [false, true] {
        let mut both = Journaled::new();
        let keys = ["1", "2", "3", "4"].map(|body| say(&mut both.pair, 0, "a", body));
        both.pair.pump();
        let now = both.pair.now;
        both.pair.ends[0].abandon(now, keys[2]);
        both.pair.ends[1].finish(now);
        both.pass(SECOND);
        assert_eq!(both.pair.ends[0].counts().taken_back, 3, "{snapshot}");
        if snapshot {
            both.snapshot(0);
        }
        both.crash(0);
        both.crash(1);
        both.pass(SECOND * 60);
        let expected = [("1", Gap::Opens), ("2", Gap::None), ("4", Gap::Missing(1))];
        assert_eq!(hear(&mut both.pair, 1, "a"), expected.map(|(body, gap)| (body.into(), gap)));
    }
}

/// A message behind the withdrawn one was taken: what comes after it has a place behind that.
#[test]
fn the_place_of_a_withdrawn_message_is_not_used_again_behind_its_back() {
    let mut pair = joined();
    let keys = ["1", "2"].map(|body| say(&mut pair, 0, "a", body));
    say(&mut pair, 0, "a", "3");
    pair.pump();
    pair.cut(1);
    cancel(&mut pair, keys[1]);
    say_due(&mut pair);
    assert_eq!(heard(&mut pair, 1, "a"), "13");
    let now = pair.now;
    pair.ends[1].finish(now);
    pair.mend(1);
    pair.pass(SECOND);
    assert_eq!(outcome_of(&pair, keys[1]), CANCELLED);
    let (_, n) = pair.peer(0).outbound.writers.begun_of(&"a".into()).unwrap();
    assert_eq!(n, 3);
}

/// The journal keeps both that a message waits for the one before the withdrawn one, and that this is not missing.
#[test]
fn with_a_journal_a_withdrawn_message_leaves_no_gap_after_a_crash() {
    for snapshot in [false, true] {
        let mut both = Journaled::new();
        say(&mut both.pair, 0, "a", "0");
        both.pass(SECOND);
        assert_eq!(heard(&mut both.pair, 1, "a"), "0");
        let lost = withheld(&mut both.pair, 0, |pair| {
            say(pair, 0, "a", "1");
        });
        let key = say(&mut both.pair, 0, "a", "2");
        say(&mut both.pair, 0, "a", "3");
        both.pair.pump();
        cancel(&mut both.pair, key);
        say_due(&mut both.pair);
        assert_eq!(both.pair.peer(1).inbound.readers.voids.len(), 1);
        if snapshot {
            both.snapshot(1);
        }
        both.crash(1);
        assert_eq!(both.pair.peer(1).inbound.readers.voids.len(), 1, "{snapshot}");
        drop(lost);
        both.pass(SECOND * 8);
        assert_eq!(hear(&mut both.pair, 1, "a"), [("1".into(), Gap::None), ("3".into(), Gap::None)]);
        assert_eq!(outcome_of(&both.pair, key), CANCELLED);
    }
}

#[test]
fn a_reset_withdraws_nothing_of_the_stream_before() {
    let mut pair = joined();
    say(&mut pair, 0, "a", "1");
    say_end(&mut pair, 0, "a", "end", StreamEnd::Last);
    let gone = say(&mut pair, 0, "a", "2");
    let (now, id) = (pair.now, pair.ends[1].id());
    pair.ends[0].cancel_stream(now, &id, &"a".into());
    say_end(&mut pair, 0, "a", "", StreamEnd::Reset);
    pair.pump();
    assert_eq!(outcome_of(&pair, gone), CANCELLED);
    let expected = [("1".into(), Gap::Opens), ("end".into(), Gap::None), (String::new(), Gap::Opens)];
    assert_eq!(hear(&mut pair, 1, "a"), expected);
}

/// Where there is no room for more, the message stays, and is asked for again.
#[test]
fn what_finds_no_room_is_not_withdrawn() {
    let mut pair = joined();
    say(&mut pair, 0, "b", "pins the frontier");
    let key = say(&mut pair, 0, "a", "1");
    pair.pump();
    pair.with(1, |peer, _, _| {
        for n in 1..=1_024 {
            let mark = crate::wire::StreamMark { age: 2 * n, n, ..crate::wire::StreamMark::OPEN };
            peer.inbound.readers.voids.insert(b"x", Slot((1 << 40) + 2 * n), 1, mark);
        }
    });
    cancel(&mut pair, key);
    pair.pass(SECOND);
    assert_eq!(outcome_of(&pair, key), None);
    assert_eq!(heard(&mut pair, 1, "a"), "1");
    pair.pass(SECOND);
    assert_eq!(outcome_of(&pair, key), Some(Outcome::Delivered));
}
