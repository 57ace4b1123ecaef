//! The exit codes of the command.

use std::process::ExitCode;

use exonet::send::Refusal;
use exonet::{NodeId, Outcome};
use serde::Serialize;

use crate::control::protocol::Ending;

/// The code that shells expect from a process that ended by an interrupt: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Exit codes, as the help documents them. The argument parser also ends with that of wrong usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything that was asked for has been done.
    Success,
    /// Something failed, and standard error says what.
    Error,
    /// The command line asks for something that is never done.
    Usage,
    /// It is unknown whether at least one message was delivered.
    Unknown,
    /// At least one message waits in the journal of this node's identity, which continues with it in its next run.
    Kept,
    /// At least one message was certainly not delivered.
    Undelivered,
    /// The call was answered by a failure.
    Failed,
    /// Stopped by the user.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Unknown => 3,
            Exit::Undelivered => 4,
            Exit::Failed => 5,
            Exit::Kept => 6,
            Exit::Interrupted => INTERRUPTED,
        })
    }
}

/// The number of messages of each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) delivered: u64,
    pub(crate) processed: u64,
    /// The number of messages that the receiving application rejected.
    pub(crate) rejected: u64,
    pub(crate) unknown: u64,
    pub(crate) expired: u64,
    pub(crate) cancelled: u64,
    /// The number of messages that the receiver or its node refused with a reason.
    pub(crate) refused: u64,
    /// The number of messages that the journal of this node's identity keeps.
    pub(crate) kept: u64,
}

impl Tally {
    /// Counts one settled message.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        self.count(outcome.into());
    }

    /// Counts one message with this outcome.
    pub(crate) fn count(&mut self, ending: Ending) {
        let count = match ending {
            Ending::Delivered => &mut self.delivered,
            Ending::Processed => &mut self.processed,
            Ending::Rejected => &mut self.rejected,
            Ending::Unknown => &mut self.unknown,
            Ending::Expired => &mut self.expired,
            Ending::Cancelled => &mut self.cancelled,
            Ending::Refused => &mut self.refused,
            Ending::Kept => &mut self.kept,
        };
        *count += 1;
    }

    /// The number of messages that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.delivered
            + self.processed
            + self.rejected
            + self.unknown
            + self.expired
            + self.cancelled
            + self.refused
            + self.kept
    }

    /// Adds the counts of another tally.
    pub(crate) fn join(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.processed += other.processed;
        self.rejected += other.rejected;
        self.unknown += other.unknown;
        self.expired += other.expired;
        self.cancelled += other.cancelled;
        self.refused += other.refused;
        self.kept += other.kept;
    }

    /// The exit code. An unknown outcome takes precedence over a certain failure, after which a message can safely be
    /// sent again.
    pub(crate) fn exit(&self) -> Exit {
        if self.unknown > 0 {
            Exit::Unknown
        } else if self.expired + self.cancelled + self.refused + self.rejected > 0 {
            Exit::Undelivered
        } else if self.kept > 0 {
            Exit::Kept
        } else {
            Exit::Success
        }
    }

    /// For people: `12 delivered, 1 unknown`.
    pub(crate) fn describe(&self) -> String {
        let parts = [
            (self.delivered, "delivered"),
            (self.processed, "processed"),
            (self.rejected, "rejected"),
            (self.unknown, "unknown"),
            (self.expired, "expired"),
            (self.cancelled, "cancelled"),
            (self.refused, "refused"),
            (self.kept, "kept"),
        ];
        let named: Vec<String> = parts
            .iter()
            .enumerate()
            .filter(|(at, (count, _))| *at == 0 || *count > 0)
            .map(|(_, (count, name))| format!("{} {name}", crate::units::count(*count)))
            .collect();
        named.join(", ")
    }
}

/// The word for an outcome, the same in text and JSON.
pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    Ending::from(outcome).name()
}

/// The remedy for a refusal, at the node `own`.
pub(crate) fn remedy(why: Refusal, own: NodeId) -> String {
    match why {
        Refusal::Policy => format!(
            "its owner can admit this node with `--allow {own}`; with --as NAME a command has the same id \
             each time"
        ),
        Refusal::Kind => {
            "a node of `exon serve` takes calls (exon call), one of `exon listen` messages and files"
                .to_owned()
        }
        Refusal::Ended => "its identity ended with its process: ask its owner for the new id".to_owned(),
        _ => "ask its owner what it takes".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(outcomes: &[Outcome]) -> Tally {
        let mut tally = Tally::default();
        outcomes.iter().for_each(|outcome| tally.add(*outcome));
        tally
    }

    #[test]
    fn doubt_outweighs_certain_failure() {
        use Outcome::{Cancelled, Delivered, Expired, Kept, Unknown};
        assert_eq!(tally(&[]).exit(), Exit::Success);
        assert_eq!(tally(&[Delivered]).exit(), Exit::Success);
        assert_eq!(tally(&[Delivered, Expired]).exit(), Exit::Undelivered);
        assert_eq!(tally(&[Delivered, Cancelled]).exit(), Exit::Undelivered);
        assert_eq!(tally(&[Expired, Unknown, Delivered]).exit(), Exit::Unknown);
        assert_eq!(tally(&[Delivered, Kept]).exit(), Exit::Kept);
        assert_eq!(tally(&[Kept, Expired]).exit(), Exit::Undelivered);
        let (processed, rejected) =
            (Outcome::Processed { status: 7 }, Outcome::Rejected { status: 0, attempts: 1 });
        assert_eq!(tally(&[processed]).exit(), Exit::Success);
        assert_eq!(tally(&[processed, rejected]).exit(), Exit::Undelivered);
        assert_eq!(tally(&[processed, rejected]).ended(), 2);
    }

    #[test]
    fn description_names_what_happened_only() {
        assert_eq!(tally(&[]).describe(), "0 delivered");
        assert_eq!(tally(&[Outcome::Delivered, Outcome::Unknown]).describe(), "1 delivered, 1 unknown");
    }
}
