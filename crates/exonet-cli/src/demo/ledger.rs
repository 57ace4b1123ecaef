//! The truth about deliveries: which messages reached the receiving application, and how many times.

use std::collections::BTreeMap;

/// The deliveries, by the number of the message.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    times: Vec<u8>,
    arrived: u64,
    duplicates: u64,
    /// The incarnation and slot of each message that has an id.
    ids: BTreeMap<u64, (u64, u64)>,
    again: u64,
}

impl Ledger {
    pub(super) fn new(messages: u64) -> Self {
        Self {
            times: vec![0; usize::try_from(messages).unwrap_or(usize::MAX)],
            arrived: 0,
            duplicates: 0,
            ids: BTreeMap::new(),
            again: 0,
        }
    }

    /// Like [`Self::enter`], for a message with an id. A second report of the same id is the same delivery: the
    /// receiver was killed before it could take the message. By the id, an application recognizes that.
    pub(super) fn enter_as(&mut self, n: u64, id: (u64, u64)) {
        if self.ids.get(&n) == Some(&id) {
            self.again += 1;
        } else {
            self.ids.insert(n, id);
            self.enter(n);
        }
    }

    /// Notes that the receiver's application got message `n`.
    pub(super) fn enter(&mut self, n: u64) {
        let Some(times) = usize::try_from(n).ok().and_then(|n| self.times.get_mut(n)) else {
            return;
        };
        match *times {
            0 => self.arrived += 1,
            _ => self.duplicates += 1,
        }
        *times = times.saturating_add(1);
    }

    pub(super) fn has(&self, n: u64) -> bool {
        usize::try_from(n).ok().and_then(|n| self.times.get(n)).is_some_and(|times| *times > 0)
    }

    /// The number of different messages.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// How many deliveries were reported again, under the same id.
    pub(super) fn again(&self) -> u64 {
        self.again
    }

    /// How many deliveries there were beyond the first of each message.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_delivery_beyond_the_first_counts() {
        let mut ledger = Ledger::new(3);
        for n in [1, 1, 0, 1, 9] {
            ledger.enter(n);
        }
        assert_eq!((ledger.arrived(), ledger.duplicates()), (2, 2));
        assert!(ledger.has(0) && ledger.has(1) && !ledger.has(2) && !ledger.has(9));
    }

    #[test]
    fn the_same_id_is_the_same_delivery() {
        let mut ledger = Ledger::new(3);
        [(5, 7), (5, 7), (5, 8)].into_iter().for_each(|id| ledger.enter_as(2, id));
        assert_eq!((ledger.arrived(), ledger.duplicates(), ledger.again()), (1, 1, 1));
    }
}
