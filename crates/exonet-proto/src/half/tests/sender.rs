//! The rules of the sender record, one test each.

use super::*;
use Proof::{Delivered, Unknown};

/// A sender that asked for `asked` numbers from 0 on.
fn asking(asked: u64) -> Sender<u32> {
    let mut clock = Clock::ephemeral();
    let mut sender = Sender::open(&clock);
    sender.ask(&mut clock, asked, 0);
    sender
}

/// A sender with message `100 + s` bound to every `s` below `bound` under incarnation 5, and `spare` envelopes;
/// another hundred numbers are asked for.
fn bound(bound: u64, spare: u64) -> Sender<u32> {
    let mut sender = asking(bound + spare + 100);
    let hi = bound + spare;
    hear(&mut sender, &live(0, 5, hi, &[0..hi]));
    for m in (100..).take(bound as usize) {
        sender.bind(m).unwrap();
    }
    sender
}

/// The farewell of a sender that closes, or the remaining record if it may not close.
fn close(sender: Sender<u32>, clock: &mut Clock) -> (Option<Ask>, Option<Sender<u32>>) {
    let mut record = Some(sender);
    let farewell = Sender::close(&mut record, clock);
    (farewell, record)
}

fn numbers(sender: &Sender<u32>) -> (u64, u64, u64) {
    (sender.e().0, sender.sck().0, sender.hi().0)
}

#[test]
fn send_opens_a_record_at_the_clock() {
    let clock = clock_at(7);
    assert_eq!(numbers(&Sender::open(&clock)), (7, 7, 7));
}

#[test]
fn pump_binds_nothing_without_an_envelope() {
    let mut sender = asking(3);
    assert_eq!(sender.bind(1), Err(1));
    hear(&mut sender, &live(0, 5, 1, &[0..1]));
    assert_eq!(sender.bind(1), Ok((Slot(0), Incarnation(5))));
    assert_eq!(sender.bind(2), Err(2));
}

#[test]
fn pump_binds_to_rising_numbers_under_the_granting_incarnation() {
    let sender = bound(3, 1);
    let tokens: Vec<_> = sender.tokens().map(|(s, r, m)| (s.0, r.0, *m)).collect();
    assert_eq!(tokens, [(0, 5, 100), (1, 5, 101), (2, 5, 102)]);
    assert_eq!(sender.envelopes(), 1);
    assert_eq!(sender.in_doubt(), 3);
}

#[test]
fn ask_wants_the_queue_and_the_standby_beyond_what_is_bound() {
    let mut clock = Clock::ephemeral();
    let mut sender = Sender::<u32>::open(&clock);
    assert_eq!(sender.ask(&mut clock, 2, 3), Some(ask(0, 5, 0)));
    hear(&mut sender, &live(0, 5, 5, &[0..5]));
    sender.bind(1).unwrap();
    sender.bind(2).unwrap();
    assert_eq!(sender.ask(&mut clock, 0, 3), None, "three stand by");
    assert_eq!(sender.ask(&mut clock, 1, 3), Some(ask(5, 1, 0)));
}

#[test]
fn ask_covers_the_message_that_was_just_bound() {
    let mut clock = Clock::ephemeral();
    let mut sender = bound(1, 0);
    assert_eq!(sender.ask(&mut clock, 0, 1).unwrap().l, Slot(0));
    hear(&mut sender, &live(0, 5, 1, &[]));
    assert_eq!(sender.repeat().unwrap().l, Slot(1), "settled: passed");
}

#[test]
fn ask_never_passes_an_unused_envelope() {
    let sender = bound(0, 4);
    assert_eq!(sender.repeat().unwrap().l, Slot(0));
    assert_eq!(sender.repeat().unwrap().s, Slot(4));
}

#[test]
fn ask_never_takes_back_what_it_asked_for() {
    let mut clock = Clock::ephemeral();
    let mut sender = Sender::<u32>::open(&clock);
    sender.ask(&mut clock, 0, 8);
    assert_eq!(sender.ask(&mut clock, 0, 1), Some(ask(0, 8, 0)));
    hear(&mut sender, &live(0, 5, 6, &[0..6]));
    assert_eq!(sender.ask(&mut clock, 0, 1), Some(ask(6, 2, 0)));
}

#[test]
fn ask_stays_within_the_durable_number() {
    let mut clock = Clock::boot(10, Stamp::NONE, 4);
    let mut sender = Sender::<u32>::open(&clock);
    assert_eq!(sender.ask(&mut clock, 9, 9), None);
    clock.persisted(clock.wanted().unwrap());
    assert_eq!(sender.ask(&mut clock, 9, 9), Some(ask(10, 4, 10)));
    assert_eq!(clock.wanted(), Some(18), "numbers asked for are used");
}

#[test]
fn ask_at_the_end_of_the_numbers_does_not_overflow() {
    let mut clock = clock_at(crate::MAX_NUMBER - 1);
    let mut sender = Sender::<u32>::open(&clock);
    let last = sender.ask(&mut clock, u64::MAX, u64::MAX).unwrap();
    assert_eq!((last.n, last.end()), (1, Some(Slot(crate::MAX_NUMBER))));
}

#[test]
fn close_passes_every_number_asked_for() {
    let mut clock = Clock::ephemeral();
    let mut sender = Sender::<u32>::open(&clock);
    sender.ask(&mut clock, 1, 8);
    hear(&mut sender, &live(0, 5, 3, &[0..3]));
    assert_eq!(close(sender, &mut clock), (Some(ask(9, 0, 9)), None));
    assert_eq!(numbers(&Sender::<u32>::open(&clock)), (9, 9, 9));
}

#[test]
fn close_never_lowers_the_clock() {
    let mut clock = Clock::ephemeral();
    let sender = Sender::<u32>::open(&clock);
    clock.asked(Slot(4));
    clock.pass(Slot(4));
    assert_eq!(close(sender, &mut clock).0, Some(ask(4, 0, 4)));
}

#[test]
fn close_is_refused_while_a_message_is_in_doubt() {
    let mut clock = Clock::ephemeral();
    let before = clock.clone();
    assert_eq!(close(bound(1, 3), &mut clock), (None, Some(bound(1, 3))));
    assert_eq!(clock, before);
}

#[test]
fn a_token_keeps_its_incarnation_under_newer_envelopes() {
    let mut clock = Clock::recover(8, Incarnation(0), Stamps::boot(Stamp::NONE), 9);
    clock.persisted(17);
    let tokens = [(Slot(3), Incarnation(5), 3), (Slot(4), Incarnation(7), 4)];
    let mut sender = Sender::recover(&clock, tokens, Stamp::NONE, []);
    sender.ask(&mut clock, 2, 0);
    hear(&mut sender, &part(0, 7, 10, 9..10, &[4..5, 8..10]));
    assert_eq!(sender.bind(8), Ok((Slot(8), Incarnation(7))));
    assert_eq!(sender.token(Slot(4)), Some((Incarnation(7), &4)));
    let mut sender = Sender::recover(&clock, tokens, Stamp::NONE, []);
    hear(&mut sender, &gone(0, 3));
    assert_eq!(sender.token(Slot(3)), Some((Incarnation(5), &3)));
    assert_eq!(sender.token(Slot(8)), None);
}

#[test]
fn abandon_forgets_the_token_and_moves_the_frontier() {
    let mut sender = bound(2, 0);
    assert_eq!(sender.abandon(Slot(0)), Some(100));
    assert_eq!(sender.abandon(Slot(0)), None);
    assert_eq!(sender.frontier(), Slot(1));
    let (settled, _) = hear(&mut sender, &live(0, 5, 2, &[]));
    assert_eq!(settled, [(1, 5, 101, Delivered)]);
    assert!(sender.is_idle());
}

#[test]
fn a_claimed_slot_that_is_not_free_was_delivered() {
    let mut sender = bound(4, 0);
    let (settled, _) = hear(&mut sender, &live(0, 5, 4, &[1..2, 3..4]));
    assert_eq!(settled, [(0, 5, 100, Delivered), (2, 5, 102, Delivered)]);
    assert_eq!((sender.in_doubt(), sender.frontier()), (2, Slot(1)));
}

#[test]
fn nothing_is_claimed_below_lo() {
    let mut sender = bound(4, 0);
    let (settled, _) = hear(&mut sender, &part(0, 5, 4, 2..4, &[3..4]));
    assert_eq!(settled, [(2, 5, 102, Delivered)]);
}

#[test]
fn nothing_is_claimed_from_up_on() {
    let mut sender = bound(4, 0);
    let (settled, _) = hear(&mut sender, &part(0, 5, 4, 0..2, &[0..1]));
    assert_eq!(settled, [(1, 5, 101, Delivered)]);
}

#[test]
fn nothing_is_claimed_from_hi_on() {
    let mut sender = bound(4, 0);
    let (settled, _) = hear(&mut sender, &part(0, 5, 2, 0..4, &[0..1]));
    assert_eq!(settled, [(1, 5, 101, Delivered)]);
}

#[test]
fn a_claim_that_ends_before_it_begins_claims_nothing() {
    let mut sender = bound(4, 0);
    let mut state = live(0, 5, 2, &[]);
    let claim = state.live.as_mut().unwrap();
    (claim.lo, claim.part) = (Slot(9), true);
    assert_eq!(hear(&mut sender, &state), (vec![], false));
}

#[test]
fn a_claim_is_about_its_own_incarnation() {
    let mut sender = bound(4, 0);
    let (settled, _) = hear(&mut sender, &live(0, 4, 4, &[]));
    assert_eq!(settled, [], "an older record's STATE proves nothing");
}

#[test]
fn a_later_incarnation_proves_delivery() {
    let state = live(0, 6, 4, &[0..4]);
    let all = [(0, 5, 100, Delivered), (1, 5, 101, Delivered)];
    assert_eq!(hear(&mut bound(2, 0), &state).0, all);
    assert_eq!(hear(&mut bound(2, 0), &gone(0, 6)).0, all);
    assert_eq!(hear(&mut bound(2, 0), &gone(0, 5)).0, [], "5 may still come");
}

#[test]
fn below_the_amnesia_frontier_is_unknown_before_it_is_delivered() {
    let all = [(0, 5, 100, Unknown), (1, 5, 101, Unknown)];
    assert_eq!(hear(&mut bound(2, 0), &gone(6, 9)).0, all);
    assert_eq!(hear(&mut bound(2, 0), &live(6, 8, 4, &[0..4])).0, all);
    assert_eq!(hear(&mut bound(2, 0), &live(6, 3, 4, &[0..4])).0, all, "whatever lives");
    let delivered = hear(&mut bound(2, 0), &gone(5, 9)).0;
    assert_eq!(delivered[0].3, Delivered, "5 is not below 5");
}

#[test]
fn a_live_record_below_the_amnesia_frontier_is_judged_by_its_claim() {
    let mut sender = bound(2, 1);
    let (settled, _) = hear(&mut sender, &live(9, 5, 3, &[1..3]));
    assert_eq!(settled, [(0, 5, 100, Delivered)]);
    assert_eq!(sender.envelopes(), 1, "and its envelopes stay");
}

#[test]
fn envelopes_of_a_dead_incarnation_are_thrown_away() {
    let mut sender = bound(1, 3);
    hear(&mut sender, &gone(6, 9));
    assert_eq!(numbers(&sender), (4, 4, 104));
    assert_eq!(sender.bind(1), Err(1));

    let mut sender = bound(1, 3);
    hear(&mut sender, &live(6, 8, 2, &[]));
    assert_eq!(sender.envelopes(), 0, "a live record of another incarnation");
}

#[test]
fn an_old_state_throws_no_envelope_away() {
    let mut sender = bound(1, 3);
    hear(&mut sender, &gone(0, 3));
    hear(&mut sender, &live(0, 4, 2, &[]));
    assert_eq!(sender.envelopes(), 3);
    // Incarnation 5 outlives a rise of `b` that another peer's record has caused.
    hear(&mut sender, &live(9, 5, 4, &[0..4]));
    hear(&mut sender, &gone(0, 3));
    assert_eq!(sender.envelopes(), 3);
}

#[test]
fn a_grant_older_than_the_amnesia_frontier_is_not_taken() {
    let mut sender = bound(1, 0);
    hear(&mut sender, &gone(6, 9));
    // Record 5 sent this before it was evicted: its envelope would only make one more message Unknown.
    assert_eq!(hear(&mut sender, &live(0, 5, 8, &[0..8])), (vec![], false));
    assert_eq!(sender.bind(1), Err(1));
    // Nor when `b` had risen already, for another peer's record.
    assert_eq!(hear(&mut sender, &live(6, 5, 8, &[0..8])), (vec![], false));
    assert!(hear(&mut sender, &live(0, 6, 8, &[1..8])).1, "6 is not below 6");
    assert_eq!(sender.bind(1), Ok((Slot(1), Incarnation(6))));
}

#[test]
fn a_grant_is_clamped_to_what_was_asked_for() {
    let mut sender = asking(4);
    assert!(hear(&mut sender, &live(0, 5, u64::MAX, &[0..9])).1);
    assert_eq!(numbers(&sender), (0, 4, 4));
}

#[test]
fn a_grant_of_the_same_incarnation_adds_envelopes() {
    let mut sender = bound(1, 2);
    assert!(hear(&mut sender, &live(0, 5, 9, &[0..9])).1);
    assert_eq!(numbers(&sender), (1, 9, 103));
    assert!(!hear(&mut sender, &live(0, 5, 9, &[0..9])).1);
    assert!(!hear(&mut sender, &live(0, 5, 4, &[0..4])).1);
    assert_eq!(numbers(&sender), (1, 9, 103), "an old STATE takes nothing back");
}

#[test]
fn a_grant_of_a_later_incarnation_replaces_the_envelopes() {
    let mut sender = bound(1, 2);
    assert!(hear(&mut sender, &live(0, 7, 9, &[3..9])).1);
    assert_eq!(numbers(&sender), (3, 9, 103));
    assert_eq!(sender.incarnation(), Some(Incarnation(7)));
    assert_eq!(sender.bind(1), Ok((Slot(3), Incarnation(7))));
}

#[test]
fn a_later_incarnation_that_grants_nothing_new_leaves_the_envelopes() {
    let mut sender = bound(1, 2);
    assert!(!hear(&mut sender, &live(0, 7, 3, &[0..3])).1);
    assert_eq!(sender.incarnation(), Some(Incarnation(5)));
    assert_eq!(numbers(&sender), (1, 3, 103));
}

#[test]
fn a_grant_of_an_earlier_incarnation_is_not_taken() {
    let mut sender = bound(1, 2);
    assert!(!hear(&mut sender, &live(0, 4, 9, &[0..9])).1);
    assert_eq!(numbers(&sender), (1, 3, 103));
}

#[test]
fn a_state_without_a_record_grants_nothing() {
    let mut sender = asking(4);
    assert_eq!(hear(&mut sender, &gone(0, 1 << 40)), (vec![], false));
    assert_eq!(numbers(&sender), (0, 0, 4));
}

#[test]
fn no_number_of_a_peer_moves_the_clock() {
    let mut clock = Clock::ephemeral();
    let mut sender = Sender::<u32>::open(&clock);
    sender.ask(&mut clock, 2, 0);
    let far = 1 << 50;
    hear(&mut sender, &live(far, far, far, &[0..far]));
    hear(&mut sender, &gone(far, far));
    assert_eq!(close(sender, &mut clock).0, Some(ask(2, 0, 2)));
    let mut record = None;
    meet(&mut record, &mut clock, ask(far, 1, far), 1);
    assert!(!record.as_mut().unwrap().take(Slot(far), Incarnation(far)));
    assert_eq!(clock.ck(), 3);
}

#[test]
fn a_state_that_finds_no_sender_is_answered_with_the_clock() {
    let clock = clock_at(6);
    assert_eq!(Ask::farewell(&clock), ask(6, 0, 6));
}

#[test]
fn a_recovered_record_goes_on_with_its_messages_and_holds_no_envelope() {
    let clock = Clock::recover(20, Incarnation(0), Stamps::boot(Stamp::NONE), 4);
    let tokens = [(3, 5), (4, 5), (9, 7)].map(|(s, r)| (Slot(s), Incarnation(r), s as u32));
    let mut sender = Sender::recover(&clock, tokens, Stamp::NONE, []);
    assert_eq!(numbers(&sender), (20, 20, 20));
    assert_eq!(sender.frontier(), Slot(3));
    assert_eq!(sender.incarnation(), Some(Incarnation(7)));
    assert_eq!(sender.bind(1), Err(1));
    let (settled, _) = hear(&mut sender, &live(0, 7, 10, &[9..10]));
    assert_eq!(settled, [(3, 5, 3, Delivered), (4, 5, 4, Delivered)]);
    assert_eq!(sender.token(Slot(9)), Some((Incarnation(7), &9)));
}

#[test]
fn what_a_sender_has_passed_and_holds_open_again_is_unknown() {
    let mut sender = bound(4, 0);
    // It was put back: before that it had said that nothing is open below 2.
    let (settled, _) = hear(&mut sender, &passed(live(0, 4, 4, &[2..4]), 2));
    assert_eq!(settled, [], "of another incarnation");
    let mut within = passed(live(0, 5, 4, &[2..4]), 2);
    within.live.as_mut().unwrap().part = true;
    assert_eq!(hear(&mut sender, &within).0, [], "a part of a claim says nothing of what is below it");
    let (settled, _) = hear(&mut sender, &passed(live(0, 5, 4, &[2..4]), 2));
    assert_eq!(settled, [(0, 5, 100, Unknown), (1, 5, 101, Unknown)]);
    assert_eq!(sender.frontier(), Slot(2));
}

#[test]
fn nothing_is_bound_to_what_a_sender_has_passed() {
    let mut sender = asking(8);
    hear(&mut sender, &part(0, 5, 4, 2..4, &[2..4]));
    assert_eq!(
        sender.bind(1),
        Ok((Slot(0), Incarnation(5))),
        "a part of a claim says nothing of what is below it"
    );
    hear(&mut sender, &passed(live(0, 5, 6, &[3..6]), 3));
    assert_eq!(sender.bind(2), Ok((Slot(3), Incarnation(5))));
    hear(&mut sender, &passed(live(0, 5, 7, &[]), 9));
    assert_eq!((sender.bind(3), sender.e()), (Err(3), Slot(7)), "no further than what is granted");
}
