//! The newest outcomes of the messages of a node: those that the process has noted, and those that the journal remembers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use exonet::Outcome;
use exonet::send::{Ended, PastOutcomes};
use exonet_proto::Incarnation;

use super::protocol::{Judged, Settled, Which};
use crate::text::escape;

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

/// The outcome of a message that the journal remembers.
pub(crate) fn remembered(past: &PastOutcomes, which: &Which) -> Option<Settled> {
    let (number, ended) = match which {
        Which::Number(number) => (*number, past.by_number(*number)?),
        Which::Id(id) => past.by_id(&id.parse().ok()?)?,
    };
    let Ended { id, outcome, late, receiver_durability, reason, .. } = ended;
    let refused = if let Outcome::Refused(why) = outcome { Some(why.to_string()) } else { None };
    Some(Settled {
        n: number,
        outcome: outcome.into(),
        reason: reason.map(|reason| escape(reason.as_bytes())).or(refused),
        remedy: None,
        id: id.map(|id| id.to_string()),
        late,
        early: id.is_some_and(|id| id.r == Incarnation::UNNAMED),
        receiver_durability: receiver_durability.map(|level| level.to_string()),
        judged: Judged::of(outcome),
    })
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
