//! The rules of the receiver record, one test each.

use super::*;
use crate::id::MAX_NUMBER;

/// A record, and the clock of its node, that has heard these ASKs with their grants.
fn heard(asks: &[(Ask, u64)]) -> (Option<Receiver>, Clock) {
    let (mut record, mut clock) = (None, Clock::ephemeral());
    for (ask, grant) in asks {
        meet(&mut record, &mut clock, *ask, *grant);
    }
    (record, clock)
}

fn hi(record: &Option<Receiver>) -> u64 {
    record.as_ref().unwrap().parts().0.0
}

#[test]
fn a_record_needs_an_ask_that_wants_and_a_node_that_grants() {
    for nothing in [(ask(3, 4, 3), 0), (ask(3, 0, 3), 4)] {
        let (record, clock) = heard(&[nothing]);
        assert_eq!((record, clock.ck()), (None, 0));
    }
    let (record, clock) = heard(&[(ask(3, 4, 3), 4)]);
    assert_eq!(record.unwrap().incarnation(), Incarnation(0));
    assert_eq!(clock.ck(), 1, "handed out once");
}

#[test]
fn a_record_starts_at_s_and_never_below() {
    let (record, _) = heard(&[(ask(3, 2, 1), 9)]);
    assert_eq!(slots(&record), [3, 4]);
    assert_eq!(hi(&record), 5);
}

#[test]
fn a_record_needs_a_durable_incarnation() {
    let (mut record, mut clock) = (None, Clock::boot(7, Stamp::NONE, 1));
    meet(&mut record, &mut clock, ask(0, 2, 0), 2);
    assert_eq!((record.as_ref(), clock.ck()), (None, 7));
    clock.persisted(clock.wanted().unwrap());
    meet(&mut record, &mut clock, ask(0, 2, 0), 2);
    assert_eq!(record.unwrap().incarnation(), Incarnation(7));
    assert_eq!(clock.wanted(), Some(9), "the next one is reserved ahead");
}

#[test]
fn a_grant_goes_no_further_than_the_ask_and_the_room() {
    let (record, _) = heard(&[(ask(0, 5, 0), 2)]);
    assert_eq!(slots(&record), [0, 1]);
    let (record, _) = heard(&[(ask(0, 5, 0), 2), (ask(2, 3, 0), 9)]);
    assert_eq!(slots(&record), [0, 1, 2, 3, 4]);
}

#[test]
fn no_slot_is_granted_twice() {
    let (mut record, mut clock) = heard(&[(ask(0, 3, 0), 9)]);
    assert!(record.as_mut().unwrap().take(Slot(1), Incarnation(0)));
    meet(&mut record, &mut clock, ask(0, 3, 0), 9);
    assert_eq!(slots(&record), [0, 2]);
    meet(&mut record, &mut clock, ask(1, 4, 0), 9);
    assert_eq!(slots(&record), [0, 2, 3, 4], "nor when the ASK reaches further");
    assert_eq!(clock.ck(), 1);
}

#[test]
fn a_grant_starts_at_s_when_that_is_above_the_frontier() {
    let (record, _) = heard(&[(ask(0, 2, 0), 9), (ask(7, 2, 0), 9)]);
    assert_eq!(slots(&record), [0, 1, 7, 8]);
    let (record, _) = heard(&[(ask(0, 2, 0), 9), (ask(7, 2, 0), 0)]);
    assert_eq!(hi(&record), 2, "without room the frontier stays");
}

#[test]
fn an_ask_frees_what_lies_below_its_frontier() {
    let (mut record, mut clock) = heard(&[(ask(0, 4, 0), 9)]);
    meet(&mut record, &mut clock, ask(4, 1, 2), 0);
    assert_eq!(slots(&record), [2, 3]);
    meet(&mut record, &mut clock, ask(3, 0, 3), 0);
    assert_eq!(slots(&record), [3], "a farewell too");
    meet(&mut record, &mut clock, ask(0, 1, 0), 0);
    assert_eq!(slots(&record), [3]);
}

#[test]
fn an_ask_whose_numbers_overflow_changes_nothing() {
    let (before, clock) = heard(&[(ask(0, 4, 0), 9)]);
    for bad in [ask(u64::MAX, 1, 9), ask(9, u64::MAX, 9), ask(MAX_NUMBER, 1, 9), ask(MAX_NUMBER + 1, 0, 9)] {
        let (mut record, mut clock) = (before.clone(), clock.clone());
        meet(&mut record, &mut clock, bad, 9);
        assert_eq!(record, before, "{bad:?}");
        let mut none = None;
        meet(&mut none, &mut clock, bad, 9);
        assert_eq!((none, clock.ck()), (None, 1), "{bad:?}");
    }
    let (record, _) = heard(&[(ask(MAX_NUMBER - 1, 1, 0), u64::MAX)]);
    assert_eq!(slots(&record), [MAX_NUMBER - 1]);
}

#[test]
fn a_token_takes_its_slot_once() {
    let (record, _) = heard(&[(ask(0, 2, 0), 9)]);
    let mut record = record.unwrap();
    assert!(record.accepts(Slot(1), Incarnation(0)));
    assert!(record.take(Slot(1), Incarnation(0)));
    assert!(!record.accepts(Slot(1), Incarnation(0)));
    assert!(!record.take(Slot(1), Incarnation(0)));
    assert!(!record.take(Slot(2), Incarnation(0)), "never granted");
    assert_eq!(record.free(), 1);
}

#[test]
fn a_token_of_another_incarnation_takes_nothing() {
    let (record, clock) = heard(&[(ask(0, 2, 0), 9)]);
    let mut record = record.unwrap();
    let never_handed_out = Incarnation(clock.ck());
    assert!(!record.accepts(Slot(0), never_handed_out));
    assert!(!record.take(Slot(0), never_handed_out));
    let (mut record, mut clock) = (None, Clock::boot(7, Stamp::NONE, 9));
    clock.persisted(16);
    meet(&mut record, &mut clock, ask(0, 2, 0), 9);
    assert!(!record.as_mut().unwrap().take(Slot(0), Incarnation(6)));
    assert_eq!(slots(&record), [0, 1]);
}

#[test]
fn an_unmet_ask_is_met_when_room_appears() {
    for asks in [&[(ask(0, 4, 0), 1)][..], &[(ask(0, 1, 0), 1), (ask(1, 3, 0), 0)]] {
        let (mut record, mut clock) = heard(asks);
        assert!(record.as_ref().unwrap().wants_room());
        assert!(!retry(&mut record, &mut clock, 0));
        assert!(retry(&mut record, &mut clock, 2));
        assert_eq!(slots(&record), [0, 1, 2]);
        assert!(retry(&mut record, &mut clock, 2));
        assert_eq!(slots(&record), [0, 1, 2, 3]);
        assert!(!record.as_ref().unwrap().wants_room());
        assert!(!retry(&mut record, &mut clock, 2));
        assert_eq!(clock.ck(), 1);
    }
    assert!(!retry(&mut None, &mut Clock::ephemeral(), 2));
}

#[test]
fn an_old_ask_does_not_displace_the_one_that_waits() {
    let (mut record, mut clock) = heard(&[(ask(0, 1, 0), 1), (ask(1, 5, 0), 0), (ask(0, 1, 0), 0)]);
    assert!(record.as_ref().unwrap().wants_room());
    assert!(retry(&mut record, &mut clock, 9));
    assert_eq!(slots(&record), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn nobody_waits_for_what_the_sender_has_passed() {
    let (mut record, mut clock) = heard(&[(ask(0, 1, 0), 1), (ask(1, 5, 0), 0), (ask(5, 0, 5), 0)]);
    assert!(retry(&mut record, &mut clock, 1), "5 is not passed");
    let (mut record, mut clock) = heard(&[(ask(0, 1, 0), 1), (ask(1, 5, 0), 0), (ask(6, 0, 6), 0)]);
    assert!(!retry(&mut record, &mut clock, 9));
    meet(&mut record, &mut clock, ask(1, 5, 0), 0);
    assert!(record.unwrap().is_passed(), "an old copy waits for nothing either");
}

#[test]
fn a_record_may_go_when_drained_and_has_done_its_work_when_passed() {
    let (mut record, mut clock) = heard(&[(ask(0, 1, 0), 1)]);
    let is = |record: &Option<Receiver>| {
        let this = record.as_ref().unwrap();
        (this.is_drained(), this.is_passed())
    };
    assert_eq!(is(&record), (false, false));
    record.as_mut().unwrap().take(Slot(0), Incarnation(0));
    assert_eq!(is(&record), (true, false), "the token may still be resent");
    meet(&mut record, &mut clock, ask(1, 1, 1), 0);
    assert_eq!(is(&record), (true, false), "the sender waits for room");
    meet(&mut record, &mut clock, ask(2, 0, 2), 0);
    assert_eq!(is(&record), (true, true));
    meet(&mut record, &mut clock, ask(1, 1, 1), 9);
    assert_eq!(is(&record), (false, false), "an old ASK was granted again");
}

#[test]
fn a_recovered_record_goes_on_and_grows() {
    let mut clock = Clock::recover(20, Incarnation(0), Stamps::boot(Stamp::NONE), 9);
    clock.persisted(29);
    let free = set(&[2..3, 5..6]);
    let mut record = Some(Receiver::recover(
        Incarnation(3),
        Slot(6),
        Slot(2),
        free,
        (Stamp::NONE, None),
        false,
        Default::default(),
    ));
    meet(&mut record, &mut clock, ask(20, 2, 2), 9);
    assert_eq!((hi(&record), slots(&record)), (22, vec![2, 5, 20, 21]));
    assert!(record.as_mut().unwrap().take(Slot(5), Incarnation(3)));
    assert!(!record.as_mut().unwrap().take(Slot(4), Incarnation(3)), "it was used before the crash");
    assert_eq!(clock.ck(), 20);
}

#[test]
fn a_recovered_record_that_was_closed_takes_nothing() {
    let mut clock = Clock::recover(20, Incarnation(0), Stamps::boot(Stamp::NONE), 9);
    clock.persisted(29);
    let closed = Receiver::recover(
        Incarnation(3),
        Slot(6),
        Slot(2),
        set(&[2..3]),
        (Stamp::NONE, None),
        true,
        Default::default(),
    );
    let mut record = Some(closed);
    assert!(!record.as_mut().unwrap().take(Slot(2), Incarnation(3)));
    meet(&mut record, &mut clock, ask(20, 2, 2), 9);
    assert_eq!(hi(&record), 6);
    meet(&mut record, &mut clock, ask(20, 2, 20), 9);
    assert_eq!(record.as_ref().unwrap().incarnation(), Incarnation(20));
}

#[test]
fn a_record_outlives_its_last_slot() {
    let (record, _) = heard(&[(ask(0, 1, 0), 1), (ask(1, 0, 1), 0)]);
    assert!(record.unwrap().is_drained(), "whether to drop it is policy");
}

#[test]
fn evict_raises_the_amnesia_frontier_past_the_record_only() {
    let (record, mut clock) = heard(&[(ask(0, 1, 0), 1)]);
    let mut other = None;
    meet(&mut other, &mut clock, ask(0, 1, 0), 1);
    record.unwrap().evict(&mut Bound::default(), &mut clock);
    assert_eq!(clock.b(), Incarnation(1));
    assert_eq!(state_of(None, &clock), gone(1, 2));
    assert_eq!(state_of(other.as_ref(), &clock), live(1, 1, 1, &[0..1]));
    other.unwrap().evict(&mut Bound::default(), &mut clock);
    assert_eq!(clock.b(), Incarnation(2));
}

#[test]
fn a_state_claims_from_the_frontier_to_the_grant() {
    let (mut record, mut clock) = heard(&[(ask(2, 4, 0), 9)]);
    record.as_mut().unwrap().take(Slot(3), Incarnation(0));
    assert_eq!(state_of(record.as_ref(), &clock), part(0, 0, 6, 0..6, &[2..3, 4..6]));
    meet(&mut record, &mut clock, ask(6, 0, 3), 0);
    let state = state_of(record.as_ref(), &clock);
    assert_eq!(state, passed(part(0, 0, 6, 3..6, &[4..6]), 3));
    meet(&mut record, &mut clock, ask(60, 0, 60), 0);
    let state = state_of(record.as_ref(), &clock);
    assert_eq!(state, passed(part(0, 0, 6, 6..6, &[]), 6));
    let this = record.as_ref().unwrap();
    assert_eq!(this.parts(), (Slot(6), Slot(6), &IntervalSet::new()));
}

#[test]
fn a_frontier_never_falls() {
    let (record, _) = heard(&[(ask(0, 4, 0), 9), (ask(3, 0, 3), 0), (ask(1, 0, 1), 0)]);
    assert_eq!(record.unwrap().parts().1, Slot(3));
}

#[test]
fn a_state_without_a_record_names_the_next_incarnation() {
    let (_, clock) = heard(&[(ask(0, 1, 0), 1)]);
    assert_eq!(state_of(None, &clock), gone(0, 1));
    assert_eq!(state_of(None, &Clock::boot(7, Stamp::NONE, 4)), gone(7, 7));
}

#[test]
fn a_run_is_taken_as_a_whole_or_not_at_all() {
    let (record, _) = heard(&[(ask(0, 10, 0), 10)]);
    let (mut record, r) = (record.unwrap(), Incarnation(0));
    assert!(!record.take_run(8..11, r), "beyond what was granted");
    assert!(!record.take_run(2..5, Incarnation(1)), "of another incarnation");
    assert_eq!(record.free(), 10);
    assert!(record.take_run(2..5, r));
    assert!(!record.take_run(1..3, r), "one has been taken");
    assert!(!record.accepts_run(4..6, r));
    assert!(record.accepts(Slot(1), r) && record.accepts_run(5..10, r));
    assert_eq!(record.free(), 7);
}
