//! Unsettled messages of a journal: consecutive ones that are alike are kept together.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::recovered::{Placed, Posted};
use crate::id::{LetterId, Slot};

/// Runs of messages, by the name of the first. The runs do not overlap. They are boxed, since a tree that grows at its
/// end has nodes that are half empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(BTreeMap<LetterId, Box<Posted>>);

impl Spans {
    /// Adds messages that were not present.
    pub(super) fn insert(&mut self, first: LetterId, posted: Posted) {
        self.0.insert(first, Box::new(posted));
    }

    /// The run that consists of exactly these messages, if there is one.
    pub(super) fn exactly(&mut self, first: LetterId, n: u32) -> Option<&mut Posted> {
        self.0.get_mut(&first).filter(|posted| posted.n == n).map(|posted| &mut **posted)
    }

    /// The message of this name as a run of its own.
    pub(super) fn single(&mut self, letter: LetterId) -> Option<&mut Posted> {
        if self.0.get(&letter).is_none_or(|posted| posted.n > 1) {
            self.cut(letter);
            self.cut(letter.nth(1));
        }
        self.0.get_mut(&letter).map(|posted| &mut **posted)
    }

    /// The runs that consist of those of the `n` messages from `first` on that are present, and of no others.
    pub(super) fn among(&mut self, first: LetterId, n: u32) -> impl Iterator<Item = (LetterId, &mut Posted)> {
        if self.exactly(first, n).is_none() {
            self.cut(first);
            self.cut(first.nth(n));
        }
        self.0.range_mut(first..first.nth(n)).map(|(letter, posted)| (*letter, &mut **posted))
    }

    /// Removes `n` messages from `first` on. False: some were not present.
    pub(super) fn remove(&mut self, first: LetterId, n: u32, mut gone: impl FnMut(Posted)) -> bool {
        if self.exactly(first, n).is_none() {
            self.cut(first);
            self.cut(first.nth(n));
        }
        let (mut at, end) = (first, first.nth(n));
        while at < end {
            let Some(posted) = self.0.remove(&at) else { return false };
            at = at.nth(posted.n);
            gone(*posted);
        }
        true
    }

    /// Makes a run begin at `letter`, if `letter` lies in a run.
    fn cut(&mut self, letter: LetterId) {
        let before = self.0.range_mut(..letter).next_back();
        let Some((first, posted)) = before else { return };
        let at = letter.get() - first.get();
        if let Some(at) = u32::try_from(at).ok().filter(|at| *at < posted.n) {
            let rest = posted.split_off(at);
            self.0.insert(letter, Box::new(rest));
        }
    }

    /// How many messages there are.
    pub(super) fn count(&self) -> usize {
        self.0.values().map(|posted| posted.n as usize).sum()
    }

    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Each message by itself.
    pub(crate) fn each(&self) -> impl Iterator<Item = (LetterId, Posted)> {
        self.0.iter().flat_map(|(first, posted)| (0..posted.n).map(|at| (first.nth(at), posted.nth(at))))
    }

    /// As [`Spans::into_runs`], by reference.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (LetterId, &Posted)> {
        self.0.iter().map(|(first, posted)| (*first, &**posted))
    }

    #[cfg(test)]
    pub(crate) fn runs_mut(&mut self) -> impl Iterator<Item = &mut Posted> {
        self.0.values_mut().map(|posted| &mut **posted)
    }

    /// The runs, each under the name of its first message.
    pub(crate) fn into_runs(self) -> impl Iterator<Item = (LetterId, Posted)> {
        self.0.into_iter().map(|(first, posted)| (first, *posted))
    }
}

/// Equality ignores how the messages are grouped.
impl PartialEq for Spans {
    fn eq(&self, other: &Self) -> bool {
        self.each().eq(other.each())
    }
}

impl Eq for Spans {}

impl Posted {
    /// How many bytes each message has in `body`.
    fn stride(&self) -> usize {
        self.body.len() / self.n.max(1) as usize
    }

    /// Splits off the messages from the `at`th on.
    fn split_off(&mut self, at: u32) -> Self {
        let body = self.body.split_off((self.stride() * at as usize).min(self.body.len()));
        let rest = Self { n: self.n - at, body, placed: self.placed.nth(at), ..self.clone() };
        self.n = at;
        rest
    }

    /// The `at`th message alone, with only its body.
    pub(crate) fn nth(&self, at: u32) -> Self {
        Self { n: 1, body: self.body_of(at), placed: self.placed.nth(at), ..self.clone() }
    }

    /// The body of the `at`th message.
    fn body_of(&self, at: u32) -> Bytes {
        let end = (self.stride() * (at as usize + 1)).min(self.body.len());
        self.body.slice(end - self.len.min(end)..end)
    }
}

impl Placed {
    /// The binding of the message that comes `n` behind.
    fn nth(self, n: u32) -> Self {
        match self {
            Self::Bound(s, r) => Self::Bound(Slot(s.0 + u64::from(n)), r),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;
    use crate::journal::Heading;

    fn id(n: u64) -> LetterId {
        LetterId::new(n).unwrap()
    }

    /// Messages 1 to 5, each a body of two bytes behind two others.
    fn five() -> Spans {
        let body: Vec<u8> = (1..=5).flat_map(|n| [3, 1, n, n]).collect();
        let mut spans = Spans::default();
        spans.insert(id(1), Posted::alike(7, &Heading::PLAIN, 5, 2, body.into()));
        spans
    }

    #[test]
    fn a_run_is_cut_where_its_messages_part() {
        let mut spans = five();
        for (letter, posted) in spans.among(id(2), 3) {
            posted.placed = Placed::Bound(Slot(20 + letter.get()), Incarnation(4));
        }
        spans.single(id(3)).unwrap().placed = Placed::Nowhere;
        let all: Vec<_> =
            spans.each().map(|(id, posted)| (id.get(), posted.body[0], posted.placed)).collect();
        let bound = |s| Placed::Bound(Slot(s), Incarnation(4));
        let expected = [Placed::Nowhere, bound(22), Placed::Nowhere, bound(24), Placed::Nowhere];
        assert_eq!(all, (1..).zip(1..).zip(expected).map(|((n, b), at)| (n, b, at)).collect::<Vec<_>>());
        assert!(spans.each().all(|(_, posted)| posted.body.len() == 2));
        assert_eq!((spans.count(), spans.into_runs().count()), (5, 5));
    }

    #[test]
    fn what_is_taken_out_was_there() {
        let mut spans = five();
        let mut gone = 0;
        assert!(spans.remove(id(2), 2, |posted| gone += posted.n));
        assert!(!spans.remove(id(3), 2, |_| ()), "one is gone");
        assert!(!spans.remove(id(5), 2, |_| ()), "there is no sixth");
        assert!(spans.single(id(2)).is_none() && spans.single(id(6)).is_none());
        assert_eq!((gone, spans.each().map(|(id, _)| id.get()).collect::<Vec<_>>()), (2, vec![1, 4]));
    }

    #[test]
    fn how_they_are_kept_is_of_no_meaning() {
        let (whole, mut parts) = (five(), five());
        assert!(parts.single(id(3)).is_some());
        assert_eq!(whole, parts);
        parts.single(id(3)).unwrap().placed = Placed::Bound(Slot(1), Incarnation(1));
        assert_ne!(whole, parts);
    }
}
