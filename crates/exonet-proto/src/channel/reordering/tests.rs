use super::*;

fn at(secs: u64) -> Mono {
    Mono(secs * 1_000_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn path(millis: u64) -> Rtt {
    let mut rtt = Rtt::default();
    rtt.on_sample(at(0), ms(millis), ms(0));
    rtt
}

#[test]
fn it_begins_with_three_packets_and_nine_eighths() {
    let rule = Reordering::default().rule(at(0), &path(80));
    assert_eq!((rule.packets, rule.time), (3, ms(90)));
    // Never below the granularity of timers.
    assert_eq!(Reordering::default().rule(at(0), &Rtt::new(Duration::from_micros(50))).time, ms(1));
}

#[test]
fn the_larger_of_smoothed_and_latest_counts() {
    let mut rtt = path(80);
    rtt.on_sample(at(0), ms(160), ms(0));
    assert_eq!(Reordering::default().rule(at(0), &rtt).time, ms(180));
}

#[test]
fn a_spurious_loss_raises_the_distance_up_to_a_limit() {
    let mut reordering = Reordering::default();
    reordering.on_spurious(at(0), 17, ms(80), &path(80));
    assert_eq!(reordering.rule(at(0), &path(80)).packets, 18);
    reordering.on_spurious(at(0), 5, ms(80), &path(80));
    assert_eq!(reordering.rule(at(0), &path(80)).packets, 18, "never lowered by less");
    reordering.on_spurious(at(0), 10_000, ms(80), &path(80));
    assert_eq!(reordering.rule(at(0), &path(80)).packets, 200);
}

#[test]
fn a_late_packet_raises_the_time_up_to_a_limit() {
    let mut reordering = Reordering::default();
    reordering.on_spurious(at(0), 1, ms(120), &path(80));
    let time = reordering.rule(at(0), &path(80)).time;
    assert!(time.abs_diff(ms(124)) < Duration::from_micros(1), "{time:?}");
    reordering.on_spurious(at(0), 1, ms(1_000), &path(80));
    assert_eq!(reordering.rule(at(0), &path(80)).time, ms(160));
}

#[test]
fn both_halve_every_sixteen_seconds_without_one() {
    let mut reordering = Reordering::default();
    reordering.on_spurious(at(100), 99, ms(160), &path(80));
    let mut packets = Vec::new();
    for now in [115, 116, 131, 132, 300] {
        packets.push(reordering.rule(at(now), &path(80)).packets);
    }
    assert_eq!(packets, vec![100, 50, 50, 25, 3]);
    assert_eq!(reordering.rule(at(300), &path(80)).time, ms(90));
}
