//! What hostile packets there are to measure, made before the clock runs.

use core::net::SocketAddr;

use exonet_proto::crypto::OpeningMac;
use exonet_proto::wire::{Ask, Params};
use exonet_proto::{Slot, Stamp};
use exonet_sim::hostile::{Impostor, Raw};

use crate::stage::{Foe, SLOTS, Stage, address};

pub type Packets = Vec<(SocketAddr, Vec<u8>)>;

pub struct Attack {
    pub name: &'static str,
    /// Readies the victim, and gives so many packets.
    pub packets: fn(&mut Stage, u32) -> Packets,
}

/// All of them. Without a key first, then with one.
pub const ALL: &[Attack] = &[
    Attack { name: "opening, MAC forged", packets: bad_mac },
    Attack { name: "opening, MAC right, Noise garbage", packets: garbage },
    Attack { name: "opening replayed, still pending", packets: replayed_opening },
    Attack { name: "opening of a fresh identity", packets: fresh },
    Attack { name: "opening while loaded (RETRY)", packets: loaded },
    Attack { name: "data of no channel", packets: stray },
    Attack { name: "data replayed", packets: replayed_data },
    Attack { name: "data corrupted", packets: corrupted },
    Attack { name: "identity opens and confirms (per packet)", packets: confirmed },
    Attack { name: "PING, never acknowledging", packets: pings },
    Attack { name: "PATH_CHALLENGE, 40 a packet", packets: challenges },
    Attack { name: "another address each packet", packets: roaming },
    Attack { name: "ASK with holes, many a packet", packets: holes },
    Attack { name: "TOKEN probes, many a packet", packets: probes },
    Attack { name: "STATE of 600 ranges", packets: states },
    Attack { name: "ACK of 600 ranges", packets: acks },
    Attack { name: "first byte of small messages", packets: first_bytes },
    Attack { name: "last byte of 1 MiB messages, given up", packets: last_bytes },
    Attack { name: "first byte of each block of a stream", packets: blocks },
    Attack { name: "pieces of one byte with gaps", packets: pieces },
    Attack { name: "empty messages, 63 a frame", packets: empty },
    Attack { name: "messages given up, receiver pauses", packets: given_up },
];

fn opening(stage: &mut Stage) -> Vec<u8> {
    let mut it = Impostor::new(stage.id(), &mut stage.dice);
    let opening = it.open(Params::default(), |writer| {
        writer.ask(Ask { s: Slot(0), n: 64, l: Slot(0), ts: Stamp::NONE });
    });
    opening.unwrap_or_default()
}

fn bad_mac(stage: &mut Stage, n: u32) -> Packets {
    let opening = opening(stage);
    let forged = |i: u32| {
        let mut forged = opening.clone();
        forged.iter_mut().skip(100).take(4).zip(i.to_be_bytes()).for_each(|(to, byte)| *to ^= byte | 1);
        (address(i), forged)
    };
    (0..n).map(forged).collect()
}

fn garbage(stage: &mut Stage, n: u32) -> Packets {
    let mac = OpeningMac::new(&stage.id());
    let made = |(at, mut datagram): (SocketAddr, Vec<u8>)| {
        let body = datagram.len() - 32;
        datagram.truncate(body);
        let mac1 = mac.mac1(&datagram);
        datagram.extend(mac1);
        datagram.extend([0; 16]);
        (at, datagram)
    };
    bad_mac(stage, n).into_iter().map(made).collect()
}

fn replayed_opening(stage: &mut Stage, n: u32) -> Packets {
    let opening = opening(stage);
    stage.reach(address(1), &mut opening.clone());
    (0..n).map(|i| (address(i), opening.clone())).collect()
}

fn fresh(stage: &mut Stage, n: u32) -> Packets {
    // Beyond half of the table they are asked for a cookie.
    (0..n.min(2_000)).map(|i| (address(i), opening(stage))).collect()
}

fn loaded(stage: &mut Stage, n: u32) -> Packets {
    for (at, mut datagram) in fresh(stage, 2_048).into_iter().chain(fresh(stage, 100)) {
        stage.pass(core::time::Duration::from_micros(100));
        stage.reach(at, &mut datagram);
    }
    garbage(stage, n)
}

fn stray(stage: &mut Stage, n: u32) -> Packets {
    let packet = |i: u32| [&[0x14][..], &i.to_be_bytes(), &stage.dice.bytes::<64>()].concat();
    (0..n).map(packet).map(|data| (address(1), data)).collect()
}

fn foe(stage: &mut Stage) -> Foe {
    stage.foe(address(1), Params::default())
}

fn replayed_data(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    let packet = foe.it.packet_of(&[0; 1_400]).unwrap_or_default();
    stage.reach(foe.at, &mut packet.clone());
    vec![(foe.at, packet); n as usize]
}

fn corrupted(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    let mut packet = foe.it.packet_of(&[0; 1_400]).unwrap_or_default();
    packet.iter_mut().skip(20).take(1).for_each(|byte| *byte ^= 1);
    vec![(foe.at, packet); n as usize]
}

fn confirmed(stage: &mut Stage, n: u32) -> Packets {
    // The confirmation can only be made once the answer is here: `measure` leaves the making out of the figures.
    let mut packets = Packets::new();
    for i in 0..n / 2 {
        let mut it = Impostor::new(stage.id(), &mut stage.dice);
        let opening = it.open(Params::default(), |writer| {
            writer.ask(Ask { s: Slot(0), n: 64, l: Slot(0), ts: Stamp::NONE });
        });
        let opening = opening.unwrap_or_default();
        stage.elsewhere.clear();
        stage.pass(core::time::Duration::from_micros(100));
        stage.reach(address(i), &mut opening.clone());
        for (_, datagram) in std::mem::take(&mut stage.elsewhere) {
            it.hear(&datagram);
        }
        let confirmation = it.packet_of(&[1]).unwrap_or_default();
        packets.push((address(i), confirmation));
    }
    packets
}

/// `n` packets of a foe, each filled by `payload` from its number.
fn filled(foe: &mut Foe, n: u32, mut payload: impl FnMut(u64) -> Vec<u8>) -> Packets {
    let at = foe.at;
    let packet = |i: u32| (at, foe.it.packet_of(&payload(u64::from(i))).unwrap_or_default());
    (0..n).map(packet).collect()
}

/// Frames until a packet of 1,400 bytes is full.
fn repeat(mut frame: impl FnMut() -> Raw) -> Vec<u8> {
    let mut payload = Vec::new();
    loop {
        let next = frame();
        if payload.len() + next.0.len() > 1_400 {
            return payload;
        }
        payload.extend(next.0);
    }
}

fn pings(stage: &mut Stage, n: u32) -> Packets {
    filled(&mut foe(stage), n, |_| vec![1])
}

fn challenges(stage: &mut Stage, n: u32) -> Packets {
    filled(&mut foe(stage), n, |i| Raw::default().bytes(&[4]).bytes(&i.to_be_bytes()).0.repeat(40))
}

fn roaming(stage: &mut Stage, n: u32) -> Packets {
    let packets = filled(&mut foe(stage), n, |_| vec![1]);
    (0..).zip(packets).map(|(i, (_, data))| (address(i), data)).collect()
}

fn holes(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    let mut s = SLOTS;
    // All that was granted first is passed, and then every other number is wanted.
    let clear = Raw::default().frame(0x10, &[s, 1, s]).0;
    let mut clear = foe.it.packet_of(&clear).unwrap_or_default();
    stage.reach(foe.at, &mut clear);
    let mut fill = |_| {
        repeat(|| {
            s += 2;
            Raw::default().frame(0x10, &[s, 1, SLOTS])
        })
    };
    for (at, mut packet) in filled(&mut foe, 400, &mut fill) {
        stage.reach(at, &mut packet);
    }
    filled(&mut foe, n, fill)
}

fn probes(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    let (r, mut s) = (foe.r, 0);
    filled(&mut foe, n, |_| {
        repeat(|| {
            s = (s + 1) % SLOTS;
            Raw::default().frame(0x14, &[r, s])
        })
    })
}

fn states(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    let (now, id, at) = (stage.now(), foe.it.id(), foe.at);
    let message = exonet_proto::node::Outgoing { body: vec![1; 100].into(), ..Default::default() };
    let _ = stage.victim.send(now, id, &[at], message);
    filled(&mut foe, n, |_| {
        let head = Raw::default().frame(0x11, &[1, 0, 1, 4_000, 0, 4_000, 1 << 20, 600]);
        head.numbers(&[1; 1_200]).0
    })
}

fn acks(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    // So many packets of the victim are there to be acknowledged.
    for (at, mut packet) in filled(&mut foe, 4_000, |_| vec![1]) {
        stage.reach(at, &mut packet);
    }
    filled(&mut foe, n, |_| {
        Raw::default().bytes(&[2, 0]).numbers(&[1_400, 0, 0, 600, 0]).numbers(&[0; 1_200]).0
    })
}

fn first_bytes(stage: &mut Stage, n: u32) -> Packets {
    stage.reads = false;
    let mut foe = foe(stage);
    let (r, mut s) = (foe.r, 0);
    filled(&mut foe, n, |_| {
        repeat(|| {
            s = (s + 1) % SLOTS;
            Raw::default().frame(0x23, &[r, s, 0, 2, 2]).bytes(&[1])
        })
    })
}

fn last_bytes(stage: &mut Stage, n: u32) -> Packets {
    let mut foe = foe(stage);
    let (r, mut s) = (foe.r, 0);
    let last = 1 << 20;
    filled(&mut foe, n, |_| {
        repeat(|| {
            s += 1;
            let raw = Raw::default().frame(0x23, &[r, s - 1, last - 1, 5, last]).bytes(&[1]);
            raw.frame(0x10, &[s + SLOTS - 1, 1, s])
        })
    })
}

fn blocks(stage: &mut Stage, n: u32) -> Packets {
    stage.reads = false;
    let mut foe = foe(stage);
    let (r, mut at) = (foe.r, 0_u64);
    filled(&mut foe, n, |_| {
        repeat(|| {
            at += 1;
            let offset = (at % 64 + 1) * 65_536 - 1;
            Raw::default().frame(0x23, &[r, at / 64 % 16, offset, 9, 1 << 30]).bytes(&[1])
        })
    })
}

fn pieces(stage: &mut Stage, n: u32) -> Packets {
    stage.reads = false;
    let mut foe = foe(stage);
    let (r, mut at) = (foe.r, 0_u64);
    filled(&mut foe, n, |_| {
        repeat(|| {
            at += 1;
            // From the end, so that each goes in front of all others.
            let offset = 65_536 - 2 * (at % 4_000) - 1;
            Raw::default().frame(0x23, &[r, at / 4_000, offset, 5, 65_536]).bytes(&[1])
        })
    })
}

fn empty(stage: &mut Stage, n: u32) -> Packets {
    stage.reads = false;
    let mut foe = foe(stage);
    let (r, mut s) = (foe.r, 0);
    filled(&mut foe, n, |_| {
        repeat(|| {
            s = (s + 63) % (SLOTS - 63);
            Raw::default().frame(0x20, &[r, s]).bytes(&[1, 1].repeat(63)).bytes(&[0])
        })
    })
}

fn given_up(stage: &mut Stage, n: u32) -> Packets {
    stage.reads = false;
    let mut foe = foe(stage);
    let (r, mut s) = (foe.r, 0);
    // Others' messages wait: here of another impostor.
    let mut other = stage.foe(address(2), Params::default());
    let (rr, mut at) = (other.r, 0);
    let waiting = filled(&mut other, 24, |_| {
        repeat(|| {
            at += 63;
            Raw::default().frame(0x20, &[rr, at]).bytes(&[1, 1].repeat(63)).bytes(&[0])
        })
    });
    for (at, mut packet) in waiting {
        stage.reach(at, &mut packet);
    }
    filled(&mut foe, n, |_| {
        repeat(|| {
            s += 1;
            let raw = Raw::default().frame(0x20, &[r, s - 1]).bytes(&[1, 1, 0]);
            raw.frame(0x10, &[s + SLOTS - 1, 1, s])
        })
    })
}
