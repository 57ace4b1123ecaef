use super::*;

fn ms(ms: u64) -> Mono {
    Mono(ms * 1_000_000)
}

const PTO: Duration = Duration::from_millis(100);

#[test]
fn it_doubles_up_to_a_limit() {
    let mut pto = Pto::default();
    pto.on_sent(ms(0));
    let mut waits = Vec::new();
    let mut now = ms(0);
    for _ in 0..9 {
        let next = pto.deadline(PTO);
        waits.push(next.since(now).as_millis());
        now = next;
        pto.on_timeout(now);
    }
    assert_eq!(waits, vec![100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400, 6_400]);
}

#[test]
fn it_is_never_longer_than_thirty_seconds_unless_the_path_is() {
    let mut pto = Pto::default();
    for _ in 0..6 {
        pto.on_timeout(ms(0));
    }
    assert_eq!(pto.deadline(Duration::from_secs(1)), ms(30_000));
    assert_eq!(pto.deadline(Duration::from_secs(40)), ms(40_000));
}

#[test]
fn it_restarts_with_every_packet_and_resets_with_progress() {
    let mut pto = Pto::default();
    pto.on_sent(ms(0));
    pto.on_sent(ms(60));
    assert_eq!(pto.deadline(PTO), ms(160));
    assert_eq!((pto.on_timeout(ms(160)), pto.count()), (1, 1));
    // Even if no probe could leave: no second timeout at once.
    assert_eq!(pto.deadline(PTO), ms(360));
    pto.on_sent(ms(170));
    assert_eq!(pto.deadline(PTO), ms(370));
    pto.on_progress();
    assert_eq!(pto.deadline(PTO), ms(270));
}
