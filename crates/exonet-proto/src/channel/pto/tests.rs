use super::*;

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

const PTO: Duration = Duration::from_millis(100);
const TAIL: Duration = Duration::from_millis(60);

/// When the next timeout comes.
fn due(timeouts: &Pto, tail: Duration, pto: Duration, cause: Cause, awaited: bool) -> Mono {
    timeouts.deadline(back_off(timeouts.count(), tail, pto, cause, awaited, false))
}

/// Milliseconds between the timeouts.
fn waits(cause: Cause, awaited: bool, worked: bool, count: u32) -> Vec<u128> {
    (0..count).map(|n| back_off(n, TAIL, PTO, cause, awaited, worked).as_millis()).collect()
}

#[test]
fn it_is_two_timeouts_at_first_on_a_path_that_has_worked() {
    for (cause, begins) in [(Cause::Chance, &[60, 100, 150][..]), (Cause::Unknown, &[60, 100])] {
        let brisk = vec![200; 17 - begins.len()];
        assert_eq!(waits(cause, true, true, 19), [begins, &brisk, &[400; 2]].concat());
    }
    for (cause, awaited) in [(Cause::Overload, true), (Cause::Unknown, false)] {
        assert_eq!(waits(cause, awaited, true, 15), waits(cause, awaited, false, 15));
    }
}

#[test]
fn two_short_timeouts_are_a_fortieth_of_a_second() {
    let short = |timeouts| back_off(timeouts, TAIL, PTO / 50, Cause::Unknown, true, true).as_millis();
    assert_eq!([16, 17].map(short), [25, 100]);
}

#[test]
fn it_grows_gently_to_four_timeouts_where_loss_is_chance_until_that_explains_nothing() {
    let gentle = [60, 100, 150, 200, 300, 400];
    assert_eq!(waits(Cause::Chance, true, false, 99), [&gentle[..], &[400; 91], &[1_000; 2]].concat());
}

#[test]
fn it_doubles_to_four_timeouts_where_nothing_is_known() {
    let doubled = [60, 100, 200, 400];
    assert_eq!(waits(Cause::Unknown, true, false, 51), [&doubled[..], &[400; 45], &[1_000; 2]].concat());
}

#[test]
fn it_doubles_further_in_overload_and_where_nobody_waits() {
    let doubled = [60, 100, 200, 400, 800, 1_600, 3_200];
    for (cause, awaited) in [(Cause::Overload, true), (Cause::Unknown, false)] {
        assert_eq!(waits(cause, awaited, false, 15), [&doubled[..], &[6_400; 8]].concat());
    }
}

#[test]
fn four_short_timeouts_are_a_tenth_of_a_second() {
    let mut pto = Pto::default();
    for _ in 0..20 {
        pto.on_timeout(ms(0));
    }
    for cause in [Cause::Chance, Cause::Unknown] {
        assert_eq!(due(&pto, TAIL, PTO / 50, cause, true), ms(100));
    }
}

#[test]
fn it_is_never_longer_than_thirty_seconds_unless_the_path_is() {
    let mut pto = Pto::default();
    for _ in 0..9 {
        pto.on_timeout(ms(0));
    }
    for (cause, long) in [(Cause::Overload, 30_000), (Cause::Chance, 2_000), (Cause::Unknown, 2_000)] {
        assert_eq!(due(&pto, TAIL, Duration::from_secs(2), cause, true), ms(long));
        assert_eq!(due(&pto, TAIL, Duration::from_secs(40), cause, true), ms(40_000));
    }
}

#[test]
fn it_restarts_with_every_packet_and_resets_with_progress() {
    let mut pto = Pto::default();
    pto.on_sent(ms(0));
    pto.on_sent(ms(60));
    assert_eq!(due(&pto, TAIL, PTO, Cause::Chance, true), ms(120));
    assert_eq!((pto.on_timeout(ms(160)), pto.count()), (1, 1));
    // Even if no probe could leave, there is no second timeout at once.
    assert_eq!(due(&pto, TAIL, PTO, Cause::Chance, true), ms(260));
    pto.on_sent(ms(170));
    assert_eq!(due(&pto, TAIL, PTO, Cause::Chance, true), ms(270));
    pto.on_progress();
    assert_eq!(due(&pto, TAIL, PTO, Cause::Chance, true), ms(230));
}
