//! A node that is attacked while its friends talk to it, compared with the same node without an attack.

#![allow(dead_code, unreachable_pub)]

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::OnceLock;

use exonet_proto::node::{Config, Limits};
use exonet_proto::wire::{Ask, Params, Writer};
use exonet_proto::{Incarnation, Slot, Stamp};
use exonet_sim::hostile::{Claimed, Impostor, Raw, Said};
use exonet_sim::{LinkConfig, NodeIndex, World};

use super::{MS, SECOND, all_delivered, open};

/// The most bytes of messages that one peer may make the attacked node hold: its pool, its larger messages, and the
/// overhead of each message that waits.
pub const SHARE: usize = (256 << 10) + 4 * (256 << 10) + 2_048 * 160;

/// A small node, whose limits are reached soon.
pub fn small() -> Config {
    let limits = Limits {
        peers: 256,
        half_open: 64,
        half_open_per_prefix: 32,
        openings_per_second: 2_000,
        slots: 2_048,
        pool_window: 256 << 10,
        body_window: 256 << 10,
        bodies: 4,
        stream_above: 128 << 10,
        received_bytes: 16 << 20,
        ..Limits::default()
    };
    Config { limits, dead_after: 600 * SECOND, ..open() }
}

/// An impostor at its own address.
pub struct Intruder {
    pub it: Impostor,
    pub index: NodeIndex,
    pub at: SocketAddr,
    pub to: SocketAddr,
    /// The incarnation and the grant frontier that it received last.
    pub r: Incarnation,
    pub hi: Slot,
    /// All frames that it received.
    pub said: Vec<Said>,
    /// How many times in a row it received nothing.
    quiet: u32,
}

impl Intruder {
    pub fn new(world: &mut World, host: NodeIndex) -> Self {
        let victim = world.id(host).unwrap();
        let it = Impostor::new(victim, world.dice());
        Self::with(world, host, it)
    }

    pub fn with(world: &mut World, host: NodeIndex, it: Impostor) -> Self {
        let (index, at) = world.outsider();
        world.expect_foe(host, it.id());
        let to = world.address(host).unwrap();
        Self { it, index, at, to, r: Incarnation(0), hi: Slot(0), said: Vec::new(), quiet: 0 }
    }

    /// An intruder with an established and confirmed channel, and with slots.
    pub fn connected(world: &mut World, host: NodeIndex) -> Self {
        let mut this = Self::new(world, host);
        assert!(this.connect(world, Params::default()));
        this
    }

    /// Opens and confirms a channel. Returns true when it has one.
    pub fn connect(&mut self, world: &mut World, params: Params) -> bool {
        self.open(world, params);
        for _ in 0..20 {
            world.run_for(5 * MS);
            let said = self.hear(world);
            if said {
                break;
            }
            if self.it.has_cookie() {
                let again = self.it.again().unwrap_or_default();
                world.post(self.index, self.at, self.to, &again);
            }
        }
        self.say(world, |writer| {
            writer.ping();
        });
        self.it.is_connected()
    }

    /// Handles the datagrams that have arrived. Returns true when there were any.
    pub fn hear(&mut self, world: &mut World) -> bool {
        let before = self.said.len();
        for (_, datagram) in world.mail(self.at) {
            self.said.extend(self.it.hear(&datagram));
        }
        for said in self.said.get(before..).unwrap_or_default() {
            if let Said::State(_, r, Some(Claimed { claim, .. })) = said {
                (self.r, self.hi) = (*r, claim.hi);
            }
        }
        self.said.len() > before
    }

    pub fn say(&mut self, world: &mut World, fill: impl FnOnce(&mut Writer<'_>)) {
        if let Some(packet) = self.it.packet(fill) {
            world.post(self.index, self.at, self.to, &packet);
        }
    }

    pub fn say_raw(&mut self, world: &mut World, raw: &Raw) {
        if let Some(packet) = self.it.packet_of(&raw.0) {
            world.post(self.index, self.at, self.to, &packet);
        }
    }

    /// Opens and confirms a new channel when the victim has fallen silent and so has dropped the channel. Takes a
    /// round trip.
    pub fn insist(&mut self, world: &mut World) {
        if self.hear(world) {
            self.quiet = 0;
            self.say(world, |writer| {
                writer.ping();
            });
            return;
        }
        self.quiet += 1;
        if !self.it.is_connected() || self.quiet > 3 {
            self.quiet = 0;
            self.open(world, Params::default());
        }
    }

    /// Sends an opening.
    pub fn open(&mut self, world: &mut World, params: Params) {
        let opening = self.it.open(params, |writer| assert!(ask(writer, 0, 64, 0))).unwrap();
        world.post(self.index, self.at, self.to, &opening);
    }

    /// A random number of any size: near the start, near the end, near the granted numbers, or anywhere.
    pub fn number(&mut self) -> u64 {
        const MAX: u64 = exonet_proto::MAX_NUMBER;
        let (kind, x) = (self.it.below(5), self.it.below(300));
        match kind {
            0 => x,
            1 => MAX - x,
            2 => (self.hi.0 + x).saturating_sub(150).min(MAX),
            3 => 1 << self.it.below(62),
            _ => self.it.below(MAX),
        }
    }
}

pub fn ask(writer: &mut Writer<'_>, s: u64, n: u64, l: u64) -> bool {
    writer.ask(Ask { s: Slot(s), n, l: Slot(l), ts: Stamp::NONE })
}

/// Checks that each of these payloads, under valid keys, ends the channel that carries it.
#[track_caller]
pub fn refused(payloads: &[Raw]) {
    let mut world = World::new(1, LinkConfig::perfect(MS));
    let host = world.add(small(), true);
    for (i, payload) in payloads.iter().enumerate() {
        let mut intruder = Intruder::connected(&mut world, host);
        world.run_for(10 * MS);
        let before = world.node(host).unwrap().stats().malformed;
        intruder.say_raw(&mut world, payload);
        world.run_for(10 * MS);
        assert_eq!(world.node(host).unwrap().stats().malformed, before + 1, "payload {i}");
        let stats = world.node(host).unwrap().peer_stats(&intruder.it.id());
        assert!(stats.is_none_or(|stats| stats.remote.is_none()), "payload {i}: the channel stands");
    }
}

/// The attack, called every ten milliseconds with the victim, the intruders, and the number of earlier calls.
type Attack<'a> = dyn FnMut(&mut World, NodeIndex, &mut [Intruder], u64) + 'a;

/// The parameters of a siege.
pub struct Siege {
    pub what: String,
    pub intruders: usize,
    pub config: Config,
    /// The parameters that the intruders declare.
    pub params: Params,
    /// The least speed of the friends, as a share of their speed without the attack.
    pub kept: f64,
}

impl Siege {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), intruders: 2, config: small(), params: Params::default(), kept: 0.9 }
    }

    /// Runs the friends' work under `attack`, which is called every ten milliseconds. The promises to friends must
    /// hold, and they must be about as fast as without the attack. Returns the world as it is then.
    #[track_caller]
    pub fn hold(
        self,
        mut attack: impl FnMut(&mut World, NodeIndex, &mut [Intruder], u64),
    ) -> (World, NodeIndex, Vec<Intruder>) {
        static CALM: OnceLock<Duration> = OnceLock::new();
        let calm = *CALM.get_or_init(|| self.run(0, &mut |_, _, _, _| {}).0);
        let (took, (mut world, host, intruders)) = self.run(self.intruders, &mut attack);
        let ratio = calm.as_secs_f64() / took.as_secs_f64();
        assert!(ratio >= self.kept, "{}: friends are slower, {ratio:.2}", self.what);
        assert!(clock(&mut world, host) < 1 << 11, "{}: the victim's clock has moved", self.what);
        (world, host, intruders)
    }

    #[track_caller]
    fn run(
        &self,
        intruders: usize,
        attack: &mut Attack<'_>,
    ) -> (Duration, (World, NodeIndex, Vec<Intruder>)) {
        let what = &self.what;
        let mut world = World::new(1, LinkConfig::perfect(5 * MS));
        let host = world.add(self.config.clone(), true);
        let friends = [world.add(open(), true), world.add(open(), false)];
        for friend in friends {
            let link = LinkConfig::limited(10 * MS, 1_000_000, 100_000);
            world.set_link(friend, host, link.clone());
            world.set_link(host, friend, link);
            world.send(friend, host, 100).unwrap();
        }
        world.run_for(SECOND);
        let mut gang: Vec<Intruder> = (0..intruders).map(|_| Intruder::new(&mut world, host)).collect();
        for intruder in &mut gang {
            intruder.connect(&mut world, self.params);
        }
        let begun = world.now();
        for _ in 0..30 {
            world.send(friends[0], host, 100_000).unwrap();
        }
        let most = (intruders + 2) * SHARE;
        for tick in 0.. {
            if tick < 200 {
                world.send(friends[0], host, 200).unwrap();
                world.send(host, friends[1], 2_000).unwrap();
                world.send(friends[1], host, 1_000).unwrap();
                if tick % 50 == 0 {
                    world.send(friends[1], host, 300_000).unwrap();
                }
            }
            attack(&mut world, host, &mut gang, tick);
            world.run_for(10 * MS);
            let stats = world.node(host).unwrap().stats();
            let limits = &self.config.limits;
            assert!(stats.received_bytes <= most, "{what}: {} bytes held", stats.received_bytes);
            assert!(stats.half_open <= limits.half_open && stats.peers <= limits.peers, "{what}: {stats:?}");
            assert_eq!(world.ledger.violations(), [], "{what}");
            if tick >= 200 && world.ledger.open() == 0 {
                break;
            }
            assert!(tick < 2_000, "{what}: {:?}, {} open", world.ledger.totals(), world.ledger.open());
        }
        all_delivered(&world, what);
        (world.now().since(begun), (world, host, gang))
    }
}

/// The node's clock, which it tells a stranger that asks for a slot.
#[track_caller]
pub fn clock(world: &mut World, host: NodeIndex) -> u64 {
    let mut stranger = Intruder::new(world, host);
    assert!(stranger.connect(world, Params::default()), "a stranger gets in");
    stranger.r.0
}

/// Checks that nothing of the intruders is left in the end, after they are gone for good.
#[track_caller]
pub fn aftermath(world: &mut World, host: NodeIndex, what: &str) {
    world.run_for(8_000 * SECOND);
    let stats = world.node(host).unwrap().stats();
    assert_eq!((stats.peers, stats.half_open, stats.received_bytes), (0, 0, 0), "{what}: {stats:?}");
    assert_eq!((stats.receiver_records, stats.sender_records), (0, 0), "{what}");
    assert_eq!(world.node(host).unwrap().poll_timeout(), None, "{what}: nothing is waited for");
}
