//! Links that lose a third or half of all datagrams, and an overloaded crowd: for the bounds that the tests check, and
//! for the figures that the benchmark prints.

use core::time::Duration;

use exonet_proto::node::{Config, Limits};
use exonet_sim::course::{Course, Direction, Pair, Way};
use exonet_sim::{Bursts, LinkConfig, NodeIndex, Serving, World};

use super::{MS, SECOND, open};

/// The quantile of the `sorted` times at `share`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a length
pub fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// The times of one world for each seed, sorted.
pub fn times(seeds: core::ops::Range<u64>, run: impl Fn(u64) -> Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> = seeds.map(run).collect();
    times.sort();
    times
}

fn lossy(rtt: Duration, loss: f64) -> LinkConfig {
    LinkConfig { loss, ..LinkConfig::perfect(rtt / 2) }
}

fn relink(world: &mut World, a: NodeIndex, b: NodeIndex, link: &LinkConfig) {
    world.set_link(a, b, link.clone());
    world.set_link(b, a, link.clone());
}

/// The time until 100 messages of 100 bytes, sent at once, are settled. `met`: they follow one message that was sent
/// without loss.
pub fn hundred(seed: u64, rtt: Duration, loss: f64, met: bool) -> Duration {
    let mut world = World::new(seed, if met { lossy(rtt, 0.0) } else { lossy(rtt, loss) });
    let (a, b) = (world.add(open(), false), world.add(open(), false));
    if met {
        world.send(a, b, 100).unwrap();
        assert!(world.run_until_settled(10 * SECOND));
        relink(&mut world, a, b, &lossy(rtt, loss));
    }
    let begun = world.now();
    (0..100).for_each(|_| _ = world.send(a, b, 100).unwrap());
    finish(&mut world, begun, seed)
}

/// The duration of the first call of a node to one that it has never met.
pub fn first_call(seed: u64, rtt: Duration, loss: f64) -> Duration {
    let mut world = World::new(seed, lossy(rtt, loss));
    let config = Config { early: true, ..open() };
    let (a, b) = (world.add(config.clone(), false), world.add(Config { serves: true, ..config }, false));
    world.serve(b, Serving::default());
    let begun = world.now();
    world.call(a, b, 100).unwrap();
    finish(&mut world, begun, seed)
}

/// The time from the end of `span`, in which `open_at_once` messages were kept open on 100 Mbit/s with a loss of 30 %
/// in each direction, to the last outcome.
pub fn tail(seed: u64, rtt: Duration, open_at_once: u64, bursts: bool, span: Duration) -> Duration {
    let loss = 0.3;
    let bursts = bursts.then_some(Bursts { enter: loss / (1.0 - loss) / 10.0, leave: 0.1, loss: 1.0 });
    let link = LinkConfig {
        loss: if bursts.is_some() { 0.0 } else { loss },
        bursts,
        ..LinkConfig::limited(rtt / 2, 12_500_000, 125_000)
    };
    let mut world = World::new(seed, link);
    let limits = Limits { queued_bytes: 1 << 30, ..Limits::default() };
    let config = Config { limits, ..open() };
    let (a, b) = (world.add(config.clone(), false), world.add(config, false));
    let until = world.now() + span;
    while world.now() < until {
        while (world.ledger.open() as u64) < open_at_once {
            world.send(a, b, 1_024).unwrap();
        }
        world.run_for(2 * MS);
    }
    let begun = world.now();
    finish(&mut world, begun, seed)
}

#[track_caller]
fn finish(world: &mut World, begun: exonet_proto::Mono, seed: u64) -> Duration {
    let settled = world.run_until_settled(600 * SECOND);
    assert!(settled, "seed {seed}: {:?}, {} open", world.ledger.totals(), world.ledger.open());
    let totals = world.ledger.totals();
    assert_eq!((totals.delivered, totals.taken), (totals.sent, totals.sent), "seed {seed}");
    assert_eq!(world.ledger.violations(), [], "seed {seed}");
    world.now().since(begun)
}

/// A crowd of senders of single messages, two a second each, through one bottleneck with twice the capacity of their
/// load, and with a queue that overflows, after a time in which the bottleneck had a quarter of its rate.
pub struct Crowd {
    course: Course,
    pairs: Vec<Pair>,
    way: Way,
    offered: f64,
}

/// The figures of one second of a crowd.
pub struct Second {
    /// The share of the offered messages that were taken.
    pub taken: f64,
    /// Datagrams that left for each message offered.
    pub copies: f64,
    /// The share of datagrams for which there was no room.
    pub dropped: f64,
}

impl Crowd {
    pub fn new(seed: u64, members: u32, rtt: Duration, queue: u64) -> Self {
        let offered = f64::from(members) * 2.0;
        let megabits = offered * 2.0 * exonet_sim::course::PACKET as f64 * 8.0 / 1e6;
        let way = Way { queue, ..Way::new(megabits, rtt) };
        let mut course = Course::new(seed, way.clone(), Way::new(10_000.0, rtt));
        let every = SECOND / 2;
        let pairs = (0..members).map(|n| course.visits(&open(), every * n / members, every)).collect();
        Self { course, pairs, way, offered }
    }

    /// The bottleneck has its rate divided by `part` from now on.
    pub fn slow(&mut self, part: u64) {
        self.course.set_way(Direction::There, Way { rate: self.way.rate / part, ..self.way.clone() });
    }

    pub fn second(&mut self) -> Second {
        self.course.run_for(SECOND);
        let taken: u64 = self.pairs.iter().map(|pair| self.course.take_received(*pair)).sum();
        let traffic = self.course.take_traffic(Direction::There);
        Second {
            taken: taken as f64 / self.offered,
            copies: traffic.datagrams as f64 / self.offered,
            dropped: traffic.drop_rate(),
        }
    }
}
