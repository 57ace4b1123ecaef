//! Every message against every outcome.

use std::collections::BTreeMap;

use exonet_proto::node::Outcome;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Delivered more than once.
    Duplicate(u64),
    /// Reported Delivered and never delivered.
    FalseDelivered(u64),
    /// Delivered though reported Expired or Cancelled.
    FalseWithdrawn(u64),
    /// Reported Unknown without a crash, an eviction or an application that gave up.
    FalseUnknown(u64),
    /// Two outcomes.
    TwoOutcomes(u64),
    /// No outcome though the world is quiet.
    Vanished(u64),
    /// Delivered and never sent, or changed on the way.
    Forged,
}

/// What is counted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub sent: u64,
    /// Messages taken by the receiving application.
    pub taken: u64,
    /// Outcomes Delivered.
    pub delivered: u64,
    /// Outcomes Unknown.
    pub unknown: u64,
    /// Outcomes Expired and Cancelled.
    pub withdrawn: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    taken: u32,
    outcome: Option<Outcome>,
    /// A crash, an eviction or a give-up excuses Unknown.
    excused: bool,
}

/// The fate of every message, by a number that its body bears.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<u64, Entry>,
    violations: Vec<Violation>,
    open: usize,
}

impl Ledger {
    /// A message was sent.
    pub fn sent(&mut self, message: u64) {
        self.entries.insert(message, Entry::default());
        self.open += 1;
    }

    /// An application took it.
    pub fn taken(&mut self, message: Option<u64>) {
        let Some(entry) = message.and_then(|message| self.entries.get_mut(&message)) else {
            self.violations.push(Violation::Forged);
            return;
        };
        entry.taken += 1;
        let message = message.unwrap_or_default();
        if entry.taken > 1 {
            self.violations.push(Violation::Duplicate(message));
        }
        if matches!(entry.outcome, Some(Outcome::Expired | Outcome::Cancelled)) {
            self.violations.push(Violation::FalseWithdrawn(message));
        }
    }

    /// An impostor's message of this slot was taken a second time.
    pub(crate) fn taken_from_foe_again(&mut self, slot: u64) {
        self.violations.push(Violation::Duplicate(slot));
    }

    /// Its sender was told what became of it.
    pub fn outcome(&mut self, message: u64, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(&message) else {
            return;
        };
        if entry.outcome.replace(outcome).is_some() {
            self.violations.push(Violation::TwoOutcomes(message));
        } else {
            self.open -= 1;
        }
        let wrong = match outcome {
            Outcome::Delivered if entry.taken == 0 => Some(Violation::FalseDelivered(message)),
            Outcome::Expired | Outcome::Cancelled if entry.taken > 0 => {
                Some(Violation::FalseWithdrawn(message))
            }
            Outcome::Unknown if !entry.excused => Some(Violation::FalseUnknown(message)),
            _ => None,
        };
        self.violations.extend(wrong);
    }

    /// From now on Unknown is excused for every message that is open: something was forgotten.
    pub fn excuse_open(&mut self) {
        for entry in self.entries.values_mut().filter(|entry| entry.outcome.is_none()) {
            entry.excused = true;
        }
    }

    /// From now on Unknown is excused for this message: its receiver has forgotten, or its sender gave it up.
    pub fn excuse(&mut self, message: u64) {
        if let Some(entry) = self.entries.get_mut(&message) {
            entry.excused = true;
        }
    }

    /// What became of a message; None while it is open.
    pub fn outcome_of(&self, message: u64) -> Option<Outcome> {
        self.entries.get(&message)?.outcome
    }

    /// The sender of these messages crashed: nobody will ever be told.
    pub fn orphan(&mut self, messages: impl IntoIterator<Item = u64>) {
        for message in messages {
            if let Some(entry) = self.entries.get_mut(&message) {
                entry.excused = true;
                self.open -= usize::from(entry.outcome.is_none());
                entry.outcome.get_or_insert(Outcome::Unknown);
            }
        }
    }

    /// The world is quiet: whatever has no outcome has vanished.
    pub fn close(&mut self) {
        let open = self.entries.iter().filter(|(_, entry)| entry.outcome.is_none());
        self.violations.extend(open.map(|(message, _)| Violation::Vanished(*message)));
    }

    /// Messages without an outcome.
    pub fn open(&self) -> usize {
        self.open
    }

    /// What was broken so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Counts.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in self.entries.values() {
            totals.sent += 1;
            totals.taken += u64::from(entry.taken);
            match entry.outcome {
                Some(Outcome::Delivered) => totals.delivered += 1,
                Some(Outcome::Unknown) => totals.unknown += 1,
                Some(Outcome::Expired | Outcome::Cancelled) => totals.withdrawn += 1,
                None => {}
            }
        }
        totals
    }
}
