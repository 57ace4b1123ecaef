//! Calls and faults in a world of three real nodes, under the ledger: each message is delivered at most once, its
//! outcome is true, and in the end everything is settled and forgotten.

use core::time::Duration;

use arbitrary::Arbitrary;
use exonet_proto::node::{Config, Limits, MessageKey, Outgoing, Policy, Priority};
use exonet_sim::{Disk, LinkConfig, NodeIndex, Outage, World};

use crate::ops::ops;

/// The number of nodes; the first has no disk.
const NODES: usize = 3;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The largest length of a streamed message, in bytes.
const LONGEST: usize = 300_000;

#[derive(Debug, Arbitrary)]
enum Op {
    Send {
        from: u8,
        to: u8,
        size: u16,
        large: bool,
        priority: u8,
        deadline: Option<u8>,
    },
    Burst {
        from: u8,
        to: u8,
        count: u8,
        size: u8,
    },
    Stream {
        from: u8,
        to: u8,
        len: u32,
    },
    Write {
        which: u8,
        upto: u32,
    },
    Cancel {
        which: u8,
    },
    Abandon {
        which: u8,
    },
    AbandonPeer {
        at: u8,
        peer: u8,
    },
    Link {
        from: u8,
        to: u8,
        loss: u8,
        jitter: u8,
        duplicate: bool,
        corrupt: bool,
        replay: bool,
        slow: bool,
    },
    Outage {
        from: u8,
        to: u8,
        after: u8,
        seconds: u8,
    },
    Roam {
        at: u8,
    },
    RebindPort {
        at: u8,
    },
    Rebind {
        at: u8,
    },
    Crash {
        at: u8,
    },
    SlowDisk {
        at: u8,
        millis: u8,
    },
    BreakDisk {
        at: u8,
    },
    Reads {
        at: u8,
        reads: bool,
    },
    Ping {
        at: u8,
        to: u8,
    },
    KeepAlive {
        at: u8,
        peer: u8,
        seconds: Option<u8>,
    },
    /// A datagram that was sent once arrives again, perhaps changed, from the same or another address.
    Replay {
        which: u16,
        flip: Option<u16>,
        elsewhere: bool,
    },
    Run {
        millis: u16,
    },
    /// A long pause: channels become idle, records close.
    Sleep {
        seconds: u16,
    },
}

struct Scene {
    world: World,
    nodes: [NodeIndex; NODES],
    /// Every message: its sender, its key, its number in the ledger, whether it is streamed.
    sent: Vec<(NodeIndex, MessageKey, u64, bool)>,
    broken: [bool; NODES],
}

/// A scenario; the first bytes are the world's seed and the bounds of its nodes.
pub fn operations(data: &[u8]) {
    let Some(([seed, tight], rest)) = data.split_first_chunk() else { return };
    let mut world = World::new(u64::from(*seed), LinkConfig::perfect(10 * MS));
    world.wiretap.recording = true;
    let config = config(tight & 1 == 1);
    let nodes = [false, true, true].map(|stored| world.add_on(config.clone(), stored.then(Disk::default)));
    let mut scene = Scene { world, nodes, sent: Vec::new(), broken: [false; NODES] };
    for op in ops::<Op>(rest, 40) {
        scene.apply(op);
        assert_eq!(scene.world.ledger.violations(), []);
    }
    scene.settle();
    scene.forget();
}

fn config(tight: bool) -> Config {
    let mut config = Config { clock_block: if tight { 16 } else { 1 << 32 }, ..Config::new(Policy::Anyone) };
    if tight {
        config.limits = Limits {
            slots: 16,
            pool_window: 1 << 16,
            body_window: 1 << 16,
            bodies: 1,
            stream_above: 1 << 17,
            queued_messages: 64,
            ..config.limits
        };
    }
    config
}

impl Scene {
    fn at(&self, which: u8) -> NodeIndex {
        self.nodes[usize::from(which) % NODES]
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Send { from, to, size, large, priority, deadline } => {
                let size = usize::from(size) << if large { 2 } else { 0 };
                let deadline = deadline.map(|deadline| self.world.now() + 10 * MS * u32::from(deadline));
                let priority = match priority % 4 {
                    0 => Priority::Urgent,
                    1 => Priority::Normal,
                    2 => Priority::Low,
                    _ => Priority::Bulk,
                };
                self.send(from, to, size, Outgoing { priority, deadline, ..Outgoing::default() });
            }
            Op::Burst { from, to, count, size } => {
                (0..count % 64).for_each(|_| self.send(from, to, size.into(), Outgoing::default()));
            }
            Op::Stream { from, to, len } => {
                let (from, to) = (self.at(from), self.at(to));
                let len = u64::from(len) % LONGEST as u64 + 8;
                if let Ok((number, key)) = self.world.send_stream(from, to, len) {
                    self.sent.push((from, key, number, true));
                }
            }
            Op::Write { which, upto } => {
                let streams = self.sent.iter().filter(|(.., streamed)| *streamed);
                if let Some((at, key, ..)) = streams.copied().nth(which.into()) {
                    self.world.write(at, key, upto as usize % LONGEST);
                }
            }
            Op::Cancel { which } => {
                if let Some((at, key, ..)) = self.sent.get(usize::from(which)).copied() {
                    self.world.with(at, |node, now| node.cancel(now, key).ok());
                }
            }
            Op::Abandon { which } => {
                if let Some((at, key, number, _)) = self.sent.get(usize::from(which)).copied() {
                    self.world.ledger.excuse(number);
                    self.world.with(at, |node, now| node.abandon(now, key));
                }
            }
            Op::AbandonPeer { at, peer } => {
                self.world.ledger.excuse_open();
                let (at, id) = (self.at(at), self.world.id(self.at(peer)));
                self.world.with(at, |node, now| id.iter().for_each(|id| node.abandon_peer(now, id)));
            }
            Op::Replay { which, flip, elsewhere } => self.replay(which, flip, elsewhere),
            Op::Run { millis } => self.world.run_for(MS * u32::from(millis)),
            Op::Sleep { seconds } => self.world.run_for(SECOND * u32::from(seconds % 4_096)),
            fault => self.fault(&fault),
        }
    }

    fn fault(&mut self, fault: &Op) {
        match *fault {
            Op::Link { from, to, loss, jitter, duplicate, corrupt, replay, slow } => {
                let link = LinkConfig {
                    loss: f64::from(loss % 64) / 100.0,
                    jitter: MS * u32::from(jitter),
                    duplicate: if duplicate { 0.1 } else { 0.0 },
                    corrupt: if corrupt { 0.1 } else { 0.0 },
                    replay: if replay { 0.1 } else { 0.0 },
                    replay_after: 60 * SECOND,
                    rate: slow.then_some(100_000),
                    queue: 20_000,
                    ..LinkConfig::perfect(10 * MS)
                };
                self.world.set_link(self.at(from), self.at(to), link);
            }
            Op::Outage { from, to, after, seconds } => {
                let begin = self.world.now() + MS * u32::from(after);
                let outage = Outage { from: begin, until: begin + SECOND * u32::from(seconds) };
                let link = LinkConfig { outages: vec![outage], ..LinkConfig::perfect(10 * MS) };
                self.world.set_link(self.at(from), self.at(to), link);
            }
            Op::Roam { at } => self.world.roam(self.at(at)),
            Op::RebindPort { at } => self.world.rebind_port(self.at(at)),
            Op::Rebind { at } => drop(self.world.with(self.at(at), |node, now| node.rebind(now))),
            // Without a disk the node would come back with another identity.
            Op::Crash { at } if usize::from(at) % NODES > 0 => self.crash(self.at(at)),
            Op::SlowDisk { at, millis } => {
                if let Some(disk) = self.world.disk(self.at(at)) {
                    disk.latency = MS * u32::from(millis);
                }
            }
            Op::BreakDisk { at } => {
                self.broken[usize::from(at) % NODES] = true;
                if let Some(disk) = self.world.disk(self.at(at)) {
                    disk.broken = true;
                }
            }
            Op::Reads { at, reads } => self.world.set_reads(self.at(at), reads),
            Op::Ping { at, to } => {
                let (at, to) = (self.at(at), self.at(to));
                if let (Some(id), Some(address)) = (self.world.id(to), self.world.address(to)) {
                    self.world.with(at, |node, now| node.ping(now, id, &[address], 1).ok());
                }
            }
            Op::KeepAlive { at, peer, seconds } => {
                let every = seconds.map(|seconds| SECOND * u32::from(seconds.max(1)));
                self.keep_alive(self.at(at), self.at(peer), every);
            }
            _ => {}
        }
    }

    fn crash(&mut self, at: NodeIndex) {
        // The keys of a process die with it.
        self.sent.retain(|(from, ..)| *from != at);
        self.world.crash(at);
    }

    fn send(&mut self, from: u8, to: u8, size: usize, message: Outgoing) {
        let (from, to) = (self.at(from), self.at(to));
        if let Ok((number, key)) = self.world.send_as(from, to, size, message) {
            self.sent.push((from, key, number, false));
        }
    }

    fn keep_alive(&mut self, at: NodeIndex, peer: NodeIndex, every: Option<Duration>) {
        let id = self.world.id(peer);
        self.world.with(at, |node, now| id.iter().for_each(|id| node.keep_alive(now, id, every)));
    }

    fn replay(&mut self, which: u16, flip: Option<u16>, elsewhere: bool) {
        let recorded = self.world.wiretap.recorded.iter().nth_back(which.into()).cloned();
        let Some(mut copy) = recorded else { return };
        if let Some(bit) = flip {
            let bit = usize::from(bit) % (copy.data.len() * 8);
            copy.data[bit / 8] ^= 1 << (bit % 8);
        }
        let from = if elsewhere { self.world.nobody() } else { copy.from };
        self.world.inject(from, copy.to, copy.data);
    }

    /// Repairs everything that was broken, and tells every node the addresses of the others.
    fn settle(&mut self) {
        for (at, broken) in self.nodes.into_iter().zip(self.broken) {
            if let Some(disk) = self.world.disk(at) {
                *disk = Disk { clock: disk.clock, ..Disk::default() };
                if broken {
                    self.crash(at);
                }
            }
        }
        for a in self.nodes {
            self.world.set_reads(a, true);
            for b in self.nodes.into_iter().filter(|b| *b != a) {
                self.world.set_link(a, b, LinkConfig::perfect(10 * MS));
                self.keep_alive(a, b, None);
                if let (Some(id), Some(address)) = (self.world.id(b), self.world.address(b)) {
                    self.world.with(a, |node, now| node.add_hint(now, id, address));
                }
            }
        }
        for (at, key, _, streamed) in self.sent.clone() {
            if streamed {
                self.world.write(at, key, LONGEST + 8);
            }
        }
        let settled = self.world.run_until_settled(600 * SECOND);
        assert_eq!(self.world.ledger.violations(), []);
        assert!(settled, "{} messages never end", self.world.ledger.open());
    }

    fn forget(&mut self) {
        self.world.run_for(5_000 * SECOND);
        for at in self.nodes {
            let node = self.world.node(at).expect("nobody is removed");
            let stats = node.stats();
            assert_eq!((stats.peers, stats.half_open, stats.received_bytes), (0, 0, 0), "{stats:?}");
            assert_eq!(node.poll_timeout(), None, "{at:?} waits for nothing");
        }
        assert_eq!(self.world.ledger.violations(), []);
    }
}
