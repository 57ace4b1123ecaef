//! The head of a message.

use bytes::BufMut;

use super::*;

fn extensions() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    vec((number(), vec(any::<u8>(), 0..40)), 0..5)
}

/// The place of any message in any stream.
fn mark() -> impl Strategy<Value = StreamMark> {
    let end = prop_oneof![Just(StreamEnd::Open), Just(StreamEnd::Last), Just(StreamEnd::Reset)];
    let place = (number(), number(), number(), end, any::<bool>());
    place.prop_map(|(age, n, link, end, more)| {
        let n = if age == 0 { 0 } else { n % age + 1 };
        StreamMark { age, n, link, end, more }
    })
}

fn encode(tlvs: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, value) in tlvs {
        let tlv = Tlv { id: *id, value };
        let before = bytes.len();
        assert!(tlv.encode(&mut bytes));
        assert_eq!(bytes.len() - before, tlv.encoded_len());
    }
    bytes
}

proptest! {
    #[test]
    fn any_head_comes_back(class in 0_u8..4, confirm in any::<bool>(), tag in vec(any::<u8>(), 0..=MAX_TAG), mark in option::of(mark()), tlvs in extensions(), body in vec(any::<u8>(), 0..9)) {
        let bytes = encode(&tlvs);
        let stream = mark.filter(|_| !tag.is_empty());
        let head = Head {
            priority: Priority::new(class).unwrap(),
            confirm,
            tag: &tag,
            stream,
            extensions: Tlvs::parse(&bytes).unwrap(),
        };
        let mut message = Vec::new();
        prop_assert!(head.encode(&mut message));
        prop_assert_eq!(message.len(), head.encoded_len());
        let len = message.len();
        message.extend(&body);

        let (read, at) = Head::parse(&message).unwrap();
        prop_assert_eq!((read, at), (head, len));
        let values: Vec<_> = read.extensions.map(|tlv| (tlv.id, tlv.value.to_vec())).collect();
        prop_assert_eq!(&values, &tlvs);
        for (id, _) in &tlvs {
            let first = tlvs.iter().find(|(other, _)| other == id).map(|(_, value)| &value[..]);
            prop_assert_eq!(read.extensions.get(*id), first);
        }
        for cut in 0..len {
            prop_assert_eq!(Head::parse(&message[..cut]), Err(Malformed::Truncated));
        }
        for room in 0..len {
            let mut buf = vec![0; room];
            let mut out = &mut buf[..];
            prop_assert!(!head.encode(&mut out));
            prop_assert_eq!(out.remaining_mut(), room, "nothing was written");
        }
    }

    #[test]
    fn any_bytes_are_a_head_or_not(bytes in vec(any::<u8>(), 0..60)) {
        if let Ok((head, at)) = Head::parse(&bytes) {
            prop_assert!(at <= bytes.len());
            let mut again = Vec::new();
            prop_assert!(head.encode(&mut again));
            prop_assert_eq!(Head::parse(&again).map(|(head, _)| head), Ok(head));
        }
    }
}

#[test]
fn the_head_of_a_plain_message_is_one_byte() {
    let mut message = Vec::new();
    assert!(Head::default().encode(&mut message));
    assert_eq!(message, [1], "of normal priority");
    assert_eq!(Head::parse(b"\x00hello"), Ok((Head { priority: Priority::URGENT, ..Head::default() }, 1)));
}

#[test]
fn reserved_bits_are_refused() {
    for bit in [6, 7] {
        assert_eq!(Head::parse(&[1 << bit]), Err(Malformed::Reserved));
    }
}

#[test]
fn what_is_said_to_be_present_is() {
    assert_eq!(Head::parse(&[0b0100, 0]), Err(Malformed::Length));
    assert_eq!(Head::parse(&[0b1000, 0]), Err(Malformed::Length));
    assert_eq!(Head::parse(&[0b1000, 2, 1, 1]), Err(Malformed::Truncated), "a value past the extensions");
}

#[test]
fn a_tag_has_at_most_255_bytes_and_a_class_is_at_most_3() {
    let mut message = Vec::new();
    assert!(!Head { tag: &[0; MAX_TAG + 1], ..Head::default() }.encode(&mut message));
    assert!(message.is_empty());
    assert_eq!(Priority::new(4), None);
}

fn role_of(extensions: &[u8]) -> Result<Role, Malformed> {
    Role::of(&Head { extensions: Tlvs::parse(extensions).unwrap(), ..Head::default() })
}

#[test]
fn a_message_of_a_stream_is_nothing_else_and_its_stream_has_a_name() {
    let mark = StreamMark { age: 3, n: 2, link: 1, ..StreamMark::default() };
    let mut message = Vec::new();
    assert!(Head { tag: b"a", stream: Some(mark), ..Head::default() }.encode(&mut message));
    assert_eq!(message, [0b01_0101, 1, b'a', 0, 3, 2, 1]);
    let (head, _) = Head::parse(&message).unwrap();
    assert_eq!(Role::of(&head), Ok(Role::Stream(mark)));
    let call = Head { extensions: Tlvs::parse(&[1, 0]).unwrap(), ..head };
    assert_eq!(Role::of(&call), Err(Malformed::Length), "a call in a stream");
    assert_eq!(Head::parse(&[0b01_0001, 0, 3, 2, 1]), Err(Malformed::Length), "no name");
}

proptest! {
    #[test]
    fn any_role_comes_back(s in slot(), status in any::<u32>()) {
        for role in [Role::Plain, Role::Call, Role::Reply { s, status }] {
            let trace = Traceparent::new([1; 16], [2; 8], 3);
            let mut both = [0; Role::MAX + Traceparent::MAX];
            prop_assert!(role.encode_with(trace.as_ref(), &mut both));
            let message = [&[0b1000][..], &both[..role.encoded_len_with(true)]].concat();
            let (head, at) = Head::parse(&message).unwrap();
            prop_assert_eq!((Role::of(&head), at), (Ok(role), message.len()));
            prop_assert_eq!(Traceparent::of(head.extensions), trace);
            let mut room = [0; Role::MAX];
            prop_assert!(role.encode(&mut room));
            let len = role.encoded_len();
            let message = [&[0b1000][..], &room[..len]].concat();
            if role == Role::Plain {
                prop_assert_eq!(len, 0);
            } else {
                let (head, at) = Head::parse(&message).unwrap();
                prop_assert_eq!((Role::of(&head), at), (Ok(role), 1 + len));
            }
            prop_assert!(!(0..len).any(|room| role.encode(&mut vec![0; room])));
        }
    }
}

#[test]
fn a_role_is_one_and_says_no_more_than_it_may() {
    assert_eq!(role_of(&[7, 0]), Ok(Role::Plain), "what is unknown is skipped");
    assert_eq!(role_of(&[7, 0, 1, 0]), Ok(Role::Call));
    assert_eq!(role_of(&[1, 1, 0]), Err(Malformed::Length), "a call has no value");
    assert_eq!(role_of(&[2, 2, 5, 0]), Ok(Role::Reply { s: Slot(5), status: 0 }));
    assert_eq!(role_of(&[2, 1, 5]), Err(Malformed::Truncated), "no status");
    assert_eq!(role_of(&[2, 3, 5, 0, 0]), Err(Malformed::Length));
    assert_eq!(role_of(&[1, 0, 2, 2, 5, 0]), Err(Malformed::Length), "a call and a reply");
    assert_eq!(role_of(&[2, 9, 5, 0xc0, 0, 0, 1, 0, 0, 0, 0]), Err(Malformed::Number), "a status of 33 bits");
}

#[test]
fn a_message_is_alike_to_one_right_before_it_that_has_no_extensions_and_does_not_end_its_stream() {
    let behind = |before: Option<Head<'_>>, message: &[u8]| {
        Head::parse_behind(before.as_ref(), message).map(|(head, at)| (head.stream, head.confirm, at))
    };
    let mark = StreamMark { age: 5, n: 2, link: 4, end: StreamEnd::Open, more: true };
    let plain = Head { tag: b"t", confirm: true, ..Head::default() };
    let said = Head { stream: Some(mark), ..plain };
    let next = StreamMark { age: 6, n: 3, link: 1, end: StreamEnd::Open, more: false };
    assert_eq!(behind(Some(plain), b"\x40body"), Ok((None, true, 1)));
    assert_eq!(behind(Some(said), b"\x40"), Ok((Some(next), true, 1)));
    assert_eq!(behind(Some(said), b"\x01"), Ok((None, false, 1)), "it has a head of its own");
    assert_eq!(behind(None, b"\x40"), Err(Malformed::Reserved));
    for other in [b"\x41", b"\x60", b"\xc0", b"\x44"] {
        assert_eq!(behind(Some(said), other), Err(Malformed::Reserved));
    }
    let last = Head { stream: Some(StreamMark { end: StreamEnd::Last, ..mark }), ..plain };
    let oldest = Head { stream: Some(StreamMark { age: MAX_NUMBER, ..mark }), ..plain };
    let bytes = encode(&[(9, Vec::new())]);
    let more = Head { extensions: Tlvs::parse(&bytes).unwrap(), ..plain };
    for before in [last, oldest, more] {
        assert_eq!(behind(Some(before), b"\x40"), Err(Malformed::Reserved));
    }
}

#[test]
fn messages_that_are_alike_are_split_from_others() {
    let (mut room, bases) = ([0; 200], Bases::default());
    let mut writer = Writer::new(&mut room, bases);
    let mut frame = writer.messages(Incarnation(5), Slot(7)).unwrap();
    let bodies: [&[u8]; 7] = [b"\x40", b"\x01a", b"\x40b", b"\x40c", b"\x41d", b"\x40e", b"\x05\x01tf"];
    assert!(bodies.iter().all(|body| frame.push(body, &[])));
    let frame = Frames::new(writer.written(), bases).next().unwrap().unwrap();
    let Frame::Messages(messages) = frame else { panic!("{frame:?}") };
    let mut rest = messages.whole;
    let split: Vec<_> = core::iter::from_fn(|| rest.split_alike())
        .map(|(alike, head)| (alike.slots(), alike.singly().count(), head.map(|(_, at)| at)))
        .collect();
    let malformed = Err(Malformed::Reserved);
    let expected = [
        (7..8, 1, malformed),
        (8..11, 3, Ok(1)),
        (11..12, 1, malformed),
        (12..13, 1, malformed),
        (13..14, 1, Ok(3)),
    ];
    assert_eq!(split, expected);
}
