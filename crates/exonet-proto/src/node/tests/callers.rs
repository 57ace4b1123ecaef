//! Callers that vanish: how long their records are kept.

use super::*;
use crate::half::Clock;
use crate::message::lane::Lane;
use crate::wire::Role;

const PATIENCE: Duration = Duration::from_secs(100);

fn patient() -> Config {
    Config { caller_patience: PATIENCE, serves: true, ..config() }
}

/// The lane of a message with this role and without a tag.
fn lane(role: Role) -> Lane {
    Lane::of(role, &Bytes::new())
}

/// A record under which messages of these roles were delivered, the last one at second 0.
fn served(roles: &[Role]) -> (Inbound, Clock, crate::Incarnation) {
    let limits = Limits::default();
    let (mut inbound, clock, r) = granted(9, &limits);
    for (s, role) in (0..).zip(roles) {
        inbound.on_whole(s..s + 1, r, &lane(*role), 10, &limits);
        assert!(inbound.take(s..s + 1, r, 10, &lane(*role)));
    }
    (inbound, clock, r)
}

/// When the record is dropped.
fn goes(inbound: &Inbound) -> Duration {
    let config = Config { dead_after: 1_000 * SECOND, ..patient() };
    inbound.deadline(&config, false, Mono::NEVER).since(Mono(0))
}

#[test]
fn a_record_of_calls_alone_is_a_callers() {
    let reply = Role::Reply { s: Slot(0), status: 0 };
    for (roles, callers) in [
        (&[][..], false),
        (&[Role::Call], true),
        (&[Role::Call, Role::Call], true),
        (&[Role::Plain], false),
        (&[Role::Call, Role::Plain], false),
        (&[Role::Plain, Role::Call], false),
        (&[reply], false),
        (&[reply, Role::Call, reply], true),
    ] {
        let (inbound, ..) = served(roles);
        assert_eq!(inbound.is_callers(), callers, "{roles:?}");
        assert_eq!(goes(&inbound), if callers { PATIENCE } else { 1_000 * SECOND }, "{roles:?}");
    }
}

/// The patience shrinks when the calls have ended.
#[test]
fn who_has_called_is_reminded_in_time_though_its_call_is_not_over() {
    let limits = Limits::default();
    let config = Config { caller_patience: 8 * SECOND, ..patient() };
    for (roles, after) in [(&[][..], 2), (&[Role::Call], 2), (&[Role::Plain], 15)] {
        let (mut inbound, mut clock, r) = served(roles);
        let s = roles.len() as u64;
        inbound.on_whole(s..s + 1, r, &Lane::Plain, 10, &limits);
        assert!(!inbound.is_callers(), "one waits");
        inbound.engaged(Mono(0), SECOND);
        inbound.state_sent();
        inbound.state_arrived(Mono(0), inbound.states(), &config);
        let at = inbound.deadline(&config, false, Mono(0));
        inbound.on_timeout(at, &mut clock, &config);
        assert!(inbound.reminds() && at == Mono(0) + SECOND * after, "{roles:?}: {at:?}");
    }
}

#[test]
fn the_next_record_of_a_caller_is_judged_by_itself() {
    let (mut inbound, mut clock, _) = served(&[Role::Plain]);
    inbound.evict(&mut clock);
    let limits = Limits::default();
    let ask = crate::half::Ask { s: Slot(50), n: 9, l: Slot(50), ts: crate::id::Stamp::NONE };
    let _ = inbound.on_ask(Mono(0), &mut clock, &limits, ask);
    let r = inbound.receiver.as_ref().unwrap().incarnation();
    assert!(!inbound.is_callers());
    inbound.on_whole(50..51, r, &lane(Role::Call), 10, &limits);
    assert!(inbound.take(50..51, r, 10, &lane(Role::Call)) && inbound.is_callers());
}

#[test]
fn what_waits_or_is_computed_keeps_the_record() {
    let (mut inbound, _, r) = served(&[Role::Call]);
    inbound.on_whole(1..2, r, &lane(Role::Call), 10, &Limits::default());
    assert!(!inbound.is_callers(), "it waits");
    assert!(inbound.take(1..2, r, 10, &lane(Role::Call)) && inbound.is_callers());
    let mut pair = Pair::new([config(), patient()]);
    pair.call(0);
    pair.pass(SECOND);
    pair.cut(0);
    let call = pair.ends[1].take_any_call(pair.now).unwrap().call.unwrap();
    pair.pass(4 * PATIENCE);
    assert_eq!(pair.ends[1].counts().evictions, 0, "it is computed");
    assert!(pair.ends[1].reply(pair.now, call, 0, Bytes::new()));
    pair.pass(299 * SECOND);
    assert_eq!(pair.ends[1].counts().evictions, 0, "its reply is kept");
    pair.pass(2 * SECOND);
    let stats = pair.ends[1].counts();
    assert_eq!((stats.evictions, stats.callers_evicted, stats.replies_forgotten), (1, 1, 1));
}

#[test]
fn a_call_that_came_in_part_keeps_no_record() {
    let limits = Limits::default();
    for (role, callers) in [(Role::Call, true), (Role::Plain, false)] {
        let (mut inbound, _, r) = granted(9, &limits);
        let mut data = if role == Role::Call { vec![9, 2, 1, 0] } else { vec![1] };
        data.resize(200, 0);
        let part = |inbound: &mut Inbound, s, offset: usize| {
            let piece = &data[offset..offset + 100];
            take_part(inbound, (Slot(s), r), 200, offset as u64, piece, &limits)
        };
        assert_eq!(part(&mut inbound, 0, 0), Taken::Partly);
        assert_eq!(inbound.is_callers(), callers);
        assert_eq!(part(&mut inbound, 1, 100), Taken::Partly);
        assert!(!inbound.is_callers(), "of another nobody knows what it is");
        assert!(matches!(part(&mut inbound, 1, 0), Taken::Complete(_)));
        assert!(inbound.take(1..2, r, 200, &lane(role)));
        assert_eq!(inbound.is_callers(), callers);
        inbound.drop_partial(Slot(0));
        assert_eq!(inbound.is_callers(), callers);
    }
}

/// The caller keeps its envelopes for long, and sends nothing of its own accord.
#[test]
fn a_caller_that_is_there_is_not_given_up() {
    let quiet = Config { sender_linger: 10_000 * SECOND, ..config() };
    let mut pair = Pair::new([quiet, Config { caller_patience: 20 * SECOND, ..config() }]);
    let key = pair.call(0);
    pair.pass(SECOND);
    assert!(pair.ends[1].recv(pair.now).is_some());
    pair.pass(2_000 * SECOND);
    let replied =
        |pair: &Pair, key| pair.events.iter().any(|e| matches!(e, Event::Reply { key: k, .. } if *k == key));
    assert!(replied(&pair, key) && pair.peer(1).inbound.is_callers());
    assert_eq!(pair.ends[1].counts().evictions, 0);
}

#[test]
fn the_time_that_a_node_sleeps_is_no_silence_of_others() {
    let mut pair = Pair::new([config(), patient()]);
    pair.call(0);
    pair.pass(SECOND);
    let call = pair.ends[1].take_any_call(pair.now).unwrap().call.unwrap();
    pair.ends[1].reply(pair.now, call, 0, Bytes::new());
    pair.pass(SECOND);
    pair.cut(0);
    pair.pass(PATIENCE / 2);
    pair.now.mono = pair.ends[1].poll_timeout().unwrap() + 10 * PATIENCE;
    pair.ends[1].handle_timeout(pair.now);
    assert_eq!(pair.ends[1].counts().evictions, 0, "half of it is over");
    pair.pass(PATIENCE);
    assert_eq!(pair.ends[1].counts().callers_evicted, 1);
    // The caller was heard after the node woke: the absence adds nothing.
    let (mut inbound, ..) = served(&[Role::Call]);
    inbound.heard(Mono(0) + 10 * PATIENCE);
    inbound.excuse(Mono(0) + 10 * PATIENCE, 9 * PATIENCE);
    assert_eq!(goes(&inbound), 11 * PATIENCE);
}
