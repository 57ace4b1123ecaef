//! The receiving direction.

use std::collections::VecDeque;

use super::*;
use crate::message::lane::Lane;

#[test]
fn what_a_claim_of_256_ranges_leaves_out_is_claimed_in_turn() {
    let mut pair = Pair::open();
    pair.talk(0);
    for _ in 0..4_200 {
        pair.send(0, 10);
    }
    pair.pass(SECOND);
    pair.events.clear();
    let now = pair.now;
    let waiting: Vec<_> = core::iter::from_fn(|| pair.ends[1].accept(now)).collect();
    assert_eq!(waiting.len(), 4_200);
    for message in waiting.chunks(14).flat_map(|run| &run[..7]) {
        assert!(pair.ends[1].done(pair.now, message.key));
    }
    pair.pass(20 * SECOND);
    assert_eq!(pair.outcomes().len(), 2_100, "though no STATE can tell of all");
    assert!(pair.outcomes().iter().all(|(_, outcome, _)| *outcome == Outcome::Delivered));
    let renewed = pair.handshakes(0);
    pair.renew(1);
    assert!(pair.handshakes(0) > renewed);
    assert_eq!(pair.ends[0].counts().malformed, 0, "an opening with a claim that was cut");
}

/// Frames that were moved or cut leave bytes behind them, which must not be read.
#[test]
fn behind_the_frames_of_an_opening_there_is_only_padding() {
    for ranges in [2, 20, 60, 70, 300] {
        let mut pair = Pair::open();
        pair.talk(0);
        for _ in 0..ranges * 14 {
            pair.send(0, 10);
        }
        pair.pass(SECOND);
        let now = pair.now;
        let waiting: Vec<_> = core::iter::from_fn(|| pair.ends[1].accept(now)).collect();
        for message in waiting.chunks(14).flat_map(|run| &run[..7]) {
            assert!(pair.ends[1].done(pair.now, message.key));
        }
        pair.pass(20 * SECOND);
        pair.renew(1);
        assert_eq!(pair.ends[0].counts().malformed, 0, "{ranges}");
        assert_eq!(pair.handshakes(0), 2, "{ranges}");
    }
}

#[test]
fn a_claim_begins_at_the_token_that_was_probed_else_where_the_last_one_ended() {
    let mut inbound = Inbound::new(Mono(0));
    let mut clock = crate::half::Clock::ephemeral();
    let ask = crate::half::Ask { s: Slot(0), n: 1_000, l: Slot(0), ts: crate::id::Stamp::NONE };
    let _ = inbound.on_ask(Mono(0), &mut clock, &Limits::default(), ask);
    inbound.claimed(Slot(400));
    assert_eq!(inbound.claim_from(), Slot(400));
    let r = inbound.receiver.as_ref().unwrap().incarnation();
    inbound.on_probe(Mono(0), Slot(700), r);
    assert_eq!(inbound.claim_from(), Slot(700));
    inbound.claimed(Slot(1_000));
    assert_eq!(inbound.claim_from(), Slot(0), "all has been said");
}

#[test]
fn a_probe_is_owed_an_answer() {
    let (mut inbound, _, r) = granted(9, &Limits::default());
    inbound.on_probe(Mono(5), Slot(3), r);
    assert!(inbound.state_due(Mono(5)) && inbound.owes_have());
}

#[test]
fn a_have_that_was_lost_is_owed_again_while_it_matters() {
    let limits = Limits::default();
    let (mut inbound, _, r) = granted(9, &limits);
    inbound.have_again(Slot(3));
    assert!(!inbound.owes_have());
    take_part(&mut inbound, (Slot(3), r), 100, 0, &[1; 10], &limits);
    assert!(inbound.promised() >= 100, "set aside");
    inbound.have_again(Slot(3));
    assert!(inbound.owes_have());
}

#[test]
fn a_token_and_taking_it_owe_a_state() {
    let mut pair = Pair::open();
    pair.talk(0);
    let record = pair.peer(1).inbound.receiver.as_ref().unwrap();
    let (s, r) = (Slot(record.parts().2.first().unwrap()), record.incarnation());
    let mut payload = [0; 32];
    let mut writer = crate::wire::Writer::new(&mut payload, crate::wire::Bases::default());
    assert!(writer.messages(r, s).unwrap().push(&[1], b"body"));
    let frame = crate::wire::Frames::new(&payload, crate::wire::Bases::default()).next();
    let frame = frame.unwrap().unwrap();
    pair.with(1, |peer, cx, now| peer.on_half_frame(cx, now, frame));
    assert!(pair.peer(1).inbound.state_owed());
    pair.peer(1).inbound.state_sent();
    assert!(pair.ends[1].recv(pair.now).is_some());
    let now = pair.now.mono;
    assert!(pair.peer(1).inbound.state_due(now));
}

#[test]
fn what_breaks_a_bound_is_not_taken() {
    let limits = Limits { pool_window: 64 << 10, message: 1 << 20, ..Limits::default() };
    let (mut inbound, _, r) = granted(9, &limits);
    assert_eq!(inbound.on_whole(0..1, r, &Lane::Plain, 60_000, &limits), crate::peer::inbound::Taken::Whole);
    assert_eq!(inbound.on_whole(1..2, r, &Lane::Plain, 6_000, &limits), crate::peer::inbound::Taken::NoRoom);
    let more = take_part(&mut inbound, (Slot(2), r), 6_000, 0, &[1], &limits);
    assert_eq!(more, crate::peer::inbound::Taken::NoRoom);
    let long = take_part(&mut inbound, (Slot(3), r), (1 << 20) + 1_025, 0, &[1], &limits);
    assert_eq!(long, crate::peer::inbound::Taken::Violation);
}

#[test]
fn what_the_sender_gave_up_is_stale_once() {
    let limits = Limits::default();
    let (mut inbound, mut clock, r) = granted(9, &limits);
    inbound.on_whole(0..1, r, &Lane::Plain, 100, &limits);
    for stale in [1, 0] {
        let passed = crate::half::Ask { s: Slot(9), n: 0, l: Slot(5), ts: crate::id::Stamp::NONE };
        let _ = inbound.on_ask(Mono(0), &mut clock, &limits, passed);
        assert_eq!(inbound.take_stale(), stale);
    }
}

#[test]
fn parts_are_given_up_after_a_minute_of_silence_unless_they_are_read() {
    let limits = Limits::default();
    let (mut inbound, _, r) = granted(9, &limits);
    for s in [0, 1] {
        take_part(&mut inbound, (Slot(s), r), 100_000, 0, &[1; 10], &limits);
    }
    inbound.partial(Slot(1)).unwrap().stream = Some(DeliveryKey(1));
    inbound.heard(Mono(0) + 10 * SECOND);
    assert!(!inbound.give_up_parts(Mono(0) + 69 * SECOND, 60 * SECOND));
    assert!(inbound.give_up_parts(Mono(0) + 71 * SECOND, 60 * SECOND));
    assert_eq!(inbound.parts(), 1);
}

#[test]
fn an_ask_that_waits_for_the_clock_is_taken_again() {
    let (mut inbound, limits) = (Inbound::new(Mono(0)), Limits::default());
    let mut clock = crate::half::Clock::boot(5, crate::id::Stamp::NONE, 10);
    let ask = crate::half::Ask { s: Slot(0), n: 3, l: Slot(0), ts: crate::id::Stamp::NONE };
    let _ = inbound.on_ask(Mono(0), &mut clock, &limits, ask);
    assert!(inbound.receiver.is_none());
    let wanted = clock.wanted().unwrap();
    clock.persisted(wanted);
    inbound.retry(Mono(0), &mut clock, &limits);
    assert!(inbound.receiver.is_some());
}

#[test]
fn room_that_appears_is_granted_at_once() {
    let limits = Limits { slots: 16, lane_window: 0, ..Limits::default() };
    let mut pair = Pair::new([config(), limited(limits)]);
    pair.talk(0);
    for _ in 0..40 {
        pair.send(0, 10);
    }
    pair.pass(5 * SECOND);
    let before = pair.peer(1).inbound.receiver.as_ref().unwrap().parts().0;
    for _ in 0..8 {
        assert!(pair.ends[1].recv(pair.now).is_some());
    }
    assert!(pair.peer(1).inbound.receiver.as_ref().unwrap().parts().0 > before);
}

/// Except large messages, which no window of a lane bounds.
#[test]
fn what_waits_in_a_lane_leaves_its_slot_to_others() {
    for (size, waits, within) in [(10, 40, 30 * MS), (70_000, 8, 5 * SECOND)] {
        let limits = Limits { slots: 8, ..Limits::default() };
        let mut pair = Pair::new([config(), Config { limits, serves: true, ..config() }]);
        pair.talk(0);
        for _ in 0..40 {
            pair.send(0, size);
        }
        // Small messages get their slots at once, and not only when the sender asks again.
        pair.pass(within);
        assert_eq!(pair.ends[1].stats().waiting, waits, "{size}");
    }
}

/// A record whose only slot was used up at second 0, which the sender has not heard.
fn drained() -> (Inbound, crate::half::Clock, Limits) {
    let limits = Limits { slots: 1, ..Limits::default() };
    let (mut inbound, clock, r) = granted(1, &limits);
    inbound.on_whole(0..1, r, &Lane::Plain, 10, &limits);
    assert!(inbound.take(0..1, r, 10, &Lane::Plain));
    (inbound, clock, limits)
}

#[test]
fn a_drained_record_stays_until_the_sender_has_passed_it_and_it_has_said_so() {
    let (mut inbound, mut clock, limits) = drained();
    assert!(!inbound.drop_if_passed(), "what it delivered may not be known yet");
    inbound.owe_state(Mono(0));
    let passed = crate::half::Ask { s: Slot(1), n: 0, l: Slot(1), ts: crate::id::Stamp::NONE };
    let _ = inbound.on_ask(Mono(0), &mut clock, &limits, passed);
    assert!(!inbound.drop_if_passed(), "it owes a STATE");
    inbound.state_sent();
    assert!(inbound.drop_if_passed() && inbound.receiver.is_none());
}

#[test]
fn a_drained_record_goes_with_its_peer_and_nobody_feels_it() {
    let (mut inbound, mut clock, _) = drained();
    let (b, config) = (clock.b(), Config { dead_after: 100 * SECOND, ..config() });
    assert!(!inbound.on_timeout(Mono(0) + 99 * SECOND, &mut clock, &config));
    assert!(inbound.receiver.is_some());
    assert!(!inbound.on_timeout(Mono(0) + 100 * SECOND, &mut clock, &config));
    assert!(inbound.receiver.is_none() && clock.b() == b);
}

#[test]
fn what_was_taken_is_told_at_once_whoever_else_waits() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, now) = (pair.ends[1].id(), pair.now);
    let mut third = Node::new(config(), SecretKey::from_bytes([7; 32]), Boot::Ephemeral, [7; 32], now);
    pair.send(0, 100);
    for (_, said) in pair.says(0) {
        pair.deliver(1, 0, &said);
    }
    third.send(now, id, &[address(1)], Outgoing::default()).unwrap();
    let mut buffer = Vec::new();
    for _ in 0..4 {
        while third.poll_transmit(now, 1, &mut buffer).is_some() {
            pair.deliver(1, 2, &buffer);
        }
        for (to, mut said) in pair.says(1) {
            if to == address(2) {
                third.handle_datagram(now, arrival(1), &mut said);
            }
        }
    }
    assert_eq!(pair.ends[1].stats().waiting, 2);
    assert!(pair.ends[1].recv(now).is_some());
    assert!(pair.says(1).iter().any(|(to, _)| *to == address(0)));
}

/// `ends[0]` sends a message of a kilobyte every 100 us. It hears after 10 ms what `ends[1]`, which is cut off, has sent.
fn stream(pair: &mut Pair, late: &mut VecDeque<(Mono, Vec<u8>)>, messages: usize) {
    for _ in 0..messages {
        pair.now.mono += MS / 10;
        for end in &mut pair.ends {
            if end.poll_timeout().is_some_and(|at| at <= pair.now.mono) {
                end.handle_timeout(pair.now);
            }
        }
        pair.send(0, 1_100);
        pair.pump();
        let heard_at = pair.now.mono + 10 * MS;
        let said = pair.withheld[1].as_mut().map(core::mem::take).unwrap_or_default();
        late.extend(said.into_iter().map(|datagram| (heard_at, datagram)));
        while late.front().is_some_and(|(at, _)| *at <= pair.now.mono)
            && let Some((_, datagram)) = late.pop_front()
        {
            pair.deliver(0, 1, &datagram);
        }
        let now = pair.now;
        pair.ends.iter_mut().for_each(|end| while end.recv(now).is_some() {});
        pair.pump();
    }
}

#[test]
fn a_receiver_of_bulk_rests_until_it_has_something_to_send_or_to_answer() {
    let mut pair = Pair::new([config(), Config { serves: true, ..config() }]);
    let mut late = VecDeque::new();
    pair.cut(1);
    stream(&mut pair, &mut late, 2_000);
    assert_eq!(pair.ends[1].may_rest(), MS / 2);
    assert_eq!(pair.ends[0].may_rest(), Duration::ZERO);
    pair.call(0);
    stream(&mut pair, &mut late, 200);
    assert_eq!(pair.ends[1].may_rest(), MS / 2, "nobody has taken the call");
    assert!(pair.ends[1].take_any_call(pair.now).is_some());
    stream(&mut pair, &mut late, 200);
    assert_eq!(pair.ends[1].may_rest(), Duration::ZERO);

    let (mut pair, mut late) = (Pair::open(), VecDeque::new());
    pair.cut(1);
    stream(&mut pair, &mut late, 2_000);
    pair.send(1, 100);
    assert_eq!(pair.ends[1].may_rest(), Duration::ZERO);
    stream(&mut pair, &mut late, 400);
    assert_eq!(pair.ends[1].may_rest(), MS / 2, "its message has arrived");
}
