//! Links that lose a third or half of all datagrams in each direction, and an overloaded crowd, on virtual time:
//! bounds near the figures that `benches/heavy` measures over 1,000 seeds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]

use crate::common::heavy::{Crowd, first_call, hundred, quantile, tail, times};
use crate::common::{MS, SECOND};

#[test]
fn a_hundred_messages_to_a_stranger_settle_soon_at_heavy_loss() {
    for (loss, median, late, most) in [(0.3, 250, 1_000, 2_000), (0.5, 600, 4_000, 9_000)] {
        let times = times(0..200, |seed| hundred(seed, 20 * MS, loss, false));
        let found = [0.5, 0.99, 1.0].map(|share| quantile(&times, share));
        assert!(found[0] < median * MS && found[1] < late * MS && found[2] < most * MS, "{loss}: {found:?}");
    }
}

#[test]
fn a_hundred_messages_to_an_acquaintance_settle_soon_at_heavy_loss() {
    for (loss, median, late, most) in [(0.3, 100, 200, 400), (0.5, 140, 560, 1_500)] {
        let times = times(0..200, |seed| hundred(seed, 20 * MS, loss, true));
        let found = [0.5, 0.99, 1.0].map(|share| quantile(&times, share));
        assert!(found[0] < median * MS && found[1] < late * MS && found[2] < most * MS, "{loss}: {found:?}");
    }
}

#[test]
fn a_first_call_is_answered_soon_though_a_third_is_lost() {
    let times = times(0..300, |seed| first_call(seed, 10 * MS, 0.3));
    let found = [0.5, 0.99].map(|share| quantile(&times, share));
    assert!(found[0] < 130 * MS && found[1] < 900 * MS, "{found:?}");
}

#[test]
fn a_long_queue_has_no_stuck_tail_though_a_third_is_lost() {
    for bursts in [false, true] {
        let mut tails: Vec<_> = (0..3).map(|seed| tail(seed, 10 * MS, 16_384, bursts, 2 * SECOND)).collect();
        tails.sort_unstable();
        assert!(tails[1] < 2 * SECOND && tails[2] < 10 * SECOND, "{bursts}: {tails:?}");
    }
}

/// While a crowd is overloaded, the bottleneck serves as many messages as it has room for; afterwards it serves all,
/// and each message leaves about once.
#[test]
fn a_crowd_that_had_too_much_does_not_go_on_repeating_itself() {
    for (rtt, queue) in [(1, 200_000), (1, 10_000), (20, 200_000), (20, 10_000)] {
        let mut crowd = Crowd::new(1, 250, rtt * MS, queue);
        for _ in 0..2 {
            crowd.second();
        }
        crowd.slow(4);
        for _ in 0..2 {
            crowd.second();
        }
        crowd.slow(1);
        for _ in 0..3 {
            crowd.second();
        }
        for second in 3..6 {
            let it = crowd.second();
            let calm = it.taken > 0.95 && it.copies < 1.3 && it.dropped < 0.01;
            assert!(
                calm,
                "RTT {rtt} ms, {queue} bytes, second {second}: {}, {}, {}",
                it.taken, it.copies, it.dropped
            );
        }
    }
}
