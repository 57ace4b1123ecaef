use super::*;

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

const PTO: Duration = Duration::from_millis(100);
const TAIL: Duration = Duration::from_millis(60);

/// Milliseconds between timeouts.
fn waits(gentle: bool) -> Vec<u128> {
    let mut pto = Pto::default();
    pto.on_sent(ms(0));
    let mut now = ms(0);
    let wait = |_| {
        let next = pto.deadline(TAIL, PTO, gentle);
        let wait = next.since(now).as_millis();
        now = next;
        pto.on_timeout(now);
        wait
    };
    (0..15).map(wait).collect()
}

#[test]
fn it_grows_gently_up_to_a_limit_where_loss_is_random() {
    let expected = [60, 100, 150, 200, 300, 400, 600, 800, 1_200, 1_600, 2_400, 3_200, 4_800, 6_400, 6_400];
    assert_eq!(waits(true), expected);
}

#[test]
fn it_doubles_elsewhere() {
    let doubled = [60, 100, 200, 400, 800, 1_600, 3_200];
    assert_eq!(waits(false), [&doubled[..], &[6_400; 8]].concat());
}

#[test]
fn it_is_never_longer_than_thirty_seconds_unless_the_path_is() {
    let mut pto = Pto::default();
    for _ in 0..9 {
        pto.on_timeout(ms(0));
    }
    assert_eq!(pto.deadline(TAIL, Duration::from_secs(2), true), ms(30_000));
    assert_eq!(pto.deadline(TAIL, Duration::from_secs(40), true), ms(40_000));
}

#[test]
fn it_restarts_with_every_packet_and_resets_with_progress() {
    let mut pto = Pto::default();
    pto.on_sent(ms(0));
    pto.on_sent(ms(60));
    assert_eq!(pto.deadline(TAIL, PTO, true), ms(120));
    assert_eq!((pto.on_timeout(ms(160)), pto.count()), (1, 1));
    // Even if no probe could leave: no second timeout at once.
    assert_eq!(pto.deadline(TAIL, PTO, true), ms(260));
    pto.on_sent(ms(170));
    assert_eq!(pto.deadline(TAIL, PTO, true), ms(270));
    pto.on_progress();
    assert_eq!(pto.deadline(TAIL, PTO, true), ms(230));
}
