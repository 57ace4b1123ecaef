use super::*;

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

/// Runs rounds of ten samples, each with the given round-trip time in milliseconds. Returns the last verdict of each.
fn rounds(rtts: &[u64]) -> Vec<Verdict> {
    let mut hystart = HyStart::new();
    let mut now = 0;
    let mut verdicts = Vec::new();
    let mut sent = 0;
    for rtt in rtts {
        let mut last = Verdict::Grow(0);
        now += rtt;
        for packet in 0..10 {
            last = hystart.on_ack(ms(now + packet), ms(sent), Some(Duration::from_millis(*rtt)));
            if last == Verdict::Exit {
                break;
            }
        }
        sent = now + 5;
        verdicts.push(last);
    }
    verdicts
}

#[test]
fn a_steady_path_grows_in_full() {
    assert_eq!(rounds(&[50; 20]), vec![Verdict::Grow(1); 20]);
}

#[test]
fn a_rise_below_the_threshold_is_noise() {
    assert_eq!(rounds(&[40, 44, 48, 52]), vec![Verdict::Grow(1); 4]);
}

#[test]
fn a_rise_slows_and_then_ends_slow_start() {
    let verdicts = rounds(&[40, 40, 46, 46, 46, 46, 46, 46]);
    let slow = Verdict::Grow(4);
    assert_eq!(
        verdicts,
        vec![Verdict::Grow(1), Verdict::Grow(1), slow, slow, slow, slow, slow, Verdict::Exit]
    );
}

#[test]
fn a_fall_proves_that_the_rise_was_no_queue() {
    let verdicts = rounds(&[40, 46, 46, 41, 41, 41, 41, 41, 41]);
    assert_eq!(verdicts[1], Verdict::Grow(4));
    assert_eq!(verdicts[3..], [Verdict::Grow(1); 6]);
}

#[test]
fn the_threshold_follows_the_path_within_limits() {
    // An eighth of 80 ms is 10; of 400 ms it would be 50, but 16 is the most; of 8 ms it would be 1, but 4 is the least.
    for (base, quiet, loud) in [(80, 89, 90), (400, 415, 416), (8, 11, 12)] {
        assert_eq!(rounds(&[base, quiet])[1], Verdict::Grow(1), "{quiet}");
        assert_eq!(rounds(&[base, loud])[1], Verdict::Grow(4), "{loud}");
    }
}

#[test]
fn seven_samples_are_too_few() {
    let mut hystart = HyStart::new();
    for _ in 0..10 {
        hystart.on_ack(ms(40), ms(0), Some(Duration::from_millis(40)));
    }
    for sample in 1..=8 {
        let verdict = hystart.on_ack(ms(100), ms(45), Some(Duration::from_millis(60)));
        assert_eq!(verdict, Verdict::Grow(if sample < 8 { 1 } else { 4 }), "{sample}");
        // The others of the round left before it began.
        hystart.on_ack(ms(100), ms(46), None);
    }
}
