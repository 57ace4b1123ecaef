//! The whole datagrams of `PROTOCOL.md`, "A first call": a call that leaves with the opening, under fixed keys.

use super::document::{PROTOCOL, example};
use super::*;
use crate::crypto::{Initiator, Keys, OpeningMac, SecretKey};

const OURS: u64 = 1 << 32;
const THEIRS: u64 = 5 << 32;
const INDICES: [ChannelIndex; 2] = [ChannelIndex(0xa1b2_c3d4), ChannelIndex(0x0bad_f00d)];
const CALL: Slot = Slot(OURS);
const TS: Stamp = Stamp(1_800_000_000_000_000_000);

fn caller() -> SecretKey {
    SecretKey::from_bytes([0xa1; 32])
}

fn server() -> SecretKey {
    SecretKey::from_bytes([0xb0; 32])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that the page has these bytes. If not, prints what it should have.
fn agrees(name: &str, bytes: &[u8]) {
    let lines: Vec<_> = bytes.chunks(48).map(hex).collect();
    assert_eq!(example(name), bytes, "{name} is\n{}", lines.join("\n"));
}

fn written(bases: Bases, write: impl FnOnce(&mut Writer<'_>) -> bool) -> Vec<u8> {
    let mut buf = [0; 2000];
    let mut writer = Writer::new(&mut buf, bases);
    assert!(write(&mut writer));
    writer.written().to_vec()
}

/// The payload of the opening, without PADDING.
fn opening_payload() -> Vec<u8> {
    let params = Params { base: OURS, boot_id: *b"\x01\x23\x45\x67\x89\xab\xcd\xef", ..Params::default() };
    let params = written(NO_BASES, |writer| writer.params(&params));
    let bases = Bases { sender: OURS, receiver: 0 };
    let frames = written(bases, |writer| {
        let asked = writer.ask(Ask { s: CALL, n: 1, l: CALL, ts: TS });
        let call = [&[0x0d, 4], &b"echo"[..], &[2, 1, 0]].concat();
        asked && writer.early(TS, CALL).is_some_and(|mut early| early.push(&call, b"ping"))
    });
    [params, frames].concat()
}

fn answer_payload() -> Vec<u8> {
    let params = Params { base: THEIRS, boot_id: *b"\xfe\xdc\xba\x98\x76\x54\x32\x10", ..Params::default() };
    let params = written(NO_BASES, |writer| writer.params(&params));
    let bases = Bases { sender: THEIRS, receiver: OURS };
    let frames = written(bases, |writer| {
        let (b, end) = (Incarnation(THEIRS), Slot(CALL.0 + 1));
        let claim = Claim { hi: end, lo: CALL, up: end, closed: false, part: false };
        let taken = Some((TS, Slot(0)));
        writer.state_live(b, b, taken, claim, std::iter::empty(), 64).is_some()
            && writer.reply(Reply { s: CALL, status: 0, body: b"pong" })
    });
    [params, frames].concat()
}

fn data_payload() -> Vec<u8> {
    written(Bases { sender: OURS, receiver: THEIRS }, |writer| {
        let next = Slot(CALL.0 + 1);
        writer.reply_ack(CALL)
            && writer.ask(Ask { s: next, n: 0, l: next, ts: Stamp::NONE })
            && writer.close(close::DONE)
    })
}

fn opening() -> (Initiator, Vec<u8>) {
    let header = opening_header(1, INDICES[0]);
    let mut payload = opening_payload();
    payload.resize(MIN_OPENING_PAYLOAD, 0);
    let mut initiator = Initiator::new(&caller(), &server().node_id(), &header, [0x51; 32]).unwrap();
    let mut noise = [0; MIN_OPENING];
    let len = initiator.write_opening(&payload, &mut noise).unwrap();
    let mut datagram = [&header[..], &noise[..len]].concat();
    let mac1 = OpeningMac::new(&server().node_id()).mac1(&datagram);
    datagram.extend(mac1);
    datagram.extend([0; MAC]);
    (initiator, datagram)
}

fn answer(opening: &mut [u8]) -> (Keys, Vec<u8>) {
    let Ok(Datagram::Opening(opening)) = Datagram::parse(opening) else { panic!("no opening") };
    let mut payload = [0; MIN_OPENING];
    let opened =
        crate::crypto::Opened::read(&server(), opening.header, opening.noise, [0x52; 32], &mut payload)
            .unwrap();
    let header = answer_header(1, INDICES[0], INDICES[1]);
    let mut noise = [0; MIN_OPENING];
    let (keys, len) = opened.answer(&header, &answer_payload(), &mut noise).unwrap();
    let mut datagram = [&header[..], &noise[..len]].concat();
    let mac1 = OpeningMac::new(&caller().node_id()).mac1(&datagram);
    datagram.extend(mac1);
    (keys, datagram)
}

#[test]
fn a_first_call_in_three_datagrams() {
    agrees("opening-payload", &opening_payload());
    agrees("answer-payload", &answer_payload());
    agrees("first-data-payload", &data_payload());
    let (mut initiator, mut first) = opening();
    assert_eq!(first.len(), MIN_OPENING);
    agrees("opening", &first);
    let (servers, second) = answer(&mut first);
    agrees("answer", &second);

    let header = answer_header(1, INDICES[0], INDICES[1]);
    let (noise, mut payload) = (&second[ANSWER_HEADER..second.len() - MAC], [0; MIN_OPENING]);
    let (callers, len) = initiator.read_answer(&header, noise, &mut payload).unwrap();
    assert_eq!(payload[..len], answer_payload());
    let (header, mut sealed) = (data_header(INDICES[1], 0), data_payload());
    sealed.extend([0; TAG]);
    callers.seal.seal_in_place(0, &header, &mut sealed).unwrap();
    agrees("data", &[&header[..], &sealed].concat());
    assert_eq!(servers.open.open_in_place(0, &header, &mut sealed).unwrap(), data_payload());
}

#[test]
fn ids_as_text() {
    for id in [caller().node_id(), server().node_id()] {
        assert!(PROTOCOL.contains(&id.to_string()), "{id}");
        assert!(PROTOCOL.contains(&hex(&id.0)), "{}", hex(&id.0));
    }
}

#[test]
fn other_frames() {
    let bases = Bases { sender: OURS, receiver: THEIRS };
    let (b, r) = (Incarnation(OURS), Incarnation(OURS + 1));
    let claim = Claim {
        hi: Slot(THEIRS + 40),
        lo: Slot(THEIRS + 8),
        up: Slot(THEIRS + 40),
        closed: true,
        part: false,
    };
    let bytes = written(bases, |writer| {
        writer
            .state_live(
                b,
                r,
                Some((TS, Slot(THEIRS + 9))),
                claim,
                std::iter::once(THEIRS + 12..THEIRS + 40),
                64,
            )
            .is_some()
            && writer.state_gone(b, r, Some((TS, Slot(0))))
            && writer.state_gone(b, r, None)
            && writer.have(r, Slot(THEIRS + 12), 4_096, 65_536, std::iter::once(5_000..6_000))
            && writer.token(Incarnation(THEIRS + 3), Slot(OURS + 18))
            && writer.stamp_rejected(TS, Wall(TS.0 - 1))
            && writer.probe(Slot(OURS + 18))
            && writer.no_call(Slot(THEIRS + 2))
            && writer.computing(Slot(THEIRS + 2))
            && writer.verdict(Verdict {
                r,
                s: Slot(THEIRS + 12),
                word: 2,
                status: 7,
                attempts: 3,
                reason: "no",
            })
            && writer.revoke(Incarnation(THEIRS + 3), Slot(OURS + 18), 2)
            && writer.withdrawn(r, Slot(THEIRS + 12), 64)
            && writer.revoke_stream(RevokeStream {
                r: Incarnation(THEIRS + 3),
                s: Slot(OURS + 18),
                n: 2,
                name: b"log",
                mark: StreamMark { age: 3, n: 1, link: 3, ..StreamMark::OPEN },
            })
    });
    agrees("frames", &bytes);
}

#[test]
fn the_heads_of_messages_of_a_stream() {
    let mark = |age, n, link, end| StreamMark { age, n, link, end, more: false };
    let marks =
        [mark(0, 0, 0, StreamEnd::Open), mark(3, 1, 3, StreamEnd::Open), mark(4, 2, 1, StreamEnd::Last)];
    let mut heads = Vec::new();
    for mark in marks {
        assert!(Head { tag: b"log", stream: Some(mark), ..Head::default() }.encode(&mut heads));
    }
    agrees("stream-heads", &heads);
}

#[test]
fn messages_that_are_alike() {
    let (mut room, bases) = ([0; 100], Bases { sender: OURS, receiver: THEIRS });
    let mut writer = Writer::new(&mut room, bases);
    let mut frame = writer.messages(Incarnation(THEIRS + 3), Slot(OURS + 18)).unwrap();
    let mark = StreamMark { age: 3, n: 1, link: 3, end: StreamEnd::Open, more: false };
    let first = Head { tag: b"log", stream: Some(mark), ..Head::default() };
    let mut head = Vec::new();
    assert!(first.encode(&mut head));
    assert!(frame.push(&head, b"a") && frame.push(&ALIKE_HEAD, b"b") && frame.push(&ALIKE_HEAD, b"c"));
    agrees("alike", writer.written());
    let (mut heads, mut before) = (Vec::new(), None);
    let whole = [&head[..], b"a"].concat();
    for message in [&whole[..], b"\x40b", b"\x40c"] {
        before = Some(Head::parse_behind(before.as_ref(), message).unwrap().0);
        heads.extend(before);
    }
    let alike = |n: u64| Head { stream: Some(StreamMark { age: 3 + n, n: 1 + n, link: 1, ..mark }), ..first };
    assert_eq!(heads, [first, alike(1), alike(2)]);
}

#[test]
fn the_head_of_a_message_of_a_trace() {
    let trace: Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let mut extensions = [0; Traceparent::MAX];
    assert!(Role::Plain.encode_with(Some(&trace), &mut extensions));
    assert_eq!(Role::Plain.encoded_len_with(true), extensions.len());
    let head = [&[0x09], &extensions[..]].concat();
    agrees("trace-head", &head);
    let (read, at) = Head::parse(&head).unwrap();
    assert_eq!(
        (Traceparent::of(read.extensions), Role::of(&read), at),
        (Some(trace), Ok(Role::Plain), head.len())
    );
}

#[test]
fn the_head_of_a_reply() {
    let role = Role::Reply { s: Slot(OURS + 18), status: 7 };
    let mut extensions = [0; Role::MAX];
    assert!(role.encode(&mut extensions));
    let head = [&[0x09], &extensions[..role.encoded_len()]].concat();
    agrees("reply-head", &head);
    assert_eq!(Role::of(&Head::parse(&head).unwrap().0), Ok(role));
}
