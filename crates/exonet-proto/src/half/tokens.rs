//! The messages that are bound to a slot and not yet settled.

use std::collections::VecDeque;
use std::ops::Range;

use super::IntervalSet;
use crate::id::{Incarnation, Slot};

/// Tokens of one incarnation, of consecutive numbers from `base` on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run<T> {
    r: Incarnation,
    base: u64,
    items: VecDeque<Option<T>>,
    /// The numbers whose item is still there.
    open: IntervalSet,
}

/// `tok: s -> (r, m)` in rising `s`, as few runs of consecutive numbers: in steady state there is one, and
/// binding, looking up and settling a token cost O(1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tokens<T> {
    runs: VecDeque<Run<T>>,
}

impl<T> Tokens<T> {
    pub(super) const fn new() -> Self {
        Self {
            runs: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The smallest open number.
    pub(super) fn first(&self) -> Option<Slot> {
        self.runs.iter().find_map(|run| run.open.first()).map(Slot)
    }

    pub(super) fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.open.count()).sum()
    }

    /// Binds `item` to `s`, which is above every number bound before.
    pub(super) fn push(&mut self, s: Slot, r: Incarnation, item: T) {
        let continues = |run: &Run<T>| run.r == r && run.base + run.items.len() as u64 == s.0;
        if !self.runs.back().is_some_and(continues) {
            self.runs.push_back(Run {
                r,
                base: s.0,
                items: VecDeque::new(),
                open: IntervalSet::new(),
            });
        }
        if let Some(run) = self.runs.back_mut() {
            run.items.push_back(Some(item));
            run.open.insert(s.0..s.0 + 1);
        }
    }

    fn run_of(&self, s: Slot) -> Option<usize> {
        let after = self.runs.partition_point(|run| run.base <= s.0);
        after.checked_sub(1)
    }

    pub(super) fn get(&self, s: Slot) -> Option<(Incarnation, &T)> {
        let run = self.runs.get(self.run_of(s)?)?;
        let at = usize::try_from(s.0 - run.base).ok()?;
        run.items.get(at)?.as_ref().map(|item| (run.r, item))
    }

    pub(super) fn take(&mut self, s: Slot) -> Option<(Incarnation, T)> {
        let index = self.run_of(s)?;
        let run = self.runs.get_mut(index)?;
        let at = usize::try_from(s.0 - run.base).ok()?;
        let item = run.items.get_mut(at)?.take()?;
        let r = run.r;
        run.open.remove(s.0);
        self.trim();
        Some((r, item))
    }

    /// Takes every open token of incarnation `r` in `range`.
    pub(super) fn take_range(&mut self, r: Incarnation, range: Range<u64>, mut f: impl FnMut(Slot, T)) {
        for run in self.runs.iter_mut().filter(|run| run.r == r) {
            let mut at = range.start;
            loop {
                let next = run.open.overlaps(at..range.end).next();
                let Some(hit) = next else { break };
                at = hit.end;
                run.settle(hit, &mut f);
            }
        }
        self.trim();
    }

    /// Takes every open token of the incarnations that `which` names.
    pub(super) fn take_incarnations(
        &mut self,
        which: impl Fn(Incarnation) -> bool,
        mut f: impl FnMut(Slot, Incarnation, T),
    ) {
        for run in self.runs.iter_mut().filter(|run| which(run.r)) {
            let r = run.r;
            loop {
                let next = run.open.iter().next();
                let Some(hit) = next else { break };
                run.settle(hit, &mut |s, item| f(s, r, item));
            }
        }
        self.trim();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, Incarnation, &T)> {
        self.runs.iter().flat_map(|run| {
            let numbered = (run.base..).zip(&run.items);
            numbered.filter_map(|(s, item)| item.as_ref().map(|item| (Slot(s), run.r, item)))
        })
    }

    /// Drops what is settled at the front of every run, and runs without an open token.
    fn trim(&mut self) {
        self.runs.retain_mut(|run| {
            while run.items.front().is_some_and(Option::is_none) {
                run.items.pop_front();
                run.base += 1;
            }
            !run.items.is_empty()
        });
    }
}

impl<T> Run<T> {
    fn settle(&mut self, hit: Range<u64>, f: &mut impl FnMut(Slot, T)) {
        for s in hit.clone() {
            let slot = usize::try_from(s - self.base)
                .ok()
                .and_then(|at| self.items.get_mut(at));
            if let Some(item) = slot.and_then(Option::take) {
                f(Slot(s), item);
            }
        }
        self.open.remove_range(hit);
    }
}
