use super::*;
use crate::control::protocol::Ending;

fn happened(message: u32, at_us: i64, step: Step, last: bool) -> Happened {
    Happened { message, at_us, step, last }
}

fn queued(tag: &str) -> Step {
    let (peer, kind) = ("till".repeat(14), "message".to_owned());
    Step::Queued { peer, size: 7, tag: tag.to_owned(), kind, open: false }
}

fn left(to: &str, again: Option<&str>) -> Step {
    let (to, carrier, again) = (to.to_owned(), "udp".to_owned(), again.map(str::to_owned));
    Step::Left { packet: Some(1_234_567), to, carrier, bytes: Some((1_100_000, 1_101_180)), again }
}

fn delivered() -> Step {
    Step::Settled { outcome: Ending::Delivered, status: None, attempts: None, late: false, id: None }
}

#[test]
fn a_step_before_the_trace_has_a_time_before_it() {
    let mut timeline = Timeline::new(Named::new(), 86_399_000, true);
    let open =
        Step::Queued { open: true, peer: "b".into(), size: 7, tag: String::new(), kind: "message".into() };
    assert_eq!(
        timeline.add(&happened(1, 10, open, false))[2],
        "      0 us       +0 us  open when the trace began"
    );
    let bound = Step::Bound { id: "x/3/1800".to_owned() };
    assert_eq!(
        timeline.add(&happened(1, -26_774_475, bound, false)),
        ["  -26.77 s              bound to slot 1,800 of record 3"]
    );
    assert_eq!(
        timeline.add(&happened(1, 1_010, Step::Acknowledged, false)),
        ["      1 ms       +1 ms  acknowledged by the peer's node"]
    );
}

#[test]
fn a_message_is_a_block_with_times_that_is_shown_when_it_is_over() {
    let names = Named::from([("till".repeat(14), "till".to_owned())]);
    let mut timeline = Timeline::new(names, 86_399_000, false);
    assert!(timeline.add(&happened(1, 1_500_000, queued("order"), false)).is_empty());
    assert!(timeline.add(&happened(2, 1_500_000, queued(""), false)).is_empty());
    let bound = Step::Bound { id: "x/3/1800".to_owned() };
    assert!(timeline.add(&happened(1, 1_500_120, bound, false)).is_empty());
    assert_eq!(
        timeline.add(&happened(1, 1_502_120, delivered(), true)),
        [
            "",
            "#1 to till (tilltill)  tag \"order\"  7 bytes  00:00:00.500Z",
            "      0 us       +0 us  queued",
            "    120 us     +120 us  bound to slot 1,800 of record 3",
            "    2.1 ms       +2 ms  settled: delivered",
        ]
    );
    let rest = timeline.rest();
    assert_eq!(
        rest[1..],
        [
            "#2 to till (tilltill)  7 bytes  00:00:00.500Z",
            "      0 us       +0 us  queued",
            "                        not ended yet"
        ]
    );
    assert!(timeline.rest().is_empty());
}

#[test]
fn one_that_is_alone_is_shown_as_it_goes() {
    let mut timeline = Timeline::new(Named::new(), 0, true);
    assert_eq!(timeline.add(&happened(1, 0, queued(""), false)).len(), 3);
    assert_eq!(timeline.add(&happened(1, 5, Step::Acknowledged, false)).len(), 1);
    assert_eq!(timeline.add(&happened(1, 9, delivered(), true)).len(), 1);
}

#[test]
fn no_line_is_wider_than_a_terminal_and_no_tag_moves_its_cursor() {
    let mut timeline = Timeline::new(Named::new(), 0, true);
    let mut lines = timeline.add(&happened(1, 0, queued(&"\u{1b}[2J".repeat(50)), false));
    let addresses = ["[2001:db8:1111:2222:3333:4444:5555:6666]:65535", "192.0.2.1:9"];
    for (n, why) in ["lost", "channel_ended", "probe", "copy", "missing"].into_iter().enumerate() {
        lines.extend(timeline.add(&happened(1, 7_200_000_000, left(addresses[n % 2], Some(why)), false)));
    }
    let widest = lines.iter().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= WIDTH), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains('\u{1b}')), "{lines:#?}");
    assert!(lines.len() > 8, "long ones go on in the next line: {lines:#?}");
}

#[test]
fn a_packet_says_where_it_goes_if_it_goes_elsewhere_than_the_one_before() {
    let mut timeline = Timeline::new(Named::new(), 0, true);
    timeline.add(&happened(1, 0, queued(""), false));
    let mut says = |to| timeline.add(&happened(1, 0, left(to, None), false)).concat().contains(to);
    assert_eq!(["192.0.2.1:9", "192.0.2.1:9", "192.0.2.2:9"].map(&mut says), [true, false, true]);
}
