//! Marks on links that make them, remove them, or drop datagrams that carry them; and CoDel's drops.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(clippy::cast_precision_loss)]

use core::time::Duration;

use exonet_proto::node::{Config, CongestionChoice, Policy};
use exonet_sim::Signal;
use exonet_sim::course::{Course, Direction, Marks, PACKET, Traffic, Way};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// 50 Mbit/s, 20 ms: 125,000 bytes fill it, and as many fill its queue.
fn way() -> Way {
    Way::new(50.0, 20 * MS)
}

/// A sender without end on `there`: the share of the link that it used after two seconds, and the traffic.
fn bulk(congestion: CongestionChoice, there: Way) -> (f64, Traffic) {
    let rate = there.rate;
    let mut course = Course::new(7, there, way());
    let config = Config { congestion, ..Config::new(Policy::Anyone) };
    let pair = course.bulk(&config, Direction::There, Duration::ZERO);
    course.run_for(2 * SECOND);
    course.take_traffic(Direction::There);
    course.take_received(pair);
    course.run_for(8 * SECOND);
    let used = course.take_received(pair) as f64 * PACKET as f64 / (8 * rate) as f64;
    (used, course.take_traffic(Direction::There))
}

#[test]
fn cubic_slows_down_for_marks_and_nothing_is_dropped() {
    let (_, without) = bulk(CongestionChoice::Cubic, way());
    let (used, marked) = bulk(CongestionChoice::Cubic, way().marking_above(60_000));
    assert!(without.dropped > 0 && without.ce == 0, "{} dropped", without.dropped);
    assert!(marked.dropped == 0 && marked.ce > 0, "{} dropped, {} marked", marked.dropped, marked.ce);
    assert!(used > 0.95, "{used}");
    assert!(marked.median_wait() < without.median_wait(), "{:?}", (marked, without));
}

#[test]
fn exo_keeps_below_the_mark_and_the_link_full() {
    let (used, marked) = bulk(CongestionChoice::Exo, way().marking_above(31_000));
    assert!(used > 0.97, "{used}");
    assert!(marked.ce > 0 && marked.ce * 10 < marked.ect, "{} of {}", marked.ce, marked.ect);
    assert_eq!(marked.dropped, 0);
}

#[test]
fn exo_shares_a_link_that_marks() {
    for other in [CongestionChoice::Cubic, CongestionChoice::Exo] {
        let mut course = Course::new(7, way().marking_above(60_000), way());
        let config = |congestion| Config { congestion, ..Config::new(Policy::Anyone) };
        let one = course.bulk(&config(CongestionChoice::Exo), Direction::There, Duration::ZERO);
        let two = course.bulk(&config(other), Direction::There, SECOND);
        course.run_for(5 * SECOND);
        let _ = (course.take_received(one), course.take_received(two));
        course.run_for(20 * SECOND);
        let [one, two] = [one, two].map(|pair| course.take_received(pair) as f64);
        let share = one / (one + two);
        assert!((0.35..0.65).contains(&share), "beside {other:?}: {share}");
    }
}

/// 50 Mbit/s, 40 ms: CoDel signals once per interval, which is more than 400 packets.
fn kept_short(signal: Signal) -> Way {
    short_at(50.0, signal)
}

fn short_at(megabits: f64, signal: Signal) -> Way {
    Way::new(megabits, 40 * MS).with_codel(signal)
}

/// The mean of three rates: a single one may be off by ten points by chance.
#[test]
fn exo_makes_room_where_codel_keeps_the_queue_short() {
    const RATES: [f64; 3] = [40.0, 50.0, 60.0];
    for (signal, exo_first) in
        [(Signal::Drop, true), (Signal::Drop, false), (Signal::Mark, true), (Signal::Mark, false)]
    {
        let shares = RATES.map(|megabits| {
            let way = short_at(megabits, signal);
            let mut course = Course::new(7, way.clone(), Way::new(megabits, 40 * MS));
            let config = |congestion| Config { congestion, ..Config::new(Policy::Anyone) };
            let wait = |first| if first { Duration::ZERO } else { SECOND };
            let exo = course.bulk(&config(CongestionChoice::Exo), Direction::There, wait(exo_first));
            let cubic = course.bulk(&config(CongestionChoice::Cubic), Direction::There, wait(!exo_first));
            course.run_for(5 * SECOND);
            let _ = (course.take_received(exo), course.take_received(cubic));
            course.run_for(30 * SECOND);
            let [exo, cubic] = [exo, cubic].map(|pair| course.take_received(pair) as f64);
            let used = (exo + cubic) * PACKET as f64 / (30.0 * way.rate as f64);
            assert!(used > 0.95, "{signal:?}, exo first {exo_first}, {megabits} Mbit/s: {used}");
            exo / (exo + cubic)
        });
        let share = shares.iter().sum::<f64>() / RATES.len() as f64;
        // Without this rule, 84 to 88 %.
        assert!((0.35..0.70).contains(&share), "{signal:?}, exo first {exo_first}: {share}, {shares:?}");
    }
}

#[test]
fn exo_alone_makes_room_for_nobody() {
    for signal in [Signal::Drop, Signal::Mark] {
        for loss in [0.0, 0.05] {
            let (used, traffic) = bulk(CongestionChoice::Exo, kept_short(signal).losing(loss));
            assert!(used > 0.97 * (1.0 - loss), "{signal:?}, {loss}: {used}");
            assert!(traffic.dropped + traffic.ce < 50, "{signal:?}, {loss}: {traffic:?}");
        }
    }
}

#[test]
fn where_marks_are_taken_off_none_are_made_and_nothing_else_changes() {
    let (_, plain) = bulk(CongestionChoice::Exo, way());
    assert!(plain.ect == plain.datagrams, "every packet leaves marked");
    let (used, bleached) = bulk(CongestionChoice::Exo, Way { marks: Marks::Bleached, ..way() });
    assert!(used > 0.97, "{used}");
    assert_eq!(bleached.ect, 0);
}

#[test]
fn where_marked_datagrams_are_lost_none_are_sent() {
    for congestion in [CongestionChoice::Exo, CongestionChoice::Cubic] {
        let (used, traffic) = bulk(congestion, Way { marks: Marks::Lost, ..way() });
        assert!(used > 0.95, "{congestion:?}: {used}");
        assert_eq!(traffic.ect, 0);
    }
}

#[test]
fn a_path_that_begins_to_lose_marked_datagrams_is_used_without() {
    let mut course = Course::new(7, way(), way());
    let pair = course.bulk(&Config::new(Policy::Anyone), Direction::There, Duration::ZERO);
    course.run_for(2 * SECOND);
    course.set_way(Direction::There, Way { marks: Marks::Lost, ..way() });
    course.run_for(2 * SECOND);
    course.take_traffic(Direction::There);
    course.take_received(pair);
    course.run_for(4 * SECOND);
    let used = course.take_received(pair) as f64 * PACKET as f64 / (4 * way().rate) as f64;
    assert!(used > 0.95, "{used}");
    assert_eq!(course.take_traffic(Direction::There).ect, 0);
}
