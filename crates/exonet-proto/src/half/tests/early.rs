//! Early messages, rule by rule.

use super::*;

const K: [u32; 2] = [100, 101];

fn stamped(s: u64, n: u64, l: u64, ts: u64) -> Ask {
    Ask { ts: Stamp(ts), ..ask(s, n, l) }
}

/// A sender that stands at 5, with two messages sent early under stamp 7.
fn early_sender() -> (Sender<u32>, Clock) {
    let mut clock = clock_at(5);
    let sender = Sender::open_early(&mut clock, Stamp(7), K).unwrap();
    (sender, clock)
}

/// A receiver that accepts stamps up to `latest`.
fn receiver_at(latest: u64) -> Clock {
    let mut clock = Clock::ephemeral();
    clock.stamps_mut().persisted(Stamp(latest));
    clock
}

type Converted = Vec<(Slot, Incarnation)>;

/// The effect of `state` on `sender`: `(s, message, verdict)`, and what was converted.
fn told(sender: &mut Sender<u32>, state: &State) -> (Vec<(u64, u32, Proof)>, Converted) {
    let mut settled = Vec::new();
    let progress = sender.on_state(state, |s, _, m, verdict| settled.push((s.0, m, verdict)));
    (settled, progress.converted)
}

/// A STATE that says that slots below `end` may have been taken under stamp 7.
fn said(state: State, end: u64) -> State {
    State { taken: Some(taken(7, end)), ..state }
}

fn taken(ts: u64, end: u64) -> Taken {
    Taken { ts: Stamp(ts), end: Slot(end) }
}

fn far(lo: u64, hi: u64) -> Far {
    Far { lo: Stamp(lo), hi: Stamp(hi) }
}

/// Makes a record by an ASK for all slots.
fn go(record: &mut Option<Receiver>, bound: &mut Bound, clock: &mut Clock, ask: Ask) {
    assert_eq!(Receiver::on_ask(record, bound, clock, ask, 9), Answer::State);
}

/// A record that has taken slot 5 early under stamp 7, and has slot 6 free.
fn early_record() -> (Option<Receiver>, Bound, Clock) {
    let (mut record, mut bound, mut clock) = (None, Bound::default(), receiver_at(9));
    go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7));
    let this = record.as_mut().unwrap();
    let r = this.name(Slot(5), Stamp(7)).unwrap();
    assert!(this.take(Slot(5), r));
    (record, bound, clock)
}

#[test]
fn the_first_messages_have_numbers_before_anything_is_granted() {
    let (mut sender, mut clock) = early_sender();
    assert_eq!(sender.early().map(|(s, m)| (s.0, *m)).collect::<Vec<_>>(), [(5, 100), (6, 101)]);
    assert_eq!((sender.stamp(), sender.in_doubt(), sender.envelopes()), (Stamp(7), 2, 0));
    assert_eq!(sender.ask(&mut clock, 1, 0), Some(stamped(5, 3, 5, 7)));
    assert_eq!(sender.bind(102), Err(102), "later messages wait");
    assert!(!sender.is_idle());
}

#[test]
fn a_clock_without_numbers_lets_nothing_leave_early() {
    let mut clock = Clock::boot(5, Stamp::NONE, 4);
    assert_eq!(Sender::open_early(&mut clock, Stamp(7), K), None);
    clock.persisted(7);
    assert!(Sender::open_early(&mut clock, Stamp(7), K).is_some());
}

#[test]
fn numbers_of_early_messages_are_never_used_again() {
    let (sender, mut clock) = early_sender();
    let mut record = Some(sender);
    for s in [5, 6] {
        assert!(record.as_mut().unwrap().abandon(Slot(s)).is_some());
    }
    assert_eq!(Sender::close(&mut record, &mut clock), Some(ask(7, 0, 7)));
}

#[test]
fn a_new_stamp_names_the_record_and_an_old_one_does_not() {
    let (mut record, mut bound, mut clock) = (None, Bound::default(), receiver_at(9));
    go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7));
    assert_eq!(clock.stamps().bound(&bound), Stamp(7));
    let this = record.as_mut().unwrap();
    assert_eq!(this.name(Slot(5), Stamp(7)), Some(Incarnation(0)));
    assert_eq!(this.name(Slot(5), Stamp(6)), None);
    assert_eq!(this.name(Slot(7), Stamp(7)), None, "no such slot");
    assert_eq!(this.name(Slot(5), Stamp::NONE), None);
    assert_eq!(this.taken(), None, "it only has the name");
    assert!(this.take(Slot(5), Incarnation(0)));
    assert_eq!(this.taken(), Some(taken(7, 6)));
    assert_eq!(this.name(Slot(5), Stamp(7)), None);
    assert!(this.take(Slot(6), Incarnation(0)));
    assert!(!this.is_drained(), "one that was taken early is not passed");
    let _ = Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(7, 0, 7), 9);
    assert!(record.as_ref().unwrap().is_drained());
    record = None;
    go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7));
    assert_eq!(record.unwrap().name(Slot(5), Stamp(7)), None, "the stamp was used");
}

#[test]
fn what_is_used_up_together_or_judged_counts_as_taken() {
    for judged in [false, true] {
        let (mut record, mut bound, mut clock) = (None, Bound::default(), receiver_at(9));
        go(&mut record, &mut bound, &mut clock, stamped(5, 4, 5, 7));
        let this = record.as_mut().unwrap();
        for s in [5, 6] {
            assert!(this.name(Slot(s), Stamp(7)).is_some());
        }
        let r = this.incarnation();
        assert!(if judged { this.mark(Slot(6), r, Mark::Rejected) } else { this.take_run(5..8, r) });
        assert_eq!(this.taken(), Some(taken(7, 7)), "of slot 7 no message came early");
    }
}

#[test]
fn a_stamp_ahead_of_latest_is_granted_nothing() {
    let (mut record, mut bound, mut clock) = (None, Bound::default(), receiver_at(6));
    let answer = Receiver::on_ask(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7), 9);
    assert_eq!((answer, &record, bound), (Answer::StampRejected, &None, Bound::default()));
}

#[test]
fn a_stamp_far_ahead_goes_the_slow_way_and_a_right_one_below_is_fast() {
    let (mut record, mut clock) = (None, receiver_at(9));
    let mut bound = Bound::default();
    bound.refuse(far(20, 20));
    bound.refuse(far(30, 30));
    assert_eq!(bound.far(), Some(far(20, 30)));
    for ts in [20, 25, 30] {
        go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, ts));
        assert_eq!(record.as_mut().unwrap().name(Slot(5), Stamp(ts)), None);
        assert_eq!(Taken::of(record.as_ref(), &bound, &clock, Stamp(ts)), Some(taken(ts, 0)), "it never ran");
    }
    assert_eq!(clock.stamps().bound(&bound), Stamp::NONE, "no bound follows");
    go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7));
    assert!(record.as_mut().unwrap().name(Slot(5), Stamp(7)).is_some());
    clock.stamps_mut().forget(&mut bound);
    assert!(bound.far().is_some(), "stays until latest has reached it");
    clock.stamps_mut().persisted(Stamp(30));
    clock.stamps_mut().forget(&mut bound);
    assert_eq!(
        (bound, clock.stamps().upper()),
        (Bound::default(), Stamp(30)),
        "then it is a bound like others"
    );
}

#[test]
fn forgetting_a_bound_raises_upper_and_keeps_what_was_taken() {
    let (record, mut bound, mut clock) = early_record();
    record.unwrap().evict(&mut bound, &mut clock);
    clock.stamps_mut().forget(&mut bound);
    assert_eq!((bound.taken(), clock.stamps().bound(&bound)), (Some(taken(7, 6)), Stamp(7)));
    assert_eq!(Taken::of(None, &Bound::default(), &clock, Stamp(7)), Some(taken(7, 0)), "of another sender");
    clock.stamps_mut().forget(&mut Bound::up_to(Stamp(3)));
    assert_eq!(clock.stamps().upper(), Stamp(7), "it never falls");
}

/// The journal does not say which messages waited: one of them may also be taken after a crash.
#[test]
fn a_recovered_record_takes_what_comes_for_early() {
    let recover = |ets, taken| {
        let (free, judged) = (set(&[5..9]), Default::default());
        Receiver::recover(Incarnation(3), Slot(9), Slot(5), free, (Stamp(ets), taken), false, judged)
    };
    let mut record = recover(7, None);
    assert!(record.is_drained() || record.taken().is_none());
    assert!(record.take(Slot(6), Incarnation(3)));
    assert_eq!(record.taken(), Some(taken(7, 7)));
    let mut record = recover(0, None);
    assert!(record.take(Slot(6), Incarnation(3)));
    assert_eq!(record.taken(), None, "no stamp names it");
    let mut renamed = recover(8, Some(taken(7, 6)));
    assert!(renamed.take(Slot(6), Incarnation(3)));
    assert_eq!(renamed.taken(), Some(taken(7, 6)), "under the stamp of another life");
}

#[test]
fn of_a_stamp_that_may_be_new_yet_nothing_is_said() {
    let (record, bound, clock) = early_record();
    assert_eq!(Taken::of(record.as_ref(), &bound, &clock, Stamp(8)), None);
    assert_eq!(Taken::of(record.as_ref(), &bound, &clock, Stamp::NONE), None);
    assert_eq!(Taken::of(record.as_ref(), &bound, &clock, Stamp(7)), Some(taken(7, 0)), "it lives");
    assert_eq!(
        Taken::of(record.as_ref(), &bound, &clock, Stamp(6)),
        Some(taken(6, 0)),
        "refused, never taken"
    );
}

#[test]
fn a_record_that_is_lost_leaves_what_it_took_under_its_very_stamp() {
    let (record, mut bound, mut clock) = early_record();
    record.unwrap().evict(&mut bound, &mut clock);
    let say = |bound: &Bound, clock: &Clock, ts| Taken::of(None, bound, clock, Stamp(ts));
    assert_eq!(say(&bound, &clock, 7), Some(taken(7, 6)));
    assert_eq!(say(&bound, &clock, 6), Some(taken(6, 0)), "a stamp behind is refused, and never Unknown");
    // The same after the death of the process.
    let again = Clock::restart(3, Stamp(9), clock.stamps().hull(), 4);
    let found = Bound::found(None, bound.taken());
    assert_eq!(say(&found, &again, 7), Some(taken(7, 6)));
    assert_eq!(say(&found, &again, 9), Some(taken(9, 0)));
    assert_eq!(say(&found, &again, 10), None);
    // After more than that, everything is forgotten.
    let booted = Clock::boot(3, Stamp(9), 4);
    assert_eq!(say(&Bound::default(), &booted, 9), Some(Taken { ts: Stamp(9), end: EVERY }));
    assert_eq!(booted.stamps().bound(&Bound::default()), Stamp(9));
}

#[test]
fn what_was_taken_early_goes_once_the_sender_has_passed_it() {
    let (record, mut bound, mut clock) = early_record();
    record.unwrap().evict(&mut bound, &mut clock);
    let _ = Receiver::on_ask(&mut None, &mut bound, &mut clock, ask(5, 0, 5), 9);
    assert!(bound.taken().is_some());
    let _ = Receiver::on_ask(&mut None, &mut bound, &mut clock, ask(6, 0, 6), 9);
    assert_eq!(bound.taken(), None);
}

#[test]
fn of_two_lost_records_the_higher_slots_count() {
    let mut bound = Bound::default();
    bound.lose(taken(5, 3));
    bound.lose(taken(4, 8));
    bound.lose(taken(9, 6));
    assert_eq!(bound.taken(), Some(taken(4, 8)));
}

#[test]
fn what_has_no_place_is_in_the_hull_and_no_more() {
    let mut clock = receiver_at(9);
    for (ts, above, upto) in [(5, 4, 5), (4, 3, 5), (6, 3, 6), (5, 3, 6)] {
        let mut bound = Bound::default();
        bound.lose(taken(ts, 3));
        clock.stamps_mut().fold(&mut bound);
        assert_eq!(bound, Bound::default());
        assert_eq!(clock.stamps().hull(), Hull { above: Stamp(above), upto: Stamp(upto) });
    }
    let hull = clock.stamps().hull();
    let in_it: Vec<_> = (1..9).filter(|ts| hull.contains(Stamp(*ts))).collect();
    assert_eq!(in_it, [4, 5, 6]);
    assert_eq!(Taken::of(None, &Bound::up_to(Stamp(6)), &clock, Stamp(5)).unwrap().end, EVERY);
}

#[test]
fn a_record_that_is_named_by_a_stamp_knows_it_even_within_the_hull() {
    let (record, mut bound, mut clock) = early_record();
    let mut other = Bound::default();
    other.lose(taken(7, 3));
    clock.stamps_mut().fold(&mut other);
    assert_eq!(Taken::of(record.as_ref(), &bound, &clock, Stamp(7)), Some(taken(7, 0)));
    // An old ASK of a former life of the sender gives the record another name. What the record took stays known.
    let mut record = record;
    go(&mut record, &mut bound, &mut clock, stamped(1, 2, 1, 8));
    assert_eq!(record.as_ref().unwrap().stamp(), Stamp(8));
    assert_eq!(Taken::of(record.as_ref(), &bound, &clock, Stamp(7)), Some(taken(7, 0)));
    record.unwrap().evict(&mut bound, &mut clock);
    assert_eq!(bound.taken(), Some(taken(7, 6)), "the stamp it was taken under");
}

#[test]
fn a_live_claim_settles_or_converts() {
    let (mut sender, _) = early_sender();
    let state = said(live(0, 3, 7, &[6..7]), 0);
    let (settled, converted) = told(&mut sender, &state);
    assert_eq!(settled, [(5, 100, Proof::Delivered)]);
    assert_eq!(converted, [(Slot(6), Incarnation(3))]);
    assert_eq!((sender.stamp(), sender.token(Slot(6))), (Stamp::NONE, Some((Incarnation(3), &101))));
}

#[test]
fn what_may_have_been_taken_is_unknown_and_delivered_before_that() {
    let (mut sender, _) = early_sender();
    let (settled, converted) = told(&mut sender, &said(live(0, 3, 7, &[6..7]), 7));
    assert_eq!(settled, [(5, 100, Proof::Delivered), (6, 101, Proof::Unknown)]);
    assert!(converted.is_empty());
    let (mut sender, _) = early_sender();
    let (settled, _) = told(&mut sender, &said(gone(0, 3), 6));
    assert_eq!(settled, [(5, 100, Proof::Unknown)], "slot 6 was not taken");
    assert_eq!(sender.stamp(), Stamp(7));
    let (settled, converted) = told(&mut sender, &said(live(0, 3, 7, &[6..7]), 6));
    assert_eq!((settled, converted), (vec![], vec![(Slot(6), Incarnation(3))]));
}

#[test]
fn an_early_message_that_its_sender_has_passed_is_unknown() {
    let (mut sender, _) = early_sender();
    let within = part(0, 3, 7, 6..7, &[6..7]);
    let (settled, converted) = told(&mut sender, &said(within.clone(), 0));
    assert_eq!((settled, converted), (vec![], vec![(Slot(6), Incarnation(3))]), "nothing is said of slot 5");
    let (mut sender, _) = early_sender();
    assert_eq!(told(&mut sender, &within), (vec![], vec![]), "nor of any stamp");
    assert_eq!(told(&mut sender, &passed(within.clone(), 6)), (vec![(5, 100, Proof::Unknown)], vec![]));
    let (mut sender, _) = early_sender();
    let (settled, converted) = told(&mut sender, &said(passed(within, 6), 0));
    assert_eq!((settled, converted), (vec![(5, 100, Proof::Unknown)], vec![(Slot(6), Incarnation(3))]));
}

#[test]
fn a_state_without_record_or_of_another_stamp_proves_nothing() {
    let (mut sender, _) = early_sender();
    let of_another = State { taken: Some(taken(8, 9)), ..live(9, 9, 7, &[5..7]) };
    for state in [said(gone(9, 9), 5), live(9, 9, 7, &[5..7]), of_another, said(live(9, 9, 5, &[]), 0)] {
        assert_eq!(told(&mut sender, &state), (vec![], vec![]), "{state:?}");
        assert_eq!(sender.stamp(), Stamp(7));
    }
}

#[test]
fn no_message_takes_the_name_of_a_record_that_is_gone() {
    let (mut sender, _) = early_sender();
    assert_eq!(told(&mut sender, &gone(4, 9)), (vec![], vec![]));
    assert_eq!(told(&mut sender, &said(live(0, 3, 7, &[5..7]), 0)), (vec![], vec![]), "an old STATE");
    let (_, converted) = told(&mut sender, &said(live(4, 4, 7, &[5..7]), 0));
    assert_eq!(converted, [(Slot(5), Incarnation(4)), (Slot(6), Incarnation(4))]);
}

#[test]
fn a_claim_in_part_converts_in_part() {
    let (mut sender, mut clock) = early_sender();
    let (settled, converted) = told(&mut sender, &said(part(0, 3, 7, 6..7, &[6..7]), 0));
    assert_eq!((settled, converted), (vec![], vec![(Slot(6), Incarnation(3))]));
    assert_eq!(sender.frontier(), Slot(5));
    assert_eq!(
        sender.ask(&mut clock, 1, 0),
        Some(stamped(5, 3, 5, 7)),
        "not above what is open under its stamp"
    );
    // No honest peer can say that the lower message has met a later incarnation.
    assert_eq!(told(&mut sender, &said(part(0, 2, 7, 5..6, &[5..6]), 0)).1, [(Slot(5), Incarnation(2))]);
    let (mut sender, _) = early_sender();
    assert_eq!(told(&mut sender, &said(part(0, 3, 7, 5..6, &[5..6]), 0)).1.len(), 1);
    assert_eq!(told(&mut sender, &said(part(0, 2, 7, 6..7, &[6..7]), 0)).1, []);
}

#[test]
fn a_rejection_ends_what_its_stamp_names() {
    let (mut sender, _) = early_sender();
    sender.on_stamp_rejected(Stamp(6), |s, _| panic!("{s:?}"));
    let mut unknown = Vec::new();
    sender.on_stamp_rejected(Stamp(7), |s, m| unknown.push((s.0, m)));
    assert_eq!(unknown, [(5, 100), (6, 101)]);
    assert!(sender.is_idle());
}

#[test]
fn later_envelopes_lie_above_the_early_numbers() {
    let (mut sender, _) = early_sender();
    let mut clock = clock_at(5);
    sender.ask(&mut clock, 2, 0);
    let (_, converted) = told(&mut sender, &said(live(0, 3, 6, &[5..6]), 0));
    assert_eq!((converted.len(), sender.envelopes()), (1, 0));
    told(&mut sender, &said(live(0, 3, 9, &[5..9]), 0));
    assert_eq!(sender.bind(102), Ok((Slot(7), Incarnation(3))));
}

#[test]
fn a_recovered_record_asks_from_its_first_early_number() {
    let mut clock = Clock::recover(20, Incarnation(0), Stamps::boot(Stamp(9)), 9);
    clock.persisted(40);
    let mut sender = Sender::recover(&clock, [], Stamp(7), [(Slot(6), 1_u32)]);
    assert_eq!(sender.ask(&mut clock, 0, 1), Some(stamped(6, 15, 6, 7)));
    assert_eq!(sender.abandon(Slot(6)), Some(1));
    let ask = sender.ask(&mut clock, 0, 1).unwrap();
    assert_eq!((ask.s, ask.n, ask.l), (Slot(20), 1, Slot(20)), "no number between is of use");
}

#[test]
fn a_verdict_ends_an_early_message_before_a_state_names_its_record() {
    let (mut sender, mut clock) = early_sender();
    assert_eq!(sender.on_verdict(Slot(7), Incarnation(9)), None, "nothing was bound to it");
    assert_eq!(sender.on_verdict(Slot(5), Incarnation(9)), Some(100));
    assert_eq!(sender.on_verdict(Slot(5), Incarnation(9)), None);
    assert_eq!((sender.stamp(), sender.in_doubt()), (Stamp(7), 1), "the other is open");
    assert_eq!(sender.on_verdict(Slot(6), Incarnation(9)), Some(101));
    assert_eq!((sender.stamp(), sender.is_idle()), (Stamp::NONE, true));
    assert_eq!(sender.ask(&mut clock, 1, 0), Some(stamped(7, 1, 7, 0)), "the frontier has passed them");
}
