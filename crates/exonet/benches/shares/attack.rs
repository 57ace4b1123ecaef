//! The packets of an attacker with valid keys.

use exonet_sim::hostile::Raw;

/// Slots that the attacker has from the start: as many as a node grants.
pub(crate) const SLOTS: u64 = 32_768;

/// Bytes of each payload, padding included.
pub(crate) const ROOM: usize = 1_400;

/// Fills the payload of packet number `n`, for the incarnation `r`. The newest packet of the victim is `newest`.
pub(crate) type Fill = fn(r: u64, n: u64, newest: u64) -> Vec<u8>;

pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) fill: Fill,
}

pub(crate) const ALL: &[Attack] = &[
    Attack { name: "empty messages", fill: empty },
    Attack { name: "empty messages, again and again", fill: again },
    Attack { name: "first bytes of messages", fill: first_bytes },
    Attack { name: "pieces with gaps", fill: pieces },
    Attack { name: "ASK with holes", fill: holes },
    Attack { name: "TOKEN probes", fill: probes },
    Attack { name: "STATE of 600 ranges", fill: states },
    Attack { name: "ACK of 600 ranges", fill: acks },
    Attack { name: "PATH_CHALLENGE", fill: challenges },
    Attack { name: "PING", fill: |_, _, _| vec![1] },
    Attack { name: "corrupted", fill: |_, _, _| Vec::new() },
];

/// As many frames as there is room for. The frames of all packets are numbered.
fn frames(n: u64, each: u64, frame: impl Fn(u64) -> Raw) -> Vec<u8> {
    let mut payload = Vec::new();
    for i in n * each..(n + 1) * each {
        let next = frame(i);
        if payload.len() + next.0.len() > ROOM {
            break;
        }
        payload.extend(next.0);
    }
    payload
}

/// Each in a slot of its own, and as many slots wanted again.
fn empty(r: u64, n: u64, _: u64) -> Vec<u8> {
    frames(n, 9, |i| {
        let s = i * 63;
        let messages = Raw::default().frame(0x12, &[r, s]).bytes(&[63]).bytes(&[1, 1].repeat(63));
        messages.frame(0x10, &[s + SLOTS, 63, s])
    })
}

/// Always of the same slots.
fn again(r: u64, n: u64, _: u64) -> Vec<u8> {
    frames(n, 10, |i| {
        let s = i * 63 % (SLOTS - 63);
        Raw::default().frame(0x12, &[r, s]).bytes(&[63]).bytes(&[1, 1].repeat(63))
    })
}

fn first_bytes(r: u64, n: u64, _: u64) -> Vec<u8> {
    frames(n, 120, |i| Raw::default().frame(0x13, &[r, i % SLOTS, 2, 0, 1]).bytes(&[1]))
}

fn pieces(r: u64, n: u64, _: u64) -> Vec<u8> {
    // From the end, so that each goes in front of all others.
    let offset = |i: u64| 65_536 - 2 * (i % 4_000) - 1;
    frames(n, 100, |i| Raw::default().frame(0x13, &[r, i / 4_000 % SLOTS, 65_536, offset(i), 1]).bytes(&[1]))
}

fn holes(_: u64, n: u64, _: u64) -> Vec<u8> {
    frames(n, 120, |i| Raw::default().frame(0x10, &[SLOTS + i * 2, 1, SLOTS]))
}

fn probes(r: u64, n: u64, _: u64) -> Vec<u8> {
    frames(n, 160, |i| Raw::default().frame(0x14, &[r, i % SLOTS]))
}

fn states(_: u64, _: u64, _: u64) -> Vec<u8> {
    let head = Raw::default().frame(0x11, &[1, 0, 1, 4_000, 0, 4_000, 1 << 20, 600]);
    head.numbers(&[1; 1_200]).0
}

/// Of every second packet. The PING has the victim send more of them.
fn acks(_: u64, _: u64, newest: u64) -> Vec<u8> {
    let ranges = (newest / 2).min(600);
    let head = Raw::default().bytes(&[1, 2, 0]).numbers(&[newest, 0, 0, ranges.saturating_sub(1), 0]);
    (1..ranges).fold(head, |ack, _| ack.numbers(&[0, 0])).0
}

fn challenges(_: u64, n: u64, _: u64) -> Vec<u8> {
    Raw::default().bytes(&[4]).bytes(&n.to_be_bytes()).0.repeat(40)
}
