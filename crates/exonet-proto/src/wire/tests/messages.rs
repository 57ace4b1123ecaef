//! MESSAGES: its meaning, and where it ends.

use super::*;

const R: Incarnation = Incarnation(5);

/// Writes MESSAGES for messages of `totals` bytes from slot `s` on, from `offset` on and up to the end of `buf`. Each byte
/// encodes where in its message it lies.
fn fill(writer: &mut Writer<'_>, s: u64, mut offset: u64, totals: &[u64]) -> Vec<Spec> {
    let mut specs = Vec::new();
    let mut frame = writer.messages_from(R, Slot(s), offset).unwrap();
    for (s, total) in (s..).map(Slot).zip(totals.iter().copied()) {
        let message: Vec<u8> = (0..total).map(|at| at as u8).collect();
        let room = frame.remaining().saturating_sub(varint_len(total)) as u64;
        let end = total.min(offset + room);
        let data = message[offset as usize..end as usize].to_vec();
        let (first, second) = data.split_at(data.len() / 3);
        if !frame.part(total, [first, second]) {
            assert!(data.is_empty());
            break;
        }
        match specs.last_mut() {
            Some(Spec::Messages { entries, .. }) if end == total => entries.push(data),
            _ if end == total && offset == 0 => specs.push(Spec::Messages { r: R, s, entries: vec![data] }),
            _ => specs.push(Spec::Fragment { r: R, s, total, offset, data }),
        }
        offset = 0;
    }
    specs
}

proptest! {
    #[test]
    fn a_frame_says_what_one_for_each_would(
        totals in vec(1_u64..200, 1..130), skipped in 0_u64..200, s in 0..MAX_NUMBER - 130, room in 32_usize..3_000,
        bases in bases(), behind in 0_u8..3,
    ) {
        let mut buf = vec![0xee; room];
        let mut writer = Writer::new(&mut buf, bases);
        let mut specs = fill(&mut writer, s, skipped % totals[0], &totals);
        prop_assert!(writer.len() <= room);
        if behind == 1 && writer.ping() {
            specs.push(Spec::Ping);
        }
        let rest = writer.remaining() + usize::from(behind == 2 && writer.len() < room);
        let padding = if behind == 2 { rest } else { 0 };
        prop_assert!(writer.padding(padding));
        prop_assert_eq!(read(writer.written(), bases), Ok(specs));
    }
}

#[test]
fn a_frame_keeps_to_its_bounds() {
    let from_start = |rest: &[u8]| error(&[&[0x20, 5, 9], rest].concat());
    assert_eq!(from_start(&[]), Some(Malformed::Count), "of nothing");
    assert_eq!(from_start(&[0]), Some(Malformed::Count), "a total of 0 ends it");
    assert_eq!(from_start(&[3]), Some(Malformed::Truncated), "not a byte");
    assert_eq!(from_start(&[3, 1]), None, "cut");
    assert_eq!(from_start(&[1; 254]), None, "127 of a byte each");
    let behind = |rest: &[u8]| error(&[&[0x21, 5, 9], rest].concat());
    assert_eq!(behind(&[3]), Some(Malformed::Truncated), "of nothing");
    assert_eq!(behind(&[3, 3, 1]), Some(Malformed::Range), "it begins behind the message");
    assert_eq!(behind(&[2, 3, 1]), None);
    assert_eq!(behind(&[0, 3, 1]), None, "cut");
    let last = |rest: &[u8]| error(&[&[0x20, 5], &[0xff; 8][..], rest].concat());
    assert_eq!(last(&[1, 7]), None);
    assert_eq!(last(&[1, 7, 1, 7]), Some(Malformed::Number));
    assert_eq!(last(&[1, 7, 3, 7]), Some(Malformed::Number), "cut");
}

#[test]
fn what_follows_messages_is_told_apart() {
    let mut buf = [0xee; 32];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert!(writer.messages(R, Slot(9)).unwrap().push(&[1], b"a"));
    assert_eq!(writer.remaining(), 32 - writer.len() - 1);
    assert!(writer.messages(R, Slot(7)).unwrap().push(&[1], b"b"));
    assert_eq!(writer.written(), [0x20, 5, 9, 2, 1, b'a', 0, 0x20, 5, 7, 2, 1, b'b']);
}

#[test]
fn a_part_ends_its_message_or_the_packet() {
    let mut buf = [0; 12];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    let mut frame = writer.messages_from(R, Slot(9), 2).unwrap();
    assert!(!frame.push(&[1], &[]) && !frame.extend(&[1, 7], 1), "its start was sent before");
    assert!(!frame.part(4, [&[7], &[]]), "neither");
    assert!(!frame.part(4, [&[7; 3], &[]]), "beyond");
    assert!(frame.part(4, [&[7; 2], &[]]));
    assert!(frame.part(9, [&[8; 2], &[8; 2]]), "the packet");
    assert!(!frame.part(9, [&[], &[]]) && frame.remaining() == 0);
    let mut messages = [0; 12];
    let mut writer = Writer::new(&mut messages, NO_BASES);
    assert!(!writer.early(Stamp(1), Slot(9)).unwrap().part(1, [&[1], &[]]), "early ones are whole");
}
