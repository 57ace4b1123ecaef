//! A set of numbers held as disjoint, ordered intervals.

use std::collections::VecDeque;
use std::ops::Range;

/// A set of `u64`, held as disjoint, non-adjacent, non-empty half-open intervals in ascending order.
///
/// Slots mostly leave from the front and enter at the back; both cost O(1). Elsewhere an operation costs a binary search and a
/// move of the shorter side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IntervalSet {
    runs: VecDeque<Range<u64>>,
    /// How many numbers there are in `runs`.
    count: u64,
}

impl IntervalSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { runs: VecDeque::new(), count: 0 }
    }

    /// True when no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Removes every number.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.count = 0;
    }

    /// How many intervals the set consists of.
    pub fn intervals(&self) -> usize {
        self.runs.len()
    }

    /// How many numbers are in the set: O(1).
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest number of the set.
    pub fn first(&self) -> Option<u64> {
        self.runs.front().map(|r| r.start)
    }

    /// One past the largest number of the set.
    pub fn end(&self) -> Option<u64> {
        self.runs.back().map(|r| r.end)
    }

    /// The intervals in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.runs.iter().cloned()
    }

    /// The intervals that overlap `within`, clipped to it, in ascending order: O(log + answers).
    pub fn overlaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let from = self.runs.partition_point(|r| r.end <= within.start);
        self.runs
            .range(from..)
            .map(move |r| r.start.max(within.start)..r.end.min(within.end))
            .take_while(|r| r.start < r.end)
    }

    /// The first interval that overlaps `within`, clipped to it: O(log).
    pub fn first_in(&self, within: Range<u64>) -> Option<Range<u64>> {
        self.overlaps(within).next()
    }

    /// The gaps of the set inside `within`: the numbers of `within` that are not in the set. A range that ends before it begins
    /// has none.
    pub fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = within.start;
        let tail = within.end..within.end;
        self.overlaps(within)
            .chain(std::iter::once(tail))
            .map(move |r| {
                let gap = at..r.start;
                at = r.end;
                gap
            })
            .filter(|r| r.start < r.end)
    }

    /// True when `x` is in the set.
    pub fn contains(&self, x: u64) -> bool {
        let at = self.runs.partition_point(|r| r.end <= x);
        self.runs.get(at).is_some_and(|r| r.start <= x)
    }

    /// True when every number of `range` is in the set.
    pub fn covers(&self, range: Range<u64>) -> bool {
        if range.start >= range.end {
            return true;
        }
        let at = self.runs.partition_point(|r| r.end <= range.start);
        self.runs.get(at).is_some_and(|r| r.start <= range.start && range.end <= r.end)
    }

    /// Adds every number of `range`.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        match self.runs.back_mut() {
            Some(last) if last.end == range.start => {
                last.end = range.end;
                self.count += range.end - range.start;
                return;
            }
            Some(last) if last.end > range.start => {}
            _ => {
                self.count += range.end - range.start;
                self.runs.push_back(range);
                return;
            }
        }
        let from = self.runs.partition_point(|r| r.end < range.start);
        let to = self.runs.partition_point(|r| r.start <= range.end);
        if from == to {
            self.count += range.end - range.start;
            self.runs.insert(from, range);
            return;
        }
        let joined: u64 = self.runs.range(from..to).map(|r| r.end - r.start).sum();
        let end = self.runs.get(to - 1).map_or(range.end, |r| r.end.max(range.end));
        if let Some(first) = self.runs.get_mut(from) {
            first.start = first.start.min(range.start);
            first.end = end;
            self.count += first.end - first.start - joined;
        }
        self.runs.drain(from + 1..to);
    }

    /// Removes `x`. False if it was not in the set.
    pub fn remove(&mut self, x: u64) -> bool {
        let at = match self.runs.front() {
            Some(front) if x < front.end => 0,
            _ => self.runs.partition_point(|r| r.end <= x),
        };
        let Some(run) = self.runs.get_mut(at).filter(|r| r.start <= x) else {
            return false;
        };
        self.count -= 1;
        if run.start == x {
            run.start += 1;
            if run.start == run.end {
                self.runs.remove(at);
            }
        } else if run.end == x + 1 {
            run.end = x;
        } else {
            let tail = x + 1..run.end;
            run.end = x;
            self.runs.insert(at + 1, tail);
        }
        true
    }

    /// Removes every number of `range`.
    pub fn remove_range(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        if let Some(front) = self.runs.front_mut()
            && range.start <= front.start
            && range.end < front.end
        {
            self.count -= range.end.max(front.start) - front.start;
            front.start = front.start.max(range.end);
            return;
        }
        self.count -= self.overlaps(range.clone()).map(|r| r.end - r.start).sum::<u64>();
        let from = self.runs.partition_point(|r| r.end <= range.start);
        let to = self.runs.partition_point(|r| r.start < range.end);
        if from >= to {
            return;
        }
        let head = self.runs.get(from).map(|r| r.start..range.start);
        let tail = self.runs.get(to - 1).map(|r| range.end..r.end);
        self.runs.drain(from..to);
        for part in [tail, head].into_iter().flatten().filter(|r| r.start < r.end) {
            self.runs.insert(from, part);
        }
    }

    /// Removes every number below `floor`.
    pub fn remove_below(&mut self, floor: u64) {
        while let Some(front) = self.runs.front_mut() {
            self.count -= front.end.min(floor).max(front.start) - front.start;
            if front.end <= floor {
                self.runs.pop_front();
            } else {
                front.start = front.start.max(floor);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn members(set: &IntervalSet) -> BTreeSet<u64> {
        set.iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_plain_set(ops in prop::collection::vec((0..5_u8, 0..60_u64, 0..12_u64), 1..80)) {
            let (mut set, mut plain) = (IntervalSet::new(), BTreeSet::new());
            for (op, x, n) in ops {
                match op {
                    0 | 1 => { set.insert(x..x + n); plain.extend(x..x + n); }
                    2 => prop_assert_eq!(set.remove(x), plain.remove(&x)),
                    3 => { set.remove_range(x..x + n); plain.retain(|y| !(x..x + n).contains(y)); }
                    _ => { set.remove_below(x / 2); plain.retain(|y| *y >= x / 2); }
                }
                prop_assert_eq!(members(&set), plain.clone());
                prop_assert_eq!(set.contains(x), plain.contains(&x));
                prop_assert_eq!(set.covers(x..x + n), (x..x + n).all(|y| plain.contains(&y)));
                prop_assert_eq!(set.count(), plain.len() as u64);
                let inside: BTreeSet<u64> = set.overlaps(x..x + n).flatten().collect();
                prop_assert_eq!(&inside, &plain.range(x..x + n).copied().collect());
                let gaps: BTreeSet<u64> = set.gaps(x..x + n).flatten().collect();
                prop_assert_eq!(gaps, (x..x + n).filter(|y| !plain.contains(y)).collect::<BTreeSet<_>>());
                prop_assert_eq!(set.gaps(x + n..x).count() + set.overlaps(x + n..x).count(), 0);
                let runs: Vec<_> = set.iter().collect();
                prop_assert!(runs.iter().all(|r| r.start < r.end));
                prop_assert!(runs.windows(2).all(|w| w[0].end < w[1].start), "touching runs {:?}", runs);
            }
        }
    }
}
