//! Openings: which ones are answered.

use super::*;

#[test]
fn a_handshake_message_with_a_wrong_mac1_is_as_good_as_none() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    let opening = pair.says(0).remove(0).1;
    let mut wrong = opening.clone();
    let at = wrong.len() - 32;
    wrong[at] ^= 1;
    pair.deliver(1, 0, &wrong);
    assert_eq!((pair.says(1).len(), pair.ends[1].counts().unauthentic), (0, 1));
    pair.deliver(1, 0, &opening);
    let answer = pair.says(1).remove(0).1;
    let mut wrong = answer.clone();
    *wrong.last_mut().unwrap() ^= 1;
    pair.deliver(0, 1, &wrong);
    assert!(!pair.peer(0).link.is_connected());
    pair.deliver(0, 1, &answer);
    assert!(pair.peer(0).link.is_connected());
}

#[test]
fn the_answer_to_a_copy_tells_the_round_trip_from_the_latest() {
    for (copies, took, assumed) in [(1, 5, 5), (1, 30, 30), (2, 30, 30), (2, 5, 25)] {
        let mut pair = Pair::open();
        pair.send(0, 100);
        let opening = pair.says(0).remove(0).1;
        for _ in 1..copies {
            pair.now.mono += SECOND;
            pair.touch(0);
            assert_eq!(pair.says(0).len(), 1, "it is repeated");
        }
        pair.now.mono += took * MS;
        pair.deliver(1, 0, &opening);
        let answer = pair.says(1).remove(0).1;
        pair.deliver(0, 1, &answer);
        assert_eq!(pair.peer(0).link.recovery.rtt().smoothed(), assumed * MS, "{copies}");
    }
}

#[test]
fn half_open_places_and_public_key_work_are_bounded() {
    let now = Mono(1_000_000_000);
    let limits = Limits { half_open: 2, openings_per_second: 10, ..Limits::default() };
    let mut table = crate::opening::gate::Gate::new(now, &limits, crate::crypto::CookieJar::new([0; 32]));
    assert!(table.admit(now, None, true));
    assert!(!table.admit(now, None, true), "one is saved up");
    assert!(table.admit(now + 100 * MS, None, true));
    for (mac1, index) in [([1; 16], 1), ([2; 16], 2)] {
        table.enter(None, mac1, index);
    }
    assert!(!table.admit(now + SECOND, None, true), "full");
    table.leave(None, &[1; 16]);
    assert!(table.admit(now + SECOND, None, true));
}

#[test]
fn a_fifth_opening_of_a_peer_needs_a_cookie_and_takes_the_oldest_place() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    for i in 0..5 {
        pair.peer(0).link.opening = None;
        pair.touch(0);
        let opening = pair.says(0).remove(0).1;
        pair.deliver(1, 0, &opening);
        assert_eq!(pair.peer(1).link.pending.len(), 4.min(i + 1));
        let said = pair.says(1).remove(0).1;
        assert_eq!(said[0] & 0xf, if i < 4 { 2 } else { 3 }, "an answer, at last a question");
        if i == 4 {
            let oldest = pair.peer(1).link.pending[0].mac1;
            pair.deliver(0, 1, &said);
            let again = pair.says(0).remove(0).1;
            pair.deliver(1, 0, &again);
            let pending = &pair.peer(1).link.pending;
            assert_eq!(pending.len(), 4);
            assert!(pending.iter().all(|pending| pending.mac1 != oldest));
        }
    }
}

#[test]
fn a_node_does_not_talk_to_itself() {
    let mut pair = Pair::open();
    let key = SecretKey::from_bytes(pair.ends[0].cx.key.expose().to_owned());
    let id = pair.ends[0].id();
    pair.ends[1] = Node::new(config(), key, Boot::Ephemeral, [3; 32], pair.now);
    let place = pair.ends[1].new_peer(pair.now, id).unwrap();
    let peer = pair.ends[1].peers.get_mut(place).unwrap();
    peer.add_hint(address(0));
    peer.link.ping(1);
    pair.touch(1);
    let opening = pair.says(1).remove(0).1;
    pair.deliver(0, 1, &opening);
    assert_eq!((pair.ends[0].counts().openings_refused, pair.ends[0].peers.len()), (1, 0));
}

#[test]
fn who_is_sent_to_is_let_in_though_not_listed() {
    let nobody = Config { policy: Policy::Only(std::collections::BTreeSet::new()), ..config() };
    let mut pair = Pair::new([nobody, config()]);
    pair.send(0, 100);
    pair.cut(0);
    pair.pump();
    pair.mend(0);
    pair.send(1, 100);
    pair.pump();
    assert!(pair.peer(0).link.is_connected() || !pair.peer(0).link.pending.is_empty());
    assert_eq!(pair.ends[0].counts().openings_refused, 0);
}

#[test]
fn a_question_without_an_answer_is_asked_again() {
    let mut pair = Pair::new([Config { policy: Policy::Ask, ..config() }, config()]);
    pair.send(1, 100);
    pair.pass(100 * SECOND);
    let asked = pair.events.iter().filter(|event| matches!(event, Event::Authorize { .. })).count();
    assert!((3..=4).contains(&asked), "{asked}");
}

#[test]
fn params_come_first() {
    assert!(crate::peer::handshake::params_of(&[1]).is_err());
    assert!(crate::peer::handshake::params_of(&[6, 0]).is_ok());
}

#[test]
fn a_pressed_node_answers_no_opening_without_a_cookie() {
    let mut pair = Pair::open();
    pair.ends[1].press(true, 3);
    pair.send(0, 100);
    let opening = pair.says(0).remove(0).1;
    pair.deliver(1, 0, &opening);
    let question = pair.says(1).remove(0).1;
    assert_eq!((question[0], pair.ends[1].counts().openings_refused), (0x13, 3));
    pair.deliver(0, 1, &question);
    let again = pair.says(0).remove(0).1;
    assert!(crate::wire::bears_cookie(&again) && !crate::wire::bears_cookie(&opening));
    pair.deliver(1, 0, &again);
    assert_eq!(pair.says(1).remove(0).1[0], 0x12);
}

/// When the copies of an opening leave that is not answered, in milliseconds from the first copy, within `span`.
fn copies(pair: &mut Pair, span: Duration) -> Vec<u128> {
    let (begun, mut left) = (pair.now.mono, Vec::new());
    loop {
        let said = pair.says(0).iter().filter(|(_, datagram)| datagram[0] == 0x11).count();
        left.extend((0..said).map(|_| pair.now.mono.since(begun).as_millis()));
        let Some(at) = pair.ends[0].poll_timeout().filter(|at| at.since(begun) <= span) else { return left };
        pair.now.mono = at.max(pair.now.mono);
        pair.ends[0].handle_timeout(pair.now);
    }
}

#[test]
fn copies_of_an_opening_leave_every_round_trip_at_first_while_messages_wait() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    let left = copies(&mut pair, 60 * SECOND);
    let rounds = (0..=12).chain((1..=30).map(|n| 12 + 2 * n)).chain([76, 82, 92]);
    for (nth, round) in rounds.enumerate() {
        assert!((100 * round..=125 * round).contains(&left[nth]), "{nth}: {left:?}");
    }
    assert!(left.len() < 70, "{left:?}");
    let last: Vec<u128> = left.windows(2).map(|two| two[1] - two[0]).rev().take(5).collect();
    assert!(last.iter().all(|wait| (4_000..=5_000).contains(wait)), "{last:?}");
}

#[test]
fn copies_of_an_opening_that_nobody_waits_for_are_few() {
    let mut pair = Pair::open();
    let id = pair.ends[1].id();
    pair.ends[0].ping(pair.now, id, &[address(1)], 1).unwrap();
    let left = copies(&mut pair, 3 * SECOND);
    assert!(left.len() == 4 && (250..=313).contains(&left[1]), "{left:?}");
}

#[test]
fn copies_of_an_opening_are_few_once_the_receiver_has_said_that_it_is_loaded() {
    let mut pair = Pair::open();
    pair.ends[1].press(true, 0);
    pair.send(0, 100);
    let opening = pair.says(0).remove(0).1;
    pair.deliver(1, 0, &opening);
    let question = pair.says(1).remove(0).1;
    pair.deliver(0, 1, &question);
    let left = copies(&mut pair, 3 * SECOND);
    assert!(left.len() == 4 && (250..=313).contains(&left[1]), "{left:?}");
}

#[test]
fn a_copy_of_an_opening_is_answered_twice_unless_the_node_is_loaded() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    let opening = pair.says(0).remove(0).1;
    for (pressed, answers) in [(false, 1), (false, 2), (true, 1)] {
        pair.ends[1].press(pressed, 0);
        pair.deliver(1, 0, &opening);
        let said = pair.says(1);
        assert_eq!(said.len(), answers);
        let bytes: usize = said.iter().map(|(_, datagram)| datagram.len()).sum();
        assert!(bytes <= opening.len(), "{bytes}");
    }
}

#[test]
fn a_handshake_tells_both_ends_about_the_round_trip() {
    let mut pair = Pair::open();
    pair.send(0, 100);
    let opening = pair.says(0).remove(0).1;
    pair.now.mono += 30 * MS;
    pair.deliver(1, 0, &opening);
    let answer = pair.says(1).remove(0).1;
    pair.now.mono += 10 * MS;
    pair.deliver(0, 1, &answer);
    assert_eq!(pair.peer(0).link.recovery.rtt().smoothed(), 40 * MS);
    let data = pair.says(0).remove(0).1;
    pair.now.mono += 15 * MS;
    pair.deliver(1, 0, &data);
    assert_eq!(pair.peer(1).link.recovery.rtt().smoothed(), 25 * MS);
}
