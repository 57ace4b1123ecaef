//! Makes a scenario from a seed and a profile.

use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::node::{Config, CongestionChoice, Durability, Limits, Policy, Priority};

use super::action::{Ears, Mishap, Names};
use super::profile::{Fault, Mix};
use super::{Action, Change, NodePlan, Profile, Scenario, What, Withdraw};
use crate::{Bursts, ClockConfig, Dice, Disk, LinkConfig, NodeSet, Serving};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The largest number of bytes that one action sends. Another profile sends more.
const MOST_BYTES: u64 = 1 << 20;
/// The longest time for which nodes keep records of silent peers: ephemeral nodes vanish for good.
const PATIENCE: Duration = Duration::from_secs(7_200);
/// The shortest time after which senders give up a message in doubt: by then a working network has told them the
/// outcome.
const LEAST_PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn generate(seed: u64, profile: Profile) -> Scenario {
    let mix = profile.mix();
    let mut dice = Dice::derived(seed, &[3]);
    let count = dice.between(mix.nodes.0, mix.nodes.1);
    let mut nodes: Vec<NodePlan> =
        (0..count).map(|i| node(&mut Dice::derived(seed, &[4, i]), profile, mix)).collect();
    for (i, plan) in (0..).zip(&mut nodes).filter(|_| mix.calls > 0.0) {
        serve(&mut Dice::derived(seed, &[6, i]), profile, plan);
    }
    for (i, plan) in (0..).zip(&mut nodes).filter(|_| mix.journals > 0.0) {
        let mut dice = Dice::derived(seed, &[9, i]);
        if dice.chance(mix.journals) {
            let durability = if dice.chance(0.7) { Durability::Written } else { Durability::Forced };
            plan.disk = plan.disk.take().map(|disk| disk.with_journal(durability));
        }
    }
    let mut links = BTreeMap::new();
    for a in 0..nodes.len() {
        for b in (0..nodes.len()).filter(|b| *b != a) {
            links.insert((a, b), link(&mut Dice::derived(seed, &[5, a as u64, b as u64]), mix));
        }
    }
    let length = dice.span(Duration::from_secs(mix.minutes.0 * 60), Duration::from_secs(mix.minutes.1 * 60));
    let calls = Dice::derived(seed, &[7]);
    let mut draw = Draw { dice, calls, mix, nodes: &nodes, length, actions: Vec::new() };
    draw.traffic();
    draw.faults(mix.faults, mix.kinds);
    draw.dice = Dice::derived(seed, &[8]);
    draw.faults(mix.more, mix.further);
    let mut actions = draw.actions;
    actions.sort_by_key(|action| action.at);
    Scenario { seed, profile, nodes, links, actions: actions.into_iter().enumerate().collect() }
}

fn node(dice: &mut Dice, profile: Profile, mix: Mix) -> NodePlan {
    let some = |dice: &mut Dice, choices: &[u64], usual: u64| {
        if dice.chance(0.3) { dice.pick(choices).unwrap_or(usual) } else { usual }
    };
    let usual = Limits::default();
    let usual_strays = usual.strays as u64;
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let limits = Limits {
        slots: some(dice, &[4, 64, 1_000], usual.slots),
        pool_window: some(dice, &[128 << 10, 512 << 10], usual.pool_window),
        body_window: some(dice, &[256 << 10, 1 << 20], usual.body_window),
        bodies: size(some(dice, &[1, 4], usual.bodies as u64)),
        queued_messages: size(some(dice, &[50, 1_000], usual.queued_messages as u64)),
        stream_above: some(dice, &[100_000, 300_000], usual.stream_above),
        ..usual
    };
    // The limits of lanes follow from the others.
    let tight = limits.pool_window < usual.pool_window;
    let limits = Limits {
        lane_window: if limits.bodies == 1 { 0 } else { usual.lane_window >> (3 * u32::from(tight)) },
        lane_pool: if tight { limits.pool_window } else { usual.lane_pool },
        lanes: if limits.slots == 64 { 2 } else { usual.lanes },
        ..limits
    };
    let seconds = |n: u64| Duration::from_secs(n);
    let mut config = Config {
        limits,
        idle_timeout: seconds(some(dice, &[5, 120], 30)),
        sender_linger: seconds(some(dice, &[1, 60], 10)),
        rekey_after: seconds(some(dice, &[10, 30], 120)),
        max_ack_delay: Duration::from_millis(some(dice, &[5, 25], 1)),
        dead_after: PATIENCE,
        congestion: if dice.chance(0.1) {
            CongestionChoice::Fixed(30_000)
        } else {
            CongestionChoice::default()
        },
        clock_block: if dice.chance(mix.tiny_blocks) { dice.between(4, 128) } else { 1 << 32 },
        ..Config::new(Policy::Anyone)
    };
    let stored = !dice.chance(mix.ephemeral);
    let latency = if dice.chance(0.5) { dice.span(MS / 10, 20 * MS) } else { Duration::ZERO };
    let wild = profile != Profile::Calm;
    let clock = ClockConfig {
        drift_ppm: if wild { i32::try_from(dice.below(401)).unwrap_or(0) - 200 } else { 0 },
        skew_seconds: if wild && dice.chance(0.5) { shift(dice, 86_400 * 365) } else { 0 },
        reboots: wild && dice.chance(0.5),
    };
    config.limits.strays = size(some(dice, &[0, 1, 2], usual_strays));
    config.doubt_timeout = (wild && dice.chance(0.1)).then(|| dice.span(LEAST_PATIENCE, PATIENCE));
    NodePlan { config, disk: stored.then(|| Disk::slow(latency)), clock, serving: None }
}

/// Decides whether and how a node answers calls, and how long and how much it keeps of its replies.
fn serve(dice: &mut Dice, profile: Profile, plan: &mut NodePlan) {
    let wild = profile != Profile::Calm;
    let within = if dice.chance(0.3) { Duration::ZERO } else { dice.span(MS, 60 * SECOND) };
    let never = if wild && dice.chance(0.3) { 0.03 } else { 0.0 };
    let fails = if dice.chance(0.3) { 0.1 } else { 0.0 };
    // From a reply that fits into a packet to one that is read while it arrives.
    let octave = 8 << dice.below(16);
    let size = usize::try_from(octave + dice.below(octave)).unwrap_or(usize::MAX);
    plan.config.serves = dice.chance(0.9);
    plan.serving = plan.config.serves.then_some(Serving { within, never, fails, size });
    if wild && dice.chance(0.3) {
        plan.config.reply_kept = dice.span(5 * SECOND, 120 * SECOND);
        plan.config.caller_patience = plan.config.reply_kept;
    }
    if wild && dice.chance(0.2) {
        plan.config.limits.replies = dice.pick(&[4, 64]).unwrap_or(4);
    }
    if wild && dice.chance(0.2) {
        // One call of each peer can be answered, whatever the size of its reply. If there are more at once, replies
        // are lost.
        plan.config.limits.reply_bytes = 8 * (size + 1_000);
    }
}

/// A number from `-most` to `most`; small numbers are as likely as large ones.
fn shift(dice: &mut Dice, most: u64) -> i64 {
    let seconds = dice.span(SECOND, Duration::from_secs(most)).as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(0);
    if dice.chance(0.5) { seconds } else { -seconds }
}

fn link(dice: &mut Dice, mix: Mix) -> LinkConfig {
    let delay = dice.span(MS / 5, 150 * MS);
    let mut link = LinkConfig::perfect(delay);
    if dice.chance(0.3) {
        link.rate = Some(dice.between(200_000, 20_000_000));
        link.queue = dice.between(30_000, 500_000);
    }
    if mix.imperfect {
        let share = |dice: &mut Dice, most: f64| if dice.chance(0.5) { dice.unit() * most } else { 0.0 };
        link.loss = share(dice, 0.04);
        link.duplicate = share(dice, 0.02);
        link.corrupt = share(dice, 0.01);
        link.jitter = if dice.chance(0.5) { dice.span(MS / 10, delay.max(MS)) } else { Duration::ZERO };
        link.replay = share(dice, 0.01);
        link.replay_after = dice.span(SECOND, 7_200 * SECOND);
    }
    link
}

/// Draws the actions of a scenario.
struct Draw<'a> {
    dice: Dice,
    /// Decides which messages are calls. It is separate, so that everything else is the same without calls.
    calls: Dice,
    mix: Mix,
    nodes: &'a [NodePlan],
    length: Duration,
    actions: Vec<Action>,
}

impl Draw<'_> {
    fn node(&mut self) -> usize {
        usize::try_from(self.dice.below(self.nodes.len() as u64)).unwrap_or(0)
    }

    /// Two different nodes.
    fn pair(&mut self) -> (usize, usize) {
        let a = if self.mix.hub && self.dice.chance(0.7) { 0 } else { self.node() };
        let b = loop {
            let b = self.node();
            if b != a {
                break b;
            }
        };
        if self.dice.chance(0.5) { (a, b) } else { (b, a) }
    }

    fn moment(&mut self) -> Duration {
        Duration::from_micros(self.dice.below(u64::try_from(self.length.as_micros()).unwrap_or(u64::MAX)))
    }

    fn add(&mut self, at: Duration, span: Duration, what: What) {
        self.actions.push(Action { at, span, what });
    }

    // --- what applications do ---

    fn traffic(&mut self) {
        let wanted = self.dice.between(self.mix.messages.0, self.mix.messages.1);
        let mut sent = 0;
        while sent < wanted {
            let (at, (from, to)) = (self.moment(), self.pair());
            sent += self.burst(at, from, to);
            if self.dice.chance(0.3) {
                sent += self.burst(at, to, from);
            }
        }
        for _ in 0..self.dice.below(4) {
            let (at, (from, to)) = (self.moment(), self.pair());
            let span = self.dice.span(MS, 20 * SECOND);
            let len = self.dice.between(8, 600_000);
            self.add(at, span, What::Stream { from, to, len: clip(len) });
        }
        if self.dice.chance(0.3) {
            let (at, (node, peer)) = (self.moment(), self.pair());
            let (span, every) = (self.dice.span(SECOND, 300 * SECOND), self.dice.span(SECOND, 30 * SECOND));
            self.add(at, span, What::Keepalive(node, peer, every));
        }
    }

    /// A burst of messages of one size. Returns their number.
    fn burst(&mut self, at: Duration, from: usize, to: usize) -> u64 {
        let (share, largest) = self.mix.large;
        let size = match self.dice.below(10) {
            _ if self.dice.chance(share) => {
                let octave = 1_500 << self.dice.below(u64::from((largest / 1_500).max(1).ilog2()) + 1);
                octave + self.dice.below(octave)
            }
            0 => self.dice.below(9),
            1..=6 => self.dice.between(8, 200),
            _ => self.dice.between(200, 1_500),
        };
        let most = (MOST_BYTES / size.max(1)).clamp(1, 80);
        let count = self.dice.between(1, most);
        let span = match self.dice.below(3) {
            0 => Duration::ZERO,
            1 => self.dice.span(MS, SECOND),
            _ => self.dice.span(SECOND, 30 * SECOND),
        };
        let priority = match self.dice.below(8) {
            0 => Priority::Urgent,
            1 => Priority::Low,
            2 => Priority::Bulk,
            _ => Priority::Normal,
        };
        let calm = self.mix.faults.1 == 0;
        let deadline = (!calm && self.dice.chance(0.1)).then(|| self.dice.span(10 * MS, 60 * SECOND));
        let withdraw = match self.dice.below(20) {
            0 if !calm => Some(Withdraw::Cancel(self.dice.span(MS, 5 * SECOND))),
            1 if !calm => Some(Withdraw::Abandon(self.dice.span(MS, 30 * SECOND))),
            _ => None,
        };
        let (n, size, call) = (clip(count), clip(size), self.calls.chance(self.mix.calls));
        self.add(at, span, What::Send { from, to, count: n, size, call, priority, deadline, withdraw });
        count
    }

    // --- what goes wrong ---

    fn faults(&mut self, (least, most): (u64, u64), kinds: &[Fault]) {
        for _ in 0..self.dice.between(least, most) {
            let Some(kind) = self.dice.pick(kinds) else { return };
            let span = self.dice.span(20 * MS, Duration::from_secs(self.mix.longest));
            let (at, node) = (self.moment(), self.node());
            self.fault(kind, at, span, node);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of fault")]
    fn fault(&mut self, kind: Fault, at: Duration, span: Duration, node: usize) {
        let stored = self.nodes.get(node).is_some_and(|plan| plan.disk.is_some());
        let dice = &mut self.dice;
        let (span, what) = match kind {
            Fault::Cut => {
                let (from, to) = self.sides();
                (span, What::Cut { from, to, both: self.dice.chance(0.5) })
            }
            Fault::Loss => self.weather(span, |dice| Change::Loss(0.02 + dice.unit() * 0.5)),
            Fault::Bursts => self.weather(span, |dice| {
                let (enter, leave) = (0.002 + dice.unit() * 0.05, 0.02 + dice.unit() * 0.4);
                Change::Bursts(Bursts { enter, leave, loss: 0.5 + dice.unit() / 2.0 })
            }),
            Fault::Delay => self.weather(span, |dice| {
                let delay = dice.span(MS, 3 * SECOND);
                Change::Delay(delay, dice.span(MS, 2 * delay))
            }),
            Fault::Narrow => self.weather(span, |dice| {
                Change::Narrow(dice.between(5_000, 1_000_000), dice.between(3_000, 300_000))
            }),
            Fault::Corrupt => self.weather(span, |dice| Change::Corrupt(0.01 + dice.unit() * 0.3)),
            Fault::Copies => self.weather(span, |dice| Change::Copies(0.05 + dice.unit() * 0.9)),
            Fault::Echoes => self.weather(span, |dice| {
                Change::Echoes(0.01 + dice.unit() * 0.2, dice.span(SECOND, 4 * 3_600 * SECOND))
            }),
            Fault::Roam => (Duration::ZERO, What::Roam(node)),
            Fault::Port => (Duration::ZERO, What::Port(node)),
            Fault::Nat => (span * 4, What::Nat(node, dice.span(2 * SECOND, 120 * SECOND))),
            Fault::Crash => {
                let down = if dice.chance(0.4) { Duration::ZERO } else { span };
                (down, What::Crash(node))
            }
            Fault::Suspend => (span, What::Suspend(node)),
            Fault::Stuck => (span.min(60 * SECOND), What::Stuck(node)),
            Fault::Wall => (Duration::ZERO, What::Wall(node, shift(dice, 86_400 * 30))),
            Fault::Deaf => {
                let ears = Ears::ALL.get(span.subsec_nanos() as usize % Ears::ALL.len());
                (span, What::Deaf(node, ears.copied().unwrap_or(Ears::Shut)))
            }
            Fault::Slow => {
                let (bites, every) = (clip(dice.between(1, 20)), dice.span(5 * MS, 5 * SECOND));
                (span, What::Slow(node, bites, every))
            }
            Fault::SlowDisk if stored => (span, What::SlowDisk(node, dice.span(MS, 5 * SECOND))),
            Fault::BrokenDisk if stored => (span, What::BrokenDisk(node)),
            Fault::FullDisk if stored => (span, What::FullDisk(node)),
            Fault::StuckDisk if stored => (span, What::StuckDisk(node, dice.chance(0.5))),
            // The first two nodes stay, so that there is always a node to send to.
            Fault::Leave if node > 1 && dice.chance(0.2) => (Duration::ZERO, What::Leave(node, true)),
            Fault::Leave => {
                let down = if dice.chance(0.5) { Duration::ZERO } else { span };
                (down, What::Leave(node, false))
            }
            Fault::Move if stored => {
                let mishap = match dice.below(8) {
                    0 | 1 => Mishap::Stays,
                    2 => Mishap::Dies(dice.span(MS / 10, 2 * SECOND)),
                    3 | 4 => Mishap::Copied,
                    // Otherwise, by its numbers, the second place could be the next life of the first.
                    5 => Mishap::Twice(u64::from(span.subsec_nanos().is_multiple_of(2)) << 40),
                    _ => Mishap::None,
                };
                let names = match dice.below(4) {
                    0 => Names::Stale,
                    1 => Names::Lie,
                    _ => Names::Right,
                };
                let nowhere = if dice.chance(0.7) { span.min(dice.span(MS, SECOND)) } else { span };
                (nowhere, What::Move(node, mishap, names))
            }
            Fault::Rollback if stored => (Duration::ZERO, What::Rollback(node)),
            Fault::SlowDisk
            | Fault::BrokenDisk
            | Fault::FullDisk
            | Fault::StuckDisk
            | Fault::Move
            | Fault::Rollback => return,
        };
        self.add(at, span, what);
    }

    /// The two sides of a partition; neither is empty.
    fn sides(&mut self) -> (NodeSet, NodeSet) {
        let (a, b) = self.pair();
        let (mut from, mut to) = (NodeSet::default().with(a), NodeSet::default().with(b));
        for node in (0..self.nodes.len()).filter(|node| *node != a && *node != b) {
            match self.dice.below(3) {
                0 => from = from.with(node),
                1 => to = to.with(node),
                _ => {}
            }
        }
        (from, to)
    }

    fn weather(&mut self, span: Duration, change: impl FnOnce(&mut Dice) -> Change) -> (Duration, What) {
        let (from, to) = self.sides();
        (span, What::Weather { from, to, change: change(&mut self.dice) })
    }
}

fn clip(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
