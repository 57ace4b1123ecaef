//! One stream to several nodes: each takes its part in order, whichever nodes join, leave, die, lose their power or are
//! cut off meanwhile, without journals, with written ones and with forced ones.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::common::{MS, SECOND, bad_link, open, settled};
use bytes::Bytes;
use exonet_proto::node::{Config, Durability, Outcome, Position, StreamEnd};
use exonet_sim::{Disk, NodeIndex, NodeSet, World};

const NAME: &str = "s";
const MEMBERS: usize = 5;

fn config(block: u64) -> Config {
    Config { clock_block: block, dead_after: 3_600 * SECOND, ..open() }
}

/// How a node keeps what it knows. None: only in memory, beside its key and its clock.
type Keeps = Option<Durability>;

const FORCED: Keeps = Some(Durability::Forced);
const WRITTEN: Keeps = Some(Durability::Written);
const MEMORY: Keeps = None;

/// A disk for such a node. Without a journal, and with a forced one, a write takes up to `latency`.
fn disk(keeps: Keeps, latency: Duration) -> Disk {
    match keeps {
        None => Disk::slow(latency),
        Some(Durability::Written) => Disk::slow(Duration::ZERO).with_journal(Durability::Written),
        Some(durability) => Disk::slow(latency).with_journal(durability),
    }
}

/// The faults of a world besides those of its links.
#[derive(Clone, Copy, Default)]
struct Fates {
    /// Members die and come back.
    crash: bool,
    /// The sender dies and comes back.
    sender: bool,
    /// Half of the nodes that die lose their power.
    power: bool,
    /// Members are cut off for a while.
    cut: bool,
}

/// A stream to its members, as a sender keeps it.
struct Crew {
    sender: NodeIndex,
    members: Vec<NodeIndex>,
    active: BTreeSet<usize>,
    /// The copies of each message, by member.
    sent: Vec<BTreeMap<usize, u64>>,
    /// The copies that the sender's journal may not have yet, each with the position at which it has the copy.
    unsafe_until: BTreeMap<u64, Position>,
    /// The copies that the sender's journal did not have when the sender died. They count as not accepted.
    unsure: BTreeSet<u64>,
    /// The copies that the sender has withdrawn, in time or not.
    withdrawn: BTreeSet<u64>,
    power_cuts: u64,
}

impl Crew {
    fn new(world: &mut World, mut add: impl FnMut(&mut World) -> NodeIndex) -> Self {
        let sender = add(world);
        let members: Vec<_> = (0..MEMBERS).map(|_| add(world)).collect();
        Self {
            sender,
            members,
            active: (0..MEMBERS).collect(),
            sent: Vec::new(),
            unsafe_until: BTreeMap::new(),
            unsure: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            power_cuts: 0,
        }
    }

    /// A stream between nodes that keep what they know in this way.
    fn on(world: &mut World, keeps: Keeps) -> Self {
        let block = 64 << world.dice().below(15);
        let latency = Duration::from_micros(world.dice().below(30_000));
        Self::new(world, |world| world.add_on(config(block), Some(disk(keeps, latency))))
    }

    /// Sends one message to all members of the stream. A member whose queue is full leaves the stream.
    fn send(&mut self, world: &mut World) {
        let size = [8, 50, 1_000, 20_000][world.dice().below(4) as usize];
        let mut copies = BTreeMap::new();
        for at in self.active.clone() {
            match world.say(self.sender, self.members[at], NAME, size, StreamEnd::Open) {
                Ok((number, key)) => {
                    copies.insert(at, number);
                    let end = world.node(self.sender).unwrap().journal_end();
                    self.unsafe_until.insert(number, end);
                    if world.dice().chance(0.02) {
                        let _ = world.cancel(self.sender, key);
                        self.withdrawn.insert(number);
                    }
                }
                Err(_) => self.leave(world, at, true),
            }
        }
        self.sent.push(copies);
    }

    /// A member leaves the stream: its stream is closed after everything that was sent, or reset after everything that
    /// has left.
    fn leave(&mut self, world: &mut World, at: usize, at_once: bool) {
        self.active.remove(&at);
        let (to, name) = (world.id(self.members[at]).unwrap(), Bytes::from_static(NAME.as_bytes()));
        let mut end = StreamEnd::Last;
        if at_once {
            end = StreamEnd::Reset;
            world.with(self.sender, |node, now| node.cancel_stream(now, &to, &name));
            self.withdrawn.extend(self.sent.iter().filter_map(|copies| copies.get(&at)));
        }
        let begun = world.with(self.sender, |node, _| node.has_begun_stream(&to, &name)).unwrap();
        if begun || !at_once {
            let _ = world.say(self.sender, self.members[at], NAME, 8, end);
        }
    }

    fn change(&mut self, world: &mut World) {
        let at = world.dice().below(MEMBERS as u64) as usize;
        if self.active.contains(&at) {
            let at_once = world.dice().chance(0.5);
            self.leave(world, at, at_once);
        } else {
            self.active.insert(at);
        }
    }

    /// A node dies, perhaps because its power is cut, and comes back.
    fn falls(&mut self, world: &mut World, node: NodeIndex, fates: Fates) {
        let sender = world.node(self.sender).unwrap();
        self.unsafe_until.retain(|_, at| !sender.is_safe(*at));
        if node == self.sender {
            self.unsure.extend(core::mem::take(&mut self.unsafe_until).into_keys());
        }
        if fates.power && world.dice().chance(0.5) {
            self.power_cuts += 1;
            world.cut_power(node);
        } else {
            world.crash(node);
        }
    }

    fn run(&mut self, world: &mut World, fates: Fates) {
        for step in 0..60 {
            self.send(world);
            if world.dice().chance(0.1) {
                self.change(world);
            }
            let member = self.members[world.dice().below(MEMBERS as u64) as usize];
            if fates.crash && world.dice().chance(0.04) {
                self.falls(world, member, fates);
            }
            if fates.sender && world.dice().chance(0.03) {
                self.falls(world, self.sender, fates);
            }
            if fates.cut && world.dice().chance(0.05) {
                let (them, all) = (NodeSet::default().with(member.0), NodeSet(u64::MAX));
                world.cut(step, them, all);
                world.cut(step, all, them);
            }
            if world.dice().chance(0.2) {
                let cut = world.dice().below(step + 1);
                world.mend(cut);
            }
            let pause = Duration::from_micros(world.dice().below(60_000));
            world.run_for(pause);
        }
        (0..60).for_each(|step| world.mend(step));
    }

    /// Checks that the outcome of each copy is true. If the outcome is Delivered, the member has the copy, or died when it got
    /// the copy. If the copy was certainly not delivered, the member does not have it. No member has a copy twice.
    fn outcomes_are_true(&self, world: &World, what: &str) {
        for (number, copies) in self.sent.iter().enumerate() {
            for (at, copy) in copies {
                let (taken, said) = (world.ledger.times_taken(*copy), world.ledger.outcome_of(*copy));
                let honest = match said {
                    Some(Outcome::Delivered | Outcome::Processed { .. }) => {
                        taken <= 1 && world.ledger.is_taken(*copy)
                    }
                    Some(
                        Outcome::Cancelled
                        | Outcome::Expired
                        | Outcome::Rejected { .. }
                        | Outcome::Refused(_),
                    ) => taken == 0,
                    Some(Outcome::Unknown | Outcome::Kept) => taken <= 1,
                    None => false,
                };
                assert!(honest, "{what}: message {number} at member {at}: {said:?}, taken: {taken}");
            }
        }
    }

    /// Checks that every copy has been taken, or was rejected or withdrawn, and that its sender knows which. A copy may
    /// be lost only if the sender died before its journal had the copy. If the sender died before its journal had
    /// the outcome, no outcome is reported.
    fn all_is_certain(&self, world: &World, what: &str) {
        let ledger = &world.ledger;
        for copy in self.sent.iter().flat_map(BTreeMap::values).filter(|copy| !self.unsure.contains(copy)) {
            let said = ledger.outcome_of(*copy);
            let (taken, rejected) = (ledger.is_taken(*copy), ledger.is_rejected(*copy));
            let withdrawn = self.withdrawn.contains(copy);
            let certain = match said {
                Some(Outcome::Delivered | Outcome::Processed { .. }) => taken,
                Some(Outcome::Cancelled) => withdrawn,
                Some(Outcome::Rejected { .. }) => rejected,
                None | Some(Outcome::Unknown) => {
                    ledger.is_orphaned(*copy) && (taken || rejected || withdrawn)
                }
                Some(Outcome::Expired | Outcome::Refused(_) | Outcome::Kept) => false,
            };
            assert!(certain, "{what}: copy {copy}: {said:?}");
        }
    }
}

#[test]
fn members_that_come_and_go_see_their_part_in_order() {
    for seed in 0..40 {
        let what = format!("seed {seed}");
        let mut world = World::new(seed, bad_link(0.1));
        let mut crew = Crew::new(&mut world, |world| world.add(config(1 << 32), true));
        crew.run(&mut world, Fates::default());
        settled(&mut world, 30 * SECOND, &what);
        crew.all_is_certain(&world, &what);
        crew.outcomes_are_true(&world, &what);
    }
}

#[test]
fn a_member_that_is_cut_off_delays_no_other_and_misses_nothing() {
    for seed in 100..140 {
        let what = format!("seed {seed}");
        let mut world = World::new(seed, bad_link(0.05));
        let mut crew = Crew::new(&mut world, |world| world.add(config(1 << 32), true));
        // One member receives nothing at all, while the others take all that is sent to them.
        let alone = NodeSet::default().with(crew.members[0].0);
        world.cut(1_000, NodeSet(u64::MAX), alone);
        for _ in 0..20 {
            crew.send(&mut world);
            world.run_for(5 * MS);
        }
        world.run_for(5 * SECOND);
        for copies in &crew.sent {
            for (at, copy) in copies.iter().filter(|(at, _)| **at != 0) {
                let done = world.ledger.outcome_of(*copy).is_some();
                assert!(done, "{what}: member {at} waits for another");
            }
        }
        world.mend(1_000);
        crew.run(&mut world, Fates { cut: true, ..Fates::default() });
        settled(&mut world, 60 * SECOND, &what);
        crew.all_is_certain(&world, &what);
        crew.outcomes_are_true(&world, &what);
    }
}

#[test]
fn nodes_that_die_break_no_order_and_hurt_no_other() {
    let mut crashes = 0;
    for seed in 200..240 {
        let what = format!("seed {seed}");
        let mut world = World::new(seed, bad_link(0.05));
        let mut crew = Crew::on(&mut world, MEMORY);
        let sender = seed % 2 == 0;
        crew.run(&mut world, Fates { crash: true, sender, power: seed % 4 < 2, cut: true });
        settled(&mut world, 90 * SECOND, &what);
        crew.outcomes_are_true(&world, &what);
        crashes += world.coverage().crashes;
    }
    assert!(crashes > 80, "{crashes}");
}

#[test]
fn with_journals_no_member_misses_anything_whoever_dies() {
    let mut crashes = 0;
    for seed in 300..340 {
        let what = format!("seed {seed}");
        let mut world = World::new(seed, bad_link(0.05));
        let mut crew = Crew::on(&mut world, if seed % 2 == 0 { WRITTEN } else { FORCED });
        crew.run(&mut world, Fates { crash: true, sender: true, power: false, cut: true });
        settled(&mut world, 90 * SECOND, &what);
        crew.all_is_certain(&world, &what);
        crew.outcomes_are_true(&world, &what);
        crashes += world.coverage().crashes;
    }
    assert!(crashes > 60, "{crashes}");
}

#[test]
fn with_forced_journals_no_member_misses_anything_whose_power_is_cut() {
    let (mut cuts, mut lost, mut unsure) = (0, 0, 0);
    for seed in 400..440 {
        let what = format!("seed {seed}");
        let mut world = World::new(seed, bad_link(0.05));
        let mut crew = Crew::on(&mut world, FORCED);
        crew.run(&mut world, Fates { crash: true, sender: true, power: true, cut: true });
        settled(&mut world, 90 * SECOND, &what);
        crew.all_is_certain(&world, &what);
        crew.outcomes_are_true(&world, &what);
        (cuts, unsure) = (cuts + crew.power_cuts, unsure + crew.unsure.len());
        lost += world.coverage().appends_lost;
    }
    assert!(cuts > 60 && lost > 20 && unsure > 20, "{cuts} {lost} {unsure}");
}

/// A power cut destroys what a journal wrote without forcing. The order still holds, and so do all reported outcomes.
#[test]
fn with_written_journals_power_cuts_break_no_order() {
    let mut cuts = 0;
    for seed in 500..540 {
        let what = format!("seed {seed}");
        let mut world = World::new(seed, bad_link(0.05));
        let mut crew = Crew::on(&mut world, WRITTEN);
        crew.run(&mut world, Fates { crash: true, sender: seed % 2 == 0, power: true, cut: true });
        settled(&mut world, 90 * SECOND, &what);
        crew.outcomes_are_true(&world, &what);
        cuts += crew.power_cuts;
    }
    assert!(cuts > 40, "{cuts}");
}
