#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use proptest::prelude::*;

use super::*;

fn at(secs: u64) -> Mono {
    Mono(secs * 1_000_000_000)
}

/// Probes over a path that carries `limit` until the search rests. Returns the number of probes.
fn search(mtu: &mut MtuSearch, now: Mono, limit: u16) -> u32 {
    let mut probes = 0;
    while let Some(size) = mtu.probe(now) {
        mtu.on_probe_sent(size);
        probes += 1;
        if size <= limit {
            assert!(mtu.on_probe_acked(now, size, now));
        } else {
            mtu.on_probe_lost(now, size);
        }
    }
    probes
}

proptest! {
    #[test]
    fn up_to_an_ethernet_the_search_finds_any_limit(max in BASE..=2 * ETHERNET, share in 0.0..=1.0_f64) {
        let limit = BASE + (f64::from(max - BASE) * share) as u16;
        let mut mtu = MtuSearch::new(max);
        let probes = search(&mut mtu, at(0), limit);
        prop_assert_eq!(mtu.current(), limit);
        prop_assert!(mtu.is_done());
        // Three tries for each refuted size: the largest, and at most eleven that halve the interval.
        prop_assert!(probes <= 3 * 12);
    }

    #[test]
    fn above_it_is_the_last_plateau_that_passes(max in 2 * ETHERNET + 1..=65_000, limit in BASE..=65_000) {
        let mut mtu = MtuSearch::new(max);
        search(&mut mtu, at(0), limit.min(max));
        let largest = PLATEAUS.into_iter().chain([max]).filter(|size| *size <= limit && *size <= max).max();
        let found = mtu.current();
        match largest {
            // The largest size of all may exceed the present one by too little.
            Some(largest) => prop_assert!(found <= largest && found >= largest - largest / WORTH, "{}", found),
            None => prop_assert_eq!(found, limit),
        }
        prop_assert!(mtu.is_done());
    }

    #[test]
    fn what_the_system_takes_is_found_by_what_it_refuses(takes in 1_300_u16..=65_000) {
        let mut mtu = MtuSearch::new(65_000);
        let mut refused = 0;
        while let Some(size) = mtu.probe(at(0)) {
            mtu.on_probe_sent(size);
            if size <= takes {
                assert!(mtu.on_probe_acked(at(0), size, at(0)));
            } else {
                refused += 1;
                assert!(!mtu.on_refused(at(0), size));
            }
        }
        prop_assert!(mtu.current() <= takes && mtu.current() >= takes - takes / 8, "{}", mtu.current());
        prop_assert!(refused <= 10, "{}", refused);
    }
}

#[test]
fn a_path_that_carries_no_more_than_an_ethernet_costs_three_probes_in_ten_minutes() {
    let mut mtu = MtuSearch::new(65_000);
    assert_eq!(search(&mut mtu, at(0), 1_472), 1 + 3);
    assert_eq!((mtu.current(), mtu.probe(at(599))), (ETHERNET, None));
    assert_eq!(search(&mut mtu, at(600), 1_472), 3);
    assert_eq!(search(&mut mtu, at(1_200), 9_000), 2 + 3);
    assert_eq!(mtu.current(), 8_952);
}

#[test]
fn what_the_system_refuses_is_not_tried_again() {
    let mut mtu = MtuSearch::new(65_000);
    search(&mut mtu, at(0), 1_472);
    assert_eq!(mtu.probe(at(600)), Some(3_852));
    mtu.on_probe_sent(3_852);
    assert!(!mtu.on_refused(at(600), 3_852));
    let next = mtu.probe(at(600)).unwrap();
    assert_eq!(next, 2_652, "one refusal is enough: halfway");
    mtu.on_probe_sent(next);
    (0..3).for_each(|_| mtu.on_probe_lost(at(600), next));
    assert_eq!(mtu.probe(at(601)), None, "the path carries less than the first link");
}

#[test]
fn a_first_link_that_has_narrowed_leads_back_to_the_base_at_once() {
    let mut mtu = MtuSearch::new(65_000);
    search(&mut mtu, at(0), 9_000);
    assert_eq!(mtu.current(), 8_952);
    assert!(mtu.on_refused(at(1), 8_952));
    assert_eq!((mtu.current(), mtu.probe(at(1))), (BASE, Some(ETHERNET)));
    assert!(!mtu.on_refused(at(1), ETHERNET), "a probe");
}

#[test]
fn the_largest_is_tried_first() {
    let mut mtu = MtuSearch::new(1_472);
    assert_eq!(mtu.probe(at(0)), Some(1_472));
    mtu.on_probe_sent(1_472);
    assert_eq!(mtu.probe(at(0)), None, "one at a time");
    assert!(mtu.on_probe_acked(at(0), 1_472, at(0)));
    assert_eq!((mtu.current(), mtu.probe(at(0)), mtu.resume_at()), (1_472, None, None));
}

#[test]
fn a_size_is_refuted_by_three_losses_only() {
    let mut mtu = MtuSearch::new(1_472);
    for _ in 0..3 {
        assert_eq!(mtu.probe(at(0)), Some(1_472));
        mtu.on_probe_sent(1_472);
        mtu.on_probe_lost(at(0), 1_472);
    }
    assert_eq!(mtu.probe(at(0)), Some(1_336));
}

#[test]
fn a_late_answer_counts() {
    let mut mtu = MtuSearch::new(1_472);
    for _ in 0..3 {
        mtu.on_probe_sent(1_472);
        mtu.on_probe_lost(at(0), 1_472);
    }
    assert!(mtu.on_probe_acked(at(0), 1_472, at(0)));
    assert_eq!(mtu.current(), 1_472);
}

#[test]
fn the_search_begins_anew_after_ten_minutes() {
    let mut mtu = MtuSearch::new(1_472);
    search(&mut mtu, at(0), 1_300);
    assert_eq!(mtu.resume_at(), Some(at(600)));
    assert_eq!(mtu.probe(at(599)), None);
    assert_eq!(mtu.probe(at(600)), Some(1_472));
    search(&mut mtu, at(600), 1_400);
    assert_eq!(mtu.current(), 1_400);
}

#[test]
fn only_large_packets_lost_in_a_row_are_a_black_hole() {
    let mut mtu = MtuSearch::new(1_472);
    search(&mut mtu, at(0), 1_472);
    // Random loss: something large that left later always arrives.
    for second in 1..100 {
        assert!(!mtu.on_lost(1_472, at(second)));
        mtu.on_acked(1_472, at(second));
        // Overtaken by the acknowledgement of a newer packet.
        assert!(!mtu.on_lost(1_472, at(second)));
    }
    for second in 100..105 {
        assert!(!mtu.on_lost(1_472, at(second)));
        // Small packets prove nothing, and their loss proves nothing either.
        mtu.on_acked(BASE, at(second));
        assert!(!mtu.on_lost(BASE, at(second)));
    }
    assert!(mtu.on_lost(1_472, at(105)));
    assert_eq!(mtu.current(), BASE);
    search(&mut mtu, at(106), 1_280);
    assert_eq!(mtu.current(), 1_280);
}

#[test]
fn at_the_base_there_is_no_black_hole() {
    let mut mtu = MtuSearch::new(BASE);
    assert_eq!(mtu.probe(at(0)), None);
    for second in 0..100 {
        assert!(!mtu.on_lost(1_472, at(second)));
    }
}

#[test]
fn smaller_packets_that_pass_do_not_hide_a_black_hole() {
    let mut mtu = MtuSearch::new(65_000);
    search(&mut mtu, at(0), 9_000);
    for second in 1..=6 {
        mtu.on_acked(1_300, at(10 * second + 1));
        assert_eq!(mtu.on_lost(8_952, at(10 * second)), second == 6);
    }
    assert_eq!(mtu.current(), BASE);
}

#[test]
fn random_losses_of_all_sizes_are_no_black_hole() {
    let mut mtu = MtuSearch::new(65_000);
    search(&mut mtu, at(0), 9_000);
    for second in 1..100 {
        for size in [1_300, 2_000, 8_952] {
            (0..5).for_each(|_| assert!(!mtu.on_lost(size, at(10 * second))));
            mtu.on_acked(size, at(10 * second + 1));
        }
    }
}

#[test]
fn the_search_climbs_from_an_ethernet_on() {
    let mut mtu = MtuSearch::new(65_000);
    for size in PLATEAUS {
        assert_eq!(mtu.probe(at(0)), Some(size));
        mtu.on_probe_sent(size);
        assert!(mtu.on_probe_acked(at(0), size, at(0)));
    }
    assert!(mtu.is_done());
}

#[test]
fn a_packet_that_is_no_larger_than_what_passes_is_no_probe() {
    let mut mtu = MtuSearch::new(ETHERNET);
    mtu.on_probe_sent(BASE - 300);
    mtu.on_probe_lost(at(1), BASE - 300);
    assert_eq!(mtu.probe(at(1)), Some(ETHERNET));
}
