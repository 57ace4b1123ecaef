//! Random walks through the world, and how it comes to rest.

use super::*;

/// SplitMix64: the whole walk follows from the seed.
pub(in crate::half::tests) struct Random(pub(in crate::half::tests) u64);

impl Random {
    pub(in crate::half::tests) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(in crate::half::tests) fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    pub(in crate::half::tests) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

impl World {
    fn draw(&mut self) -> Step {
        let random = &mut self.random;
        let at = random.index(self.nodes.len());
        let to = (at + 1 + random.index(self.nodes.len() - 1)) % self.nodes.len();
        let grant = [0, 1, 2, 9][random.index(4)];
        match random.below(64) {
            0..6 => Step::Send(at, to),
            6..10 => Step::AskAgain { at, to, standby: random.below(4) },
            10..14 => Step::Resend(at, to),
            14..17 => Step::PushState(at, to),
            17..19 => Step::Retry { at, from: to, grant },
            19..23 => Step::Close(at, to),
            23..25 => Step::Drop { at, from: to },
            25..28 => Step::Persist(at),
            28..32 => Step::Persisted(at),
            32 if self.amnesia => Step::Evict(at, to),
            33 if random.chance(2) => Step::Abandon(at, to),
            34 if random.chance(2) => Step::Crash { at, wrote: random.chance(2), kept: random.chance(2) },
            35..39 => {
                // A message that bears a stamp of a former life ends Unknown.
                let least = if self.amnesia { 1 } else { 2 };
                let ts = (self.nodes[to].latest + random.below(4) - 1).max(least);
                Step::Open { at, to, count: 1 + random.index(3), ts }
            }
            39 => Step::Raise(at),
            40..42 => Step::Forget(at, to),
            42 => Step::End(at, to),
            43..45 => Step::Withdraw(at, to),
            _ if self.network.is_empty() => Step::Send(at, to),
            _ => {
                let recent = if random.chance(3) { self.network.len() } else { self.network.len().min(6) };
                let packet = self.network.len() - 1 - random.index(recent);
                Step::Deliver { packet, grant }
            }
        }
    }

    /// **G**: under a network that is fair from now on, every message is settled and every record is dropped.
    fn come_to_rest(&mut self) -> Checked {
        for round in 0..80 {
            let fresh = self.network.len();
            for at in 0..self.nodes.len() {
                self.nodes[at].persist()?;
                self.nodes[at].persisted()?;
                for to in (0..self.nodes.len()).filter(|to| *to != at) {
                    self.tick(at, to, round)?;
                }
            }
            self.check()?;
            if self.is_quiet() {
                return Ok(());
            }
            while self.network.len() > fresh {
                let from = if round < 10 && self.random.chance(8) { 0 } else { fresh };
                let packet = from + self.random.index(self.network.len() - from);
                let lost = round < 20 && self.random.chance(3);
                let grant = 6 - self.free_at(packet).min(6);
                if !lost {
                    self.apply(Step::Deliver { packet, grant })?;
                    self.check()?;
                }
                if packet >= fresh {
                    self.network.swap_remove(packet);
                }
                ensure(self.network.len() < 100_000, || "a storm of datagrams".into())?;
            }
        }
        Err(format!("G: no rest, {:?}", self.nodes.iter().map(Node::show).collect::<Vec<_>>()))
    }

    fn tick(&mut self, at: usize, to: usize, round: u64) -> Checked {
        let standby = self.random.below(3);
        self.apply(Step::AskAgain { at, to, standby })?;
        self.apply(Step::Resend(at, to))?;
        self.apply(Step::Close(at, to))?;
        let Some(record) = &self.nodes[at].peers[to].record else {
            return Ok(());
        };
        let (passed, linger) = (record.is_passed(), round % 16 == 15);
        self.apply(Step::Retry { at, from: to, grant: 3 })?;
        self.apply(Step::PushState(at, to))?;
        self.push_withdrawn(at, to);
        if passed || linger {
            self.apply(Step::Drop { at, from: to })?;
        }
        Ok(())
    }

    fn free_at(&self, packet: usize) -> u64 {
        let Packet { from, to, .. } = &self.network[packet];
        self.nodes[*to].peers[*from].record.as_ref().map_or(0, Receiver::free)
    }

    fn is_quiet(&self) -> bool {
        let mut peers = self.nodes.iter().flat_map(|node| &node.peers);
        self.ledger.all_settled() && peers.all(|peer| peer.sender.is_none() && peer.record.is_none())
    }
}

fn run(seed: u64, steps: usize) -> World {
    let mut world = World::new(seed);
    let walked = (0..steps).try_for_each(|_| {
        let step = world.draw();
        world.apply(step)?;
        world.check()
    });
    if let Err(what) = walked.and_then(|()| world.come_to_rest()) {
        let step = world.trace.len();
        let last = &world.trace[step.saturating_sub(40)..];
        panic!("seed {seed}, step {step}: {what}\nlast steps: {last:?}");
    }
    world
}

/// The claim of this crate, as far as it concerns half-connections.
#[test]
fn exactly_once_in_any_world() {
    let (mut delivered, mut unknown, mut cancelled) = (0, 0, 0);
    for seed in 0..6_000 {
        let world = run(seed, 60 + (seed % 5) as usize * 60);
        let told = |outcome| world.ledger.letters.iter().filter(|l| l.outcome == Some(outcome)).count();
        delivered += told(Outcome::Delivered);
        unknown += told(Outcome::Unknown);
        cancelled += told(Outcome::Cancelled);
        assert!(world.amnesia || told(Outcome::Unknown) == 0, "seed {seed}: nothing was forgotten");
    }
    // The walks reach the interesting places: neither outcome is rare.
    let told = (delivered, unknown, cancelled);
    assert!(
        delivered > 20_000 && unknown > 500 && cancelled > 500,
        "delivered, unknown, cancelled: {told:?}"
    );
}

#[test]
fn a_world_follows_from_its_seed() {
    let [one, two] = [run(7, 300), run(7, 300)];
    assert_eq!(format!("{:?}", one.trace), format!("{:?}", two.trace));
}
