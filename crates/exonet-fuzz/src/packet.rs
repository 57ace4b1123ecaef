//! An established channel whose peer has genuine keys and sends anything. The most that this costs is the channel: the
//! node keeps its bounds, and its traffic with an honest peer continues.

use arbitrary::Arbitrary;
use exonet_proto::Mono;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{BodyWrite, MessageKey, Outgoing, Policy, Priority};

use crate::driven::{Driven, START, at, config, millis};
use crate::memory;
use crate::ops::ops;
use crate::puppet::Puppet;
use crate::speech::Say;

/// The most bytes that a node with such small limits may hold for one peer, with the packets in flight.
const MOST: usize = 6 << 20;

#[derive(Debug, Arbitrary)]
enum Op<'a> {
    Seal {
        skip: u8,
        from: u8,
        twice: bool,
        says: Vec<Say<'a>>,
    },
    /// The node's application sends to the peer.
    Send {
        len: u16,
        large: bool,
        priority: u8,
        patience: Option<u8>,
    },
    Stream {
        len: u32,
    },
    Write {
        len: u16,
    },
    Cancel {
        which: u8,
    },
    Abandon {
        which: u8,
    },
    Ping,
    Open {
        says: Vec<Say<'a>>,
    },
    Answer {
        says: Vec<Say<'a>>,
    },
    Wait {
        millis: u16,
    },
    Reads(bool),
    Rebind,
}

struct Scene {
    now: Mono,
    node: Driven,
    honest: Driven,
    puppet: Puppet,
    sent: Vec<MessageKey>,
}

/// Packets of a peer; the first byte chooses which end opens the channel.
pub fn packet(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let before = memory::held();
    let (node, honest) =
        (Driven::new(config(Policy::Anyone), 1, START), Driven::new(config(Policy::Anyone), 2, START));
    let puppet = Puppet::new(SecretKey::from_bytes([10; 32]), node.id(), 10);
    let mut scene = Scene { now: START, node, honest, puppet, sent: Vec::new() };
    scene.begin(choice & 1 == 0);
    for op in ops::<Op<'_>>(rest, 64) {
        scene.apply(op);
        scene.flush();
        let stats = scene.node.node.stats();
        assert!(stats.received_bytes <= (4 << 20) + (1 << 20) + 1_024, "{stats:?}");
        memory::bounded(before, MOST, "a node with a hostile peer");
    }
    scene.others_go_on();
}

impl Scene {
    fn begin(&mut self, by_puppet: bool) {
        if by_puppet {
            self.apply(Op::Open { says: vec![] });
        } else {
            self.apply(Op::Send { len: 100, large: false, priority: 1, patience: None });
            self.flush();
            self.apply(Op::Answer { says: vec![Say::Grant { free: true }] });
        }
        self.flush();
        self.apply(Op::Seal { skip: 0, from: 0, twice: false, says: vec![Say::Ping] });
        self.flush();
        assert!(self.puppet.is_connected());
    }

    fn apply(&mut self, op: Op<'_>) {
        let (now, peer, hint) = (at(self.now), self.puppet.id(), self.puppet.addr);
        match op {
            Op::Seal { skip, from, twice, says } => {
                let Some(datagram) = self.puppet.seal(skip.into(), &says) else { return };
                let mut source = hint;
                source.set_port(source.port() + u16::from(from % 4));
                for _ in 0..=u8::from(twice) {
                    self.node.hear(self.now, source, &mut datagram.clone());
                }
            }
            Op::Send { len, large, priority, patience } => {
                let body = vec![1; usize::from(len) << if large { 3 } else { 0 }];
                let priority = match priority % 4 {
                    0 => Priority::Urgent,
                    1 => Priority::Normal,
                    2 => Priority::Low,
                    _ => Priority::Bulk,
                };
                let deadline = patience.map(|patience| self.now + millis(patience.into()));
                let message = Outgoing { body: body.into(), priority, deadline, ..Outgoing::default() };
                let sent = self.node.node.send(now, peer, &[hint], message);
                self.note(sent.ok());
            }
            Op::Stream { len } => {
                let len = Some(u64::from(len % (1 << 20)).max(1)).filter(|len| len % 2 == 0);
                let sent = self.node.node.send_stream(now, peer, &[hint], Outgoing::default(), len);
                self.note(sent.ok());
            }
            Op::Write { len } => {
                for key in &self.sent {
                    let mut data = vec![2; len.into()].into();
                    let wrote = self.node.node.body_write(now, *key, &mut data);
                    assert!(!matches!(wrote, BodyWrite::Taken(taken) if taken > usize::from(len)));
                }
            }
            Op::Cancel { which } => {
                if let Some(key) = self.sent.get(usize::from(which)) {
                    let _ = self.node.node.cancel(now, *key);
                }
            }
            Op::Abandon { which } => {
                if let Some(key) = self.sent.get(usize::from(which)) {
                    self.node.node.abandon(now, *key);
                }
            }
            Op::Ping => {
                let _ = self.node.node.ping(now, peer, &[hint], 7);
            }
            Op::Open { says } => {
                let mut opening = self.puppet.open(1, 0, &says).expect("suite 1 is known");
                self.node.hear(self.now, hint, &mut opening);
            }
            Op::Answer { says } => {
                if let Some(mut answer) = self.puppet.answer(0, &says) {
                    self.node.hear(self.now, hint, &mut answer);
                }
            }
            Op::Wait { millis: count } => self.wait(count.into()),
            Op::Reads(reads) => self.node.reads = reads,
            Op::Rebind => self.node.node.rebind(now),
        }
    }

    fn note(&mut self, sent: Option<MessageKey>) {
        self.sent.extend(sent);
        self.node.open.extend(sent);
    }

    fn flush(&mut self) {
        for (to, data) in self.node.pump(self.now) {
            if to.ip() == self.puppet.addr.ip() {
                self.puppet.take(data);
            }
        }
    }

    fn wait(&mut self, count: u64) {
        let (puppet, until) = (&mut self.puppet, self.now + millis(count));
        self.node.wait(&mut self.now, until, |_, _, out| {
            for (to, data) in out {
                if to.ip() == puppet.addr.ip() {
                    puppet.take(data);
                }
            }
        });
    }

    /// Checks that an honest peer and the node exchange messages, whatever the other peer has done.
    fn others_go_on(&mut self) {
        self.node.reads = true;
        let (a, b) = (self.node.id(), self.honest.id());
        let now = at(self.now);
        let message = |byte| Outgoing { body: vec![byte; 2_000].into(), ..Outgoing::default() };
        let there = self.honest.node.send(now, a, &[self.node.addr], message(1)).unwrap();
        let back = self.node.node.send(now, b, &[self.honest.addr], message(2)).unwrap();
        self.honest.open.insert(there);
        self.node.open.insert(back);
        let until = self.now + millis(20_000);
        let done = |scene: &Self| !scene.honest.open.contains(&there) && !scene.node.open.contains(&back);
        while !done(self) && self.now < until {
            self.step();
        }
        assert!(done(self), "a hostile peer stands in the way of others");
        assert_eq!((self.honest.delivered, self.honest.taken.len()), (1, 1));
        assert!(self.node.taken.iter().any(|id| id.sender == b));
    }

    /// Handles what is due between the two genuine nodes; the puppet receives and sends nothing.
    fn step(&mut self) {
        let next = [self.node.rings_at(), self.honest.rings_at()].into_iter().flatten().min();
        let mut out = self.node.pump(self.now);
        out.extend(self.honest.pump(self.now));
        if out.is_empty() {
            let next = next.unwrap_or(self.now).max(self.now + core::time::Duration::from_micros(1));
            self.node.wait(&mut self.now, next, |_, _, sent| out.extend(sent));
            let mut now = self.now;
            self.honest.wait(&mut now, self.now, |_, _, sent| out.extend(sent));
        }
        let (a, b) = (self.node.addr, self.honest.addr);
        for (to, mut data) in out {
            if to == a {
                self.node.hear(self.now, b, &mut data);
            } else if to == b {
                self.honest.hear(self.now, a, &mut data);
            }
        }
    }
}
