//! The steps of a message that a follower sees.

use super::streams::say;
use super::*;
use crate::follow::{Again, Follow, FollowError, MAX_FOLLOWED, MAX_FOLLOWERS, MAX_STEPS, Missed, Step, What};

const ALL: Follow = Follow::New { peer: None, most: u32::MAX };

fn steps(pair: &mut Pair, end: usize, follower: FollowerId) -> (Vec<Step>, Missed) {
    let mut steps = Vec::new();
    let missed = pair.ends[end].steps(pair.now, follower, &mut steps);
    (steps, missed)
}

/// The names of the steps of one message.
fn names(steps: &[Step], message: u32) -> Vec<String> {
    let name =
        |step: &Step| format!("{:?}", step.what).split([' ', '{']).next().unwrap_or_default().to_owned();
    steps.iter().filter(|step| step.message == message).map(name).collect()
}

/// Two nodes that have talked, so that nothing leaves early, and a follower of all messages at each.
fn followed() -> (Pair, [FollowerId; 2]) {
    let mut pair = Pair::open();
    pair.talk(0);
    let followers = [0, 1].map(|end| pair.ends[end].follow(pair.now, ALL).unwrap());
    (pair, followers)
}

/// Two nodes that have not talked, the first of which sends early.
fn early_pair() -> Pair {
    let mut pair = Pair::new([Config { early: true, ..config() }, config()]);
    pair.now.wall = Wall(1_700_000_000_000_000_000);
    pair
}

#[test]
fn a_message_is_followed_from_queued_to_its_outcome_and_at_its_receiver() {
    let (mut pair, [near, far]) = followed();
    pair.send(0, 100);
    pair.pump();
    pair.pass(10 * MS);
    let taken_at = pair.now;
    assert!(pair.ends[1].recv(taken_at).is_some());
    pair.pass(SECOND);
    let (sent, missed) = steps(&mut pair, 0, near);
    assert_eq!(missed, Missed::default());
    assert_eq!(names(&sent, 1), ["Queued", "Bound", "Left", "Acknowledged", "Settled"], "{sent:?}");
    let Some(Step { what: What::Bound { id }, .. }) = sent.get(1) else { panic!("{sent:?}") };
    let (came, _) = steps(&mut pair, 1, far);
    assert_eq!(names(&came, 1), ["Arrived", "Taken"], "{came:?}");
    assert!(matches!(&came[0].what, What::Arrived { id: at, size: Some(100), .. } if at == id), "{came:?}");
    assert_eq!((came[0].last, came[1].last, came[1].at), (false, true, taken_at.mono));
    let settled = What::Settled { outcome: Outcome::Delivered, late: false, id: Some(*id) };
    assert_eq!(sent.last().map(|step| (&step.what, step.last)), Some((&settled, true)));
    assert!(sent.iter().all(|step| step.at <= pair.now.mono) && sent.is_sorted_by_key(|step| step.at));
    // Messages that have ended are forgotten.
    pair.send(0, 100);
    pair.pump();
    assert!(steps(&mut pair, 0, near).0.iter().all(|step| step.message == 2));
}

#[test]
fn a_loss_is_told_with_why_the_message_leaves_again() {
    let (mut pair, [near, far]) = followed();
    pair.cut(0);
    pair.send(0, 100);
    pair.pump();
    let lost = pair.withheld[0].take();
    assert!(lost.is_some_and(|lost| lost.len() == 1));
    pair.pass(SECOND);
    let (sent, _) = steps(&mut pair, 0, near);
    let left: Vec<_> = sent
        .iter()
        .filter_map(|step| match &step.what {
            What::Left { again, packet, bytes } => Some((*again, packet.to, bytes.clone())),
            _ => None,
        })
        .collect();
    assert!(left.len() >= 2 && left[0] == (None, address(1), None), "{sent:?}");
    assert!(matches!(left[1].0, Some(Again::Copy | Again::Probe)), "{sent:?}");
    let (came, _) = steps(&mut pair, 1, far);
    assert_eq!(names(&came, 1)[0], "Arrived", "{came:?}");
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert_eq!(names(&steps(&mut pair, 0, near).0, 1).last().map(String::as_str), Some("Settled"));
}

#[test]
fn packets_of_a_channel_that_ends_are_told() {
    let (mut pair, [near, _]) = followed();
    pair.cut(0);
    pair.send(0, 100);
    pair.pump();
    pair.withheld[0] = None;
    let now = pair.now;
    let place = pair.ends[0].peers.find(&pair.ends[1].id()).unwrap();
    let (peer, cx) = pair.ends[0].at(place).unwrap();
    peer.drop_channel(cx, now);
    pair.ends[0].after(now, place);
    pair.pump();
    let (sent, _) = steps(&mut pair, 0, near);
    assert_eq!(names(&sent, 1), ["Queued", "Bound", "Left", "ChannelEnded", "Left"], "{sent:?}");
    let again = sent.iter().rev().find_map(|step| match step.what {
        What::Left { again, .. } => Some(again),
        _ => None,
    });
    assert_eq!(again, Some(Some(Again::ChannelEnded)));
}

#[test]
fn an_early_message_is_bound_without_an_incarnation_and_leaves_beside_the_opening() {
    let mut pair = early_pair();
    let near = pair.ends[0].follow(pair.now, ALL).unwrap();
    let far = pair.ends[1].follow(pair.now, ALL).unwrap();
    pair.send(0, 10);
    pair.pump();
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pump();
    let (sent, _) = steps(&mut pair, 0, near);
    let told = names(&sent, 1);
    assert_eq!(told[..3], ["Queued", "Bound", "Left"], "{sent:?}");
    assert!(matches!(&sent[1].what, What::Bound { id } if id.r == Incarnation::UNNAMED), "{sent:?}");
    assert!(matches!(&sent[2].what, What::Left { packet, .. } if packet.number.is_none()), "{sent:?}");
    let id = sent.last().and_then(|step| if let What::Settled { id, .. } = step.what { id } else { None });
    let (came, _) = steps(&mut pair, 1, far);
    assert!(matches!(&came[0].what, What::Arrived { id: at, .. } if Some(*at) == id), "{sent:?} {came:?}");
}

#[test]
fn one_that_is_taken_up_late_has_times_and_no_reason_that_nobody_knows() {
    let mut pair = early_pair();
    let whole = pair.ends[0].follow(pair.now, ALL).unwrap();
    pair.cut(0);
    pair.send(0, 10);
    pair.pump();
    let bound_at = pair.now.mono;
    pair.pass(SECOND);
    let key = pair.ends[0].open_messages()[0].key;
    let follower = pair.ends[0].follow(pair.now, Follow::Open(key)).unwrap();
    let began = pair.now.mono;
    pair.pass(10 * SECOND);
    let (sent, _) = steps(&mut pair, 0, follower);
    assert_eq!(names(&sent, 1)[..3], ["Queued", "Bound", "Left"], "{sent:?}");
    assert_eq!((sent[0].at, sent[1].at), (began, bound_at), "{sent:?}");
    assert!(sent[2..].iter().all(|step| step.at > began && step.at <= pair.now.mono), "{sent:?}");
    let again = |step: &Step| if let What::Left { again, .. } = step.what { again } else { None };
    assert!(sent[2..].iter().all(|step| again(step) == Some(Again::Before)), "{sent:?}");
    let (sent, _) = steps(&mut pair, 0, whole);
    let left: Vec<_> = sent.iter().filter(|step| matches!(step.what, What::Left { .. })).map(again).collect();
    assert!(left.len() > 1 && left[0].is_none(), "{sent:?}");
    assert!(left[1..].iter().all(|again| *again == Some(Again::Unanswered)), "{sent:?}");
}

#[test]
fn a_call_is_followed_to_its_reply_at_both_ends() {
    let (mut pair, [near, far]) = followed();
    pair.ends[1].cx.config.serves = true;
    pair.call(0);
    pair.pump();
    let call = pair.ends[1].take_any_call(pair.now).and_then(|incoming| incoming.call).unwrap();
    pair.pump();
    assert!(pair.ends[1].reply(pair.now, call, 3, Bytes::new()));
    pair.pump();
    let (came, _) = steps(&mut pair, 1, far);
    assert_eq!(names(&came, 1), ["Arrived", "Taken", "Answered"], "{came:?}");
    assert_eq!(came.iter().map(|step| step.last).collect::<Vec<_>>(), [false, false, true]);
    let (sent, _) = steps(&mut pair, 0, near);
    assert_eq!(sent.last().map(|step| (&step.what, step.last)), Some((&What::Replied { status: 3 }, true)));
    // The reply is not a message of its own for a follower.
    assert!(sent.iter().chain(&came).all(|step| step.message == 1));
}

#[test]
fn parts_of_a_long_message_say_which_bytes_they_have() {
    let (mut pair, [near, _]) = followed();
    pair.send(0, 5_000);
    pair.pump();
    let (sent, _) = steps(&mut pair, 0, near);
    let parts = sent.iter().filter_map(|step| match &step.what {
        What::Left { bytes, .. } => bytes.clone(),
        _ => None,
    });
    let mut end = 0;
    for part in parts {
        assert_eq!(part.start, end, "{sent:?}");
        end = part.end;
    }
    assert_eq!(end, 5_001);
}

#[test]
fn messages_that_were_queued_together_are_followed_one_by_one() {
    let (mut pair, [near, far]) = followed();
    let (id, at) = (pair.ends[1].id(), address(1));
    let mut bodies = (0..3_u8).map(|n| [n; 8]);
    pair.ends[0].send_bodies(pair.now, id, &[at], &Alike::default(), &mut bodies, |_, _| {}).unwrap();
    pair.pump();
    while pair.ends[1].recv_run(pair.now, 16).is_some() {}
    pair.pass(SECOND);
    let ((sent, _), (came, _)) = (steps(&mut pair, 0, near), steps(&mut pair, 1, far));
    let slot = |steps: &[Step], n: u32| {
        steps.iter().filter(|step| step.message == n).find_map(|step| match &step.what {
            What::Settled { id: Some(id), .. } | What::Arrived { id, .. } => Some(*id),
            _ => None,
        })
    };
    for n in 1..=3 {
        assert_eq!(names(&sent, n).last().map(String::as_str), Some("Settled"), "{sent:?}");
        assert_eq!(names(&came, n), ["Arrived", "Taken"]);
        assert!(slot(&sent, n).is_some() && slot(&sent, n) == slot(&came, n), "{sent:?} {came:?}");
    }
}

#[test]
fn one_that_is_handed_out_given_back_and_judged_is_followed_by_its_name() {
    let (mut pair, [near, _]) = followed();
    let key = pair.send(0, 10);
    pair.pump();
    let Status::InDoubt { id, .. } = pair.ends[0].status(key) else { panic!() };
    let far = pair.ends[1].follow(pair.now, Follow::Named(id)).unwrap();
    let again = pair.ends[0].follow(pair.now, Follow::Named(id)).unwrap();
    for attempt in 1..=2 {
        let incoming = pair.ends[1].accept(pair.now).unwrap();
        assert_eq!(incoming.attempt, attempt);
        if attempt == 1 {
            pair.ends[1].release(pair.now, incoming.key);
        } else {
            assert!(pair.ends[1].judge(pair.now, incoming.key, Verdict::new(Word::Rejected, 9, "no")));
        }
    }
    pair.pump();
    let (came, _) = steps(&mut pair, 1, far);
    assert_eq!(names(&came, 1), ["Awaited", "HandedOut", "GivenBack", "HandedOut", "Judged"], "{came:?}");
    for follower in [near, again] {
        let (sent, _) = steps(&mut pair, 0, follower);
        let rejected = Outcome::Rejected { status: 9, attempts: 2 };
        assert!(
            matches!(sent.last(), Some(Step { what: What::Settled { outcome, .. }, last: true, .. }) if *outcome == rejected),
            "{sent:?}"
        );
    }
    assert_eq!(pair.ends[0].follow(pair.now, Follow::Named(id)), Err(FollowError::NotOpen));
    assert_eq!(pair.ends[0].follow(pair.now, Follow::Open(key)), Err(FollowError::NotOpen));
}

#[test]
fn a_withdrawn_message_is_told_at_both_ends() {
    let (mut pair, [near, far]) = followed();
    let key = pair.send(0, 10);
    pair.pump();
    pair.ends[0].cancel(pair.now, key).unwrap();
    pair.pass(SECOND);
    let (came, _) = steps(&mut pair, 1, far);
    assert_eq!(names(&came, 1), ["Arrived", "Withdrawn"], "{came:?}");
    let (sent, _) = steps(&mut pair, 0, near);
    let cancelled = |step: &Step| matches!(step.what, What::Settled { outcome: Outcome::Cancelled, .. });
    assert!(sent.last().is_some_and(cancelled), "{sent:?}");
}

#[test]
fn a_withdrawn_message_of_a_stream_is_told_at_both_ends() {
    let (mut pair, [near, far]) = followed();
    let key = say(&mut pair, 0, "s", "x");
    pair.pump();
    pair.ends[0].cancel(pair.now, key).unwrap();
    pair.pass(SECOND);
    let (came, _) = steps(&mut pair, 1, far);
    assert_eq!(names(&came, 1), ["Arrived", "Withdrawn"], "{came:?}");
    let (sent, _) = steps(&mut pair, 0, near);
    let cancelled = |step: &Step| matches!(step.what, What::Settled { outcome: Outcome::Cancelled, .. });
    assert!(sent.last().is_some_and(cancelled), "{sent:?}");
}

#[test]
fn as_many_as_wanted_are_followed_and_of_the_peer_that_is_wanted() {
    let mut pair = Pair::open();
    pair.talk(0);
    let two = pair.ends[0].follow(pair.now, Follow::New { peer: None, most: 2 }).unwrap();
    let other = pair.ends[0]
        .follow(pair.now, Follow::New { peer: Some(crate::id::NodeId([9; 32])), most: 2 })
        .unwrap();
    for _ in 0..3 {
        pair.talk(0);
    }
    assert_eq!(steps(&mut pair, 0, two).0.iter().map(|step| step.message).max(), Some(2));
    assert_eq!(steps(&mut pair, 0, other).0, []);
    pair.ends[0].unfollow(two);
    pair.ends[0].unfollow(other);
    assert!(!pair.ends[0].cx.followers.any());
}

#[test]
fn memory_is_bounded_and_what_is_missed_is_counted() {
    let mut pair = Pair::open();
    pair.talk(0);
    let followers: Vec<_> = (0..MAX_FOLLOWERS).map(|_| pair.ends[0].follow(pair.now, ALL).unwrap()).collect();
    assert_eq!(pair.ends[0].follow(pair.now, ALL), Err(FollowError::TooMany));
    let first = followers[0];
    pair.cut(0);
    for _ in 0..MAX_FOLLOWED + 5 {
        pair.send(0, 1);
    }
    followers[1..].iter().for_each(|other| pair.ends[0].unfollow(*other));
    let (noted, missed) = steps(&mut pair, 0, first);
    assert_eq!((noted.len(), missed), (MAX_FOLLOWED, Missed { steps: 0, messages: 5 }));
    assert_eq!(steps(&mut pair, 0, first).1, Missed::default());
    for _ in 0..60 {
        pair.pass(SECOND);
    }
    let (noted, missed) = steps(&mut pair, 0, first);
    assert_eq!(noted.len(), MAX_STEPS);
    assert!(missed.steps > 0);
}

#[test]
fn memory_of_what_is_over_is_given_back() {
    let (mut pair, [near, far]) = followed();
    for _ in 0..MAX_FOLLOWED + 10 {
        pair.send(0, 1);
        pair.pump();
        assert!(pair.ends[1].recv(pair.now).is_some());
        pair.pass(30 * MS);
        for (end, follower) in [(0, near), (1, far)] {
            assert_eq!(steps(&mut pair, end, follower).1, Missed::default());
        }
    }
}
