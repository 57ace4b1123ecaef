//! The output for messages and for a run.

use serde::Serialize;

use crate::control::protocol::{Ending, Judged};
use crate::exit::{Exit, Tally};
use crate::failure::Failure;
use crate::settings::Settings;

/// The exit code of a command whose reader of standard output may be gone: that of its messages, unless the rest of the
/// input was not read and so was not sent.
pub(super) fn unheard(
    settings: &Settings,
    exit: Result<Exit, Failure>,
    of_messages: Exit,
    all_read: bool,
) -> Result<Exit, Failure> {
    match exit {
        Err(failure) if failure.is_unheard() => {
            if !all_read {
                settings.note("standard output was closed: the rest of the input was not sent");
            }
            if all_read || of_messages != Exit::Success { Ok(of_messages) } else { Err(failure) }
        }
        exit => exit,
    }
}

/// The numbers that some messages have in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    first: u64,
    last: u64,
    count: u64,
}

impl Numbers {
    /// The numbers and one more.
    pub(super) fn and(numbers: Option<Self>, number: u64) -> Self {
        let Self { first, last, count } = numbers.unwrap_or(Self { first: number, last: number, count: 0 });
        Self { first: first.min(number), last: last.max(number), count: count + 1 }
    }

    pub(super) const fn is_one(self) -> bool {
        self.count == 1
    }

    /// The numbers in words.
    pub(super) fn words(self) -> String {
        let Self { first, last, count } = self;
        match count {
            _ if self.is_one() => format!("number {first}"),
            count if last - first < count => format!("numbers {first} to {last}"),
            _ => format!("numbers {first} to {last} (some between them are left out)"),
        }
    }

    /// The command that tells about one of the messages.
    pub(super) fn status(self, settings: &Settings) -> String {
        let which = if self.is_one() { self.first.to_string() } else { "N".to_owned() };
        format!("exon outbox status {which}{}", settings.identity.options())
    }

    /// Says how to ask later for these messages, which were not delivered, or not yet.
    pub(super) fn say(self, settings: &Settings) {
        settings.note(format!("to see what became of {}: {}", self.words(), self.status(settings)));
    }
}

/// Whether the user may want to ask for a message that has ended so.
pub(super) const fn is_asked_for(outcome: Ending) -> bool {
    !matches!(outcome, Ending::Delivered | Ending::Processed)
}

#[derive(Serialize)]
pub(super) struct Line {
    pub(super) r#type: &'static str,
    pub(super) n: u64,
    /// Its number in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<u64>,
    pub(super) outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(flatten)]
    pub(super) judged: Option<Judged>,
    pub(super) id: Option<String>,
    pub(super) late: bool,
    /// The durability level that the receiver has declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receiver_durability: Option<String>,
    /// The message is of a former run of this identity.
    pub(super) recovered: bool,
}

/// A message that the journal of the background node has, under this number, and its place in the handover.
#[derive(Serialize)]
pub(super) struct Queued {
    pub(super) r#type: &'static str,
    pub(super) n: u64,
    pub(super) number: u64,
}

#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) r#type: &'static str,
    pub(super) end: &'static str,
    /// The number of messages of this run.
    pub(super) sent: u64,
    /// The number of messages that a former run had left. The fields below count both.
    pub(super) recovered: u64,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) late: u64,
    /// The number of messages handed over to the background node, which has them in its journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queued: Option<u64>,
    pub(super) seconds: f64,
}
