//! This code writes and reads the worked examples of `PROTOCOL.md`.

use super::*;

pub(super) const PROTOCOL: &str = include_str!("../../../../../PROTOCOL.md");

/// The bytes of the block that is fenced as `hex NAME`; everything behind a `|` is an explanation.
pub(super) fn example(name: &str) -> Vec<u8> {
    let fence = format!("```hex {name}\n");
    let (_, block) = PROTOCOL.split_once(&fence).unwrap_or_else(|| panic!("no example {name}"));
    let (block, _) = block.split_once("```").unwrap();
    block
        .lines()
        .filter_map(|line| line.split('|').next())
        .flat_map(str::split_whitespace)
        .flat_map(|bytes| bytes.as_bytes().chunks(2))
        .map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn payload_of_a_data_packet() {
    let bases = Bases { sender: 0x1_0000_0000, receiver: 0x5_0000_0000 };
    let (ours, theirs) = (bases.sender, bases.receiver);
    let hello = Head { priority: Priority::NORMAL, ..Head::default() };
    let world = Head { tag: b"t", ..hello };

    let mut buf = [0; 128];
    let mut writer = Writer::new(&mut buf, bases);
    let (delay, arrival) = (Duration::from_micros(250), Duration::from_millis(70));
    assert_eq!(writer.ack(delay, arrival, None, [99..101, 90..96]), Some(2));
    assert!(writer.ask(Ask { s: Slot(ours + 20), n: 16, l: Slot(ours + 17), ts: Stamp::NONE }));
    let mut messages = writer.messages(Incarnation(theirs + 3), Slot(ours + 18)).unwrap();
    for (head, body) in [(hello, b"hello"), (world, b"world")] {
        let mut encoded = Vec::new();
        assert!(head.encode(&mut encoded));
        assert!(messages.push(&encoded, body));
    }
    let claim = Claim {
        hi: Slot(theirs + 40),
        lo: Slot(theirs + 8),
        up: Slot(theirs + 40),
        closed: false,
        part: false,
    };
    let free = [theirs + 9..theirs + 10, theirs + 12..theirs + 40];
    let (b, r) = (Incarnation(ours), Incarnation(ours + 1));
    assert_eq!(writer.state_live(b, r, None, claim, free.clone(), 64), Some(claim.up));

    let bytes = example("data-payload");
    assert_eq!(bytes, writer.written(), "wanted: {:02x?}", writer.written());

    let frames = read(&bytes, bases).unwrap();
    let [
        Spec::Ack { ranges, .. },
        Spec::Ask(_),
        Spec::Messages { entries, .. },
        Spec::Live { free: told, .. },
    ] = &frames[..]
    else {
        panic!("{frames:?}")
    };
    assert_eq!(ranges[..], [99..101, 90..96]);
    assert_eq!(told[..], free);
    let bodies: Vec<_> = entries.iter().map(|entry| &entry[Head::parse(entry).unwrap().1..]).collect();
    assert_eq!(bodies, [b"hello", b"world"]);
}

#[test]
fn payload_of_a_packet_that_was_filled() {
    let bases = Bases { sender: 0x1_0000_0000, receiver: 0x5_0000_0000 };
    let (r, s) = (Incarnation(bases.receiver + 3), Slot(bases.sender + 18));
    let bytes = example("data-cut");
    let mut buf = vec![0; bytes.len()];
    let mut writer = Writer::new(&mut buf, bases);
    let mut frame = writer.messages_from(r, s, 4).unwrap();
    assert!(frame.part(6, [b"", b"lo"]) && frame.push(&[1], b"you") && frame.part(7, [&[1], b"wor"]));
    assert_eq!(bytes, writer.written(), "wanted: {:02x?}", writer.written());
    let part = |s, total, offset, data: &[u8]| Spec::Fragment { r, s, total, offset, data: data.to_vec() };
    let frames = [
        part(s, 6, 4, b"lo"),
        Spec::Messages { r, s: Slot(s.0 + 1), entries: vec![b"\x01you".to_vec()] },
        part(Slot(s.0 + 2), 7, 0, b"\x01wor"),
    ];
    assert_eq!(read(&bytes, bases), Ok(frames.to_vec()));
}

#[test]
fn payload_with_parts_of_an_unmeasured_message() {
    let bases = Bases { sender: 0x1_0000_0000, receiver: 0x5_0000_0000 };
    let (r, s) = (Incarnation(bases.receiver + 3), Slot(bases.sender + 18));
    let part = |offset, data: &[u8], ends| Spec::Open { r, s, offset, data: data.to_vec(), ends };
    let parts = [part(0, b"\x01yo", false), part(3, b"urs", true)];
    assert_eq!(read(&example("data-unmeasured"), bases), Ok(parts.to_vec()));
}

#[test]
fn headers() {
    let (to, index) = (ChannelIndex(0xa1b2_c3d4), ChannelIndex(0x0badf00d));
    assert_eq!(example("opening-header"), opening_header(1, to));
    assert_eq!(example("answer-header"), answer_header(1, to, index));
    assert_eq!(example("data-header"), data_header(index, 0x12_3456_789a));
    assert_eq!(expand(0x3456_789a, Some(0x12_3456_0000)), 0x12_3456_789a);
}

#[test]
fn packet_numbers() {
    let (_, table) =
        PROTOCOL.split_once("| Largest authenticated | Bits that came | Number |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let number = |cell: &str| u64::from_str_radix(cell.trim(), 16);
    let mut count = 0;
    for row in rows {
        let [_, largest, bits, full, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let bits = u32::try_from(number(bits).unwrap()).unwrap();
        assert_eq!(expand(bits, number(largest).ok()), number(full).unwrap(), "{row}");
        count += 1;
    }
    assert_eq!(count, 5);
}

#[test]
fn params() {
    let params = Params {
        base: 0x1_0000_0000,
        boot_id: *b"\x01\x23\x45\x67\x89\xab\xcd\xef",
        max_datagram: 1472,
        pool_window: 1 << 20,
        ..Params::default()
    };
    let bytes = example("params");
    assert_eq!(
        bytes,
        Spec::Params(params).bytes(NO_BASES),
        "wanted: {:02x?}",
        Spec::Params(params).bytes(NO_BASES)
    );
    assert_eq!(read(&bytes, NO_BASES), Ok(vec![Spec::Params(params)]));
}

#[test]
fn every_frame_type_is_listed() {
    for row in ["0x00 | PADDING", "0x01 | PING", "0x02 | ACK", "0x03 | CLOSE", "0x04 | PATH_CHALLENGE"]
        .into_iter()
        .chain(["0x05 | PATH_RESPONSE", "0x06 | PARAMS", "0x10 | ASK", "0x11 | STATE"])
        .chain(["0x14 | TOKEN", "0x15 | HAVE", "0x18 | EARLY", "0x20 to 0x2b | MESSAGES"])
    {
        assert!(PROTOCOL.contains(&format!("| {row} |")), "{row}");
    }
}
