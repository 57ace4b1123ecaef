#![allow(clippy::single_range_in_vec_init)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

fn at(micros: u64) -> Mono {
    Mono(micros * 1_000)
}

fn take(space: &mut Received, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        assert_eq!(space.on_packet(at(0), number, true, 0), Arrival::Fresh, "{number}");
    }
}

fn model_ranges(seen: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in seen.iter().rev() {
        match ranges.last_mut() {
            Some(last) if last.start == number + 1 => last.start = *number,
            _ => ranges.push(*number..number + 1),
        }
    }
    ranges
}

proptest! {
    /// Compares with the set of all numbers ever seen: none is taken twice, none within the window is refused, and the ranges are
    /// those of the set.
    #[test]
    fn no_number_twice(steps in prop::collection::vec((0..6_u8, 0..40_000_u64), 1..400)) {
        let mut space = Received::default();
        let mut seen = BTreeSet::new();
        let mut largest = 0;
        let mut forgotten = 0;
        for (kind, x) in steps {
            let number = match kind {
                0 => largest + 1 + x,
                1 | 2 => largest + 1 + x % 4,
                3 => largest.saturating_sub(x % 200),
                4 => largest.saturating_sub(x),
                _ => {
                    let below = largest.saturating_sub(x % 300);
                    forgotten = forgotten.max(below);
                    space.forget_below(below);
                    continue;
                }
            };
            let foreseen = space.check(number);
            let arrival = space.on_packet(at(0), number, true, 0);
            prop_assert_eq!(foreseen, arrival);
            if arrival == Arrival::Fresh {
                prop_assert!(seen.insert(number), "{number} taken twice");
                largest = largest.max(number);
                forgotten = forgotten.min(number);
            } else if number + WINDOW >= largest {
                prop_assert!(seen.contains(&number), "{number} refused, largest is {largest}");
            }
            prop_assert!(space.words.len() <= 257);
            let floor = forgotten.max((largest / 64).saturating_sub(256) * 64);
            let told: BTreeSet<u64> = seen.range(floor..).copied().collect();
            let mut expected = model_ranges(&told);
            expected.truncate(MAX_RANGES);
            prop_assert_eq!(space.ranges().collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn every_second_packet_of_a_whole_window_is_told_apart() {
    let mut space = Received::default();
    take(&mut space, (0..=WINDOW).step_by(2));
    take(&mut space, (1..WINDOW).step_by(2));
    for number in 0..=WINDOW {
        assert_ne!(space.check(number), Arrival::Fresh);
    }
    assert_eq!(space.ranges().collect::<Vec<_>>(), vec![0..WINDOW + 1]);
}

#[test]
fn a_jump_leaves_all_below_the_window_seen() {
    let mut space = Received::default();
    take(&mut space, [5, crate::MAX_NUMBER]);
    assert_eq!(space.check(5), Arrival::TooOld);
    assert_eq!(space.check(4), Arrival::TooOld);
    assert_eq!(space.check(crate::MAX_NUMBER - WINDOW), Arrival::Fresh);
    assert!(space.words.len() <= 257);
}

#[test]
fn a_flow_without_loss_holds_next_to_nothing() {
    let mut space = Received::default();
    for number in 0..100_000 {
        take(&mut space, [number]);
        space.forget_below(number.saturating_sub(100));
        assert!(space.words.len() <= 4);
    }
    assert_eq!(space.check(70_000), Arrival::TooOld);
}

#[test]
fn what_the_peer_knows_is_not_repeated_and_still_refused() {
    let mut space = Received::default();
    take(&mut space, [0, 1, 3, 4, 7]);
    space.forget_below(4);
    assert_eq!(space.ranges().collect::<Vec<_>>(), vec![7..8, 4..5]);
    assert_eq!(space.check(3), Arrival::Duplicate);
    // A late packet is acknowledged, although the peer had moved on.
    take(&mut space, [2]);
    assert_eq!(space.ranges().last(), Some(2..5));
    // This does not go beyond what arrived: the next packet must still be acknowledged.
    space.forget_below(1_000);
    take(&mut space, [8]);
    assert_eq!(space.ranges().collect::<Vec<_>>(), vec![8..9]);
}

#[test]
fn one_packet_in_order_waits_for_a_second() {
    let mut space = Received::default();
    assert_eq!(space.ack_due(), None);
    space.on_packet(at(10), 0, true, 0);
    assert_eq!(space.ack_due(), Some(at(1_010)));
    space.on_packet(at(20), 1, true, 0);
    assert_eq!(space.ack_due(), Some(at(20)));
    space.on_ack_sent();
    assert_eq!(space.ack_due(), None);
    assert!(!space.owes_ack());
    space.on_packet(at(30), 2, true, 0);
    assert_eq!(space.ack_due(), Some(at(1_030)));
}

#[test]
fn what_elicits_no_ack_owes_none() {
    let mut space = Received::default();
    for number in [0, 1, 5, 4] {
        space.on_packet(at(1), number, false, CE);
    }
    assert_eq!(space.ack_due(), None);
}

#[test]
fn disorder_and_congestion_are_told_at_once() {
    for (number, ecn) in [(2, 0), (0, 0), (1, CE)] {
        let mut space = Received::default();
        space.on_packet(at(0), 0, true, 0);
        if number == 0 {
            // The first packet of a flow, overtaken by the second.
            space = Received::default();
            space.on_packet(at(0), 1, false, 0);
        }
        space.on_ack_sent();
        space.on_packet(at(7), number, true, ecn);
        assert_eq!(space.ack_due(), Some(at(7)), "{number}");
    }
}

#[test]
fn a_duplicate_changes_nothing() {
    let mut space = Received::default();
    space.on_packet(at(1), 0, true, ECT0);
    space.on_ack_sent();
    assert_eq!(space.on_packet(at(2), 0, true, CE), Arrival::Duplicate);
    assert_eq!(space.ack_due(), None);
    assert_eq!(space.ecn_to_tell(), Some(EcnCounts { ect0: 1, ect1: 0, ce: 0 }));
    assert_eq!(space.largest(), Some(Largest { number: 0, arrived: at(1) }));
}

#[test]
fn marks_are_told_a_few_at_a_time_and_congestion_at_once() {
    let mut space = Received::default();
    let mut told = Vec::new();
    for number in 0..100 {
        space.on_packet(at(1), number, true, if number == 60 { CE } else { ECT0 });
        told.extend(space.ecn_to_tell().map(|_| number));
        assert_eq!(space.ecn_to_tell(), None, "nothing is new");
    }
    assert_eq!(told, (0..16).chain([31, 47, 60, 76, 92]).collect::<Vec<_>>());
}

#[test]
fn the_delay_is_that_of_the_largest() {
    let mut space = Received::default();
    space.on_packet(at(100), 5, true, 0);
    space.on_packet(at(300), 3, true, 0);
    assert_eq!(space.delay(at(500)), Duration::from_micros(400));
    assert!(!space.is_newest(4));
    assert!(space.is_newest(6));
}

#[test]
fn full_words_are_told_until_the_peer_knows() {
    let mut space = Received::default();
    take(&mut space, 0..200);
    space.forget_below(10);
    assert_eq!(space.ranges().collect::<Vec<_>>(), vec![10..200]);
    space.forget_below(190);
    assert_eq!(space.ranges().collect::<Vec<_>>(), vec![190..200]);
    assert_eq!(space.words.len(), 2);
}

#[test]
fn behind_a_gap_the_words_grow_once() {
    let mut space = Received::default();
    let mut capacities = std::collections::BTreeSet::new();
    for number in (0..40_000).filter(|number| number % 300 != 299) {
        space.on_packet(Mono(0), number, true, 0);
        space.forget_below(number);
        capacities.insert(space.words.capacity().max(16));
    }
    assert!(capacities.len() <= 2 && capacities.last().is_some_and(|most| *most < 300), "{capacities:?}");
}
