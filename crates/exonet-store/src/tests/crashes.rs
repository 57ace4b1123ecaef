//! Tests of random sequences of appends, snapshots and forced writes, with crashes at any step, on the simulated
//! disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::sim::{Dice, Failure, Jobs, Sim};
use super::*;
use crate::log::Log;
use crate::shared::Helper;

#[derive(Clone, Copy, Debug)]
enum Act {
    Append(usize),
    Force,
    Snapshot,
    /// Lets a helper run.
    Help,
    Kill,
    Cut,
    /// Kills the process after this many steps.
    KillIn(usize),
    CutIn(usize),
    /// Ends cleanly. True: a power failure follows.
    Close(bool),
    Full(usize),
    Free,
    SyncFails(usize, Failure),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => prop_oneof![9 => 1..700usize, 1 => 700..9_000usize].prop_map(Act::Append),
        4 => Just(Act::Force),
        2 => Just(Act::Snapshot),
        3 => Just(Act::Help),
        1 => Just(Act::Kill),
        1 => Just(Act::Cut),
        1 => (0..40usize).prop_map(Act::KillIn),
        1 => (0..40usize).prop_map(Act::CutIn),
        1 => any::<bool>().prop_map(Act::Close),
        1 => (0..40usize).prop_map(Act::Full),
        1 => Just(Act::Free),
    ]
}

fn failing() -> impl Strategy<Value = Act> {
    let kind = prop_oneof![Just(Failure::Kept), Just(Failure::Dropped)];
    prop_oneof![20 => act(), 1 => (0..4usize, kind).prop_map(|(syncs, kind)| Act::SyncFails(syncs, kind))]
}

/// What a test knows about a journal.
struct Course {
    level: Level,
    sim: Sim,
    jobs: Arc<Jobs>,
    log: Option<Box<Log>>,
    dice: Dice,
    /// Every group that may be present, by its number.
    groups: Vec<Vec<u8>>,
    /// How many groups were appended. `forced` is how many of them are on disk.
    appended: usize,
    forced: usize,
    through: u64,
    /// The caller's position after each group of this run, with the number of groups.
    positions: Vec<(u64, usize)>,
    /// The groups that were read from the last untrusted journal, until something is appended to its successor.
    aside: Option<Vec<Vec<u8>>>,
    cut_after_kill: bool,
    clean: bool,
    closing: bool,
    /// Whether a process died while it opened the journal.
    stumbled: bool,
    /// The step in which the next opening dies, and its system with it. None: the dice decide.
    script: Option<usize>,
    lies: bool,
    /// Everything that was ever appended.
    ever: BTreeSet<Vec<u8>>,
    /// How many snapshots there were. The number distinguishes them.
    snapshots: u32,
    /// The first group on which a snapshot may still depend.
    floor: usize,
}

/// Groups on which a snapshot depends, with their LSNs.
type Kept = Vec<(u64, Vec<u8>)>;

/// The groups that are read: those that are not kept, and those that are.
fn read_all(mut found: Found) -> (Vec<Vec<u8>>, Kept) {
    let (mut read, mut kept) = (Vec::new(), Vec::new());
    while let Some(group) = found.groups.next_found().unwrap() {
        if group.kept {
            kept.push((group.lsn, group.bytes.to_vec()));
        } else {
            read.push(group.bytes.to_vec());
        }
    }
    (read, kept)
}

fn number(group: &[u8]) -> usize {
    usize::try_from(u32::from_le_bytes(*group[1..].first_chunk().unwrap())).unwrap()
}

/// How many groups were read, if they are the first ones of the journal.
fn prefix(known: &[Vec<u8>], read: &[Vec<u8>], ever: &BTreeSet<Vec<u8>>) -> Option<usize> {
    let count = any_order(read, ever)?;
    let is_known = |group: &Vec<u8>| group[0] == b'S' || known.contains(group);
    read.iter().all(is_known).then_some(count)
}

/// How many groups were read, if each was appended at some time, and after the one before.
fn any_order(read: &[Vec<u8>], ever: &BTreeSet<Vec<u8>>) -> Option<usize> {
    let first = read.first().filter(|first| first[0] == b'S').map_or(0, |first| number(first));
    let groups: Vec<_> =
        read.iter().skip(usize::from(read.first().is_some_and(|it| it[0] == b'S'))).collect();
    let in_order = groups.iter().enumerate().all(|(place, group)| number(group) == first + place);
    (in_order && groups.iter().all(|group| ever.contains(*group))).then_some(first + groups.len())
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Cut,
}

impl Course {
    fn new(level: Level, seed: u64, lies: bool, witness: bool) -> Self {
        let sim = Sim::new(seed);
        sim.world().lies = lies;
        sim.world().has_witness = witness;
        let mut this = Self {
            level,
            sim,
            jobs: Arc::default(),
            log: None,
            dice: Dice(!seed),
            groups: Vec::new(),
            appended: 0,
            forced: 0,
            through: 0,
            positions: Vec::new(),
            aside: None,
            cut_after_kill: false,
            clean: false,
            closing: false,
            stumbled: false,
            script: None,
            lies,
            ever: BTreeSet::new(),
            snapshots: 0,
            floor: 0,
        };
        this.open(None);
        this
    }

    fn open(&mut self, mut end: Option<End>) {
        let had_failed = std::mem::take(&mut self.sim.world().failed);
        let (log, found) = loop {
            let options = Options { segment: 4096, snapshot_after: 10_000, pool: 2, ..options(self.level) };
            let helper = Arc::clone(&self.jobs) as Arc<dyn Helper>;
            // The opening may be interrupted too, more than once.
            let script = self.script.take();
            if script.is_some() {
                self.sim.world().dies_in = script;
            } else if end.is_some() && self.dice.roll(4) == 0 {
                self.sim.world().dies_in = Some(self.dice.roll(30));
            }
            let dies_in = self.sim.world().dies_in.take();
            let looked = recover::read(Arc::new(self.sim.clone()), options.clone());
            self.sim.world().dies_in = dies_in;
            let opened = recover::open(Arc::new(self.sim.clone()), helper, options);
            match opened {
                Ok(opened) => {
                    let told = (opened.1.trust, opened.1.groups.bytes());
                    let looked = looked.unwrap().map(|(trust, groups)| (trust, groups.bytes()));
                    let looked = looked.unwrap_or((Trust::Trusted, 0));
                    // An opening may find that the log of the last run cannot be forced.
                    let is_same = looked.0 == told.0 && (told.0 != Trust::Trusted || looked == told);
                    assert!(had_failed || is_same, "{looked:?} {told:?}");
                    break opened;
                }
                Err(StoreError::Full { .. }) => self.sim.world().capacity = usize::MAX,
                Err(_) if { self.sim.world().dead } => {
                    let is_cut = script.is_some() || self.dice.roll(2) == 0;
                    self.sim = if is_cut { self.sim.cut() } else { self.sim.killed() };
                    self.stumbled = true;
                    end = if is_cut { Some(End::Cut) } else { end };
                }
                Err(StoreError::Corrupt { .. }) if self.lies => {
                    // The operator moves the journal away.
                    let level = self.level;
                    *self = Self::new(level, u64::try_from(self.dice.roll(1 << 30)).unwrap(), true, true);
                    return;
                }
                Err(error) => panic!("{error} after {end:?}"),
            }
        };
        self.sim.world().dies_in = None;
        self.check(end, found, had_failed, usize::try_from(log.forced()).unwrap());
        self.log = Some(log);
        self.through = 0;
        self.positions = vec![(0, self.appended)];
        (self.clean, self.closing, self.stumbled) = (false, false, false);
    }

    /// Up to `forced` of the groups are on disk now; the others are forced later.
    fn check(&mut self, end: Option<End>, found: Found, had_failed: bool, forced: usize) {
        let (trust, is_new) = (found.trust, found.is_new);
        let (read, kept) = read_all(found);
        self.check_kept(trust, &read, &kept);
        let context = format!(
            "{trust:?} {} after {end:?}, appended {}, forced {}, tried {}, clean {}, failed {had_failed}",
            read.len(),
            self.appended,
            self.forced,
            self.groups.len(),
            self.clean
        );
        if let (Trust::Untrusted(_), Some(aside)) = (trust, &self.aside)
            && (self.lies
                || aside.starts_with(&read)
                // A power failure during an opening may bring names back, and lose others.
                || (end == Some(End::Cut)
                    && prefix(&self.groups, &read, &self.ever).is_none_or(|_| self.groups.is_empty())
                    && any_order(&read, &self.ever).is_some()))
        {
            // The new journal was empty, or a power failure lost the names that had just been changed.
            let is_empty = self.forced == 0 && (self.appended == 0 || end == Some(End::Cut) || had_failed);
            assert!(self.lies || self.stumbled || is_empty, "{context}");
            if !aside.starts_with(&read) {
                self.aside = Some(read);
            }
            self.groups.clear();
            (self.appended, self.forced) = (0, 0);
            return;
        }
        let known = (!self.lies).then_some(&self.groups);
        let count =
            known.map_or_else(|| any_order(&read, &self.ever), |known| prefix(known, &read, &self.ever));
        let count = count.unwrap_or_else(|| panic!("what was read was not appended: {context}"));
        if self.lies {
            // Checks only that no group is invented.
        } else if self.clean && self.stumbled && trust != Trust::Trusted {
            // The interrupted run had begun, and had not ended cleanly.
            assert_eq!((self.level, end), (Level::Process, Some(End::Cut)), "{context}");
        } else if self.clean {
            assert_eq!((trust, count), (Trust::Trusted, self.appended), "{context}");
        } else if self.closing && self.level == Level::Process && trust == Trust::Trusted {
            // The clean end was noted, and the process died before it learned that.
            assert_eq!(count, self.appended, "{context}");
        } else if end == Some(End::Cut) && self.level == Level::Process {
            assert_eq!(trust, Trust::Untrusted(Reason::Rebooted), "{context}");
        } else if had_failed && self.level == Level::Process {
            assert!(trust != Trust::Trusted || count >= self.appended, "{context}");
        } else {
            assert_eq!(trust, Trust::Trusted, "{context}");
            let kept = if end == Some(End::Cut) || had_failed { self.forced } else { self.appended };
            assert!(count >= kept, "{context}");
        }
        assert_eq!(is_new, trust == Trust::Trusted && read.is_empty(), "{context}");
        if trust == Trust::Trusted {
            // A power failure may still lose everything that was appended meanwhile.
            self.aside.take_if(|_| forced > 0 || count == 0);
            self.groups.truncate(count);
        } else {
            self.aside =
                Some(read).filter(|read| !read.is_empty()).or(self.aside.take()).or(Some(Vec::new()));
            self.groups.clear();
        }
        (self.appended, self.forced) = (self.groups.len(), self.groups.len().min(forced));
    }

    /// A trusted snapshot has all groups on which it depends.
    fn check_kept(&mut self, trust: Trust, read: &[Vec<u8>], kept: &[(u64, Vec<u8>)]) {
        assert!(kept.iter().all(|(_, group)| self.ever.contains(group)));
        assert!(kept.is_sorted_by(|(one, _), (next, _)| one + 1 == *next));
        let first = kept.first().map_or(0, |(lsn, _)| *lsn);
        assert!(kept.iter().zip(first..).all(|((_, group), lsn)| number(group) as u64 + 1 == lsn));
        let snapshot = read.first().filter(|first| first[0] == b'S');
        let (from, to) = snapshot.map_or((0, 0), |state| (number(&state[4..9]), number(state)));
        if trust == Trust::Trusted {
            assert!(first.saturating_sub(1) <= from as u64 || from == to, "{first} {from} {to}");
            let has = |at: usize| kept.iter().any(|(_, group)| self.groups.get(at) == Some(group));
            assert!(self.lies || (from..to).all(has), "{from}..{to}, {}", kept.len());
            let count = kept.iter().filter(|(lsn, _)| *lsn > from as u64).count();
            assert_eq!(count, to - from);
        }
        self.floor = if trust == Trust::Trusted { from } else { 0 };
    }

    fn crash(&mut self, end: End) {
        let end = if std::mem::take(&mut self.cut_after_kill) { End::Cut } else { end };
        self.sim.world().dead = true;
        self.log = None;
        while self.jobs.help() {}
        self.sim = if end == End::Cut { self.sim.cut() } else { self.sim.killed() };
        self.open(Some(end));
    }

    fn append(&mut self, len: usize) {
        let mut group = vec![b'G'];
        group.extend(u32::try_from(self.appended).unwrap().to_le_bytes());
        group.extend((0..len).map(|_| u8::try_from(self.dice.roll(256)).unwrap()));
        self.ever.insert(group.clone());
        self.groups.truncate(self.appended);
        self.groups.push(group);
        let through = self.through + len as u64;
        let result = self.log.as_mut().unwrap().append(through, &self.groups[self.appended]);
        match result {
            Ok(()) => {
                self.through = through;
                self.appended += 1;
                self.positions.push((through, self.appended));
            }
            // The group must not be found.
            Err(StoreError::Full { .. }) => self.groups.truncate(self.appended),
            Err(error) => self.fails(&error),
        }
    }

    fn force(&mut self) {
        match self.log.as_ref().unwrap().forcer().force() {
            Ok(safe) => {
                assert_eq!(safe, self.through);
                let known = self.positions.iter().rev().find(|(through, _)| *through <= safe).unwrap();
                self.forced = self.forced.max(known.1);
            }
            Err(error) => self.fails(&error),
        }
    }

    fn snapshot(&mut self) {
        let keeps = self.dice.roll(2) == 0;
        let from =
            if keeps { self.floor + self.dice.roll(self.appended + 1 - self.floor) } else { self.appended };
        self.floor = from;
        let mut state = vec![b'S'];
        for number in [self.appended, from] {
            state.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        self.snapshots += 1;
        let which = self.snapshots.to_le_bytes();
        state.extend(which.into_iter().cycle().take(self.dice.roll(600)));
        match self.log.as_mut().unwrap().snapshot_keeping(from as u64 + 1, state) {
            Ok(()) | Err(StoreError::Full { .. }) => {}
            Err(error) => self.fails(&error),
        }
    }

    /// After one failure, every call fails in the same way.
    fn fails(&mut self, error: &StoreError) {
        let is_over = { self.sim.world().dead || self.sim.world().failed };
        assert!(is_over, "{error}");
        let log = self.log.as_mut().unwrap();
        let text = error.to_string();
        assert_eq!(log.append(u64::MAX, b"x").unwrap_err().to_string(), text);
        assert_eq!(log.forcer().force().unwrap_err().to_string(), text);
        assert!(!log.wants_snapshot());
        assert_eq!(self.log.take().unwrap().close().unwrap_err().to_string(), text);
        self.crash(End::Killed);
    }

    fn close(&mut self, cut: bool) {
        self.closing = true;
        match self.log.take().unwrap().close() {
            Ok(()) => self.clean = true,
            Err(StoreError::Full { .. }) => {}
            Err(error) => {
                let is_over = { self.sim.world().dead || self.sim.world().failed };
                assert!(is_over, "{error}");
            }
        }
        if self.clean {
            (self.sim.world().dies_in, self.cut_after_kill) = (None, false);
        }
        self.crash(if cut { End::Cut } else { End::Killed });
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Append(len) => self.append(len),
            Act::Force => self.force(),
            Act::Snapshot => self.snapshot(),
            Act::Help => drop(self.jobs.help()),
            Act::Kill => self.crash(End::Killed),
            Act::Cut => self.crash(End::Cut),
            Act::KillIn(steps) => self.sim.world().dies_in = Some(steps),
            Act::CutIn(steps) => {
                self.sim.world().dies_in = Some(steps);
                self.cut_after_kill = true;
            }
            Act::Close(cut) => self.close(cut),
            Act::Full(spare) => self.sim.world().fill(spare),
            Act::Free => self.sim.world().capacity = usize::MAX,
            Act::SyncFails(syncs, failure) => self.sim.world().fails_in = Some((syncs, failure)),
        }
    }
}

fn run(level: Level, seed: u64, acts: &[Act], lies: bool, witness: bool) {
    let mut course = Course::new(level, seed, lies, witness);
    for act in acts {
        course.act(*act);
    }
    course.sim.world().capacity = usize::MAX;
    course.crash(End::Killed);
    course.append(10);
    course.close(true);
}

/// Interrupts a run at each step, and then the opening after it at each step.
#[test]
fn every_step_of_a_run_and_of_an_opening_may_be_the_last() {
    let acts = [
        Act::Append(1_000),
        Act::Snapshot,
        Act::Help,
        Act::Help,
        Act::Append(3_000),
        Act::Force,
        Act::Append(9),
    ];
    for level in [Level::Process, Level::Sync] {
        for (step, opening) in (0..40).flat_map(|step| (0..24).map(move |opening| (step, opening))) {
            for seed in 0..12 {
                let mut course = Course::new(level, seed, false, true);
                // The first log is put aside at the level that can lose it.
                for act in [Act::Append(500), Act::Force, Act::Cut, Act::Append(600), Act::Close(false)] {
                    course.act(act);
                }
                course.script = Some(opening);
                course.act(Act::KillIn(step));
                for act in acts {
                    course.act(act);
                }
                course.crash(End::Killed);
                course.append(10);
                course.close(true);
            }
        }
    }
}

/// Two segments begin with the same LSN: one that a run began and whose groups were lost, and one on which a snapshot
/// depends.
#[test]
fn what_a_snapshot_counts_on_is_not_what_was_lost_before() {
    let acts = [
        Act::Append(446),
        Act::Append(102),
        Act::Force,
        Act::Append(425),
        Act::Snapshot,
        Act::Append(16),
        Act::Append(288),
        Act::Cut,
        Act::Append(225),
        Act::Append(4_082),
        Act::Kill,
        Act::Close(false),
        Act::CutIn(0),
        Act::Append(2_157),
        Act::Append(102),
        Act::Close(false),
        Act::Close(false),
        Act::Append(43),
        Act::Kill,
        Act::Append(424),
        Act::Kill,
        Act::Snapshot,
        Act::Snapshot,
        Act::Kill,
    ];
    run(Level::Sync, 12_903_917_627_226_923_724, &acts, false, false);
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Process), Just(Level::Sync)]
}

fn acts(act: impl Strategy<Value = Act>) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// After a kill all groups are present. After a power failure those that were forced are present. Other groups
    /// never are.
    #[test]
    fn a_crash_takes_what_its_level_allows(level in level(), seed: u64, acts in acts(act()), witness: bool) {
        run(level, seed, &acts, false, witness);
    }

    /// A failed sync loses nothing that was forced before. Groups that only the process had are not trusted.
    #[test]
    fn a_failed_sync_ends_the_journal_and_invents_nothing(level in level(), seed: u64, acts in acts(failing())) {
        run(level, seed, &acts, false, true);
    }

    /// A disk that lies may lose anything, but the groups that are read were appended, in that order.
    #[test]
    fn a_disk_that_lies_makes_nothing_up(level in level(), seed: u64, acts in acts(act())) {
        run(level, seed, &acts, true, true);
    }
}
