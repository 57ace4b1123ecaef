#![allow(clippy::cast_possible_truncation)]

use super::*;

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

const RTT: Duration = Duration::from_millis(10);

/// Sends ten packets of 1,000 bytes a millisecond apart and acknowledges each after 10 ms, `gap` apart.
fn flow(gap: u64) -> Option<Sample> {
    let mut rate = RateEstimator::default();
    let packets: Vec<_> = (0..10).map(|i| (ms(i), rate.on_sent(ms(i), i * 1_000))).collect();
    let mut last = None;
    for (i, (sent_at, snapshot)) in (0..).zip(packets) {
        rate.on_delivered(ms(10 + gap * i), sent_at, 1_000, snapshot);
        last = rate.sample(ms(10 + gap * i), RTT);
    }
    last
}

#[test]
fn a_steady_flow_has_its_rate() {
    let mut rate = RateEstimator::default();
    // One packet each millisecond, acknowledged after ten: ten under way.
    let mut sent = Vec::new();
    let mut last = None;
    for now in 0..100_u64 {
        if let Some(i) = now.checked_sub(10) {
            let (at, snapshot) = sent[i as usize];
            rate.on_delivered(ms(now), at, 1_000, snapshot);
            last = rate.sample(ms(now), RTT);
        }
        sent.push((ms(now), rate.on_sent(ms(now), now.min(9) * 1_000)));
    }
    let last = last.unwrap();
    assert_eq!(last.rate(), 1_000_000);
    assert_eq!((last.delivered, last.interval), (10_000, RTT));
    assert!(!last.app_limited);
}

#[test]
fn compressed_acks_do_not_raise_the_rate() {
    // All acknowledgements come at once: the rate is that of sending, or there is none.
    let compressed = flow(0).unwrap();
    assert!(compressed.rate() <= 1_000_000);
    assert_eq!(compressed.interval, compressed.ack_interval);
    // The path slows them down.
    assert!(flow(4).unwrap().rate() < 300_000);
}

#[test]
fn a_sample_over_half_a_round_trip_is_none() {
    let mut rate = RateEstimator::default();
    let snapshot = rate.on_sent(ms(0), 0);
    rate.on_delivered(ms(4), ms(0), 1_000, snapshot);
    assert_eq!(rate.sample(ms(4), RTT), None);
    let snapshot = rate.on_sent(ms(5), 0);
    rate.on_delivered(ms(10), ms(5), 1_000, snapshot);
    assert_eq!(rate.sample(ms(10), RTT).unwrap().interval, Duration::from_millis(5));
    assert_eq!(rate.sample(ms(10), RTT), None, "nothing new");
}

#[test]
fn app_limited_until_all_of_then_is_delivered() {
    let mut rate = RateEstimator::default();
    let first = rate.on_sent(ms(0), 0);
    rate.on_app_limited(1_000);
    let second = rate.on_sent(ms(1), 1_000);
    assert!(!first.app_limited() && second.app_limited());
    rate.on_delivered(ms(10), ms(0), 1_000, first);
    rate.sample(ms(10), RTT);
    assert!(rate.on_sent(ms(10), 1_000).app_limited(), "exactly what was under way");
    rate.on_delivered(ms(11), ms(1), 1_000, second);
    assert!(rate.sample(ms(11), RTT).unwrap().app_limited);
    assert!(!rate.on_sent(ms(11), 1_000).app_limited());
}

#[test]
fn the_newest_packet_of_an_ack_gives_the_sample() {
    let mut rate = RateEstimator::default();
    let first = rate.on_sent(ms(0), 0);
    let second = rate.on_sent(ms(2), 1_000);
    rate.on_delivered(ms(12), ms(2), 1_000, second);
    rate.on_delivered(ms(12), ms(0), 1_000, first);
    let sample = rate.sample(ms(12), RTT).unwrap();
    assert_eq!(sample.send_interval, Duration::from_millis(2));
    assert_eq!((sample.delivered, rate.delivered()), (2_000, 2_000));
}

#[test]
fn acks_that_were_held_up_do_not_raise_the_rate() {
    let mut rate = RateEstimator::default();
    let first = rate.on_sent(ms(0), 0);
    rate.on_delivered(ms(19), ms(0), 1_000, first);
    rate.sample(ms(19), RTT);
    // Sending took twenty milliseconds since the first packet, acknowledging eleven.
    let second = rate.on_sent(ms(20), 1_000);
    rate.on_delivered(ms(30), ms(20), 1_000, second);
    let sample = rate.sample(ms(30), RTT).unwrap();
    assert_eq!((sample.send_interval.as_millis(), sample.ack_interval.as_millis()), (20, 11));
    assert_eq!(sample.rate(), 50_000);
}
