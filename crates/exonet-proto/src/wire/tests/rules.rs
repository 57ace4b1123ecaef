//! One test for each rule of the frames.

use super::*;

const BASES: Bases = Bases { sender: 1000, receiver: 2000 };

#[test]
fn token_sender_frames_take_slots_from_the_sender_and_incarnations_from_the_receiver() {
    let (r, s) = (Incarnation(2001), Slot(1002));
    assert_eq!(Spec::Ask(Ask { s, n: 9, l: Slot(1001), ts: Stamp::NONE }).bytes(BASES), [0x10, 2, 9, 1]);
    assert_eq!(Spec::Messages { r, s, entries: vec![vec![0, 7]] }.bytes(BASES), [0x20, 1, 2, 2, 0, 7]);
    let data = vec![7];
    assert_eq!(Spec::Fragment { r, s, total: 5, offset: 4, data }.bytes(BASES), [0x23, 1, 2, 4, 2, 5, 7]);
    assert_eq!(Spec::Token { r, s }.bytes(BASES), [0x14, 1, 2]);
}

#[test]
fn token_receiver_frames_take_them_the_other_way_round() {
    let (b, r, s) = (Incarnation(1001), Incarnation(1002), Slot(2003));
    assert_eq!(Spec::Gone { b, r, taken: None }.bytes(BASES), [0x11, 0, 1, 2]);
    let claim = Claim { hi: Slot(2004), lo: s, up: Slot(2008), closed: false, part: false };
    let free = vec![2004..2006];
    assert_eq!(Spec::Live { b, r, taken: None, claim, free }.bytes(BASES), [0x11, 1, 1, 2, 4, 3, 5, 1, 1, 2]);
    let ranges = vec![6..7, 9..12];
    let have = Spec::Have { r, s, prefix: 5, limit: 20, ranges };
    assert_eq!(have.bytes(BASES), [0x15, 2, 3, 5, 20, 2, 1, 1, 2, 3]);
    assert_eq!(BASES.reversed(), Bases { sender: 2000, receiver: 1000 });
}

#[test]
fn a_number_below_its_base_wraps() {
    let token = Spec::Token { r: Incarnation(1999), s: Slot(0) };
    let bytes = token.bytes(BASES);
    assert_eq!(bytes[1..9], [0xff; 8], "-1 modulo 2^62");
    assert_eq!(read(&bytes, BASES), Ok(vec![token]));
}

#[test]
fn bases_change_for_the_frames_that_follow() {
    let bytes = [0x14, 1, 2, 0x14, 1, 2];
    let mut frames = Frames::new(&bytes, Bases::default());
    assert_eq!(frames.next(), Some(Ok(Frame::Token { r: Incarnation(1), s: Slot(2) })));
    frames.set_bases(BASES);
    assert_eq!(frames.next(), Some(Ok(Frame::Token { r: Incarnation(2001), s: Slot(1002) })));

    let mut buf = [0; 6];
    let mut writer = Writer::new(&mut buf, Bases::default());
    assert!(writer.token(Incarnation(1), Slot(2)));
    writer.set_bases(BASES);
    assert!(writer.token(Incarnation(2001), Slot(1002)));
    assert_eq!(buf, bytes);
}

#[test]
fn only_one_range_of_unknown_frames_is_ignorable() {
    let known = [0, 1, 2, 3, 4, 5, 6]
        .into_iter()
        .chain([0x10, 0x11, 0x12])
        .chain(0x14..=0x1f)
        .chain(0x20..=0x2b)
        .chain([0x81])
        .collect::<Vec<u8>>();
    for kind in (0..=255).filter(|kind| !known.contains(kind)) {
        let payload = [kind, 2, 9, 9, 0x01];
        if (0x80..=0xbf).contains(&kind) {
            let unknown = Spec::Unknown { kind, body: vec![9, 9] };
            assert_eq!(read(&payload, NO_BASES), Ok(vec![unknown, Spec::Ping]));
            assert_eq!(error(&payload[..3]), Some(Malformed::Truncated));
        } else {
            assert_eq!(error(&payload), Some(Malformed::UnknownFrame(kind)));
        }
    }
}

#[test]
fn slots_that_are_withdrawn_are_some_and_not_too_many() {
    for kind in [0x12, 0x16] {
        assert!(read(&[kind, 1, 2, 0x44, 0x00], NO_BASES).is_ok(), "1,024");
        for n in [&[0][..], &[0x44, 0x01]] {
            assert_eq!(error(&[&[kind, 1, 2], n].concat()), Some(Malformed::Number), "{n:?}");
        }
    }
}

#[test]
fn what_is_withdrawn_of_a_stream_has_a_name_and_a_place() {
    // r, s, n, the name, the place: flags, age, n, link.
    let framed = |body: &[u8]| [&[0x81, u8::try_from(body.len()).unwrap()], body].concat();
    let fits = [1, 9, 2, 1, b'a', 0, 3, 1, 9];
    assert!(read(&framed(&fits), NO_BASES).is_ok());
    assert!(
        read(&framed(&[&fits[..], &[7, 7]].concat()), NO_BASES).is_ok(),
        "what follows is of a later version"
    );
    let changed = |at: usize, to: u8| {
        let mut body = fits;
        body[at] = to;
        error(&framed(&body))
    };
    for (at, to) in [(2, 0), (3, 0), (5, 1), (5, 3), (5, 4), (6, 10), (7, 4), (8, 10)] {
        assert!(changed(at, to).is_some(), "byte {at} is {to}");
    }
    for len in 0..fits.len() {
        assert!(error(&framed(&fits[..len])).is_some(), "cut at {len}");
    }
}

#[test]
fn nothing_follows_an_error() {
    let mut frames = Frames::new(&[0x01, 0xff, 0x01], NO_BASES);
    assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
    assert_eq!(frames.next(), Some(Err(Malformed::UnknownFrame(0xff))));
    assert_eq!(frames.next(), None);
}

#[test]
fn acknowledgements_alone_are_not_acknowledged() {
    let mut buf = [0; 128];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert!(writer.ack(Duration::ZERO, Duration::ZERO, None, [0..1]).is_some());
    assert!(writer.close(0) && writer.padding(3));
    let bytes = writer.written().to_vec();
    assert!(Frames::new(&bytes, NO_BASES).all(|frame| !frame.unwrap().is_ack_eliciting()));
    // STATE of no record: b, r.
    let state = Frames::new(&[0x11, 0, 0, 0], NO_BASES).next();
    assert!(matches!(state, Some(Ok(ref frame @ Frame::State(_))) if !frame.is_ack_eliciting()));
    for bytes in [&[0x01][..], &[0x14, 0, 0], &[0x80, 0], &[0x06, 0]] {
        assert!(Frames::new(bytes, NO_BASES).all(|frame| frame.unwrap().is_ack_eliciting()));
    }
}

#[test]
fn ask_stays_within_62_bits() {
    let max = Bases { sender: MAX_NUMBER - 5, receiver: 0 };
    assert_eq!(read(&[0x10, 0, 5, 0], max).map(|frames| frames.len()), Ok(1));
    assert_eq!(read(&[0x10, 0, 6, 0], max), Err(Malformed::Number));
}

#[test]
fn stamps_stand_behind_numbers_and_zero_is_none() {
    let ask = Ask { s: Slot(1002), n: 9, l: Slot(1001), ts: Stamp(7) };
    assert_eq!(Spec::Ask(ask).bytes(BASES), [0x17, 2, 9, 1, 7]);
    assert_eq!(error(&[0x17, 2, 9, 1, 0]), Some(Malformed::Number));
    let early = Spec::Early { ts: Stamp(7), s: Slot(1002), entries: vec![vec![0, 9]] };
    assert_eq!(early.bytes(BASES), [0x18, 7, 2, 1, 2, 0, 9]);
    assert_eq!(error(&[0x18, 0, 2, 1, 2, 0, 9]), Some(Malformed::Number));
    assert_eq!(Spec::Ahead { ts: Stamp(7), time: Wall(8) }.bytes(BASES), [0x19, 7, 8]);
    let (b, r) = (Incarnation(1001), Incarnation(1002));
    let said = |end| Spec::Gone { b, r, taken: Some((Stamp(7), Slot(end))) };
    assert_eq!(said(0).bytes(BASES), [0x11, 2, 1, 2, 7]);
    assert_eq!(said(2005).bytes(BASES), [0x11, 10, 1, 2, 7, 5]);
    assert_eq!(error(&[0x11, 2, 1, 2, 0]), Some(Malformed::Number), "of no stamp");
    assert_eq!(error(&[0x11, 10, 1, 2, 7, 0]), Some(Malformed::Number), "an end of 0 is not said");
    assert_eq!(error(&[0x11, 8, 1, 2, 7, 5]), Some(Malformed::Reserved), "an end without a stamp");
}

#[test]
fn state_refuses_reserved_flags_and_a_claim_beyond_62_bits() {
    assert_eq!(error(&[0x11, 4, 0, 0]), Some(Malformed::Reserved), "final, of no record");
    assert_eq!(error(&[0x11, 16, 0, 0]), Some(Malformed::Reserved), "a part, of no record");
    assert_eq!(error(&[0x11, 33, 0, 0, 0, 0, 5, 0, 0]), Some(Malformed::Reserved));
    let last = read(&[0x11, 5, 0, 0, 0, 0, 5, 0], NO_BASES).unwrap();
    assert!(matches!(&last[..], [Spec::Live { claim: Claim { closed: true, .. }, .. }]));
    let part = read(&[0x11, 17, 0, 0, 9, 3, 5, 0], NO_BASES).unwrap();
    assert!(matches!(&part[..], [Spec::Live { claim: Claim { part: true, closed: false, .. }, .. }]));
    let max = Bases { sender: 0, receiver: MAX_NUMBER - 5 };
    assert_eq!(read(&[0x11, 1, 0, 0, 0, 0, 5, 0], max).map(|frames| frames.len()), Ok(1));
    assert_eq!(read(&[0x11, 1, 0, 0, 0, 0, 6, 0], max), Err(Malformed::Number));
}

#[test]
fn state_ranges_stay_within_the_claim() {
    // b, r, hi, lo = 3, up - lo = 5, count, (gap, length)*
    assert_eq!(error(&[0x11, 1, 0, 0, 9, 3, 5, 1, 2, 3]), None);
    assert_eq!(error(&[0x11, 1, 0, 0, 9, 3, 5, 1, 2, 4]), Some(Malformed::Range));
    assert_eq!(error(&[0x11, 1, 0, 0, 9, 3, 5, 1, 2, 0]), Some(Malformed::Range), "an empty range");
    assert_eq!(error(&[0x11, 1, 0, 0, 0, 3, 5, 0]), None, "a grant frontier below the claim");
}

#[test]
fn state_ignores_free_slots_outside_its_claim_and_refuses_an_upside_down_one() {
    let mut buf = [0; 64];
    let claim = Claim { hi: Slot(9), lo: Slot(10), up: Slot(20), closed: false, part: false };
    let mut writer = Writer::new(&mut buf, NO_BASES);
    let free = [2..4, 8..12, 18..25, 30..31];
    assert_eq!(writer.state_live(Incarnation(0), Incarnation(0), None, claim, free, 2), Some(Slot(20)));
    let frames = read(writer.written(), NO_BASES).unwrap();
    assert!(matches!(&frames[..], [Spec::Live { free, .. }] if *free == [10..12, 18..20]));
    let claim = Claim { lo: Slot(21), ..claim };
    assert_eq!(writer.state_live(Incarnation(0), Incarnation(0), None, claim, [], 2), None);
}

#[test]
fn early_messages_count_from_1_to_63_and_none_is_empty() {
    assert_eq!(error(&[0x18, 1, 0, 0]), Some(Malformed::Count));
    assert_eq!(error(&[0x18, 1, 0, 64, 1, 0]), Some(Malformed::Count));
    assert_eq!(error(&[0x18, 1, 0, 1, 0]), Some(Malformed::Length));
    let max = Bases { sender: MAX_NUMBER, receiver: 0 };
    assert_eq!(read(&[0x18, 1, 0, 1, 1, 0], max).map(|frames| frames.len()), Ok(1));
    assert_eq!(read(&[0x18, 1, 0, 2, 1, 0, 1, 0], max), Err(Malformed::Number));
}

#[test]
fn a_messages_writer_stops_at_the_last_slot_and_at_the_end_of_the_room() {
    let mut buf = [0; 256];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    let mut early = writer.early(Stamp(1), Slot(0)).unwrap();
    assert!((0..63).all(|_| early.fits(1) && early.push(&[0], &[])));
    assert!(!early.fits(1) && !early.push(&[0], &[]), "their count takes a byte");
    assert_eq!((early.count(), writer.len()), (63, 4 + 2 * 63));

    let mut writer = Writer::new(&mut buf, NO_BASES);
    let mut messages = writer.messages(Incarnation(0), Slot(0)).unwrap();
    assert!((0..126).all(|_| messages.fits(1) && messages.push(&[0], &[])));
    assert_eq!((messages.count(), writer.len()), (126, 3 + 2 * 126));

    let mut writer = Writer::new(&mut buf, NO_BASES);
    let mut messages = writer.messages(Incarnation(0), Slot(MAX_NUMBER - 1)).unwrap();
    assert!(messages.push(&[0], &[]) && messages.push(&[0], &[]));
    assert!(!messages.fits(1) && !messages.push(&[0], &[]), "there is no slot beyond 62 bits");

    let mut writer = Writer::new(&mut buf[..9], NO_BASES);
    let mut messages = writer.messages(Incarnation(0), Slot(0)).unwrap();
    assert!(!messages.fits(0) && !messages.push(&[], &[]), "a message has a head");
    assert!(!messages.fits(6) && !messages.push(&[0], &[1; 5]));
    assert!(messages.fits(2) && messages.push(&[0], &[1]));
    assert!(!messages.fits(3) && !messages.push(&[0], &[1; 2]));
    assert!(messages.fits(2) && messages.push(&[0], &[1]));
    assert_eq!(writer.len(), 9);
}

#[test]
fn a_messages_writer_without_a_message_leaves_no_trace() {
    let mut buf = [0; 16];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert!(writer.messages(Incarnation(0), Slot(0)).is_some());
    assert!(writer.is_empty());
    assert!(writer.ping());
    assert_eq!(writer.written(), [0x01]);
    assert!(Writer::new(&mut buf[..2], NO_BASES).messages(Incarnation(0), Slot(0)).is_none());
}

#[test]
fn a_part_lies_within_its_message() {
    // r, s, offset, length, total, data
    assert_eq!(error(&[0x23, 0, 0, 3, 3, 5, 0, 0]), None);
    assert_eq!(error(&[0x23, 0, 0, 4, 4, 5, 0, 0, 7]), Some(Malformed::Length), "more than its message");
    assert_eq!(error(&[0x23, 0, 0, 5, 3, 5, 0, 0]), Some(Malformed::Range));
    assert_eq!(error(&[0x23, 0, 0, 3, 1, 5]), Some(Malformed::Truncated), "not a byte");
    assert_eq!(error(&[0x23, 0, 0, 3, 1, 0]), Some(Malformed::Range), "total is at least 1");
    assert_eq!(error(&[0x22, 0, 0, 0]), Some(Malformed::Count));
    assert_eq!(error(&[0x22, 0, 0, 4, 1, 7, 0, 1]), Some(Malformed::Length), "it ends before its length");
}

#[test]
fn a_message_without_a_length_ends_where_it_is_said_to() {
    let part = |offset, data: &[u8], ends| {
        let (r, s) = (Incarnation(5), Slot(9));
        Ok(vec![Spec::Open { r, s, offset, data: data.to_vec(), ends }])
    };
    let read = |bytes: &[u8]| read(bytes, NO_BASES);
    assert_eq!(read(&[0x24, 5, 9, 1, 7]), part(0, &[1, 7], false));
    assert_eq!(read(&[0x25, 5, 9, 3, 7, 0]), part(3, &[7, 0], false), "to the end of the packet");
    assert_eq!(read(&[0x2b, 5, 9, 3, 1, 7]), part(3, &[7], true));
    assert_eq!(read(&[0x2b, 5, 9, 3, 0]), part(3, &[], true), "nothing but its end");
    assert_eq!(error(&[0x27, 5, 9, 3, 0]), Some(Malformed::Truncated), "neither a byte nor the end");
    assert_eq!(error(&[0x2a, 5, 9, 0]), Some(Malformed::Truncated), "a message has a byte");
    let last = [&[0x25, 5, 9][..], &[0xff; 8]].concat();
    assert_eq!(error(&[&last[..], &[7]].concat()), Some(Malformed::Range), "beyond 62 bits");
}

#[test]
fn a_part_fills_the_room() {
    let (head, body) = ([1; 5], [2; 20_000]);
    for room in (0..100).chain(16_380..16_410) {
        let mut buf = vec![0; room];
        let mut writer = Writer::new(&mut buf, NO_BASES);
        let (r, s, total) = (Incarnation(0), Slot(0), 20_005);
        let expected = writer.part_room(r, s, total, 0);
        let taken = writer.part(r, s, total, 0, [&head, &body]);
        assert_eq!(taken, expected);
        // One byte is lost where the length outgrows its encoding.
        assert!(room < 10 || writer.remaining() <= 2, "{room}");
        match &read(writer.written(), NO_BASES).unwrap()[..] {
            [] => assert!(taken == 0 && room < 10),
            [Spec::Fragment { data, .. }] => {
                assert!(data.iter().eq(head.iter().chain(&body).take(taken)));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_part_never_goes_past_its_message() {
    let mut buf = [0; 64];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert_eq!(writer.part(Incarnation(0), Slot(0), 12, 10, [&[1], &[2; 9]]), 2);
    assert_eq!(writer.part(Incarnation(0), Slot(0), 12, 12, [&[1], &[]]), 0);
    assert_eq!(writer.part(Incarnation(0), Slot(0), 12, 3, [&[], &[]]), 0);
}

#[test]
fn have_holds_at_most_32_ranges() {
    let frame = |count: u8| {
        let mut bytes = vec![0x15, 0, 0, 0, 0, count];
        bytes.extend([1; 2].repeat(usize::from(count)));
        bytes
    };
    assert_eq!(error(&frame(32)), None);
    assert_eq!(error(&frame(33)), Some(Malformed::Count));
    let mut buf = [0; 128];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert!(writer.have(Incarnation(0), Slot(0), 0, 0, (0..40).map(|i| 2 * i + 1..2 * i + 2)));
    assert_eq!(writer.written(), frame(32));
}

#[test]
fn have_keeps_what_fits_and_lies_beyond_the_prefix() {
    let mut buf = [0; 9];
    let mut writer = Writer::new(&mut buf, NO_BASES);
    assert!(writer.have(Incarnation(0), Slot(0), 10, 0, [2..5, 8..12, 13..14]));
    assert_eq!(writer.written(), [0x15, 0, 0, 10, 0, 1, 0, 2]);
    let past = [&[0x15, 0, 0][..], &[0xff; 8], &[0, 1, 0, 1]].concat();
    assert_eq!(error(&past), Some(Malformed::Range), "beyond 62 bits");
}

#[test]
fn params_unknown_ids_are_ignored_and_known_ones_come_once() {
    // id, length, value
    let twice_unknown = [0x06, 15, 22, 1, 9, 22, 1, 9, 0x40, 99, 0, 1, 1, 5, 0x40, 99, 0];
    let expected = Params { base: 5, ..Params::default() };
    assert_eq!(read(&twice_unknown, NO_BASES), Ok(vec![Spec::Params(expected)]));
    for (id, value) in [
        (1, vec![5]),
        (3, vec![9; 8]),
        (5, vec![0x44, 0xb0]),
        (11, vec![5]),
        (12, vec![7; 16]),
        (13, vec![1]),
        (14, vec![1]),
        (15, vec![1]),
        (16, vec![1]),
        (17, vec![1]),
    ] {
        let one = [vec![id, value.len() as u8], value].concat();
        let once = [vec![0x06, one.len() as u8], one.clone()].concat();
        assert_eq!(error(&once), None);
        let twice = [vec![0x06, 2 * one.len() as u8], one.clone(), one].concat();
        assert_eq!(error(&twice), Some(Malformed::DuplicateParameter(id)));
    }
}

#[test]
fn params_have_the_length_of_their_type() {
    assert_eq!(error(&[0x06, 4, 1, 2, 5, 5]), Some(Malformed::Length), "more than a varint");
    assert_eq!(error(&[0x06, 3, 1, 1, 0x40]), Some(Malformed::Truncated), "less than a varint");
    assert_eq!(error(&[0x06, 9, 3, 7, 0, 0, 0, 0, 0, 0, 0]), Some(Malformed::Length), "a boot id of 7 bytes");
    assert_eq!(error(&[0x06, 3, 1, 2, 0x40]), Some(Malformed::Truncated), "a value past the frame");
}

#[test]
fn params_keep_to_their_bounds() {
    let written = |params: Params| read(&Spec::Params(params).bytes(NO_BASES), NO_BASES);
    let us = Duration::from_micros;
    let ok = Params { max_ack_delay: us((1 << 24) - 1), max_datagram: 1200, ..Params::default() };
    assert_eq!(written(ok), Ok(vec![Spec::Params(ok)]));
    assert_eq!(written(Params { max_ack_delay: us(1 << 24), ..ok }), Err(Malformed::Parameter(2)));
    assert_eq!(written(Params { max_datagram: 1199, ..ok }), Err(Malformed::Parameter(5)));
    assert_eq!(written(Params { pool_window: 65_535, ..ok }), Err(Malformed::Parameter(6)));
    let small = Params { pool_window: 500, max_message: 500, ..ok };
    assert_eq!(written(small), Ok(vec![Spec::Params(small)]));
}

proptest! {
    #[test]
    fn params_know_their_length(params in params()) {
        prop_assert_eq!(Spec::Params(params).bytes(NO_BASES).len(), params.encoded_len());
    }
}

#[test]
fn default_params_are_not_sent() {
    assert_eq!(Spec::Params(Params::default()).bytes(NO_BASES), [0x06, 0]);
}

#[test]
fn calls_go_by_the_callers_numbers() {
    let s = Slot(1002);
    assert_eq!(Spec::ReplyAck(s).bytes(BASES), [0x1b, 2], "the frame's sender calls");
    assert_eq!(Spec::Probe(s).bytes(BASES), [0x1c, 2]);
    let s = Slot(2003);
    let reply = Spec::Reply { s, status: 7, body: vec![9, 8] };
    assert_eq!(reply.bytes(BASES), [0x1a, 3, 7, 2, 9, 8], "the frame's receiver calls");
    assert_eq!(Spec::NoCall(s).bytes(BASES), [0x1d, 3]);
    assert_eq!(Spec::Computing(s).bytes(BASES), [0x1e, 3]);
    assert_eq!(error(&[0x1a, 3, 0xc0, 0, 0, 1, 0, 0, 0, 0, 0]), Some(Malformed::Number), "33 bits of status");
}
