//! Parts that the application replaces and that return arbitrary values: messages still arrive once, and in order in
//! their streams.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::cell::RefCell;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{MS, SECOND, bad_link, open, settled};
use exonet_proto::Mono;
use exonet_proto::node::{Config, Outgoing, Priority, StreamEnd};
use exonet_proto::parts::{
    AckInfo, CongestionControl, LossInfo, LossThreshold, Parts, PathState, Retransmission, Scheduler, Waiting,
};
use exonet_sim::scenario::{Profile, Scenario, run};
use exonet_sim::{Dice, Disk, NodeIndex, Serving, World};

/// The behaviour of a part for its whole life.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    /// It returns the least possible values.
    Least,
    /// It returns the greatest possible values.
    Most,
    /// Arbitrary values, different each time.
    Erratic,
    /// Plausible values.
    Mild,
}

const MOODS: [Mood; 4] = [Mood::Least, Mood::Most, Mood::Erratic, Mood::Mild];

/// A part that follows no contract except that of time.
#[derive(Debug)]
struct Wild {
    mood: Mood,
    dice: RefCell<Dice>,
}

impl Wild {
    fn number(&self, mild: u64) -> u64 {
        match self.mood {
            Mood::Least => 0,
            Mood::Most => u64::MAX,
            Mood::Mild => mild,
            Mood::Erratic => {
                let mut dice = self.dice.borrow_mut();
                let bits = dice.below(65);
                // Numbers of every length.
                dice.below(1_u64.checked_shl(bits as u32).unwrap_or(u64::MAX))
            }
        }
    }

    fn span(&self, mild: Duration) -> Duration {
        match self.mood {
            Mood::Most => Duration::MAX,
            _ => Duration::from_nanos(self.number(mild.as_nanos() as u64)),
        }
    }

    fn chance(&self) -> bool {
        match self.mood {
            Mood::Least => false,
            Mood::Most => true,
            Mood::Erratic | Mood::Mild => self.dice.borrow_mut().chance(0.5),
        }
    }
}

impl CongestionControl for Wild {
    fn on_ack(&mut self, _: AckInfo<'_>) {}
    fn on_loss(&mut self, _: LossInfo) {}
    fn on_persistent_congestion(&mut self, _: Mono) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        self.number(60_000)
    }
    fn bandwidth(&self) -> u64 {
        self.number(1_000_000)
    }
    fn pacing_rate(&self) -> Option<u64> {
        self.chance().then(|| self.number(1_000_000))
    }
    fn pacing_gain(&self) -> u64 {
        self.number(125)
    }
    fn tag_for_next_packet(&self) -> u8 {
        self.number(1) as u8
    }
}

impl Retransmission for Wild {
    fn loss(&mut self, _: Mono, path: &PathState<'_>) -> LossThreshold {
        LossThreshold { packets: self.number(3), time: self.span(path.rtt().smoothed() * 9 / 8) }
    }
    fn probe_after(&self, path: &PathState<'_>, timeouts: u32) -> Duration {
        self.span(path.pto() * timeouts.min(10))
    }
    fn probes(&self, _: &PathState<'_>, _: u32) -> u32 {
        self.number(2) as u32
    }
    fn copy_after(&mut self, _: Mono, path: &PathState<'_>, _: bool) -> Option<Duration> {
        self.chance().then(|| self.span(path.rtt().smoothed() / 8))
    }
}

impl Scheduler for Wild {
    fn next(&mut self, _: Mono, waiting: &[Waiting]) -> Option<usize> {
        assert!(
            (2..=exonet_proto::parts::MOST_WAITING).contains(&waiting.len()),
            "there is something to choose"
        );
        match self.mood {
            // Always the same, or an index that does not exist.
            Mood::Least => Some(0),
            Mood::Most => Some(usize::MAX),
            Mood::Mild => (0..waiting.len()).min_by_key(|at| (waiting[*at].priority, waiting[*at].order)),
            Mood::Erratic => {
                let at = self.dice.borrow_mut().below(waiting.len() as u64 + 2) as usize;
                Some(at).filter(|at| *at <= waiting.len())
            }
        }
    }
}

/// Which of the parts are wild.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Congestion,
    Scheduler,
    Retransmission,
    All,
}

const EACH: [Which; 4] = [Which::Congestion, Which::Scheduler, Which::Retransmission, Which::All];

/// Parts that `seed` determines. Each gets its own mood, unless one is given.
fn parts(seed: u64, which: Which, mood: Option<Mood>) -> Parts {
    let made = Arc::new(AtomicU64::new(0));
    let make = move || {
        let label = made.fetch_add(1, Ordering::Relaxed);
        let mut dice = Dice::derived(seed, &[label]);
        let mood = mood.unwrap_or_else(|| dice.pick(&MOODS).unwrap());
        Wild { mood, dice: RefCell::new(dice) }
    };
    let mut parts = Parts::default();
    if matches!(which, Which::Congestion | Which::All) {
        parts.set_congestion(make.clone());
    }
    if matches!(which, Which::Scheduler | Which::All) {
        parts.set_scheduler(make.clone());
    }
    if matches!(which, Which::Retransmission | Which::All) {
        parts.set_retransmission(make);
    }
    parts
}

fn config(parts: &Parts) -> Config {
    Config { serves: true, parts: parts.clone(), ..open() }
}

/// Messages of every kind, in both directions.
fn traffic(world: &mut World, ends: [NodeIndex; 2]) {
    let priorities = [Priority::Urgent, Priority::Normal, Priority::Low, Priority::Bulk];
    for _ in 0..150 {
        let from = world.dice().below(2) as usize;
        let (from, to) = (ends[from], ends[1 - from]);
        let size = [8, 100, 1_000, 20_000, 60_000, 200_000][world.dice().below(6) as usize];
        let of = |dice: &mut Dice, some: &[&'static str]| some[dice.below(some.len() as u64) as usize];
        match world.dice().below(4) {
            0 => {
                let priority = world.dice().pick(&priorities).unwrap();
                world.send_as(from, to, size, Outgoing { priority, ..Outgoing::default() }).unwrap();
            }
            1 => {
                let method = of(world.dice(), &["one", "two", "three"]);
                world.call_method(from, to, method, size.min(20_000)).unwrap();
            }
            _ => {
                let name = of(world.dice(), &["a", "b", "c", "d", "e"]);
                world.say(from, to, name, size.min(60_000), StreamEnd::Open).unwrap();
            }
        }
        let pause = Duration::from_micros(world.dice().below(4_000));
        world.run_for(pause);
    }
}

/// Checks that each message was taken once, and its sender knows; readers of streams have rejected a few, and their
/// senders know that.
fn arrived(world: &mut World, within: Duration, what: &str) {
    settled(world, within, what);
    let totals = world.ledger.totals();
    assert_eq!((totals.delivered + totals.withdrawn, totals.unknown), (totals.sent, 0), "{what}: {totals:?}");
    assert_eq!((totals.taken, totals.replies), (totals.delivered, totals.calls), "{what}: {totals:?}");
}

/// Checks that everything arrives once in a world of two nodes with such parts.
fn arrives(seed: u64, which: Which, mood: Option<Mood>) {
    let what = format!("seed {seed}: {which:?} {mood:?}");
    let mut world = World::new(seed, bad_link(0.05));
    let parts = parts(seed, which, mood);
    let ends = [(); 2].map(|()| world.add(config(&parts), true));
    for end in ends {
        world.serve(end, Serving { size: 500, ..Serving::default() });
    }
    traffic(&mut world, ends);
    arrived(&mut world, 3_000 * SECOND, &what);
}

#[test]
fn parts_that_answer_anything_deliver_everything_once() {
    for seed in 0..24 {
        arrives(seed, EACH[seed as usize % 4], None);
    }
}

#[test]
fn parts_that_always_say_the_worst_deliver_everything_once() {
    for (seed, mood) in (100..).zip(MOODS) {
        EACH.into_iter().for_each(|which| arrives(seed, which, Some(mood)));
    }
}

#[test]
fn a_journal_binds_in_the_order_that_the_scheduler_chooses() {
    use exonet_proto::node::Durability;
    for seed in 200..206 {
        let parts = parts(seed, Which::Scheduler, None);
        let mut world = World::new(seed, bad_link(0.05));
        let ends = [(); 2].map(|()| {
            world.add_on(config(&parts), Some(Disk::slow(2 * MS).with_journal(Durability::Forced)))
        });
        for end in ends {
            world.serve(end, Serving { size: 500, ..Serving::default() });
        }
        traffic(&mut world, ends);
        arrived(&mut world, 600 * SECOND, &format!("seed {seed}"));
    }
}

/// Crashes, roaming, partitions, full disks: arbitrary parts break no promise.
#[test]
fn generated_worlds_with_parts_that_answer_anything_keep_every_promise() {
    for (seed, profile) in (0..).zip([Profile::Default, Profile::Lossy, Profile::Partitions]) {
        let mut scenario = Scenario::generate(seed, profile);
        for (place, plan) in (0..).zip(&mut scenario.nodes) {
            plan.config.parts = parts(seed << 8 | place, Which::All, Some(Mood::Erratic));
        }
        let report = run(&scenario);
        assert!(report.findings.iter().all(|finding| finding.is_of_the_end()), "{report}");
        assert!(report.totals.sent >= 100, "{report}");
    }
}

/// A link of 1 MB per second, and a sender whose scheduler always chooses the first message in the list.
fn names_the_first() -> (World, NodeIndex, NodeIndex) {
    let mut world = World::new(1, exonet_sim::LinkConfig::limited(10 * MS, 1_000_000, 100_000));
    let parts = parts(1, Which::Scheduler, Some(Mood::Least));
    let (a, b) = (world.add(config(&parts), false), world.add(config(&parts), false));
    world.send(a, b, 8).unwrap();
    world.run_for(SECOND);
    (world, a, b)
}

/// Sends `more` at twice the rate of the link, until `last` is taken. Returns the number of messages that were sent.
fn until_taken(world: &mut World, last: u64, more: impl Fn(&mut World) -> bool) -> usize {
    let mut sent = 0;
    while !world.ledger.is_taken(last) {
        assert!(sent < 4_000, "it waits for ever");
        sent += (0..10).filter(|_| more(world)).count();
        world.run_for(5 * MS);
    }
    sent
}

#[test]
fn a_scheduler_keeps_no_message_waiting_for_ever() {
    let (mut world, a, b) = names_the_first();
    let of = |priority| Outgoing { priority, ..Outgoing::default() };
    (0..100).for_each(|_| _ = world.send_as(a, b, 1_000, of(Priority::Urgent)).unwrap());
    let (bulk, _) = world.send_as(a, b, 1_000, of(Priority::Bulk)).unwrap();
    let more = |world: &mut World| world.send_as(a, b, 1_000, of(Priority::Urgent)).is_ok();
    let urgent = until_taken(&mut world, bulk, more);
    assert!(urgent > 100, "{urgent}: the scheduler had its way until then");
}

#[test]
fn a_scheduler_keeps_no_lane_waiting_for_ever() {
    let (mut world, a, b) = names_the_first();
    (0..100).for_each(|_| _ = world.say(a, b, "first", 1_000, StreamEnd::Open).unwrap());
    let (last, _) = world.say(a, b, "last", 1_000, StreamEnd::Open).unwrap();
    let more = |world: &mut World| world.say(a, b, "first", 1_000, StreamEnd::Open).is_ok();
    let first = until_taken(&mut world, last, more);
    assert!(first > 100, "{first}: the scheduler had its way until then");
}
