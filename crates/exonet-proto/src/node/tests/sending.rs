//! The sending direction.

use super::*;
use crate::channel::Fate;
use crate::peer::epoch::Carried;
use crate::peer::fates::join_fate;
use crate::wire::Role;

#[test]
fn nobody_takes_the_window_from_under_the_message_whose_turn_it_is() {
    let small = limited(Limits { pool_window: 64 << 10, ..Limits::default() });
    let mut pair = Pair::new([config(), small]);
    pair.talk(0);
    pair.send(0, 50_000);
    pair.pass(SECOND);
    let [urgent, normal] = [(40_000, Priority::Urgent), (10_000, Priority::Normal)]
        .map(|(size, priority)| pair.send_as(0, size, priority));
    pair.pass(SECOND);
    let waits = |pair: &Pair, key| pair.ends[0].status(key) == Status::Queued;
    assert!(waits(&pair, urgent), "15,000 bytes of the window are left");
    assert!(waits(&pair, normal), "they are kept for it");
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(SECOND);
    assert!(!waits(&pair, urgent) && !waits(&pair, normal));
}

#[test]
fn a_probe_waits_for_two_probe_timeouts() {
    let mut pair = Pair::open();
    pair.talk(0);
    pair.send(0, 100);
    pair.pump();
    let now = pair.now.mono;
    let (wait, said) = (pair.peer(0).link.pto() * 2, pair.ends[0].counts().datagrams_out);
    // Meanwhile the STATE that answers the ASK comes.
    pair.pass(2 * MS);
    assert_eq!(pair.ends[0].counts().datagrams_out, said, "nothing is asked at once");
    let probe = pair.peer(0).outbound.deadline(10 * SECOND, true).min(now + SECOND);
    assert!((now + wait..now + wait + 2 * MS).contains(&probe), "{probe:?}");
}

#[test]
fn a_message_without_room_is_probed_while_one_is_held_and_others_flow() {
    let mut pair = Pair::new([config(), limited(Limits { received_bytes: 20_000, ..Limits::default() })]);
    pair.talk(0);
    pair.send(0, 100);
    pair.pass(10 * MS);
    let held = pair.ends[1].accept(pair.now).unwrap();
    // From here on this node looks at what is bound before the others.
    pair.send(0, 100);
    pair.pass(10 * MS);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(10 * MS);
    let old: Vec<_> = (0..30).map(|_| pair.send(0, 1_000)).collect();
    pair.pass(300 * MS);
    assert!(pair.ends[1].counts().dropped_for_room > 0);
    for _ in 0..8_000 {
        pair.send(0, 10);
        pair.pass(MS);
        while pair.ends[1].recv(pair.now).is_some() {}
    }
    let open = old.iter().filter(|key| pair.ends[0].status(**key) != Status::Settled).count();
    assert_eq!(open, 0, "none of them waits for the one that is held");
    assert!(pair.ends[1].done(pair.now, held.key));
}

#[test]
fn a_deadline_that_passes_in_doubt_makes_the_receipt_late() {
    let mut pair = Pair::open();
    pair.talk(0);
    let (id, deadline) = (pair.ends[1].id(), Some(pair.now.mono + SECOND));
    let message = Outgoing { deadline, ..Outgoing::default() };
    let key = pair.ends[0].send(pair.now, id, &[], message).unwrap();
    pair.pass(10 * MS);
    // A message at the application is not withdrawn.
    let handed = pair.ends[1].accept(pair.now).unwrap();
    pair.pass(2 * SECOND);
    assert!(matches!(pair.ends[0].status(key), Status::InDoubt { late: true, withdrawing: true, .. }));
    assert!(pair.ends[1].done(pair.now, handed.key));
    pair.pass(SECOND);
    assert!(pair.outcomes().contains(&(key, Outcome::Delivered, true)));
}

#[test]
fn an_ask_is_repeated_and_backs_off_to_a_second() {
    let mut clock = crate::half::Clock::ephemeral();
    let mut store = crate::message::Store::default();
    let mut out = crate::peer::outbound::Outbound::new(Mono(0), false);
    let source = crate::message::Source::Whole(Bytes::from_static(b"x"));
    let key = store.insert(crate::message::Letter::new(0, Outgoing::default(), source, Role::Plain));
    out.submit(&clock, &mut store, key);
    let (mut now, mut gaps) = (Mono(0), Vec::new());
    for _ in 0..8 {
        assert!(out.ask_due);
        assert!(out.ask(now, &mut clock, 12_000, 50 * MS).is_some());
        let next = out.deadline(100 * SECOND, true);
        gaps.push(next.since(now));
        now = next;
        out.on_timeout(now, &store, 100 * MS, Duration::MAX);
    }
    assert_eq!(gaps[..3], [50 * MS, 100 * MS, 200 * MS]);
    assert_eq!(gaps[5..], [SECOND; 3]);
}

#[test]
fn an_ask_backs_off_no_further_than_a_path_that_loses_by_chance_lets_it() {
    let mut clock = crate::half::Clock::ephemeral();
    let mut store = crate::message::Store::default();
    let mut out = crate::peer::outbound::Outbound::new(Mono(0), false);
    let source = crate::message::Source::Whole(Bytes::from_static(b"x"));
    let key = store.insert(crate::message::Letter::new(0, Outgoing::default(), source, Role::Plain));
    out.submit(&clock, &mut store, key);
    let mut now = Mono(0);
    for gap in [50, 100, 120, 120] {
        assert!(out.ask(now, &mut clock, 12_000, 50 * MS).is_some());
        let next = out.deadline(100 * SECOND, true);
        assert_eq!(next.since(now), gap * MS);
        now = next;
        out.on_timeout(now, &store, 100 * MS, 120 * MS);
    }
}

#[test]
fn that_a_large_message_was_given_up_is_said_again_if_it_was_lost() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = pair.send(0, 900_000);
    pair.pass(10 * MS);
    pair.ends[0].abandon(pair.now, key);
    pair.pass(SECOND);
    let out = &mut pair.peer(0).outbound;
    assert!(!out.ask_due, "it was said");
    out.on_ask_lost();
    assert!(out.ask_due);
}

#[test]
fn what_was_given_up_is_passed_at_once() {
    let mut pair = Pair::open();
    pair.talk(0);
    let key = pair.send(0, 100);
    pair.pass(SECOND);
    let Status::InDoubt { id, .. } = pair.ends[0].status(key) else { panic!("bound") };
    pair.ends[0].abandon(pair.now, key);
    pair.pass(SECOND);
    assert!(pair.peer(1).inbound.receiver.as_ref().unwrap().parts().1 > id.s);
}

#[test]
fn a_peer_that_has_restarted_holds_nothing() {
    let small = limited(Limits { pool_window: 64 << 10, ..Limits::default() });
    let mut pair = Pair::new([config(), small.clone()]);
    pair.talk(0);
    pair.send(0, 60_000);
    pair.pass(SECOND);
    pair.restart(1, small);
    let key = pair.send(0, 50_000);
    pair.pass(5 * SECOND);
    assert_ne!(pair.ends[0].status(key), Status::Queued);
}

#[test]
fn a_peer_that_declares_no_window_gets_messages_one_by_one() {
    let params = crate::wire::Params { pool_window: 0, ..crate::wire::Params::default() };
    let limits = crate::peer::outbound::PeerLimits::of(&params, true);
    assert_eq!(limits.pool_window, 64 << 10, "the longest of those that share it");
}

#[test]
fn large_messages_take_turns_and_are_no_more_than_the_peer_takes() {
    let mut pair = Pair::new([config(), limited(Limits { bodies: 2, ..Limits::default() })]);
    pair.talk(0);
    for _ in 0..5 {
        pair.send(0, 900_000);
    }
    pair.pump();
    assert_eq!(pair.peer(0).outbound.bodies, 2);
    assert_eq!(pair.peer(1).inbound.parts(), 2, "both have begun");
}

#[test]
fn acknowledged_packets_in_a_row_are_told_of_together() {
    let carried = |r, s, n| Carried::Messages { r: Incarnation(r), s: Slot(s), n };
    let joined = |items: &[(Carried, Fate)]| {
        let mut fates = Vec::new();
        items.iter().for_each(|(item, fate)| join_fate(&mut fates, *item, *fate));
        fates
    };
    let (late, lost) = (Fate::Late, Fate::Lost);
    let row =
        [(carried(3, 9, 2), Fate::Acked), (carried(3, 8, 1), Fate::Acked), (carried(3, 4, 4), Fate::Acked)];
    assert_eq!(joined(&row), [(carried(3, 4, 7), Fate::Acked)]);
    for apart in [(carried(3, 7, 1), Fate::Acked), (carried(2, 8, 1), Fate::Acked), (carried(3, 8, 1), lost)]
    {
        assert_eq!(joined(&[row[0], apart]), [row[0], apart]);
    }
    let late = [(carried(3, 9, 2), late), (carried(3, 8, 1), late)];
    assert_eq!(joined(&late), late);
}
