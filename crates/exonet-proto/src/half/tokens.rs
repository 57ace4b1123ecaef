//! The messages that are bound to a slot and not yet settled.

use std::collections::VecDeque;
use std::ops::Range;

use super::IntervalSet;
use crate::id::{Incarnation, Slot};

/// A sparse run is cut in two at this many consecutive settled numbers.
const HOLE: u64 = 8;
/// A run is sparse if it is longer than this and longer than sixteen times its open tokens.
const SHORT: usize = 64;

/// Tokens of one incarnation with consecutive numbers from `base` on; a settled token leaves a hole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run<T> {
    r: Incarnation,
    base: u64,
    items: VecDeque<Option<T>>,
    /// How many items are still present.
    open: usize,
}

/// `tok: s -> (r, m)` in ascending order of `s`, as few runs of consecutive numbers. In steady state there is one run, and
/// binding, looking up and settling a token cost O(1) and allocate nothing. A message that stays in doubt for long while others
/// pass is cut off into a run of its own, so memory is O(open tokens), whatever range they span.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tokens<T> {
    /// The numbers whose message is still present.
    open: IntervalSet,
    /// In ascending order of numbers, hence of incarnations; every run begins with an open token.
    runs: VecDeque<Run<T>>,
    /// The buffer of a run that has ended, for the next run. It never has items.
    spare: VecDeque<Option<T>>,
}

impl<T> Tokens<T> {
    pub(super) const fn new() -> Self {
        Self { open: IntervalSet::new(), runs: VecDeque::new(), spare: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The smallest open number.
    pub(super) fn first(&self) -> Option<Slot> {
        self.open.first().map(Slot)
    }

    /// From the smallest open number to one past the largest.
    pub(super) fn span(&self) -> Range<u64> {
        self.open.first().unwrap_or_default()..self.open.end().unwrap_or_default()
    }

    /// The highest incarnation that an open token is bound under.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        self.runs.back().map(|run| run.r)
    }

    pub(super) fn len(&self) -> u64 {
        self.open.count()
    }

    /// Binds `item` to `s` under `r`. `s` is above every number bound before, and `r` is not below any incarnation bound under
    /// before.
    pub(super) fn push(&mut self, s: Slot, r: Incarnation, item: T) {
        debug_assert!(self.runs.back().is_none_or(|run| run.end() <= s.0 && run.r <= r));
        self.open.insert(s.0..s.0 + 1);
        match self.runs.back_mut() {
            Some(run) if run.r == r && run.end() == s.0 => {
                run.items.push_back(Some(item));
                run.open += 1;
            }
            _ => {
                let mut items = std::mem::take(&mut self.spare);
                items.push_back(Some(item));
                self.runs.push_back(Run { r, base: s.0, items, open: 1 });
            }
        }
    }

    /// As [`Tokens::push`], for items that have consecutive numbers from `s` on.
    pub(super) fn push_run(&mut self, s: Slot, r: Incarnation, items: impl ExactSizeIterator<Item = T>) {
        let mut items = items;
        let Some(first) = items.next() else { return };
        self.push(s, r, first);
        let left = items.len();
        if let Some(run) = self.runs.back_mut() {
            run.items.extend(items.map(Some));
            run.open += left;
        }
        self.open.insert(s.0 + 1..s.0 + 1 + left as u64);
    }

    /// Binds `item` to `s`, a number below others that are bound. Gives it back if that would break the order of incarnations: no
    /// honest peer can cause this.
    pub(super) fn insert(&mut self, s: Slot, r: Incarnation, item: T) -> Result<(), T> {
        let at = self.runs.partition_point(|run| run.base <= s.0);
        let before = at.checked_sub(1).and_then(|at| self.runs.get(at));
        let fits = before.is_none_or(|run| run.end() <= s.0 && run.r <= r)
            && self.runs.get(at).is_none_or(|run| r <= run.r);
        if !fits {
            return Err(item);
        }
        self.open.insert(s.0..s.0 + 1);
        self.runs.insert(at, Run { r, base: s.0, items: VecDeque::from([Some(item)]), open: 1 });
        Ok(())
    }

    fn run_of(&self, s: Slot) -> Option<usize> {
        self.runs.partition_point(|run| run.base <= s.0).checked_sub(1)
    }

    pub(super) fn get(&self, s: Slot) -> Option<(Incarnation, &T)> {
        let run = self.runs.get(self.run_of(s)?)?;
        let item = run.items.get(run.index(s.0)?)?;
        item.as_ref().map(|item| (run.r, item))
    }

    pub(super) fn take(&mut self, s: Slot) -> Option<(Incarnation, T)> {
        let run = self.run_of(s)?;
        let run = self.runs.get_mut(run)?;
        let (r, item) = (run.r, run.take(s.0)?);
        self.open.remove(s.0);
        self.tidy();
        Some((r, item))
    }

    /// Takes every open token of incarnation `r` in `ranges`.
    pub(super) fn take_ranges(
        &mut self,
        r: Incarnation,
        ranges: impl Iterator<Item = Range<u64>>,
        mut f: impl FnMut(Slot, T),
    ) {
        let mut taken = false;
        for range in ranges {
            let from = self.runs.partition_point(|run| run.end() <= range.start);
            let reached = self.runs.range_mut(from..);
            let reached = reached.take_while(|run| run.base < range.end);
            for run in reached.filter(|run| run.r == r) {
                let within = range.start.max(run.base)..range.end.min(run.end());
                taken |= run.settle(&mut self.open, within, &mut f);
            }
        }
        if taken {
            self.tidy();
        }
    }

    /// Takes every open token of the incarnations below `bound`, except those of `live`.
    pub(super) fn take_below(
        &mut self,
        bound: Incarnation,
        live: Option<Incarnation>,
        mut f: impl FnMut(Slot, Incarnation, T),
    ) {
        let mut taken = false;
        let below = self.runs.iter_mut().take_while(|run| run.r < bound);
        for run in below.filter(|run| Some(run.r) != live) {
            let (r, all) = (run.r, run.base..run.end());
            taken |= run.settle(&mut self.open, all, &mut |s, item| f(s, r, item));
        }
        if taken {
            self.tidy();
        }
    }

    /// The open tokens of incarnation `r` among the numbers of `range`.
    pub(super) fn within(&self, range: Range<u64>, r: Incarnation) -> impl Iterator<Item = (Slot, &T)> {
        let from = self.runs.partition_point(|run| run.end() <= range.start);
        let reached = self.runs.range(from..).take_while({
            let end = range.end;
            move |run| run.base < end
        });
        reached.filter(move |run| run.r == r).flat_map(move |run| {
            let first = run.index(range.start.max(run.base)).unwrap_or(usize::MAX);
            let last = run.index(range.end.min(run.end())).unwrap_or(usize::MAX);
            let base = run.base + first as u64;
            let numbered = (base..).zip(run.items.range(first..last.max(first)));
            numbered.filter_map(|(s, item)| item.as_ref().map(|item| (Slot(s), item)))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, Incarnation, &T)> {
        self.runs.iter().flat_map(|run| {
            let numbered = (run.base..).zip(&run.items);
            numbered.filter_map(|(s, item)| item.as_ref().map(|item| (Slot(s), run.r, item)))
        })
    }

    /// Drops what is settled: the front of every run, runs without an open token, and wide holes of sparse runs.
    fn tidy(&mut self) {
        let spare = &mut self.spare;
        self.runs.retain_mut(|run| {
            let settled = run.items.iter().position(Option::is_some).unwrap_or(run.items.len());
            run.items.drain(..settled);
            run.base += settled as u64;
            if run.items.is_empty() && run.items.capacity() > spare.capacity() {
                std::mem::swap(spare, &mut run.items);
            }
            run.open > 0
        });
        let mut at = 0;
        while let Some(run) = self.runs.get_mut(at) {
            if let Some(head) = run.cut(&self.open) {
                if run.open == 0 {
                    *run = head;
                } else {
                    self.runs.insert(at, head);
                }
            }
            at += 1;
        }
    }
}

impl<T> Run<T> {
    /// One past the last number.
    fn end(&self) -> u64 {
        self.base + self.items.len() as u64
    }

    fn index(&self, s: u64) -> Option<usize> {
        usize::try_from(s.checked_sub(self.base)?).ok()
    }

    fn take(&mut self, s: u64) -> Option<T> {
        let at = self.index(s)?;
        let item = self.items.get_mut(at)?.take()?;
        self.open -= 1;
        Some(item)
    }

    /// Takes the open tokens of this run that lie `within`. True if there were any.
    fn settle(
        &mut self,
        open: &mut IntervalSet,
        mut within: Range<u64>,
        f: &mut impl FnMut(Slot, T),
    ) -> bool {
        let mut taken = false;
        while let Some(hit) = open.first_in(within.clone()) {
            within.start = hit.end;
            open.remove_range(hit.clone());
            let (Some(from), Some(to)) = (self.index(hit.start), self.index(hit.end)) else { break };
            for (s, item) in (hit.start..).zip(self.items.range_mut(from..to)) {
                if let Some(item) = item.take() {
                    self.open -= 1;
                    f(Slot(s), item);
                }
            }
            taken = true;
        }
        taken
    }

    /// Cuts a sparse run at its first wide hole: the part before the hole is split off, and the hole is dropped. Every cut at
    /// least halves the excess, so the tokens settled since the last cut pay for it.
    fn cut(&mut self, open: &IntervalSet) -> Option<Self> {
        if self.items.len() <= SHORT.max(self.open.saturating_mul(16)) {
            return None;
        }
        let hole = open.gaps(self.base..self.end()).find(|gap| gap.end - gap.start >= HOLE)?;
        let (from, to) = (self.index(hole.start)?, self.index(hole.end)?);
        let items: VecDeque<_> = self.items.drain(..from).collect();
        self.items.drain(..to - from);
        let head = Self { r: self.r, base: self.base, open: items.iter().flatten().count(), items };
        self.base = hole.end;
        self.open -= head.open;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// How many items there is memory for.
    fn room<T>(tokens: &Tokens<T>) -> usize {
        let runs = tokens.runs.iter().map(|run| run.items.capacity());
        runs.sum::<usize>() + tokens.spare.capacity()
    }

    fn settle(tokens: &mut Tokens<u64>, range: Range<u64>) {
        tokens.take_ranges(Incarnation(0), std::iter::once(range), |_, _| {});
    }

    /// Checks what must hold for the representation after every call.
    fn is_tidy(tokens: &Tokens<u64>) -> Result<(), TestCaseError> {
        prop_assert!(tokens.spare.is_empty());
        let mut below = (0, Incarnation(0));
        for run in &tokens.runs {
            prop_assert!(matches!(run.items.front(), Some(Some(_))), "begins with a hole");
            prop_assert_eq!(run.open, run.items.iter().flatten().count());
            prop_assert!(below <= (run.base, run.r), "out of order");
            prop_assert!(run.items.len() <= SHORT.max(16 * run.open), "sparse");
            below = (run.end(), run.r);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn behave_like_a_plain_map(
            ops in prop::collection::vec((0..10_u8, 0..300_u64, 0..60_u64), 1..120),
        ) {
            let (mut tokens, mut plain) = (Tokens::new(), BTreeMap::new());
            let (mut next, mut r) = (0, Incarnation(0));
            for (op, x, n) in ops {
                let (mut taken, mut wanted) = (Vec::new(), Vec::new());
                match op {
                    0..5 => for _ in 0..n {
                        tokens.push(Slot(next), r, next);
                        plain.insert(next, r);
                        next += 1;
                    },
                    5 => next += x % 20,
                    6 => r.0 += n % 2,
                    7 => {
                        let s = next.saturating_sub(x);
                        taken.extend(tokens.take(Slot(s)).map(|(r, item)| (s, r, item)));
                        wanted.extend(plain.remove(&s).map(|r| (s, r, s)));
                    }
                    8 => {
                        let from = next.saturating_sub(x);
                        let ranges = [from..from + n / 2, from + n / 2 + 3..from + n + 4];
                        let of = Incarnation(r.0.saturating_sub(n % 2));
                        tokens.take_ranges(of, ranges.clone().into_iter(), |s, item| {
                            taken.push((s.0, of, item));
                        });
                        plain.retain(|s, r| {
                            let goes = *r == of && ranges.iter().any(|range| range.contains(s));
                            wanted.extend(goes.then_some((*s, *r, *s)));
                            !goes
                        });
                    }
                    _ => {
                        let bound = Incarnation(r.0.saturating_sub(n % 3));
                        let live = (x % 2 == 0).then(|| Incarnation(bound.0.saturating_sub(1)));
                        tokens.take_below(bound, live, |s, r, item| taken.push((s.0, r, item)));
                        plain.retain(|s, r| {
                            let goes = *r < bound && Some(*r) != live;
                            wanted.extend(goes.then_some((*s, *r, *s)));
                            !goes
                        });
                    }
                }
                prop_assert_eq!(taken, wanted);
                is_tidy(&tokens)?;
                let all: BTreeMap<_, _> = tokens.iter().map(|(s, r, item)| (s.0, (r, *item))).collect();
                prop_assert!(all.iter().all(|(s, (_, item))| s == item));
                prop_assert_eq!(&all.iter().map(|(s, (r, _))| (*s, *r)).collect::<BTreeMap<_, _>>(), &plain);
                prop_assert_eq!(tokens.len(), plain.len() as u64);
                prop_assert_eq!(tokens.is_empty(), plain.is_empty());
                prop_assert_eq!(tokens.first(), plain.keys().next().copied().map(Slot));
                prop_assert_eq!(tokens.incarnation(), plain.values().next_back().copied());
                for s in [x, next.saturating_sub(x), next] {
                    let found = tokens.get(Slot(s)).map(|(r, item)| (r, *item));
                    prop_assert_eq!(found, plain.get(&s).map(|r| (*r, s)));
                }
            }
        }
    }

    #[test]
    fn one_message_at_a_time_allocates_once() {
        let mut tokens = Tokens::new();
        for s in 0..1_000 {
            tokens.push(Slot(s), Incarnation(0), s);
            let full = room(&tokens);
            settle(&mut tokens, s..s + 1);
            assert!(tokens.is_empty());
            assert_eq!(room(&tokens), full, "the buffer waits for the next message");
        }
        assert!(room(&tokens) <= 8);
    }

    #[test]
    fn a_full_window_allocates_no_more_than_the_window() {
        let mut tokens = Tokens::new();
        for s in 0..10_000 {
            tokens.push(Slot(s), Incarnation(0), s);
            settle(&mut tokens, s.saturating_sub(99)..s.saturating_sub(98));
        }
        assert_eq!(tokens.runs.len(), 1);
        assert!(room(&tokens) <= 256, "{}", room(&tokens));
    }

    #[test]
    fn a_message_that_stays_costs_no_memory_for_those_that_pass() {
        let mut tokens = Tokens::new();
        for s in 0..100_000 {
            tokens.push(Slot(s), Incarnation(0), s);
            if s >= 20 && s % 20_000 != 20 {
                settle(&mut tokens, s - 20..s - 19);
            }
            assert!(room(&tokens) <= 2_000, "{} at {s}", room(&tokens));
            assert!(tokens.runs.len() <= 20);
        }
        assert_eq!(tokens.len(), 20 + 5);
    }

    #[test]
    fn records_alike_are_equal_whatever_their_buffers() {
        let mut used = Tokens::new();
        used.push(Slot(3), Incarnation(1), 3);
        used.take(Slot(3));
        assert_eq!(used, Tokens::new());
    }
}
