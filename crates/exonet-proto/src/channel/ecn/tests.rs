use super::*;

fn at(millis: u64) -> Mono {
    Mono(millis * 1_000_000)
}

fn grown(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts { ect0, ect1, ce })
}

/// Sends as many marked packets as may leave, one each millisecond from `from` on, up to `most`.
fn send(marking: &mut Marking, from: u64, most: u64) -> u64 {
    let sent = (from..from + most).take_while(|now| {
        let marks = marking.marks();
        if marks {
            marking.on_sent(at(*now));
        }
        marks
    });
    sent.count() as u64
}

/// A path for which the peer has reported marks.
fn capable() -> Marking {
    let mut marking = Marking::default();
    assert_eq!(send(&mut marking, 0, 5), 5);
    marking.on_acked(at(4));
    assert_eq!(marking.on_counts(5, grown(5, 0, 0)), 0);
    marking
}

#[test]
fn few_packets_are_marked_before_the_peer_tells_of_one() {
    let mut marking = Marking::default();
    assert_eq!(send(&mut marking, 0, 100), u64::from(TESTED));
    assert!(!marking.marks());
    marking.on_acked(at(3));
    assert_eq!(marking.on_counts(4, grown(4, 0, 0)), 0);
    assert_eq!(send(&mut marking, 100, 100), 100);
}

#[test]
fn counts_without_a_packet_that_they_tell_of_say_nothing() {
    let mut marking = Marking::default();
    send(&mut marking, 0, 100);
    marking.on_counts(0, grown(0, 0, 0));
    marking.on_no_counts(5);
    assert_eq!(marking.state, State::Testing { sent: TESTED, since: Some(at(0)) });
}

#[test]
fn new_marks_of_the_path_are_told() {
    let mut marking = capable();
    assert_eq!(marking.on_counts(5, grown(2, 0, 3)), 3);
    assert_eq!(marking.on_counts(0, grown(0, 0, 1)), 1, "of a packet that was acknowledged before");
    assert!(marking.marks());
}

#[test]
fn a_path_that_takes_marks_off_has_failed() {
    for mut marking in [Marking::default(), capable()] {
        assert_eq!(marking.on_counts(3, grown(1, 0, 1)), 0);
        assert!(!marking.marks());
    }
}

#[test]
fn a_peer_that_tells_nothing_has_failed() {
    for mut marking in [Marking::default(), capable()] {
        marking.on_no_counts(UNTOLD - 1);
        assert!(marking.marks());
        marking.on_no_counts(UNTOLD);
        assert!(!marking.marks());
    }
}

#[test]
fn marks_that_were_never_made_have_failed() {
    for counts in [grown(5, 1, 0), None] {
        let mut marking = capable();
        assert_eq!(marking.on_counts(5, counts), 0);
        assert!(!marking.marks());
    }
}

#[test]
fn what_has_failed_stays_so() {
    let mut marking = capable();
    marking.on_no_counts(UNTOLD);
    assert_eq!(marking.on_counts(5, grown(1, 0, 4)), 0, "its marks are no reason to slow down");
    assert!(!marking.marks());
}

#[test]
fn a_path_that_loses_all_that_is_marked_has_failed() {
    let mut marking = Marking::default();
    send(&mut marking, 0, 2);
    marking.on_lost(at(0));
    marking.on_lost(at(1));
    assert!(marking.marks(), "two are lost at random");
    send(&mut marking, 2, 1);
    marking.on_lost(at(2));
    assert!(!marking.marks());
}

#[test]
fn losses_among_what_arrives_are_none_of_marking() {
    let mut marking = capable();
    for round in 1..50 {
        send(&mut marking, round * 100, 10);
        (0..9).for_each(|packet| marking.on_lost(at(round * 100 + packet)));
        marking.on_acked(at(round * 100 + 9));
        (0..9).for_each(|packet| marking.on_lost(at(round * 100 + packet)));
    }
    assert_eq!(marking.state, State::Capable);
}

#[test]
fn a_path_that_begins_to_lose_what_is_marked_is_tested_anew() {
    let mut marking = capable();
    send(&mut marking, 100, 60);
    (0..10).for_each(|packet| marking.on_lost(at(100 + packet)));
    assert_eq!(marking.state, State::TEST);
    // An outage: the rest of the losses are of packets sent before.
    (10..60).for_each(|packet| marking.on_lost(at(100 + packet)));
    assert_eq!(send(&mut marking, 200, 100), u64::from(TESTED));
    (20..60).for_each(|packet| marking.on_lost(at(100 + packet)));
    marking.on_acked(at(203));
    assert_eq!(marking.on_counts(1, grown(1, 0, 0)), 0);
    assert_eq!(marking.state, State::Capable);
}
