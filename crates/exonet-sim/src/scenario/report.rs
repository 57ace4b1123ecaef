//! The result of a run.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use super::Profile;
use crate::Totals;
use crate::trace::Moment;

/// What a run has found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A guarantee was broken.
    Broken {
        /// The kind of the breach: [`Breach::kind`](crate::Breach::kind).
        kind: &'static str,
        /// When it was seen, from the start.
        at: Duration,
        /// The step of the run in which it was seen.
        step: u64,
        /// The details.
        what: String,
    },
    /// Some messages have no outcome, long after the last fault.
    Unsettled {
        /// The number of messages.
        open: usize,
    },
    /// A message was not delivered although nothing prevented it.
    Undelivered {
        /// The number of messages.
        messages: u64,
    },
    /// The nodes still send, although every request is done.
    Restless,
    /// A node remembers something that is of no use to any node.
    Remembers {
        /// The node.
        node: usize,
        /// What it remembers.
        what: String,
    },
}

impl Finding {
    /// The name of its kind, which does not change while a schedule shrinks.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Broken { kind, .. } => kind,
            Self::Unsettled { .. } => "unsettled",
            Self::Undelivered { .. } => "undelivered",
            Self::Restless => "restless",
            Self::Remembers { .. } => "remembers",
        }
    }

    /// Whether it can be seen only at the end of a run.
    pub fn is_of_the_end(&self) -> bool {
        !matches!(self, Self::Broken { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { at, step, what, .. } => write!(f, "step {step}, {}: {what}", Moment(*at)),
            Self::Unsettled { open } => {
                write!(f, "{open} messages have no outcome long after the last fault")
            }
            Self::Undelivered { messages } => {
                write!(f, "{messages} messages were not delivered though nothing was in their way")
            }
            Self::Restless => f.write_str("something goes on for ever though nobody wants anything"),
            Self::Remembers { node, what } => write!(f, "n{node} still remembers: {what}"),
        }
    }
}

/// How many times each kind of event happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(pub BTreeMap<&'static str, u64>);

impl Coverage {
    /// Adds to the count of a kind.
    pub fn add(&mut self, kind: &'static str, times: u64) {
        if times > 0 {
            *self.0.entry(kind).or_default() += times;
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, times)| self.add(kind, *times));
    }

    /// The count of a kind.
    pub fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The profile of the run.
    pub profile: Profile,
    /// What was found to be wrong; empty if nothing was. A run ends with the first broken guarantee.
    pub findings: Vec<Finding>,
    /// The number of steps: every input of a node is a step.
    pub steps: u64,
    /// The virtual time from the start to the end.
    pub lasted: Duration,
    /// Messages and their outcomes.
    pub totals: Totals,
    /// How many times each kind of event happened.
    pub coverage: Coverage,
    /// The longest time until every message had an outcome, after the last fault.
    pub settled_in: Duration,
    /// The number of datagrams that left nodes.
    pub datagrams: u64,
    /// The fingerprint of all datagrams.
    pub fingerprint: u64,
}

impl Report {
    /// The step of the first finding.
    pub fn broken_at(&self) -> u64 {
        match self.findings.first() {
            Some(Finding::Broken { step, .. }) => *step,
            _ => self.steps,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, profile, steps, lasted, totals, datagrams, .. } = self;
        let at = Moment(*lasted);
        writeln!(f, "seed {seed}, profile {profile}: {at} in {steps} steps, {datagrams} datagrams")?;
        write!(
            f,
            "{} messages: {} delivered, {} unknown, {} expired or cancelled; of them {} calls, {} with a reply",
            totals.sent, totals.delivered, totals.unknown, totals.withdrawn, totals.calls, totals.replies
        )?;
        for finding in &self.findings {
            write!(f, "\nVIOLATION  {finding}")?;
        }
        Ok(())
    }
}
