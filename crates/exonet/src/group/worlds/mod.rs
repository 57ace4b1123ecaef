//! Groups over the nodes of simulated worlds, where links lose, nodes die and members come and go: the verdict and the
//! outcome at each member are true.

mod crew;
mod slow;

use core::time::Duration;

use exonet_proto::node::{Config, Confirm, Durability, Limits, Outcome, Policy};
use exonet_sim::{Disk, LinkConfig, NodeIndex, NodeSet, World};

use crate::group::Mode;
use crate::group::ballot::{Verdict, Why};
use crate::group::board::MemberState;
use crate::group::worlds::crew::{Crew, Sent};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config { dead_after: 3_600 * SECOND, ..Config::new(Policy::Anyone) }
}

/// A link with every fault at once.
fn bad_link(loss: f64, delay: Duration) -> LinkConfig {
    LinkConfig {
        loss,
        duplicate: 0.02,
        corrupt: 0.01,
        jitter: 8 * MS,
        replay: 0.01,
        replay_after: 60 * SECOND,
        ..LinkConfig::perfect(delay)
    }
}

/// A disk of a node without a journal, with a written one or with a forced one.
fn any_disk(world: &mut World) -> Disk {
    let latency = Duration::from_micros(world.dice().below(20_000));
    match world.dice().below(3) {
        0 => Disk::slow(latency),
        1 => Disk::slow(Duration::ZERO).with_journal(Durability::Written),
        _ => Disk::slow(latency).with_journal(Durability::Forced),
    }
}

fn below(world: &mut World, n: usize) -> usize {
    usize::try_from(world.dice().below(n as u64)).unwrap()
}

fn any_mode(world: &mut World, members: usize) -> Mode {
    let send = 1 + below(world, members.max(1));
    match world.dice().below(4) {
        0 => Mode::All,
        1 => Mode::Any,
        2 => Mode::Quorum { send, acks: 1 + below(world, send) },
        _ => Mode::Balanced { k: send },
    }
}

/// Counts of events in the worlds. The test checks that each event occurred often enough.
#[derive(Debug, Default)]
struct Seen {
    reached: [u64; 4],
    too_few: u64,
    late: u64,
    /// Messages that spares got.
    replaced: u64,
    /// Copies that were withdrawn in time, and too late.
    withdrawn: [u64; 2],
    rejected: u64,
    doubtful: u64,
    skipped: u64,
    /// Messages whose sender died before their verdict.
    orphaned: u64,
    crashes: u64,
    removed: u64,
    cancelled: u64,
}

impl Seen {
    fn note(&mut self, sent: &Sent) {
        let (k, _) = sent.sizes();
        let mode = match sent.mode {
            Mode::All => 0,
            Mode::Any => 1,
            Mode::Quorum { .. } => 2,
            Mode::Balanced { .. } => 3,
        };
        match sent.verdict {
            Some(Verdict::Reached { .. }) => self.reached[mode] += 1,
            Some(Verdict::Failed { why: Why::TooFew, .. }) => self.too_few += 1,
            Some(Verdict::Failed { why: Why::Deadline, .. }) => self.late += 1,
            None => self.orphaned += 1,
        }
        let chosen = sent.copies.iter().filter(|copy| copy.state != MemberState::Spare);
        self.replaced += u64::from(chosen.count() > k);
        self.cancelled += u64::from(sent.cancelled);
        for copy in &sent.copies {
            match &copy.state {
                MemberState::Skipped(_) => self.skipped += 1,
                MemberState::Settled(settled) => match settled.outcome {
                    Outcome::Cancelled if copy.withdrawn => self.withdrawn[0] += 1,
                    Outcome::Delivered | Outcome::Processed { .. } if copy.withdrawn => {
                        self.withdrawn[1] += 1;
                    }
                    Outcome::Rejected { .. } => self.rejected += 1,
                    Outcome::Unknown => self.doubtful += 1,
                    _ => {}
                },
                _ => {}
            }
        }
    }
}

/// A world with a group in it, and what goes wrong there.
struct Scene {
    world: World,
    crew: Crew,
    /// All nodes that are or were members.
    nodes: Vec<NodeIndex>,
    removed: u64,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed, LinkConfig::perfect(5 * MS));
        // A short queue is full now and then.
        let limits = match world.dice().below(3) {
            0 => Limits { queued_messages: 3, ..Limits::default() },
            _ => Limits::default(),
        };
        let disk = any_disk(&mut world);
        let sender = world.add_on(Config { limits, ..config() }, Some(disk));
        let (loss, judging) = (world.dice().unit() * 0.2, world.dice().chance(0.5));
        let nodes: Vec<_> = (0..2 + world.dice().below(5))
            .map(|_| {
                let disk = any_disk(&mut world);
                let member = world.add_on(config(), Some(disk));
                let delay = world.dice().span(2 * MS, 120 * MS);
                world.set_link(sender, member, bad_link(loss, delay));
                world.set_link(member, sender, bad_link(loss, delay));
                if judging && world.dice().chance(0.5) {
                    world.set_judging(member);
                }
                member
            })
            .collect();
        let crew = Crew::new(&world, sender, nodes.clone(), seed);
        Self { world, crew, nodes, removed: 0 }
    }

    fn send(&mut self) {
        let Self { world, crew, .. } = self;
        let mode = any_mode(world, crew.members.len());
        let size = [8, 50, 1_000, 20_000][below(world, 4)];
        let deadline = world.dice().chance(0.5).then(|| world.dice().span(5 * MS, 4 * SECOND));
        let confirm = [Confirm::Delivered, Confirm::Processed][below(world, 2)];
        let possible = crew.send(world, mode, size, confirm, deadline);
        assert!(possible || crew.members.is_empty());
    }

    /// A node dies and comes back at once.
    fn falls(&mut self, node: NodeIndex) {
        if self.world.dice().chance(0.5) {
            self.world.crash(node);
        } else {
            self.world.cut_power(node);
        }
    }

    fn trouble(&mut self, step: u64) {
        let nth = below(&mut self.world, self.nodes.len());
        let member = self.nodes[nth];
        let chance = |scene: &mut Self, p| scene.world.dice().chance(p);
        if chance(self, 0.06) && self.world.is_up(member) {
            self.falls(member);
        }
        if chance(self, 0.03) {
            self.world.kill(member);
        }
        if chance(self, 0.2) {
            self.world.boot(member);
        }
        if chance(self, 0.02) {
            let sender = self.crew.sender;
            self.falls(sender);
            self.crew.died(&self.world, step);
        }
        if chance(self, 0.04) {
            let (them, all) = (NodeSet::default().with(member.0), NodeSet(u64::MAX));
            self.world.cut(step, them, all);
            self.world.cut(step, all, them);
        }
        if chance(self, 0.2) {
            let cut = self.world.dice().below(step + 1);
            self.world.mend(cut);
        }
        if chance(self, 0.05) {
            let reads = chance(self, 0.7);
            self.world.set_reads(member, reads);
        }
        if chance(self, 0.05) {
            self.come_or_go(member);
        }
        if chance(self, 0.06) && !self.crew.open.is_empty() {
            let nth = below(&mut self.world, self.crew.open.len());
            let abandon = chance(self, 0.3);
            self.crew.cancel(&mut self.world, nth, abandon);
        }
    }

    fn come_or_go(&mut self, member: NodeIndex) {
        if self.crew.members.contains(&member) {
            let now = self.world.dice().chance(0.5);
            self.crew.remove(&mut self.world, member, now);
            self.removed += 1;
        } else {
            self.crew.members.push(member);
        }
    }

    /// Ends all trouble, and waits until every message has ended at every member.
    fn settle(&mut self, what: &str) {
        for node in self.nodes.clone() {
            self.world.boot(node);
            self.world.set_reads(node, true);
        }
        (0..100).for_each(|step| self.world.mend(step));
        let until = self.world.now() + 200 * SECOND;
        while self.world.now() < until && !self.crew.open.is_empty() {
            self.crew.run_for(&mut self.world, 10 * MS);
        }
        assert!(!self.crew.is_undecided(), "{what}: a message has no verdict");
        assert!(self.crew.open.is_empty(), "{what}: {} messages are under way", self.crew.open.len());
        assert!(self.world.run_until_settled(200 * SECOND), "{what}: {} open", self.world.ledger.open());
        // The last copies of datagrams arrive after a minute.
        self.world.run_for(61 * SECOND);
        assert_eq!(self.world.ledger.violations(), [], "{what}");
    }
}

/// Checks what was told of a message against what its members have in the end.
fn is_true(world: &World, sent: &Sent, what: &str) {
    let (k, p) = sent.sizes();
    let mut had = 0;
    for copy in &sent.copies {
        let taken = copy.number.map_or(0, |number| world.ledger.times_taken(number));
        // A member may die as it gets the message.
        let has = copy.number.is_some_and(|number| world.ledger.is_taken(number));
        let said = &copy.state;
        had += usize::from(taken > 0 || said.has_it());
        assert!(taken <= 1, "{what}: {said:?}, taken {taken} times");
        assert!(!said.has_it() || has, "{what}: {said:?}, and the member does not have it");
        assert!(!said.is_certainly_not() || taken == 0, "{what}: {said:?}, and the member has it");
    }
    assert!(had <= k, "{what}: {had} members have it, {k} were to get it");
    if let Some(Verdict::Reached { good }) = sent.verdict {
        assert!(good >= p && had >= good, "{what}: {good} were told, {had} have it, {p} were to");
    }
}

#[test]
fn what_is_told_of_a_message_is_true_whatever_happens() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let (what, mut scene) = (format!("seed {seed}"), Scene::new(seed));
        for step in 0..40 {
            scene.send();
            scene.trouble(step);
            let pause = Duration::from_micros(scene.world.dice().below(80_000));
            scene.crew.run_for(&mut scene.world, pause);
        }
        scene.settle(&what);
        for sent in &scene.crew.over {
            is_true(&scene.world, sent, &what);
            seen.note(sent);
        }
        seen.crashes += scene.world.coverage().crashes;
        seen.removed += scene.removed;
    }
    eprintln!("{seen:?}");
    let Seen { reached, too_few, late, replaced, withdrawn, rejected, doubtful, skipped, .. } = seen;
    assert!(reached.into_iter().chain(withdrawn).all(|n| n > SEEDS), "{seen:?}");
    assert!(
        [too_few, late, replaced, rejected, doubtful, skipped].into_iter().all(|n| n > SEEDS),
        "{seen:?}"
    );
    let Seen { orphaned, crashes, removed, cancelled, .. } = seen;
    assert!([orphaned, crashes, removed, cancelled].into_iter().all(|n| n > SEEDS), "{seen:?}");
}

const SEEDS: u64 = 40;
