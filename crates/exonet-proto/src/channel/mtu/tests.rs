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
    fn the_search_finds_any_limit(max in BASE..=65_000, share in 0.0..=1.0_f64) {
        let limit = BASE + (f64::from(max - BASE) * share) as u16;
        let mut mtu = MtuSearch::new(max);
        let probes = search(&mut mtu, at(0), limit);
        prop_assert_eq!(mtu.current(), limit);
        prop_assert!(mtu.is_done());
        // Three tries for each refuted size, of at most seventeen.
        prop_assert!(probes <= 3 * 17);
    }
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
        // Overtaken by the news of a newer one.
        assert!(!mtu.on_lost(1_472, at(second)));
    }
    for second in 100..105 {
        assert!(!mtu.on_lost(1_472, at(second)));
        // Small packets prove nothing, nor is their loss a proof.
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
fn an_ethernet_comes_before_what_is_far_larger() {
    let mut mtu = MtuSearch::new(65_000);
    for size in [1_452, 65_000] {
        assert_eq!(mtu.probe(at(0)), Some(size));
        mtu.on_probe_sent(size);
        assert!(mtu.on_probe_acked(at(0), size, at(0)));
    }
    assert!(mtu.is_done());
}
