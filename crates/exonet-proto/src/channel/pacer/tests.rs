use proptest::prelude::*;

use super::*;

const MTU: u16 = 1_200;
const PACKET: u64 = 1_200;
/// More bytes wait than any train has.
const BULK: u64 = u64::MAX;

fn at(micros: u64) -> Mono {
    Mono(micros * 1_000)
}

/// Sends packets of `bytes` as the pacer allows until `end`, each timer `late` nanoseconds late. Returns bytes sent.
fn run(pacer: &mut Pacer, mut now: Mono, end: Mono, bytes: u64, late: u64) -> u64 {
    let mut sent = 0;
    while now < end {
        match pacer.next_send(now, bytes, BULK) {
            None => {
                pacer.on_sent(now, bytes);
                sent += bytes;
            }
            Some(next) => {
                assert!(next > now);
                now = Mono(next.0 + late);
            }
        }
    }
    sent
}

/// A pacer whose initial credit is used up.
fn drained(rate: u64) -> Pacer {
    let mut pacer = Pacer::new(at(0), MTU);
    pacer.set_rate(at(0), rate);
    while pacer.next_send(at(0), PACKET, BULK).is_none() {
        pacer.on_sent(at(0), PACKET);
    }
    pacer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The rate holds within one percent over a time much longer than one train, however late the timers are within the credit.
    #[test]
    fn the_long_run_rate_is_the_rate(
        rate in 50_000_u64..1_250_000_000,
        bytes in 400_u64..=1_200,
        late in 0_u64..900_000,
    ) {
        let mut pacer = drained(rate);
        let span = (1_000 * 1_200 * SECOND / rate).max(300_000_000);
        let sent = run(&mut pacer, at(0), Mono(span), bytes, late) as f64;
        let due = rate as f64 * span as f64 / 1e9;
        prop_assert!((sent / due - 1.0).abs() < 0.01, "{sent} of {due}");
    }

    /// In no interval does more leave than the rate gives and one full bucket.
    #[test]
    fn bursts_are_bounded(
        rate in 100_000_u64..1_000_000_000,
        gaps in prop::collection::vec(0_u64..20_000, 1..200),
    ) {
        let mut pacer = drained(rate);
        let (mut now, mut sent) = (0, 0);
        let most = (10 * PACKET).max(rate / 500).max((rate / 1_000).min(64 * PACKET));
        for gap in gaps {
            now += gap;
            let mut train = 0;
            while pacer.next_send(at(now), PACKET, BULK).is_none() {
                prop_assert!(pacer.allowance(at(now)) <= 64 * PACKET);
                pacer.on_sent(at(now), PACKET);
                train += PACKET;
            }
            sent += train;
            prop_assert!(train <= most + PACKET);
            prop_assert!(sent <= most + rate * now / 1_000_000 + PACKET);
        }
    }
}

#[test]
fn the_initial_window_passes_at_once() {
    let mut pacer = Pacer::new(at(0), MTU);
    pacer.set_rate(at(0), 1_000);
    let mut sent = 0;
    while pacer.next_send(at(0), PACKET, BULK).is_none() {
        pacer.on_sent(at(0), PACKET);
        sent += PACKET;
    }
    assert_eq!(sent, initial_window(MTU));
}

#[test]
fn a_late_timer_is_credited_for_two_milliseconds() {
    // 100 MB/s: 2 ms are 200,000 bytes, more than ten packets.
    let rate = 100_000_000;
    for (late, credit) in [(500, 50_000), (1_500, 150_000), (60_000, 200_000)] {
        let mut pacer = drained(rate);
        let left = whole(pacer.credit);
        assert!(pacer.next_send(at(0), PACKET, BULK).is_some());
        pacer.fill(at(late));
        assert_eq!(whole(pacer.credit), (left + credit).min(200_000), "{late}");
    }
}

#[test]
fn idling_earns_no_more_than_a_small_burst() {
    let rate = 100_000_000;
    let mut pacer = drained(rate);
    pacer.waiting = false;
    pacer.fill(at(10_000_000));
    assert_eq!(whole(pacer.credit), 64 * PACKET, "a millisecond's worth, at most a train");
    let mut slow = drained(1_000_000);
    slow.waiting = false;
    slow.fill(at(10_000_000));
    assert_eq!(whole(slow.credit), 10 * PACKET);
}

#[test]
fn a_fast_path_waits_for_a_train_and_a_slow_one_for_a_packet() {
    let mut fast = drained(12_000_000);
    let at_once = fast.next_send(at(0), PACKET, BULK).unwrap();
    fast.fill(at_once);
    assert_eq!(whole(fast.credit), 12_000, "one millisecond");
    let mut slow = drained(12_000);
    let next = slow.next_send(at(0), PACKET, BULK).unwrap();
    assert!(next.0.abs_diff(SECOND / 10) <= 1, "{next:?}");
}

#[test]
fn who_waits_lets_no_packet_go_before_its_train_unless_it_has_no_more() {
    let mut pacer = drained(12_000_000);
    let train = pacer.next_send(at(0), PACKET, BULK).unwrap();
    // Credit for two packets.
    let between = at(250);
    assert_eq!(pacer.clone().next_send(between, PACKET, BULK), Some(train));
    assert_eq!(pacer.clone().next_send(between, PACKET, 3 * PACKET), Some(train));
    assert_eq!(pacer.clone().next_send(between, PACKET, 2 * PACKET), None);
    assert_eq!(pacer.clone().next_send(between, PACKET, 0), None);
    let mut sent = 0;
    while pacer.next_send(train, PACKET, BULK).is_none() {
        pacer.on_sent(train, PACKET);
        sent += 1;
    }
    assert_eq!(sent, 10, "none of them waits for a train of its own");
}

#[test]
fn no_rate_is_no_pacing() {
    let mut pacer = Pacer::new(at(0), MTU);
    for _ in 0..1_000 {
        assert_eq!(pacer.next_send(at(0), PACKET, BULK), None);
        assert_eq!(pacer.allowance(at(0)), 64 * PACKET);
        pacer.on_sent(at(0), PACKET);
    }
}

#[test]
fn a_rate_of_zero_waits_for_ever() {
    assert_eq!(drained(0).next_send(at(5), PACKET, BULK), Some(Mono::NEVER));
}

#[test]
fn what_was_not_allowed_is_missing_later() {
    let mut honest = drained(1_200_000);
    let mut pushed = honest.clone();
    honest.fill(at(5_000));
    pushed.fill(at(5_000));
    pushed.on_sent(at(5_000), PACKET);
    assert!(pushed.allowance(at(5_000)) < honest.allowance(at(5_000)));
}
