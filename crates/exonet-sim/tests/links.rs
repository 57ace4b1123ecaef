//! How real nodes use links, on virtual time: each figure is exact, and the same on every machine.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(clippy::cast_precision_loss)]

use core::time::Duration;

use exonet_proto::node::{Config, CongestionChoice, Hedging, Policy, Stats};
use exonet_sim::course::{Course, Direction, Latencies, PACKET, SIZE, Traffic, Way};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config::new(Policy::Anyone)
}

struct Bulk {
    /// The used share of the capacity that rate, headers and loss leave.
    used: f64,
    /// In round trips.
    queue: f64,
    /// All bytes sent, including headers, per byte of messages, times the share that is not lost.
    wire: f64,
    traffic: Traffic,
}

/// A single sender, after two seconds.
fn bulk(there: Way, back: Way, slack: Duration) -> Bulk {
    bulk_with(7, there, back, slack)
}

fn bulk_with(seed: u64, there: Way, back: Way, slack: Duration) -> Bulk {
    let (ceiling, rtt) = (there.rate as f64 * there.kept(), there.delay * 2);
    let kept = there.kept();
    let mut course = Course::new(seed, there, back);
    course.slack = slack;
    let pair = course.bulk(&config(), Direction::There, Duration::ZERO);
    course.run_for(2 * SECOND + 10 * rtt);
    course.take_traffic(Direction::There);
    course.take_received(pair);
    let span = 4 * SECOND;
    course.run_for(span);
    let received = course.take_received(pair) as f64;
    let traffic = course.take_traffic(Direction::There);
    Bulk {
        used: received * PACKET as f64 / (ceiling * span.as_secs_f64()),
        queue: traffic.median_wait().as_secs_f64() / rtt.as_secs_f64(),
        wire: traffic.bytes as f64 / (received * SIZE as f64) * kept,
        traffic,
    }
}

#[test]
fn a_link_that_loses_is_kept_full_with_a_short_queue() {
    let way = || Way::new(100.0, 10 * MS);
    for (name, there, least) in [
        ("0", way(), 0.97),
        ("1", way().losing(0.01), 0.97),
        ("5", way().losing(0.05), 0.97),
        ("10", way().losing(0.1), 0.95),
        ("20", way().losing(0.2), 0.93),
        ("bursts", way().bursting(0.05, 10.0), 0.93),
    ] {
        let back = if there.bursts.is_some() { way() } else { there.clone() };
        let it = bulk(there, back, Duration::ZERO);
        assert!(it.used > least, "{name}: {}", it.used);
        assert!(it.queue < 0.5, "{name}: {}", it.queue);
        assert!(it.traffic.drop_rate() < 0.01, "{name}: {}", it.traffic.drop_rate());
        assert!(it.wire < 1.12, "{name}: {}", it.wire);
    }
}

#[test]
fn a_long_link_that_loses_is_kept_full_also_when_it_widens() {
    for (rate, rtt, loss) in [(50.0, 200, 0.01), (50.0, 200, 0.05), (100.0, 100, 0.05), (50.0, 200, 0.0002)] {
        let way = |rate| Way::new(rate, rtt * MS).losing(loss);
        let mut course = Course::new(7, way(rate), way(rate));
        let pair = course.bulk(&config(), Direction::There, Duration::ZERO);
        let used = |course: &mut Course, rate: f64, span: u32| {
            course.run_for(3 * SECOND);
            course.take_received(pair);
            course.run_for(span * SECOND);
            let bytes = course.take_received(pair) as f64 * PACKET as f64;
            bytes / (f64::from(span) * way(rate).rate as f64 * (1.0 - loss))
        };
        let before = used(&mut course, rate, 12);
        course.set_way(Direction::There, way(2.0 * rate));
        let after = used(&mut course, 2.0 * rate, 3);
        assert!(before > 0.97 && after > 0.97, "{rate} Mbit/s, {rtt} ms, {loss}: {before}, then {after}");
    }
}

#[test]
fn a_link_whose_delay_jitters_is_kept_full() {
    for (rtt, loss) in [(100, 0.0), (100, 0.000_3), (200, 0.000_1)] {
        let way = || Way::new(50.0, rtt * MS).jittering(20 * MS).losing(loss);
        let mut course = Course::new(7, way(), way());
        let pair = course.bulk(&config(), Direction::There, Duration::ZERO);
        course.run_for(3 * SECOND);
        course.take_received(pair);
        course.run_for(20 * SECOND);
        let used = course.take_received(pair) as f64 * PACKET as f64 / (20.0 * way().rate as f64);
        assert!(used > 0.95, "{rtt} ms, {loss}: {used}");
    }
}

#[test]
fn whatever_is_lost_in_start_up_the_rate_is_found() {
    for seed in 0..8 {
        let way = Way::new(100.0, 10 * MS).losing(0.2);
        let it = bulk_with(seed, way.clone(), way, Duration::ZERO);
        assert!(it.used > 0.9, "{seed}: {}", it.used);
    }
}

#[test]
fn slow_links_and_long_ones_are_kept_full() {
    for (rate, rtt) in [(1.0, 6), (1.0, 10), (10.0, 6), (10.0, 100), (50.0, 200)] {
        let way = Way::new(rate, rtt * MS);
        let it = bulk(way.clone(), way, Duration::ZERO);
        assert!(it.used > 0.95, "{rate} Mbit/s, {rtt} ms: {}", it.used);
        assert!(it.traffic.drop_rate() < 0.01, "{rate} Mbit/s, {rtt} ms: {}", it.traffic.drop_rate());
    }
}

#[test]
fn a_narrow_way_back_is_no_queue_there() {
    let (wide, narrow) = (Way::new(30.0, 20 * MS), Way::new(3.0, 20 * MS));
    for (there, back) in [(wide.clone(), narrow.clone()), (narrow, wide)] {
        let it = bulk(there, back, Duration::ZERO);
        assert!(it.used > 0.95 && it.queue < 0.5, "{} with {}", it.used, it.queue);
    }
}

/// Both ends of one connection send: the use of each direction.
fn both(config: &Config, ways: [Way; 2]) -> [f64; 2] {
    let rates = [ways[0].rate, ways[1].rate];
    let [there, back] = ways;
    let mut course = Course::new(7, there, back);
    let pair = course.both(config);
    course.run_for(3 * SECOND);
    let _ = (course.take_received(pair), course.take_returned(pair));
    course.run_for(4 * SECOND);
    let received = [course.take_received(pair), course.take_returned(pair)];
    [0, 1].map(|way| received[way] as f64 * PACKET as f64 / (4.0 * rates[way] as f64))
}

#[test]
fn acknowledgements_of_a_fast_way_leave_the_slow_one_to_data() {
    for (congestion, least) in [(CongestionChoice::Exo, 0.94), (CongestionChoice::Cubic, 0.91)] {
        let config = Config { congestion, ..config() };
        let [slow, fast] = both(&config, [Way::new(3.0, 80 * MS), Way::new(30.0, 80 * MS)]);
        assert!(slow > 0.85 && fast > 0.85, "{congestion:?}: {slow}, {fast}");
        // A single course varies by 3 % by chance.
        let like = [98.0, 99.0, 100.0, 101.0, 102.0].map(|rate| [(); 2].map(|()| Way::new(rate, 10 * MS)));
        let like = like.map(|ways| both(&config, ways).iter().sum::<f64>() / 2.0);
        assert!(like.iter().sum::<f64>() / 5.0 > least, "{congestion:?}: {like:?}");
    }
}

#[test]
fn timers_that_ring_late_cost_little() {
    let way = Way::new(100.0, 10 * MS).losing(0.01);
    let it = bulk(way.clone(), way, MS);
    assert!(it.used > 0.94, "{}", it.used);
}

/// The share of the first of two senders.
fn share(way: Way, rival: CongestionChoice, later: Duration) -> f64 {
    let other = Config { congestion: rival, ..config() };
    let mut course = Course::new(7, way.clone(), way);
    let pairs = [
        course.bulk(&config(), Direction::There, later),
        course.bulk(&other, Direction::There, Duration::ZERO),
    ];
    course.run_for(later + 2 * SECOND);
    let _ = pairs.map(|pair| course.take_received(pair));
    course.run_for(10 * SECOND);
    let [a, b] = pairs.map(|pair| course.take_received(pair) as f64);
    a / (a + b)
}

#[test]
fn a_link_is_shared_with_its_like_and_with_cubic() {
    for rival in [CongestionChoice::Exo, CongestionChoice::Cubic] {
        for later in [Duration::ZERO, 3 * SECOND] {
            let share = share(Way::new(100.0, 10 * MS), rival, later);
            assert!((0.35..=0.65).contains(&share), "{rival:?}, {later:?} later: {share}");
        }
    }
}

#[test]
fn a_link_that_changes_its_rate_is_followed() {
    let (fast, slow) = (Way::new(50.0, 20 * MS), Way::new(5.0, 20 * MS));
    let mut course = Course::new(7, fast.clone(), fast.clone());
    let pair = course.bulk(&config(), Direction::There, Duration::ZERO);
    let used = |course: &mut Course, settle: Duration, way: &Way| {
        course.set_way(Direction::There, way.clone());
        course.run_for(settle);
        course.take_received(pair);
        course.run_for(SECOND);
        course.take_received(pair) as f64 * PACKET as f64 / way.rate as f64
    };
    assert!(used(&mut course, 2 * SECOND, &fast) > 0.95);
    assert!(used(&mut course, 2 * SECOND, &slow) > 0.9);
    let wait = course.take_traffic(Direction::There);
    assert!(wait.dropped < 450, "{}", wait.dropped);
    assert!(used(&mut course, 4 * SECOND, &fast) > 0.9);
}

#[test]
fn a_receiver_of_bulk_answers_twice_a_train_and_one_that_is_waited_for_at_once() {
    let way = || Way::new(100.0, 10 * MS);
    let mut course = Course::new(7, way(), way());
    let pair = course.bulk(&config(), Direction::There, Duration::ZERO);
    course.run_for(2 * SECOND);
    assert_eq!(course.other_node(pair).unwrap().may_rest(), MS / 2);
    let _ = course.take_traffic(Direction::Back);
    course.run_for(SECOND);
    let answers = course.take_traffic(Direction::Back).datagrams;
    assert!((1_900..2_200).contains(&answers), "{answers}");

    let mut course = Course::new(7, way(), way());
    let pair = course.calls(&config(), 100);
    for _ in 0..100 {
        course.run_for(10 * MS);
        assert_eq!(course.other_node(pair).unwrap().may_rest(), Duration::ZERO);
        assert_eq!(course.node(pair).unwrap().may_rest(), Duration::ZERO);
    }
}

fn calls(hedging: Hedging, loss: f64, actors: u64, span: Duration) -> (f64, Latencies, Stats) {
    let way = Way::new(100.0, 10 * MS).losing(loss);
    calls_on(Course::new(7, way.clone(), way), hedging, actors, span)
}

fn calls_on(mut course: Course, hedging: Hedging, actors: u64, span: Duration) -> (f64, Latencies, Stats) {
    let pair = course.calls(&Config { hedging, ..config() }, actors);
    course.run_for(2 * SECOND);
    course.take_latencies(pair);
    course.run_for(span);
    let latencies = course.take_latencies(pair);
    let stats = *course.node(pair).unwrap().counts();
    (latencies.count() as f64 / span.as_secs_f64(), latencies, stats)
}

#[test]
fn calls_hardly_feel_loss() {
    for (actors, least, p99) in [(1, 92.0, 15), (10, 920.0, 15), (100, 8_000.0, 26), (400, 10_300.0, 60)] {
        let (rate, latencies, _) = calls(Hedging::default(), 0.05, actors, 4 * SECOND);
        assert!(rate > least, "{actors}: {rate}");
        assert!(latencies.quantile(0.99) < p99 * MS, "{actors}: {:?}", latencies.quantile(0.99));
    }
    for loss in [0.0, 0.01] {
        let (rate, latencies, _) = calls(Hedging::default(), loss, 10, 4 * SECOND);
        assert!(rate > 970.0 && latencies.quantile(0.99) < 12 * MS, "{loss}: {rate}");
    }
}

#[test]
fn calls_hardly_feel_that_timers_ring_late_or_that_nodes_take_datagrams_together() {
    let late = Duration::from_micros(100);
    for (slack, drowsiness) in [(late, Duration::ZERO), (Duration::ZERO, late)] {
        let way = Way::new(100.0, 10 * MS).losing(0.05);
        let mut course = Course::new(7, way.clone(), way);
        (course.slack, course.drowsiness) = (slack, drowsiness);
        let (rate, latencies, _) = calls_on(course, Hedging::default(), 10, 8 * SECOND);
        let p99 = latencies.quantile(0.99);
        assert!(rate > 940.0 && p99 < 13 * MS, "{slack:?}, {drowsiness:?}: {rate}, {p99:?}");
    }
}

#[test]
fn copies_of_lone_packets_are_what_makes_the_difference_and_are_counted() {
    let (_, with, stats) = calls(Hedging::default(), 0.05, 1, 20 * SECOND);
    let (_, without, none) = calls(Hedging::Off, 0.05, 1, 20 * SECOND);
    assert!(with.quantile(0.99) < 12 * MS && without.quantile(0.99) > 15 * MS);
    assert_eq!((none.hedged, none.hedged_bytes, none.hedges_saved), (0, 0, 0));
    // One in twenty of the originals is lost.
    let part = stats.hedges_saved as f64 / stats.hedged as f64;
    assert!((0.02..0.09).contains(&part), "{} of {}", stats.hedges_saved, stats.hedged);
    assert!(stats.hedged_bytes > 900 * stats.hedged);
    let (_, _, clean) = calls(Hedging::default(), 0.0, 1, 4 * SECOND);
    assert_eq!(clean.hedged, 0, "nothing is lost, nothing copied");
}

/// Sends `messages` messages at once to a peer that it has never met: the time until all are settled, and the
/// datagrams that the queue dropped.
fn cold(messages: u64, way: &Way) -> (Duration, u64) {
    let mut course = Course::new(7, way.clone(), way.clone());
    let pair = course.batch(&config(), messages, false);
    let (_, settled) = course.run_until_settled(pair, 60 * SECOND).unwrap();
    (settled, course.take_traffic(Direction::There).dropped)
}

#[test]
fn a_peer_never_met_is_sent_at_once_what_the_link_takes() {
    // Two round trips, the time that the link takes for the messages, and half as much again.
    for (messages, rtt, most) in [(400, 10, 75), (4_000, 10, 390), (400, 200, 680), (4_000, 200, 1_400)] {
        let (settled, dropped) = cold(messages, &Way::new(100.0, rtt * MS));
        assert!(settled < most * MS && dropped <= 20, "{messages}, {rtt}: {settled:?}, {dropped}");
    }
}

#[test]
fn a_slow_link_is_not_flooded_at_the_start() {
    for (rate, rtt, most, drops) in
        [(1.0, 10, 3_550, 0), (1.0, 100, 3_800, 8), (10.0, 10, 380, 6), (10.0, 100, 680, 0)]
    {
        let (settled, dropped) = cold(400, &Way::new(rate, rtt * MS));
        assert!(settled < most * MS && dropped <= drops, "{rate}, {rtt}: {settled:?}, {dropped}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let (_, latencies, stats) = calls(Hedging::default(), 0.05, 10, 2 * SECOND);
        (latencies, stats)
    };
    assert_eq!(run(), run());
}
