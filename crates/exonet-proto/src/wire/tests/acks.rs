//! The rules of ACK.

use super::*;

/// ACK of packets 0 to 2·n, every other one, newest first.
fn every_other(n: u64) -> impl Iterator<Item = Range<u64>> {
    (0..=n).rev().map(|i| 2 * i..2 * i + 1)
}

#[test]
fn ack_refuses_reserved_flags() {
    assert_eq!(error(&[0x02, 2, 0, 0, 0, 0, 0]), Some(Malformed::Reserved));
}

#[test]
fn ack_tells_arrivals_modulo_a_span() {
    let at = |arrival: u64| {
        let mut buf = [0; 32];
        let mut writer = Writer::new(&mut buf, NO_BASES);
        writer.ack(Duration::ZERO, Duration::from_micros(arrival), None, [0..1]).unwrap();
        match &read(writer.written(), NO_BASES).unwrap()[..] {
            [Spec::Ack { arrival, .. }] => arrival.as_micros() as u64,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((at(7), at(ARRIVAL_SPAN - 1)), (7, ARRIVAL_SPAN - 1));
    assert_eq!((at(ARRIVAL_SPAN), at(5 * ARRIVAL_SPAN + 3)), (0, 3));
    // flags, largest, delay, arrival of 2^30 in eight bytes, further, first
    let mut bytes = vec![0x02, 0, 0, 0, 0xc0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0];
    assert_eq!(error(&bytes), Some(Malformed::Range));
    bytes[8] = 0x3f;
    assert_eq!(error(&bytes), None);
}

#[test]
fn ack_never_reaches_below_zero() {
    let ranges = |bytes: &[u8]| {
        read(bytes, NO_BASES).map(|frames| match &frames[..] {
            [Spec::Ack { ranges, .. }] => ranges.clone(),
            other => panic!("{other:?}"),
        })
    };
    // flags, largest, delay, arrival, further, first length, (gap, length)*
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 0, 5]), Ok(vec![0..6]));
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 0, 6]), Err(Malformed::Range));
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 1, 1, 1, 1]), Ok(vec![4..6, 0..2]));
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 1, 1, 1, 2]), Err(Malformed::Range));
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 1, 1, 2, 0]), Ok(vec![4..6, 0..1]));
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 1, 1, 3, 0]), Err(Malformed::Range));
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 1, 4, 0, 0]), Err(Malformed::Range), "nothing fits below 1");
    assert_eq!(ranges(&[0x02, 0, 5, 0, 0, 2, 1, 1, 1, 0, 0]), Err(Malformed::Range));
}

#[test]
fn ack_keeps_the_newest_ranges() {
    let mut buf = [0; 512];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert_eq!(writer.ack(Duration::ZERO, Duration::ZERO, None, every_other(99)), Some(MAX_ACK_RANGES));
    let frames = read(writer.written(), NO_BASES).unwrap();
    let [Spec::Ack { ranges, .. }] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(*ranges, every_other(99).take(MAX_ACK_RANGES).collect::<Vec<_>>());
}

#[test]
fn ack_leaves_room_for_its_ecn_counts() {
    let ecn = Some(Ecn { ect0: 1, ect1: 100, ce: 20_000 });
    for room in 0..64 {
        let mut buf = vec![0xee; room];
        let mut writer = Writer::new(&mut buf, NO_BASES);
        let written = writer.ack(Duration::ZERO, Duration::ZERO, ecn, every_other(20));
        // Seven bytes, one more for a largest of 40 is not needed, and seven of counts; then two a range.
        assert_eq!(written, (room >= 14).then(|| (1 + (room - 14) / 2).min(21)), "{room}");
        let expected: Vec<_> = every_other(20).take(written.unwrap_or(0)).collect();
        match &read(writer.written(), NO_BASES).unwrap()[..] {
            [] => assert!(written.is_none()),
            [Spec::Ack { ranges, ecn: got, .. }] => assert_eq!((ranges, *got), (&expected, ecn)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn ack_claims_nothing_from_ranges_out_of_order() {
    let mut buf = [0; 64];
    for (ranges, taken) in [
        (vec![5..6, 4..5], Some(1)),
        (vec![5..6, 7..8], Some(1)),
        (vec![5..6, 2..2], Some(1)),
        (vec![5..5, 1..2], None),
        (vec![], None),
    ] {
        let mut writer = Writer::new(&mut buf, NO_BASES);
        assert_eq!(writer.ack(Duration::ZERO, Duration::ZERO, None, ranges), taken);
    }
}

#[test]
fn ack_is_read_with_more_ranges_than_it_is_written() {
    let mut bytes = vec![0x02, 0, 0x40, 200, 0, 0, 0x40, 99, 0];
    bytes.extend([0; 2 * 99]);
    let frames = read(&bytes, NO_BASES).unwrap();
    assert!(matches!(&frames[..], [Spec::Ack { ranges, .. }] if ranges.len() == 100));
}
