//! Messages that were given up. The peer may hold parts of them until the frontier has passed them.

use core::ops::Bound::{Excluded, Unbounded};
use std::collections::BTreeMap;

use crate::half::Sender;
use crate::id::{Incarnation, Slot};
use crate::message::lane::{LaneKey, Load};

/// The number of new runs that is not worth a sweep.
const FEW: usize = 16;

/// The given-up messages, in runs that the frontier passes at once, since nothing is open among them. However many given-up
/// messages lie behind one message in doubt, they take the memory of one run.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// The runs, by their first slot.
    runs: BTreeMap<Slot, Run>,
    /// How many runs the last sweep left.
    swept: usize,
}

#[derive(Debug)]
struct Run {
    last: Slot,
    r: Incarnation,
    /// The pooled messages, by lane.
    pooled: BTreeMap<LaneKey, Load>,
    /// The number of large messages.
    large: u64,
}

/// The given-up messages that the frontier has passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// The number of large messages.
    pub(super) large: u64,
    /// Pooled messages, by lane.
    pub(super) pooled: BTreeMap<LaneKey, Load>,
}

impl GivenUp {
    /// The message of `s` was given up by `sender` and is no token any more. `pooled`: its lane and its load. None: it is a large
    /// message.
    pub(super) fn insert<T>(
        &mut self,
        s: Slot,
        r: Incarnation,
        pooled: Option<(LaneKey, Load)>,
        sender: Option<&Sender<T>>,
    ) {
        let large = u64::from(pooled.is_none());
        let run = Run { last: s, r, pooled: pooled.into_iter().collect(), large };
        self.runs.insert(s, run);
        self.join(s, sender);
        if let Some(before) = self.runs.range(..s).next_back().map(|(first, _)| *first) {
            self.join(before, sender);
        }
        // Messages that were open between two runs may have been settled since.
        if self.runs.len() > 2 * self.swept + FEW {
            self.sweep(sender);
        }
    }

    fn sweep<T>(&mut self, sender: Option<&Sender<T>>) {
        let mut at = self.runs.first_key_value().map(|(first, _)| *first);
        while let Some(first) = at {
            if !self.join(first, sender) {
                at = self.after(first);
            }
        }
        self.swept = self.runs.len();
    }

    fn after(&self, first: Slot) -> Option<Slot> {
        self.runs.range((Excluded(first), Unbounded)).next().map(|(next, _)| *next)
    }

    /// Joins the run that begins with `first` and the next, if they are of one incarnation and nothing is open between them.
    fn join<T>(&mut self, first: Slot, sender: Option<&Sender<T>>) -> bool {
        let Some(at) = self.after(first) else { return false };
        let (Some(run), Some(next)) = (self.runs.get(&first), self.runs.get(&at)) else { return false };
        let is_open = |sender: &Sender<T>| {
            let between = run.last.0 + 1..at.0;
            sender.early().any(|(s, _)| between.contains(&s.0))
                || sender.tokens_in(between, run.r).next().is_some()
        };
        if run.r != next.r || sender.is_some_and(is_open) {
            return false;
        }
        let next = self.runs.remove(&at);
        if let (Some(run), Some(next)) = (self.runs.get_mut(&first), next) {
            run.last = run.last.max(next.last);
            join_loads(&mut run.pooled, next.pooled);
            run.large += next.large;
        }
        true
    }

    /// Removes the runs below `frontier`, or all of them. None if there are none.
    pub(super) fn pass(&mut self, frontier: Option<Slot>) -> Option<Passed> {
        let mut passed = None;
        while let Some(first) = self.runs.first_entry()
            && frontier.is_none_or(|frontier| first.get().last < frontier)
        {
            let run = first.remove();
            let passed = passed.get_or_insert(Passed::default());
            passed.large += run.large;
            join_loads(&mut passed.pooled, run.pooled);
        }
        passed
    }

    /// How many of the messages are large.
    pub(super) fn large(&self) -> u64 {
        self.runs.values().map(|run| run.large).sum()
    }

    /// The pooled messages, by lane.
    pub(super) fn pooled(&self) -> impl Iterator<Item = (LaneKey, Load)> {
        self.runs.values().flat_map(|run| &run.pooled).map(|(lane, load)| (*lane, *load))
    }

    /// The number of runs, and how many there may be while `in_doubt` messages are in doubt.
    pub(super) fn runs(&self, in_doubt: usize) -> (usize, usize) {
        // Runs are also divided where one incarnation ends and another begins. Messages that left early have no incarnation.
        (self.runs.len(), 2 * (in_doubt + 3) + FEW)
    }
}

fn join_loads(all: &mut BTreeMap<LaneKey, Load>, more: BTreeMap<LaneKey, Load>) {
    for (lane, load) in more {
        let sum = all.entry(lane).or_default();
        *sum = sum.with(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::half::{Claim, Clock, State};

    const R: Incarnation = Incarnation(5);

    /// A sender with tokens of the numbers below `n`.
    fn sender(n: u64) -> Sender<u64> {
        let mut clock = Clock::ephemeral();
        let mut sender = Sender::open(&clock);
        sender.ask(&mut clock, n, 0).unwrap();
        let hi = Slot(n);
        let claim = Claim { hi, ..Claim::default() };
        sender.on_state(&State { b: Incarnation(0), r: R, live: Some(claim), taken: None }, |_, _, _, _| {});
        (0..n).for_each(|s| assert_eq!(sender.bind(s), Ok((Slot(s), R))));
        sender
    }

    const PLAIN: LaneKey = LaneKey::PLAIN;

    fn plain(messages: u64) -> BTreeMap<LaneKey, Load> {
        [(PLAIN, Load { messages, bytes: 10 * messages })].into()
    }

    fn give_up(all: &mut GivenUp, sender: &mut Sender<u64>, s: u64) {
        sender.abandon(Slot(s)).unwrap();
        all.insert(Slot(s), R, Some((PLAIN, Load::one(10))), Some(sender));
    }

    fn count(all: &GivenUp) -> usize {
        all.runs(0).0
    }

    #[test]
    fn what_lies_behind_one_in_doubt_is_one_run() {
        let (mut all, mut sender) = (GivenUp::default(), sender(1_000));
        for s in (1..1_000).rev().step_by(3).chain((1..1_000).step_by(3)).chain((1..1_000).skip(1).step_by(3))
        {
            if sender.token(Slot(s)).is_some() {
                give_up(&mut all, &mut sender, s);
            }
        }
        let left = sender.tokens().count() as u64;
        assert_eq!(all.pooled().map(|(_, load)| load.bytes).sum::<u64>(), (1_000 - left) * 10);
        sender.tokens().map(|(s, ..)| s.0).skip(1).collect::<Vec<_>>().into_iter().for_each(|s| {
            give_up(&mut all, &mut sender, s);
        });
        assert_eq!((count(&all), sender.in_doubt()), (1, 1));
        assert_eq!(all.pass(Some(sender.frontier())), None, "the first is in doubt");
        sender.abandon(Slot(0));
        assert_eq!(all.pass(Some(sender.frontier())), Some(Passed { large: 0, pooled: plain(999) }));
    }

    #[test]
    fn the_frontier_stands_before_what_is_open() {
        let (mut all, mut sender) = (GivenUp::default(), sender(9));
        [1, 2, 4, 6, 7].into_iter().for_each(|s| give_up(&mut all, &mut sender, s));
        assert_eq!(count(&all), 3, "3 and 5 are open");
        sender.abandon(Slot(0));
        assert_eq!(all.pass(Some(sender.frontier())), Some(Passed { large: 0, pooled: plain(2) }));
        assert_eq!(all.pass(Some(sender.frontier())), None);
        sender.abandon(Slot(3));
        sender.abandon(Slot(5));
        assert_eq!(all.pass(Some(sender.frontier())), Some(Passed { large: 0, pooled: plain(3) }));
        assert_eq!(count(&all), 0);
    }

    #[test]
    fn what_has_settled_between_runs_joins_them_in_the_end() {
        let (mut all, mut sender) = (GivenUp::default(), sender(20_001));
        for block in (1..20_000).step_by(10) {
            // All of them, and then what was open between them.
            (block..block + 10).step_by(2).for_each(|s| give_up(&mut all, &mut sender, s));
            (block + 1..block + 10).step_by(2).for_each(|s| assert!(sender.abandon(Slot(s)).is_some()));
            let (runs, most) = all.runs(6);
            assert!(runs <= most, "{runs}");
        }
        assert_eq!(all.large(), 0);
    }

    #[test]
    fn incarnations_and_sizes_are_kept_apart() {
        let mut all = GivenUp::default();
        let none = None::<&Sender<u64>>;
        all.insert(Slot(1), R, Some((PLAIN, Load::one(10))), none);
        all.insert(Slot(2), R, None, none);
        all.insert(Slot(3), Incarnation(6), Some((PLAIN, Load::one(10))), none);
        all.insert(Slot(4), Incarnation(6), Some((LaneKey(1), Load::one(30))), none);
        assert_eq!((count(&all), all.large()), (2, 1));
        let mut pooled = plain(2);
        pooled.insert(LaneKey(1), Load::one(30));
        assert_eq!(all.pass(None), Some(Passed { large: 1, pooled }));
        assert_eq!(all.pass(None), None);
    }
}
