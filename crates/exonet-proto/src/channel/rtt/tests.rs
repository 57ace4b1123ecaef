use proptest::prelude::*;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(secs: u64) -> Mono {
    Mono(secs * 1_000_000_000)
}

#[test]
fn before_the_first_sample_the_initial_time_holds() {
    let rtt = Rtt::default();
    assert!(!rtt.is_measured());
    assert_eq!((rtt.smoothed(), rtt.min(), rtt.variance()), (ms(333), ms(333), INITIAL_RTT / 2));
    // RFC 9002, section 6.2.2: three times the initial round trip.
    assert_eq!(rtt.pto_base(), INITIAL_RTT * 3);
}

#[test]
fn the_first_sample_stands_for_all() {
    let mut rtt = Rtt::default();
    rtt.on_sample(at(0), ms(100), ms(50));
    assert_eq!(
        (rtt.smoothed(), rtt.variance(), rtt.min(), rtt.latest()),
        (ms(100), ms(50), ms(100), ms(100))
    );
}

#[test]
fn the_mean_and_deviation_follow_section_5_3() {
    let mut rtt = Rtt::default();
    rtt.on_sample(at(0), ms(80), ms(0));
    rtt.on_sample(at(0), ms(170), ms(10));
    // adjusted 160: smoothed 7/8 80 + 1/8 160; deviation 3/4 40 + 1/4 |80 - 160|.
    assert_eq!((rtt.smoothed(), rtt.variance(), rtt.latest()), (ms(90), ms(50), ms(170)));
    assert_eq!(rtt.pto_base(), ms(290));
}

#[test]
fn a_peers_delay_never_leads_below_the_minimum() {
    let mut rtt = Rtt::default();
    rtt.on_sample(at(0), ms(80), ms(0));
    rtt.on_sample(at(0), ms(88), ms(9));
    assert_eq!(rtt.smoothed(), ms(81), "the sample as it is, not 79");
}

#[test]
fn a_steady_path_keeps_the_granularity() {
    let mut rtt = Rtt::default();
    for _ in 0..200 {
        rtt.on_sample(at(0), ms(10), ms(0));
    }
    assert_eq!(rtt.pto_base(), ms(11));
}

proptest! {
    /// The minimum is that of at least the last ten seconds, and of no more than the last twenty in which there
    /// was a sample.
    #[test]
    fn the_minimum_has_a_window(samples in prop::collection::vec((0..8_u64, 1..500_u64), 1..60)) {
        let mut rtt = Rtt::default();
        let mut seen: Vec<(u64, u64)> = Vec::new();
        let mut now = 100;
        for (wait, sample) in samples {
            now += wait;
            rtt.on_sample(at(now), ms(sample), ms(0));
            seen.push((now, sample));
            let over = |span: u64| seen.iter().filter(|(when, _)| now - when < span).map(|(_, x)| *x).min().unwrap();
            prop_assert!(rtt.min() <= ms(over(10)));
            prop_assert!(rtt.min() >= ms(over(10 + 10 + 8)));
        }
    }
}

#[test]
fn an_old_minimum_dies_in_silence_too() {
    let mut rtt = Rtt::default();
    rtt.on_sample(at(0), ms(5), ms(0));
    rtt.on_sample(at(100), ms(50), ms(0));
    assert_eq!(rtt.min(), ms(50));
}
