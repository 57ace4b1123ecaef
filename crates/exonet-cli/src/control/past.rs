//! The newest outcomes of the messages of a node.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::protocol::Settled;

/// The number of outcomes that are kept; the oldest are forgotten.
const MOST: usize = 10_000;

/// The newest outcomes, the oldest first. `n` of each is the number of the message in the journal.
#[derive(Debug, Default)]
pub(crate) struct Past(Mutex<VecDeque<Settled>>);

impl Past {
    /// Keeps an outcome.
    pub(crate) fn put(&self, settled: Settled) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(settled);
        if all.len() > MOST {
            all.pop_front();
        }
    }

    /// The outcome of the message of this number.
    pub(crate) fn of(&self, number: u64) -> Option<Settled> {
        self.find(|settled| settled.n == number)
    }

    /// The outcome of the message of this id.
    pub(crate) fn of_id(&self, id: &str) -> Option<Settled> {
        self.find(|settled| settled.id.as_deref() == Some(id))
    }

    fn find(&self, wanted: impl Fn(&Settled) -> bool) -> Option<Settled> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().find(|settled| wanted(settled)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::Ending;

    fn settled(n: u64) -> Settled {
        Settled {
            n,
            outcome: Ending::Expired,
            reason: None,
            remedy: None,
            id: Some(format!("id {n}")),
            late: false,
            early: false,
            receiver_durability: None,
            judged: None,
        }
    }

    #[test]
    fn the_newest_are_known() {
        let past = Past::default();
        let most = MOST as u64;
        (0..=most).for_each(|n| past.put(settled(n)));
        assert!(past.of(0).is_none() && past.of_id("id 0").is_none());
        assert_eq!(past.of(1).map(|settled| settled.n), Some(1));
        assert_eq!(past.of_id(&format!("id {most}")).map(|settled| settled.n), Some(most));
    }
}
