//! Messages that were sent one by one and are queued together: one record has all their outcomes.

use core::ops::Range;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use exonet_proto::node::MessageKey;
use exonet_proto::{MessageId, Slot};

use crate::send::receipts::Settled;
use crate::shared::Shared;

/// What the receipts of these messages share.
pub(crate) struct Lot {
    /// Weak, since the table of receipts holds the lot while a message is open.
    pub(crate) shared: Weak<Shared>,
    fates: Mutex<Fates>,
}

#[derive(Default)]
struct Fates {
    /// The keys under which the messages were queued. The key of a later message follows from the entry before it.
    queued: Vec<Queued>,
    /// Messages that have ended, as runs in order, without overlap.
    ended: Vec<Ended>,
    /// The tasks that wait, each with the number of its message.
    waiting: Vec<(u32, Waker)>,
}

/// The messages from `at` on, which the core keeps together.
struct Queued {
    at: u32,
    first: MessageKey,
}

/// Messages that have ended alike, with consecutive ids.
struct Ended {
    these: Range<u32>,
    /// How the first of them ended.
    settled: Settled,
}

impl Lot {
    pub(crate) fn new(shared: Weak<Shared>) -> Self {
        Self { shared, fates: Mutex::default() }
    }

    fn fates(&self) -> MutexGuard<'_, Fates> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the core has taken messages from number `at` on.
    pub(crate) fn queued(&self, at: u32, first: MessageKey) {
        self.fates().queued.push(Queued { at, first });
    }

    /// The key of an open message in the core, once it is queued.
    pub(crate) fn key(&self, at: u32) -> Option<MessageKey> {
        let fates = self.fates();
        if fates.settled(at).is_some() {
            return None;
        }
        let behind = fates.queued.partition_point(|queued| queued.at <= at);
        let queued = fates.queued.get(behind.checked_sub(1)?)?;
        Some(queued.first.nth(at - queued.at))
    }

    pub(crate) fn settled(&self, at: u32) -> Option<Settled> {
        self.fates().settled(at)
    }

    /// How a message ended, if it has. Otherwise stores `waker`. If that replaces another waker, the other is left in
    /// `waker`, so that the caller drops it without the lock.
    pub(crate) fn poll(&self, at: u32, waker: &mut Option<Waker>) -> Poll<Settled> {
        let mut fates = self.fates();
        if let Some(settled) = fates.settled(at) {
            return Poll::Ready(settled);
        }
        if let Some(new) = waker.take() {
            match fates.waiting.iter_mut().find(|(other, _)| *other == at) {
                Some((_, old)) => *waker = Some(core::mem::replace(old, new)),
                None => fates.waiting.push((at, new)),
            }
        }
        Poll::Pending
    }

    /// Notes that no task waits for the message any more. Returns the waker.
    pub(crate) fn forget(&self, at: u32) -> Option<Waker> {
        let mut fates = self.fates();
        let place = fates.waiting.iter().position(|(other, _)| *other == at)?;
        Some(fates.waiting.swap_remove(place).1)
    }

    /// Ends those of `these` that are open; the id in `settled` belongs to the first. Returns how many they are, and
    /// passes the wakers of the waiting tasks to `wake`.
    pub(crate) fn end(&self, these: Range<u32>, settled: Settled, mut wake: impl FnMut(Waker)) -> u32 {
        let mut fates = self.fates();
        let ended = fates.end(these.clone(), settled);
        if !fates.waiting.is_empty() {
            fates.waiting.extract_if(.., |(at, _)| these.contains(at)).for_each(|(_, waker)| wake(waker));
        }
        ended
    }
}

impl Fates {
    fn settled(&self, at: u32) -> Option<Settled> {
        let behind = self.ended.partition_point(|run| run.these.end <= at);
        let run = self.ended.get(behind).filter(|run| run.these.start <= at)?;
        Some(run.settled.nth(at - run.these.start))
    }

    fn end(&mut self, these: Range<u32>, settled: Settled) -> u32 {
        let (mut from, mut count) = (these.start, 0);
        while from < these.end {
            let place = self.ended.partition_point(|run| run.these.end <= from);
            let next = self.ended.get(place).map_or(these.end..these.end, |run| run.these.clone());
            if next.start <= from && next.end > from {
                from = next.end;
                continue;
            }
            let to = next.start.min(these.end);
            self.enter(place, from..to, settled.nth(from - these.start));
            count += to - from;
            from = to;
        }
        count
    }

    fn enter(&mut self, place: usize, these: Range<u32>, settled: Settled) {
        let before = place.checked_sub(1).and_then(|before| self.ended.get_mut(before));
        match before {
            Some(run)
                if run.these.end == these.start
                    && run.settled.nth(these.start - run.these.start) == settled =>
            {
                run.these.end = these.end;
            }
            _ => self.ended.insert(place, Ended { these, settled }),
        }
    }
}

impl Settled {
    /// How the message that is `n` slots later in the same record ended, if the two have ended alike.
    fn nth(self, n: u32) -> Self {
        let id = self.id.map(|id| MessageId { s: Slot(id.s.0.saturating_add(n.into())), ..id });
        Self { id, ..self }
    }
}

#[cfg(test)]
mod tests {
    use exonet_proto::node::Outcome;
    use exonet_proto::{Incarnation, NodeId};

    use super::*;

    fn of(outcome: Outcome, s: u64) -> Settled {
        let id = MessageId { sender: NodeId([1; 32]), r: Incarnation(1), s: Slot(s) };
        Settled::with_id(outcome, id)
    }

    #[test]
    fn each_message_ends_once_whatever_ends_about_it() {
        for (a, b, c) in [(0..4, 2..9, 0..10), (5..6, 0..10, 3..4), (0..2, 4..6, 1..5)] {
            let (mut fates, mut expected) = (Fates::default(), [None; 10]);
            let outcomes = [Outcome::Delivered, Outcome::Unknown, Outcome::Delivered];
            for ((these, outcome), s) in [a, b, c].into_iter().zip(outcomes).zip([100, 200, 300]) {
                let mut new = 0;
                for at in these.clone() {
                    let place = &mut expected[at as usize];
                    new += u32::from(place.is_none());
                    let settled = of(outcome, s + u64::from(at - these.start));
                    place.get_or_insert(settled);
                }
                assert_eq!(fates.end(these, of(outcome, s)), new);
            }
            let told: Vec<_> = (0..10).map(|at| fates.settled(at)).collect();
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn runs_that_go_on_are_one() {
        let mut fates = Fates::default();
        for at in 0..100 {
            assert_eq!(fates.end(at..at + 1, of(Outcome::Delivered, 7 + u64::from(at))), 1);
        }
        assert_eq!(fates.ended.len(), 1);
        fates.end(100..101, of(Outcome::Delivered, 7));
        assert_eq!(fates.ended.len(), 2, "another slot");
    }

    #[test]
    fn those_are_woken_whose_message_has_ended() {
        let lot = Lot::new(Weak::new());
        for at in 0..4 {
            assert!(lot.poll(at, &mut Some(Waker::noop().clone())).is_pending());
        }
        assert!(lot.forget(3).is_some() && lot.forget(3).is_none());
        let mut woken = 0;
        assert_eq!(lot.end(1..4, of(Outcome::Delivered, 1), |_| woken += 1), 3);
        assert_eq!(woken, 2);
        assert!(lot.poll(2, &mut None).is_ready() && lot.poll(0, &mut None).is_pending());
        assert_eq!(lot.fates().waiting.len(), 1);
    }
}
