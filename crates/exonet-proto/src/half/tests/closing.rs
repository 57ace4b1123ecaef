//! Records that are closed, and final STATEs.

use super::*;

/// The same STATE for a closed record.
fn last(mut state: State) -> State {
    if let Some(claim) = &mut state.live {
        claim.closed = true;
    }
    state
}

/// A sender with the slots 0 to 3 of incarnation 5, and messages in all of them but the last.
fn sender(clock: &mut Clock) -> Sender<u32> {
    let mut sender = Sender::open(clock);
    sender.ask(clock, 4, 0).unwrap();
    hear(&mut sender, &live(0, 5, 4, &[0..4]));
    (0..3).for_each(|m| assert!(sender.bind(m).is_ok()));
    sender
}

#[test]
fn a_closed_record_takes_and_grants_nothing_and_goes_when_it_is_passed() {
    let (mut record, mut bound, mut clock) = (None, Bound::default(), Clock::ephemeral());
    let ask = |s, n, l| Ask { s: Slot(s), n, l: Slot(l), ts: Stamp::NONE };
    let _ = Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(0, 4, 0), 9);
    let r = record.as_ref().unwrap().incarnation();
    assert!(record.as_mut().unwrap().take(Slot(1), r));
    record.as_mut().unwrap().close();
    assert!(!record.as_mut().unwrap().take(Slot(0), r));
    assert!(!record.as_mut().unwrap().take_run(2..4, r));
    assert_eq!(Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(2, 9, 0), 9), Answer::State);
    assert_eq!(slots(&record), [0, 2, 3]);
    assert!(State::of(record.as_ref(), &bound, &clock, Stamp::NONE).live.unwrap().closed);
    assert_eq!(Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(3, 0, 3), 0), Answer::Nothing);
    assert!(record.is_some(), "slot 3 is not passed");
    assert_eq!(Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(4, 1, 4), 9), Answer::State);
    let next = record.as_ref().unwrap();
    assert!(next.incarnation() > r && !next.is_closed());
}

#[test]
fn what_a_final_state_shows_as_free_was_not_taken() {
    let mut clock = Clock::ephemeral();
    let mut sender = sender(&mut clock);
    let (settled, granted) = hear(&mut sender, &last(live(0, 5, 4, &[0..1, 2..4])));
    let want = [(1, 5, 1, Proof::Delivered), (0, 5, 0, Proof::NotTaken), (2, 5, 2, Proof::NotTaken)];
    assert_eq!((settled, granted), (want.to_vec(), false));
    assert_eq!((sender.envelopes(), sender.frontier()), (0, Slot(4)), "the record is passed");
    let ask = sender.ask(&mut clock, 2, 0).unwrap();
    assert_eq!((ask.s, ask.n, ask.l), (Slot(4), 2, Slot(4)));
    // An old grant of the closed record.
    assert!(!hear(&mut sender, &live(0, 5, 6, &[0..6])).1);
    assert!(hear(&mut sender, &live(6, 7, 6, &[4..6])).1);
    assert_eq!(sender.bind(0), Ok((Slot(4), Incarnation(7))));
}

#[test]
fn what_a_final_state_does_not_claim_stays_in_doubt() {
    let mut clock = Clock::ephemeral();
    let mut sender = sender(&mut clock);
    let (settled, _) = hear(&mut sender, &last(part(0, 5, 4, 0..2, &[0..2])));
    assert_eq!(settled.len(), 2);
    assert_eq!((sender.in_doubt(), sender.frontier()), (1, Slot(2)));
    let (settled, _) = hear(&mut sender, &last(live(0, 5, 4, &[0..4])));
    assert_eq!(settled, [(2, 5, 2, Proof::NotTaken)]);
}

#[test]
fn an_old_final_state_takes_no_slots_of_a_later_record() {
    let mut clock = Clock::ephemeral();
    let mut sender = Sender::<u32>::open(&clock);
    sender.ask(&mut clock, 4, 0).unwrap();
    hear(&mut sender, &live(6, 6, 2, &[0..2]));
    hear(&mut sender, &last(live(0, 5, 4, &[0..4])));
    assert_eq!((sender.envelopes(), sender.next_envelope()), (2, Some((Slot(0), Incarnation(6)))));
}

#[test]
fn what_left_early_comes_back_unless_it_may_have_been_taken() {
    let outcome = |taken: Option<(u64, u64)>| {
        let mut clock = Clock::ephemeral();
        let mut sender = Sender::open_early(&mut clock, Stamp(5), [100]).unwrap();
        let mut settled = Vec::new();
        let taken = taken.map(|(ts, end)| Taken { ts: Stamp(ts), end: Slot(end) });
        let state = State { taken, ..last(live(0, 3, 1, &[0..1])) };
        let progress = sender.on_state(&state, |_, r, m, verdict| settled.push((r, m, verdict)));
        assert!(progress.converted.is_empty());
        settled
    };
    assert_eq!(outcome(Some((5, 0))), [(None, 100, Proof::NotTaken)]);
    assert_eq!(outcome(Some((5, 1))), [(None, 100, Proof::Unknown)]);
    assert_eq!(outcome(Some((6, 1))), [], "of another stamp");
    assert_eq!(outcome(None), []);
}

/// Its sender hears of them by VERDICT and WITHDRAWN, and of what lies behind them later.
#[test]
fn a_final_state_ends_before_what_was_rejected_or_withdrawn() {
    for marked in [true, false] {
        let (mut record, mut bound, mut clock) = (None, Bound::default(), Clock::ephemeral());
        let ask = |s, n, l| Ask { s: Slot(s), n, l: Slot(l), ts: Stamp::NONE };
        let _ = Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(0, 4, 0), 9);
        let mut record = record.unwrap();
        let r = record.incarnation();
        if marked {
            assert!(record.mark(Slot(1), r, Mark::Done) && record.mark(Slot(2), r, Mark::Rejected));
        } else {
            assert!(record.take(Slot(1), r) && record.withdraw(2..3, r).len() == 1);
        }
        assert_eq!(record.claim().up, Slot(4), "it may still take what lies behind");
        record.close();
        assert_eq!(record.claim().up, Slot(2));
        assert!(!record.claim().free.contains(1), "what the application is done with is delivered");
        let mut record = Some(record);
        let _ = Receiver::on_ask(&mut record, &mut bound, &mut clock, ask(3, 0, 3), 0);
        assert_eq!(record.unwrap().claim().up, Slot(4));
    }
}
