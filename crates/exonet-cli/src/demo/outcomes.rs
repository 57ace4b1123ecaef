//! Compares the outcomes at the sender with the ledger.

use exonet::Outcome;
use serde::Serialize;

use super::ledger::Ledger;

/// The outcome of each message. None: there is no outcome yet.
#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    told: Vec<Option<Outcome>>,
    pub(super) settled: u64,
    pub(super) unknown: u64,
}

/// How many messages kept or broke the guarantee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Account {
    pub(super) sent: u64,
    /// Messages that were reported as delivered, and that arrived.
    pub(super) delivered: u64,
    /// Arrivals beyond the first.
    pub(super) duplicates: u64,
    /// Messages that were reported as delivered and never arrived, or that never settled.
    pub(super) lost: u64,
    /// Messages that were reported as unknown: they were under way when the receiver was killed.
    pub(super) unknown: u64,
}

impl Outcomes {
    pub(super) fn new(messages: u64) -> Self {
        Self { told: vec![None; usize::try_from(messages).unwrap_or(usize::MAX)], settled: 0, unknown: 0 }
    }

    pub(super) fn tell(&mut self, n: u64, outcome: Outcome) {
        let Some(told) = usize::try_from(n).ok().and_then(|n| self.told.get_mut(n)) else {
            return;
        };
        *told = Some(outcome);
        self.settled += 1;
        self.unknown += u64::from(outcome == Outcome::Unknown);
    }

    /// Compares the first `sent` messages with the ledger. If the demo was `interrupted`, messages without an outcome are on their
    /// way, and are not counted.
    pub(super) fn account(&self, sent: u64, ledger: &Ledger, interrupted: bool) -> Account {
        let mut account = Account { sent, duplicates: ledger.duplicates(), ..Account::default() };
        for (n, told) in (0..sent).zip(&self.told) {
            if told.is_none() && interrupted {
                account.sent -= 1;
                continue;
            }
            let count = match (told, ledger.has(n)) {
                (Some(Outcome::Unknown), _) => &mut account.unknown,
                (Some(Outcome::Delivered), true) => &mut account.delivered,
                // No message of the demo has a deadline or is cancelled, so such an outcome breaks the guarantee too.
                (
                    Some(
                        Outcome::Delivered
                        | Outcome::Processed { .. }
                        | Outcome::Rejected { .. }
                        | Outcome::Expired
                        | Outcome::Cancelled
                        | Outcome::Refused(_)
                        | Outcome::Kept,
                    )
                    | None,
                    _,
                ) => &mut account.lost,
            };
            *count += 1;
        }
        account
    }

    /// The number of unknown messages that had arrived.
    pub(super) fn unknown_but_there(&self, ledger: &Ledger) -> u64 {
        let unknown = (0_u64..).zip(&self.told).filter(|(_, told)| **told == Some(Outcome::Unknown));
        unknown.map(|(n, _)| u64::from(ledger.has(n))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broken_promise_is_counted() {
        let mut ledger = Ledger::new(6);
        let mut outcomes = Outcomes::new(6);
        for n in [0, 2, 2, 5] {
            ledger.enter(n);
        }
        outcomes.tell(0, Outcome::Delivered);
        outcomes.tell(1, Outcome::Delivered); // never arrived
        outcomes.tell(2, Outcome::Delivered); // twice
        outcomes.tell(3, Outcome::Unknown);
        // Message 4 is never settled.
        outcomes.tell(5, Outcome::Unknown); // had arrived
        let account = outcomes.account(6, &ledger, false);
        assert_eq!(account, Account { sent: 6, delivered: 2, duplicates: 1, lost: 2, unknown: 2 });
        assert_eq!(outcomes.unknown_but_there(&ledger), 1);
        assert_eq!(account.delivered + account.lost + account.unknown, account.sent);
        let interrupted = outcomes.account(6, &ledger, true);
        assert_eq!(interrupted, Account { sent: 5, lost: 1, ..account }, "message 4 is on its way");
    }
}
