//! Decides which delivery is processed next.

use std::collections::{BTreeMap, VecDeque};

use exonet::{Delivery, NodeId};

/// The maximum number of deliveries of one sender that are processed at once.
const PER_SENDER: usize = 16;

/// Deliveries that wait for their turn, and the number per sender that is being processed. Senders take turns.
#[derive(Debug)]
pub(super) struct Desk<T = Delivery> {
    places: usize,
    senders: BTreeMap<NodeId, Sender<T>>,
    /// Senders that may have a turn: they have waiting deliveries, and hold fewer than [`PER_SENDER`] places.
    turns: VecDeque<NodeId>,
    at_work: usize,
    waiting: usize,
}

#[derive(Debug)]
struct Sender<T> {
    waiting: VecDeque<T>,
    at_work: usize,
}

impl<T> Desk<T> {
    pub(super) fn new(places: usize) -> Self {
        Self { places, senders: BTreeMap::new(), turns: VecDeque::new(), at_work: 0, waiting: 0 }
    }

    pub(super) fn put(&mut self, from: NodeId, delivery: T) {
        let none = || Sender { waiting: VecDeque::new(), at_work: 0 };
        let sender = self.senders.entry(from).or_insert_with(none);
        sender.waiting.push_back(delivery);
        self.waiting += 1;
        if sender.waiting.len() == 1 && sender.at_work < PER_SENDER {
            self.turns.push_back(from);
        }
    }

    /// The next delivery to process, if fewer than `most` are being processed. [`Self::finished`] frees its place.
    pub(super) fn next(&mut self, most: usize) -> Option<T> {
        if self.at_work >= self.places.min(most) {
            return None;
        }
        let from = self.turns.pop_front()?;
        let sender = self.senders.get_mut(&from)?;
        let delivery = sender.waiting.pop_front()?;
        sender.at_work += 1;
        (self.at_work, self.waiting) = (self.at_work + 1, self.waiting - 1);
        if !sender.waiting.is_empty() && sender.at_work < PER_SENDER {
            self.turns.push_back(from);
        }
        Some(delivery)
    }

    /// Frees the place of a delivery of this sender.
    pub(super) fn finished(&mut self, from: NodeId) {
        let Some(sender) = self.senders.get_mut(&from) else { return };
        let was_full = sender.at_work == PER_SENDER;
        sender.at_work -= 1;
        self.at_work -= 1;
        if was_full && !sender.waiting.is_empty() {
            self.turns.push_back(from);
        }
        if sender.at_work == 0 && sender.waiting.is_empty() {
            self.senders.remove(&from);
        }
    }

    /// Whether a sender could have a turn if there were a place.
    pub(super) fn is_crowded(&self) -> bool {
        !self.turns.is_empty()
    }

    pub(super) fn at_work(&self) -> usize {
        self.at_work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(desk: &mut Desk<u32>, most: usize) -> Vec<u32> {
        std::iter::from_fn(|| desk.next(most)).collect()
    }

    #[test]
    fn senders_take_turns() {
        let (greedy, friend) = (NodeId([1; 32]), NodeId([2; 32]));
        let mut desk = Desk::new(4);
        (0..50).for_each(|n| desk.put(greedy, n));
        desk.put(friend, 100);
        desk.put(friend, 101);
        assert_eq!(of(&mut desk, 8), [0, 100, 1, 101]);
        assert!(desk.is_crowded());
        desk.finished(friend);
        assert_eq!(of(&mut desk, 8), [2]);
    }

    #[test]
    fn one_sender_does_not_have_all_places() {
        let (greedy, friend) = (NodeId([1; 32]), NodeId([2; 32]));
        let mut desk = Desk::new(256);
        (0..50).for_each(|n| desk.put(greedy, n));
        assert_eq!(of(&mut desk, 256).len(), PER_SENDER);
        assert!(!desk.is_crowded(), "it waits for itself only");
        desk.put(friend, 100);
        assert_eq!(of(&mut desk, 256), [100]);
        desk.finished(greedy);
        assert_eq!(of(&mut desk, 256), [16]);
        (0..PER_SENDER).for_each(|_| desk.finished(greedy));
        assert_eq!((of(&mut desk, 3), desk.at_work()), (vec![17, 18], 3));
        (0..2).for_each(|_| desk.finished(greedy));
        desk.finished(friend);
        assert_eq!((desk.at_work(), desk.waiting), (0, 31));
    }
}
