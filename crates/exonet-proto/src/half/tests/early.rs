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

/// What `sender` makes of `state`: `(s, message, verdict)`, and what was converted.
fn told(sender: &mut Sender<u32>, state: &State) -> (Vec<(u64, u32, Proof)>, Converted) {
    let mut settled = Vec::new();
    let progress = sender.on_state(state, |s, _, m, verdict| settled.push((s.0, m, verdict)));
    (settled, progress.converted)
}

fn with_tb(state: State, tb: u64) -> State {
    State { tb: Some(Stamp(tb)), ..state }
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
    let go =
        |record: &mut _, bound: &mut _, clock: &mut _, ask| Receiver::on_ask(record, bound, clock, ask, 9);
    assert_eq!(go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7)), Answer::State);
    assert_eq!(bound, Bound::Known(Stamp(7)));
    let this = record.as_mut().unwrap();
    assert_eq!(this.name(Slot(5), Stamp(7)), Some(Incarnation(0)));
    assert_eq!(this.name(Slot(5), Stamp(6)), None);
    assert_eq!(this.name(Slot(7), Stamp(7)), None, "no such slot");
    assert_eq!(this.name(Slot(5), Stamp::NONE), None);
    assert!(this.take(Slot(5), Incarnation(0)));
    assert_eq!(this.name(Slot(5), Stamp(7)), None);
    assert!(this.take(Slot(6), Incarnation(0)));
    assert!(!this.is_drained(), "it is named until the sender has passed it");
    let _ = go(&mut record, &mut bound, &mut clock, ask(7, 0, 7));
    assert!(record.as_ref().unwrap().is_drained());
    record = None;
    let _ = go(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7));
    assert_eq!(record.unwrap().name(Slot(5), Stamp(7)), None, "the stamp was used");
}

#[test]
fn a_stamp_ahead_of_latest_is_granted_nothing() {
    let (mut record, mut bound, mut clock) = (None, Bound::default(), receiver_at(6));
    let answer = Receiver::on_ask(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7), 9);
    assert_eq!((answer, &record, bound), (Answer::StampRejected, &None, Bound::default()));
}

#[test]
fn a_stray_goes_the_slow_way() {
    let (mut record, mut clock) = (None, receiver_at(6));
    let mut bound = Bound::Stray { ts: Stamp(7), tb: Stamp::NONE };
    let answer = Receiver::on_ask(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7), 9);
    assert_eq!(answer, Answer::State);
    assert_eq!(record.as_ref().unwrap().name(Slot(5), Stamp(7)), None);
    clock.stamps_mut().forget(&mut bound);
    assert!(matches!(bound, Bound::Stray { .. }), "stays until latest has caught up");
    record.take().unwrap().evict(&mut bound, &mut clock);
    assert_eq!((clock.stamps().amnesia(bound), clock.stamps().amnesia(Bound::Unknown)), (Stamp(7), Stamp(0)));
    clock.stamps_mut().persisted(Stamp(8));
    clock.stamps_mut().forget(&mut bound);
    assert_eq!((bound, clock.stamps().upper()), (Bound::Unknown, Stamp(7)));
    assert_eq!(clock.stamps().amnesia(bound), Stamp(7));
}

#[test]
fn forgetting_a_bound_raises_upper() {
    let (mut clock, mut bound) = (receiver_at(9), Bound::Known(Stamp(4)));
    clock.stamps_mut().forget(&mut bound);
    assert_eq!((bound, clock.stamps().bound(bound)), (Bound::Unknown, Stamp(4)));
    assert_eq!(clock.stamps().amnesia(bound), Stamp(0), "it was only forgotten that nothing is known");
}

#[test]
fn eviction_and_boot_raise_tb() {
    let (mut record, mut bound, mut clock) = (None, Bound::default(), receiver_at(9));
    let _ = Receiver::on_ask(&mut record, &mut bound, &mut clock, stamped(5, 2, 5, 7), 9);
    record.take().unwrap().evict(&mut bound, &mut clock);
    let stamps = *clock.stamps();
    assert_eq!((stamps.amnesia(bound), stamps.bound(bound)), (Stamp(7), Stamp(7)));
    let booted = *Clock::boot(3, Stamp(9), 4).stamps();
    assert_eq!((booted.amnesia(bound), booted.bound(Bound::Unknown)), (Stamp(9), Stamp(9)));
}

#[test]
fn a_live_claim_settles_or_converts() {
    let (mut sender, _) = early_sender();
    let state = with_tb(live(0, 3, 7, &[6..7]), 0);
    let (settled, converted) = told(&mut sender, &state);
    assert_eq!(settled, [(5, 100, Proof::Delivered)]);
    assert_eq!(converted, [(Slot(6), Incarnation(3))]);
    assert_eq!((sender.stamp(), sender.token(Slot(6))), (Stamp::NONE, Some((Incarnation(3), &101))));
}

#[test]
fn what_was_forgotten_is_unknown_and_delivered_before_that() {
    let (mut sender, _) = early_sender();
    let (settled, converted) = told(&mut sender, &with_tb(live(0, 3, 7, &[6..7]), 7));
    assert_eq!(settled, [(5, 100, Proof::Delivered), (6, 101, Proof::Unknown)]);
    assert!(converted.is_empty());
    let (mut sender, _) = early_sender();
    let (settled, _) = told(&mut sender, &with_tb(gone(0, 3), 7));
    assert_eq!(settled, [(5, 100, Proof::Unknown), (6, 101, Proof::Unknown)]);
}

#[test]
fn a_state_without_record_or_without_tb_proves_nothing() {
    let (mut sender, _) = early_sender();
    for state in [with_tb(gone(9, 9), 6), live(9, 9, 7, &[5..7]), with_tb(live(9, 9, 5, &[]), 6)] {
        assert_eq!(told(&mut sender, &state), (vec![], vec![]), "{state:?}");
        assert_eq!(sender.stamp(), Stamp(7));
    }
}

#[test]
fn a_claim_in_part_converts_in_part() {
    let (mut sender, mut clock) = early_sender();
    let (settled, converted) = told(&mut sender, &with_tb(part(0, 3, 7, 6..7, &[6..7]), 0));
    assert_eq!((settled, converted), (vec![], vec![(Slot(6), Incarnation(3))]));
    assert_eq!(sender.frontier(), Slot(5));
    assert_eq!(
        sender.ask(&mut clock, 1, 0),
        Some(stamped(5, 3, 5, 7)),
        "not above what is open under its stamp"
    );
    // What no honest peer can say: that the lower one has met a later incarnation.
    assert_eq!(told(&mut sender, &with_tb(part(0, 2, 7, 5..6, &[5..6]), 0)).1, [(Slot(5), Incarnation(2))]);
    let (mut sender, _) = early_sender();
    assert_eq!(told(&mut sender, &with_tb(part(0, 3, 7, 5..6, &[5..6]), 0)).1.len(), 1);
    assert_eq!(told(&mut sender, &with_tb(part(0, 2, 7, 6..7, &[6..7]), 0)).1, []);
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
    let (_, converted) = told(&mut sender, &with_tb(live(0, 3, 6, &[5..6]), 0));
    assert_eq!((converted.len(), sender.envelopes()), (1, 0));
    told(&mut sender, &with_tb(live(0, 3, 9, &[5..9]), 0));
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
