//! What a run showed.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use super::Profile;
use crate::Totals;
use crate::trace::Moment;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A promise was broken.
    Broken {
        /// Which: [`Breach::kind`](crate::Breach::kind).
        kind: &'static str,
        /// When, from the beginning.
        at: Duration,
        /// Step of the run.
        step: u64,
        /// How.
        what: String,
    },
    /// Messages without an outcome, long after the last fault.
    Unsettled {
        /// How many.
        open: usize,
    },
    /// A message was not delivered though nothing was in its way.
    Undelivered {
        /// How many.
        messages: u64,
    },
    /// Something goes on for ever though nobody wants anything.
    Restless,
    /// A node remembers what is of no use to anybody.
    Remembers {
        /// Which node.
        node: usize,
        /// What.
        what: String,
    },
}

impl Finding {
    /// Its kind: shrinking keeps to it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Broken { kind, .. } => kind,
            Self::Unsettled { .. } => "unsettled",
            Self::Undelivered { .. } => "undelivered",
            Self::Restless => "restless",
            Self::Remembers { .. } => "remembers",
        }
    }

    /// Whether only the end of a run shows it.
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

/// How often each kind of thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(pub BTreeMap<&'static str, u64>);

impl Coverage {
    /// How many times it happened.
    pub fn add(&mut self, kind: &'static str, times: u64) {
        if times > 0 {
            *self.0.entry(kind).or_default() += times;
        }
    }

    /// And all of these.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, times)| self.add(kind, *times));
    }

    /// How often.
    pub fn of(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }
}

/// What a run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of the run.
    pub seed: u64,
    /// Of the run.
    pub profile: Profile,
    /// What must not be, none if all is well. A run ends with the first broken promise.
    pub findings: Vec<Finding>,
    /// Steps by the end: every input of a node is one.
    pub steps: u64,
    /// Virtual time from the first to the last.
    pub lasted: Duration,
    /// Messages and their outcomes.
    pub totals: Totals,
    /// How often each kind of thing happened.
    pub coverage: Coverage,
    /// The longest that it took until everything had an outcome, once nothing went wrong any more.
    pub settled_in: Duration,
    /// Datagrams that left nodes.
    pub datagrams: u64,
    /// Of every datagram.
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
