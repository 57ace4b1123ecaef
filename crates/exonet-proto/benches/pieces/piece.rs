//! The pieces of the path of a message, each alone and in steady state.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use exonet_proto::crypto::{OpenKey, SealKey, Suite, TAG_LEN};
use exonet_proto::wire::{
    Bases, ChannelIndex, Claim, DATA_HEADER, Datagram, Frame, Frames, Head, Writer, data_header,
};
use exonet_proto::{Incarnation, Slot};

use crate::pair::Pair;

/// What was asked of the allocator: how often, and for how many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) calls: usize,
    pub(crate) bytes: usize,
}

/// One kind of operation, done in runs.
pub(crate) struct Piece {
    pub(crate) name: &'static str,
    /// Operations of a run.
    pub(crate) each: usize,
    run: Box<dyn FnMut()>,
}

/// Runs until a piece is in steady state.
const WARM_UP: usize = 150;

/// Runs that are counted.
pub(crate) const RUNS: usize = 200;

const SMALL: usize = 64;
const ORDINARY: usize = 1_024;
const DATAGRAM: u16 = 1_452;
const LARGE_DATAGRAM: u16 = 65_000;

const BASES: Bases = Bases { sender: 1 << 40, receiver: 1 << 41 };
const INDEX: ChannelIndex = ChannelIndex(7);
const R: Incarnation = Incarnation(BASES.sender);

impl Piece {
    pub(crate) fn all() -> Vec<Self> {
        vec![
            seal("seal-64", SMALL),
            seal("seal-1024", ORDINARY),
            open("open-64", SMALL),
            open("open-1024", ORDINARY),
            parse("parse-messages", |writer| {
                let mut messages = writer.messages(Incarnation(BASES.receiver), Slot(BASES.sender)).unwrap();
                while messages.push(&[0], &[7; SMALL]) {}
            }),
            parse("parse-state-1", |writer| state(writer, 1)),
            parse("parse-state-64", |writer| state(writer, 64)),
            parse("parse-ack-8", |writer| {
                let ranges = (0..8).rev().map(|i| i * 10 + 1..i * 10 + 9);
                writer.ack(Duration::from_micros(20), Duration::from_secs(9), None, ranges).unwrap();
            }),
            write_state("write-state-1", 1),
            write_state("write-state-64", 64),
            pump("pump-64-single", DATAGRAM, SMALL, 1, 1),
            pump("pump-16-taken-singly", DATAGRAM, 16, 300, 1),
            pump("pump-64", DATAGRAM, SMALL, 300, 64),
            pump("pump-1000", DATAGRAM, 1_000, 300, 64),
            filled("pump-1000-filled", DATAGRAM, 1_000, 300),
            pump("pump-64-large-datagrams", LARGE_DATAGRAM, SMALL, 300, 64),
            pump("pump-1024-large-datagrams", LARGE_DATAGRAM, ORDINARY, 300, 1),
            pump("pump-60000", DATAGRAM, 60_000, 4, 1),
        ]
    }

    pub(crate) fn run(&mut self) {
        (self.run)();
    }

    pub(crate) fn warm_up(&mut self) {
        (0..WARM_UP).for_each(|_| self.run());
    }

    /// What [`RUNS`] runs allocate once the piece is warm; `total` tells what was since the process began.
    pub(crate) fn allocated(&mut self, total: impl Fn() -> Allocated) -> Allocated {
        let before = total();
        (0..RUNS).for_each(|_| self.run());
        let after = total();
        Allocated { calls: after.calls - before.calls, bytes: after.bytes - before.bytes }
    }
}

/// A piece that does `operation` 64 times a run.
fn piece(name: &'static str, mut operation: impl FnMut() + 'static) -> Piece {
    Piece { name, each: 64, run: Box::new(move || (0..64).for_each(|_| operation())) }
}

fn seal(name: &'static str, size: usize) -> Piece {
    let key = SealKey::new(Suite::Aes128Gcm, &[3; 32]);
    let (mut packet, mut number) = (vec![7; size + TAG_LEN], 0);
    piece(name, move || {
        number += 1;
        key.seal_in_place(number, &data_header(INDEX, number), black_box(&mut packet)).unwrap();
    })
}

/// A copy of the packet included: it is opened in place.
fn open(name: &'static str, size: usize) -> Piece {
    let (seal, open) = (SealKey::new(Suite::Aes128Gcm, &[3; 32]), OpenKey::new(Suite::Aes128Gcm, &[3; 32]));
    let header = data_header(INDEX, 1);
    let mut sealed = vec![7; size + TAG_LEN];
    seal.seal_in_place(1, &header, &mut sealed).unwrap();
    let mut packet = sealed.clone();
    piece(name, move || {
        packet.copy_from_slice(&sealed);
        black_box(open.open_in_place(1, &header, black_box(&mut packet)).unwrap());
    })
}

/// Reads all that a datagram of these frames holds, from its header to the messages' heads; it is not sealed.
fn parse(name: &'static str, frames: impl Fn(&mut Writer<'_>)) -> Piece {
    let mut datagram = vec![0; usize::from(DATAGRAM)];
    let (header, payload) = datagram.split_at_mut(DATA_HEADER);
    header.copy_from_slice(&data_header(INDEX, 1));
    let room = payload.len() - TAG_LEN;
    let mut writer = Writer::new(&mut payload[..room], BASES);
    frames(&mut writer);
    let len = DATA_HEADER + writer.len() + TAG_LEN;
    datagram.truncate(len);
    piece(name, move || {
        let Ok(Datagram::Data(data)) = Datagram::parse(black_box(&mut datagram)) else { unreachable!() };
        let payload = &data.sealed[..data.sealed.len() - TAG_LEN];
        for frame in Frames::new(payload, BASES) {
            match frame.unwrap() {
                Frame::Messages(messages) => messages.whole.for_each(|(slot, message)| {
                    black_box((slot, Head::parse(message).unwrap()));
                }),
                Frame::State(state) => state.free.for_each(|range| _ = black_box(range)),
                Frame::Ack(ack) => ack.ranges.for_each(|range| _ = black_box(range)),
                _ => unreachable!(),
            }
        }
    })
}

fn state(writer: &mut Writer<'_>, ranges: u16) {
    let slot = |offset| Slot(BASES.receiver + offset);
    let claim = Claim { hi: slot(1_000), lo: slot(100), up: slot(1_000), closed: false, part: false };
    let free = (0..u64::from(ranges)).map(|i| slot(110 + i * 10).0..slot(115 + i * 10).0);
    let up = writer.state_live(R, R, None, claim, free, ranges).unwrap();
    assert_eq!(up, claim.up);
}

fn write_state(name: &'static str, ranges: u16) -> Piece {
    let mut buffer = vec![0; usize::from(DATAGRAM)];
    piece(name, move || {
        let mut writer = Writer::new(&mut buffer, BASES);
        state(&mut writer, black_box(ranges));
        black_box(writer.written());
    })
}

/// As [`pump`], where no more than 16 KiB may be under way: what has to wait fills datagrams.
fn filled(name: &'static str, datagram: u16, size: usize, batch: usize) -> Piece {
    let (mut pair, body) = (Pair::within(16 << 10, datagram), Bytes::from(vec![7; size]));
    Piece { name, each: batch, run: Box::new(move || pair.send(&body, batch, 64)) }
}

/// From `send` to the receipts, through both nodes, `batch` messages at once.
fn pump(name: &'static str, datagram: u16, size: usize, batch: usize, at_a_time: usize) -> Piece {
    let (mut pair, body) = (Pair::new(datagram), Bytes::from(vec![7; size]));
    let send = move || pair.send(&body, batch, at_a_time);
    if batch == 1 { piece(name, send) } else { Piece { name, each: batch, run: Box::new(send) } }
}
