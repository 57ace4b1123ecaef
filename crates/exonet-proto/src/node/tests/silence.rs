//! The effects of silence, and what ends it.

use super::*;

#[test]
fn the_shorter_idle_timeout_holds_with_a_floor() {
    let mut pair = Pair::open();
    pair.talk(0);
    for (theirs, held) in [(0, 30_000), (5_000, 5_000), (1, 1_000), (60_000, 30_000)] {
        let config = config();
        pair.epoch(0).params.idle_timeout = theirs * MS;
        let link = &mut pair.peer(0).link;
        link.heard_at = Mono(50_000_000_000);
        assert_eq!(link.idle_at(&config).since(link.heard_at), held * MS, "{theirs}");
    }
}

#[test]
fn a_sign_of_life_keeps_the_channel() {
    for keepalive in [None, Some(10 * SECOND)] {
        let mut pair = Pair::new([Config { keepalive, ..config() }, config()]);
        pair.talk(0);
        pair.pass(100 * SECOND);
        let kept = pair.ends[0].peers.get(0).is_some_and(|peer| peer.link.is_connected());
        assert_eq!(kept, keepalive.is_some());
    }
}

#[test]
fn after_a_suspend_every_channel_is_opened_anew() {
    for (gap, opens) in [(9 * SECOND, false), (11 * SECOND, true)] {
        let mut pair = Pair::open();
        pair.talk(0);
        let due = pair.ends[0].poll_timeout().unwrap();
        pair.now.mono = due + gap;
        pair.ends[0].handle_timeout(pair.now);
        assert_eq!(pair.peer(0).link.reopen, opens, "{gap:?}");
    }
}

/// The events about the presence of the peer of the first end.
fn told(pair: &mut Pair) -> Vec<bool> {
    let told = pair.events.drain(..).filter_map(|event| match event {
        Event::Away { .. } => Some(false),
        Event::Back { .. } => Some(true),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_peer_that_answers_nothing_is_away_once_and_then_back() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.pass(60 * SECOND);
    assert!(told(&mut pair).is_empty(), "silence with nothing under way is no absence");
    pair.talk(0);
    pair.cut(0);
    pair.cut(1);
    pair.send(0, 100);
    pair.pass(20 * SECOND);
    assert_eq!(told(&mut pair), [false]);
    drop((pair.mend(0), pair.mend(1)));
    pair.pass(20 * SECOND);
    assert_eq!(told(&mut pair), [true]);
}

#[test]
fn what_waits_for_a_silent_peer_is_repeated_at_once_when_the_network_is_back() {
    // Within the first second the channel is probed; later it is opened anew as well.
    for (outage, hastens) in [(SECOND / 2, true), (20 * SECOND, true), (20 * SECOND, false)] {
        let mut pair = Pair::open();
        pair.talk(0);
        pair.cut(0);
        pair.cut(1);
        pair.send(0, 100);
        pair.pass(outage);
        drop((pair.mend(0), pair.mend(1)));
        pair.pump();
        assert!(pair.peer(0).link.silent_since().is_some());
        let now = pair.now;
        if hastens {
            pair.ends[0].hasten(now);
            pair.ends[0].handle_timeout(now);
        }
        // The answer may wait for a millisecond.
        pair.pass(2 * MS);
        assert_eq!(pair.peer(0).link.silent_since().is_none(), hastens, "{outage:?}");
        assert_eq!(pair.ends[1].recv(now).is_some(), hastens, "{outage:?} {hastens}");
    }
}

#[test]
fn a_peer_that_answers_is_left_alone_when_the_network_is_back() {
    let mut pair = Pair::new([config(), Config { serves: true, ..config() }]);
    pair.call(0);
    pair.pass(SECOND);
    // It serves the call, of which it could be asked.
    assert!(pair.ends[1].take_any_call(pair.now).is_some());
    pair.pass(SECOND);
    pair.cut(0);
    let now = pair.now;
    pair.ends[0].hasten(now);
    pair.pass(2 * MS);
    assert!(pair.mend(0).is_empty());
}

#[test]
fn an_opening_is_repeated_at_once_when_the_network_is_back() {
    for hastens in [true, false] {
        let mut pair = Pair::open();
        pair.cut(0);
        pair.send(0, 100);
        pair.pass(20 * SECOND);
        drop(pair.mend(0));
        let now = pair.now;
        if hastens {
            pair.ends[0].hasten(now);
            pair.ends[0].handle_timeout(now);
        }
        pair.pass(2 * MS);
        assert_eq!(pair.ends[1].recv(now).is_some(), hastens);
    }
}

#[test]
fn a_peer_that_answers_no_opening_is_away_after_a_second() {
    let mut pair = Pair::open();
    pair.cut(0);
    pair.send(0, 100);
    pair.pass(SECOND / 2);
    assert!(told(&mut pair).is_empty());
    pair.pass(10 * SECOND);
    assert_eq!(told(&mut pair), [false]);
}

#[test]
fn an_opening_for_no_messages_sake_is_given_up() {
    let mut pair = Pair::open();
    let (id, now) = (pair.ends[1].id(), pair.now);
    pair.cut(0);
    pair.ends[0].ping(now, id, &[address(1)], 1).unwrap();
    pair.pass(200 * SECOND);
    assert!(pair.events.iter().any(|event| matches!(event, Event::Pong { rtt: None, .. })));
    assert_eq!(pair.ends[0].peers.len(), 0);
}

#[test]
fn who_opened_and_got_nothing_is_forgotten_with_its_opening() {
    let mut pair = Pair::new([config(), limited(Limits { slots: 0, ..Limits::default() })]);
    pair.send(0, 100);
    let opening = pair.says(0).remove(0).1;
    pair.deliver(1, 0, &opening);
    assert_eq!(pair.ends[1].peers.len(), 1);
    pair.cut(0);
    pair.cut(1);
    pair.pass(11 * SECOND);
    assert_eq!(pair.ends[1].peers.len(), 0);
}

#[test]
fn who_leaves_says_so() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.ends[0].cx.config.idle_timeout = MS;
    pair.touch(0);
    pair.pass(SECOND);
    for end in 0..2 {
        assert!(pair.ends[end].peers.get(0).is_none_or(|peer| !peer.link.is_connected()), "{end}");
    }
}

#[test]
fn who_only_acknowledges_asks_for_an_acknowledgement_at_times() {
    let mut pair = Pair::open();
    pair.talk(0);
    for _ in 0..200 {
        pair.send(0, 10);
        pair.pass(5 * MS);
        assert!(pair.epoch(1).sent.quiet_run() <= 33);
    }
}

#[test]
fn acknowledgements_are_not_acknowledged() {
    let mut pair = Pair::open();
    pair.talk(0);
    let before = pair.ends[0].counts().datagrams_out;
    pair.pass(5 * SECOND);
    let said = pair.ends[0].counts().datagrams_out - before;
    assert!(said <= 6, "a few signs of life of a record with free slots: {said}");
}

/// A reminder comes soon, unless the STATE that it would repeat was acknowledged.
#[test]
fn who_has_the_last_state_is_not_reminded_of_it_soon() {
    let config = config();
    let soon = Mono(0) + 3 * SECOND;
    let due = |number_of_the_acknowledged: u64, owed: bool, config: &Config| {
        let (mut inbound, mut clock, _) = granted(9, &Limits::default());
        inbound.engaged(Mono(0), 3 * SECOND);
        inbound.state_sent();
        if owed {
            inbound.owe_state(Mono(0) + SECOND);
        }
        inbound.state_arrived(Mono(0), number_of_the_acknowledged, config);
        let mut at = Mono(0);
        while !inbound.reminds() {
            at = inbound.deadline(config, false, Mono(0));
            inbound.on_timeout(at, &mut clock, config);
        }
        at
    };
    assert_eq!(due(2, false, &config), Mono(0) + 15 * SECOND);
    assert_eq!(due(1, false, &config), soon, "an earlier one");
    assert_eq!(due(2, true, &config), soon, "there is more to say");
    let impatient = Config { dead_after: 20 * SECOND, ..config };
    assert_eq!(due(2, false, &impatient), Mono(0) + 5 * SECOND, "it is to be given up soon");
}

#[test]
fn who_asks_or_sends_may_be_reminded_soon_again() {
    let (mut inbound, mut clock, _) = granted(9, &Limits::default());
    inbound.engaged(Mono(0), 3 * SECOND);
    inbound.state_arrived(Mono(0), inbound.states(), &config());
    inbound.engaged(Mono(0), 3 * SECOND);
    inbound.on_timeout(Mono(0) + 3 * SECOND, &mut clock, &config());
    assert!(inbound.reminds());
}

#[test]
fn who_pauses_between_two_messages_is_not_reminded() {
    let mut pair = Pair::open();
    pair.talk(0);
    assert!(pair.peer(1).link.pto() * 3 < 100 * MS);
    let before = pair.peer(1).inbound.states();
    for _ in 0..5 {
        pair.send(0, 100);
        pair.pump();
        assert!(pair.ends[1].recv(pair.now).is_some());
        pair.pass(100 * MS);
    }
    assert_eq!(pair.peer(1).inbound.states() - before, 5);
}

#[test]
fn a_peer_that_is_slow_for_a_moment_is_not_opened_to() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(1);
    pair.send(0, 100);
    pair.pass(999 * MS);
    assert!(pair.peer(0).link.recovery.pto_count() > 3 && pair.peer(0).link.opening.is_none());
    pair.pass(2 * MS);
    assert!(pair.peer(0).link.opening.is_some(), "after a second, whenever the next probe is due");
}

#[test]
fn who_always_has_more_to_say_notices_silence_too() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.peer(0).link.recovery.set_max_ack_delay(50 * MS);
    pair.cut(1);
    let id = pair.ends[1].id();
    for cookie in 0..51 {
        pair.ends[0].ping(pair.now, id, &[], cookie).unwrap();
        pair.pass(20 * MS);
    }
    assert_eq!(pair.peer(0).link.recovery.pto_count(), 0, "each packet puts the probe off");
    assert!(pair.peer(0).link.opening.is_some());
}

#[test]
fn a_peer_whose_answers_take_long_is_not_opened_to() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.peer(0).link.recovery.set_max_ack_delay(SECOND);
    pair.cut(1);
    pair.send(0, 100);
    pair.pass(4 * SECOND);
    assert!(pair.peer(0).link.opening.is_none());
    pair.pass(SECOND);
    assert!(pair.peer(0).link.opening.is_some());
}

#[test]
fn who_has_nothing_to_say_opens_to_no_silent_peer() {
    for (keepalive, pings) in [(None, false), (None, true), (Some(20 * SECOND), false)] {
        let mut pair = Pair::open();
        pair.talk(0);
        pair.cut(0);
        let (id, now) = (pair.ends[0].id(), pair.now);
        pair.ends[1].cx.config.keepalive = keepalive;
        pair.peer(1).link.confirm = true;
        pair.touch(1);
        if pings {
            pair.ends[1].ping(now, id, &[], 5).unwrap();
        }
        pair.pass(3 * SECOND);
        assert!(pair.peer(1).link.recovery.pto_count() > 3);
        let next = pair.peer(1).link.deadline(&config());
        assert!(next > pair.now.mono, "what was told is not told again at once");
        assert_eq!(
            pair.peer(1).link.opening.is_some(),
            keepalive.is_some() || pings,
            "{keepalive:?} {pings}"
        );
    }
}

#[test]
fn a_ping_that_was_answered_or_lost_is_not_under_way() {
    for answered in [true, false] {
        let mut pair = Pair::open();
        pair.talk(0);
        if !answered {
            pair.cut(1);
        }
        let (id, now) = (pair.ends[1].id(), pair.now);
        pair.ends[0].ping(now, id, &[], 5).unwrap();
        pair.pump();
        if !answered {
            assert_eq!(pair.peer(0).link.pinging, 1);
            pair.with(0, |peer, cx, now| peer.drop_channel(cx, now));
        }
        pair.pass(SECOND);
        assert!(pair.events.iter().any(|event| matches!(event, Event::Pong { cookie: 5, .. })));
        assert_eq!(pair.peer(0).link.pinging, 0);
    }
}

#[test]
fn a_ping_that_finds_no_room_waits() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, now) = (pair.ends[1].id(), pair.now);
    (0..2_000).for_each(|s| _ = pair.peer(0).outbound.caller.on_reply(Slot(s * 100), now.mono));
    (0..64).for_each(|cookie| pair.ends[0].ping(now, id, &[], cookie).unwrap());
    pair.pass(SECOND);
    let ponged = |event: &&Event| matches!(event, Event::Pong { rtt: Some(_), .. });
    assert_eq!(pair.events.iter().filter(ponged).count(), 64);
}

#[test]
fn reminders_back_off() {
    let (mut inbound, mut clock, _) = granted(9, &Limits::default());
    inbound.engaged(Mono(0), 3 * SECOND);
    let mut at = Mono(0);
    for after in [3_u32, 6, 12, 24] {
        let last = core::mem::replace(&mut at, inbound.deadline(&config(), false, Mono(0)));
        assert_eq!(at.since(last), SECOND * after);
        inbound.on_timeout(at, &mut clock, &config());
    }
    for _ in 0..12 {
        at = inbound.deadline(&config(), false, Mono(0));
        inbound.on_timeout(at, &mut clock, &config());
    }
    assert_eq!(
        inbound.deadline(&config(), false, Mono(0)).since(at),
        600 * SECOND,
        "no more seldom than this"
    );
}

/// The reminders are acknowledged.
#[test]
fn reminders_of_who_answers_grow_rare() {
    let mut pair = Pair::new([Config { sender_linger: 10_000 * SECOND, ..config() }, config()]);
    pair.talk(0);
    let before = pair.peer(1).inbound.states();
    pair.pass(100 * SECOND);
    assert_eq!(
        pair.peer(1).inbound.states() - before,
        2,
        "15 s after the one that was soon, and 30 s after that"
    );
}

#[test]
fn a_ping_is_answered_at_once() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, now) = (pair.ends[1].id(), pair.now);
    pair.ends[0].ping(now, id, &[], 5).unwrap();
    pair.pump();
    let pong = |event: &Event| matches!(event, Event::Pong { cookie: 5, rtt: Some(_), .. });
    assert!(pair.events.iter().any(pong));
}

#[test]
fn a_sender_record_lingers_and_then_says_so() {
    let mut pair = Pair::open();
    pair.talk(0);
    assert!(pair.peer(0).outbound.sender.is_some());
    pair.pass(10 * SECOND);
    assert!(pair.peer(0).outbound.sender.is_none());
    assert!(pair.peer(1).inbound.receiver.is_none());
}

#[test]
fn the_record_of_a_dead_peer_is_evicted() {
    let (mut inbound, mut clock, _) = granted(9, &Limits::default());
    let config = Config { dead_after: 100 * SECOND, ..config() };
    inbound.heard(Mono(0) + 50 * SECOND);
    assert!(!inbound.on_timeout(Mono(0) + 149 * SECOND, &mut clock, &config));
    assert!(inbound.on_timeout(Mono(0) + 150 * SECOND, &mut clock, &config));
}

#[test]
fn who_is_heard_is_not_dead() {
    let patient = Config { dead_after: 20 * SECOND, ..config() };
    let mut pair = Pair::new([Config { keepalive: Some(5 * SECOND), ..config() }, patient]);
    pair.send(0, 100);
    pair.pass(100 * SECOND);
    assert_eq!(pair.ends[1].counts().evictions, 0);
    assert!(pair.ends[1].recv(pair.now).is_some());
}

#[test]
fn who_was_never_heard_is_told_nothing_by_a_node_that_closes() {
    for answers in [true, false] {
        let mut pair = Pair::open();
        if answers {
            pair.talk(0);
            pair.with(0, |peer, cx, now| peer.drop_channel(cx, now));
        }
        pair.cut(0);
        let key = pair.send(0, 100);
        pair.pump();
        pair.ends[0].abandon(pair.now, key);
        pair.ends[0].close(pair.now);
        pair.pump();
        assert_eq!(pair.ends[0].is_quiet(), !answers);
    }
}

#[test]
fn who_closes_and_knows_nobody_else_ends_the_channel_with_its_farewell() {
    for knows_another in [false, true] {
        let mut pair = Pair::open();
        pair.talk(0);
        if knows_another {
            let (id, at) = (SecretKey::from_bytes([9; 32]).node_id(), [address(7)]);
            pair.ends[0].send(pair.now, id, &at, Outgoing::default()).unwrap();
        }
        pair.ends[0].close(pair.now);
        pair.pump();
        assert!(pair.ends[1].records(&pair.ends[0].id()).is_none_or(|records| records.receiver.is_none()));
        assert_eq!(pair.ends[1].peer_count(), usize::from(knows_another), "it is forgotten at once");
    }
}

/// A channel with a measured round trip, and `n` messages that were lost a while ago.
fn unheard(n: usize) -> Pair {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.cut(0);
    for _ in 0..n {
        pair.send(0, 100);
    }
    pair.pass(50 * MS);
    pair
}

#[test]
fn nothing_new_is_bound_while_acknowledgements_are_overdue() {
    let mut pair = unheard(16);
    let key = pair.send(0, 100);
    pair.pass(50 * MS);
    assert_eq!(pair.ends[0].status(key), Status::Queued);
    pair.mend(0);
    pair.pass(5 * SECOND);
    assert!(matches!(pair.ends[0].status(key), Status::InDoubt { .. }), "the first answer ends the wait");
}

#[test]
fn who_has_few_in_doubt_waits_for_nothing() {
    let mut pair = unheard(14);
    let key = pair.send(0, 100);
    pair.pump();
    assert!(matches!(pair.ends[0].status(key), Status::InDoubt { .. }));
}
