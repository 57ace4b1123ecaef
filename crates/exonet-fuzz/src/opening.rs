//! Handshakes with a real node: any datagram, and peers with genuine keys that put anything into genuine openings and
//! answers. Their cost to the node is bounded, and an unproven address gets few bytes.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use exonet_proto::Mono;
use exonet_proto::crypto::{CookieJar, OpeningMac, SecretKey};
use exonet_proto::node::{Outgoing, Policy};
use exonet_proto::wire::{ANSWER_HEADER, MIN_OPENING, OPENING_HEADER};

use crate::driven::{Driven, START, at, config, millis};
use crate::memory;
use crate::number::Number;
use crate::ops::ops;
use crate::puppet::Puppet;
use crate::speech::Say;

/// The number of peers with keys.
const PUPPETS: u8 = 4;
/// The most bytes that a node with such small limits may hold.
const MOST: usize = 3 << 20;

#[derive(Debug, Arbitrary)]
enum Op<'a> {
    /// Raw bytes.
    Raw {
        who: u8,
        bytes: &'a [u8],
    },
    /// An opening, or an answer, of random bytes under a valid mac1.
    Noise {
        who: u8,
        answer: bool,
        suite: u8,
        bytes: &'a [u8],
    },
    Open {
        who: u8,
        suite: u8,
        base: Number,
        says: Vec<Say<'a>>,
    },
    /// The same opening again, with the cookie if there is one; perhaps from another address; perhaps with one bit
    /// changed.
    Again {
        who: u8,
        elsewhere: bool,
        flip: Option<u16>,
    },
    /// The node's application sends a message.
    Send {
        who: u8,
        len: u16,
    },
    Answer {
        who: u8,
        base: Number,
        says: Vec<Say<'a>>,
        flip: Option<u16>,
    },
    Retry {
        who: u8,
        time: u64,
    },
    /// A packet under the keys of the last handshake.
    Seal {
        who: u8,
        says: Vec<Say<'a>>,
    },
    Admit {
        who: u8,
        yes: bool,
    },
    Wait {
        millis: u16,
    },
    Reads(bool),
}

struct Scene {
    now: Mono,
    node: Driven,
    puppets: Vec<Puppet>,
    /// Bytes from and to each host that has proven nothing and whose address the node was not given.
    strangers: BTreeMap<core::net::IpAddr, (u64, u64)>,
    known: [bool; PUPPETS as usize + 1],
}

/// Handshakes; the first byte chooses the policy.
pub fn opening(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let before = memory::held();
    let friend = SecretKey::from_bytes([10; 32]).node_id();
    let policy = match choice % 3 {
        0 => Policy::Anyone,
        1 => Policy::Ask,
        _ => Policy::Only([friend].into()),
    };
    let node = Driven::new(config(policy), 1, START);
    let puppets =
        (0..PUPPETS).map(|i| Puppet::new(SecretKey::from_bytes([10 + i; 32]), node.id(), 10 + i)).collect();
    let known = [false; PUPPETS as usize + 1];
    let mut scene = Scene { now: START, node, puppets, strangers: BTreeMap::new(), known };
    for op in ops::<Op<'_>>(rest, 48) {
        scene.apply(op);
        scene.flush();
        scene.check(before);
    }
    scene.wait(millis(100_000));
    scene.check(before);
}

impl Scene {
    fn puppet(&mut self, who: u8) -> (usize, &mut Puppet) {
        let who = usize::from(who % PUPPETS);
        (who, &mut self.puppets[who])
    }

    fn apply(&mut self, op: Op<'_>) {
        match op {
            Op::Raw { who, bytes } => self.post(who, false, bytes.to_vec()),
            Op::Noise { who, answer, suite, bytes } => {
                let mut datagram = vec![if answer { 0x12 } else { 0x11 }, suite % 4, 0, 0];
                datagram.extend_from_slice(bytes);
                let len = if answer { ANSWER_HEADER + 48 } else { MIN_OPENING - 32 };
                datagram.resize(datagram.len().max(len.max(OPENING_HEADER)), 0x55);
                datagram.extend_from_slice(&OpeningMac::new(&self.node.id()).mac1(&datagram));
                datagram.resize(datagram.len() + if answer { 0 } else { 16 }, 0);
                self.post(who, false, datagram);
            }
            Op::Open { who, suite, base, says } => {
                let suite = if suite % 8 == 0 { 2 } else { 1 };
                let datagram = self.puppet(who).1.open(suite, base.at(0), &says);
                datagram.into_iter().for_each(|datagram| self.post(who, false, datagram));
            }
            Op::Again { who, elsewhere, flip } => {
                if let Some(datagram) = self.puppet(who).1.reopen() {
                    self.post(who, elsewhere, flipped(datagram, flip));
                }
            }
            Op::Send { who, len } => {
                let (who, puppet) = self.puppet(who);
                let (peer, hint) = (puppet.id(), puppet.addr);
                self.known[who] = true;
                let message = Outgoing { body: vec![1; len.into()].into(), ..Outgoing::default() };
                let sent = self.node.node.send(at(self.now), peer, &[hint], message);
                self.node.open.extend(sent.ok());
            }
            Op::Answer { who, base, says, flip } => {
                let datagram = self.puppet(who).1.answer(base.at(0), &says);
                datagram.into_iter().for_each(|datagram| self.post(who, false, flipped(datagram, flip)));
            }
            Op::Retry { who, time } => {
                let jar = CookieJar::new([time as u8; 32]);
                let (_, puppet) = self.puppet(who);
                let datagram = puppet.retry(&jar.cookie(START, puppet.addr), time);
                datagram.into_iter().for_each(|datagram| self.post(who, false, datagram));
            }
            Op::Seal { who, says } => {
                let (place, puppet) = self.puppet(who);
                let Some(datagram) = puppet.seal(0, &says) else { return };
                // Only an answer that was received gives the keys.
                self.known[place] = true;
                self.post(who, false, datagram);
            }
            Op::Admit { who, yes } => {
                let id = self.puppet(who).1.id();
                self.node.node.admit(at(self.now), id, yes);
            }
            Op::Wait { millis: count } => self.wait(millis(count.into())),
            Op::Reads(reads) => self.node.reads = reads,
        }
    }

    /// A datagram from `who`, or from an address that belongs to no node.
    fn post(&mut self, who: u8, elsewhere: bool, mut data: Vec<u8>) {
        let (_, puppet) = self.puppet(who);
        let mut from = puppet.addr;
        if elsewhere {
            from.set_ip([192, 0, 0, 1].into());
        }
        self.strangers.entry(from.ip()).or_default().0 += data.len() as u64;
        self.node.hear(self.now, from, &mut data);
    }

    fn flush(&mut self) {
        let out = self.node.pump(self.now);
        self.carry(out);
    }

    fn carry(&mut self, out: Vec<(core::net::SocketAddr, Vec<u8>)>) {
        for (to, data) in out {
            self.strangers.entry(to.ip()).or_default().1 += data.len() as u64;
            if let Some(puppet) = self.puppets.iter_mut().find(|puppet| puppet.addr == to) {
                puppet.take(data);
            }
        }
    }

    fn wait(&mut self, span: core::time::Duration) {
        let (mut now, mut out) = (self.now, Vec::new());
        self.node.wait(&mut now, self.now + span, |_, _, sent| out.extend(sent));
        self.now = now;
        self.carry(out);
    }

    fn check(&self, before: usize) {
        let stats = self.node.node.stats();
        assert!(stats.peers <= 8 && stats.half_open <= 4, "{stats:?}");
        for (host, (taken, given)) in &self.strangers {
            let known = self.puppets.iter().position(|puppet| puppet.addr.ip() == *host);
            let known = known.is_some_and(|who| self.known[who]);
            assert!(known || *given <= 3 * taken, "{host} got {given} bytes for {taken}");
        }
        memory::bounded(before, MOST, "a node under openings");
    }
}

fn flipped(mut datagram: Vec<u8>, flip: Option<u16>) -> Vec<u8> {
    if let Some(bit) = flip {
        let bit = usize::from(bit) % (datagram.len() * 8);
        datagram[bit / 8] ^= 1 << (bit % 8);
    }
    datagram
}
