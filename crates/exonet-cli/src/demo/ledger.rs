//! The truth: what reached the application of the receiver, and how often.

/// Deliveries by number of the message.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    times: Vec<u8>,
    arrived: u64,
    duplicates: u64,
}

impl Ledger {
    pub(super) fn new(messages: u64) -> Self {
        Self { times: vec![0; usize::try_from(messages).unwrap_or(usize::MAX)], arrived: 0, duplicates: 0 }
    }

    /// The receiver's application got message `n`.
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

    /// Different messages.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Deliveries beyond the first.
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
}
