//! The totals of a listener.

use std::time::Duration;

use serde::Serialize;

use super::exec::Done;
use super::taking::Taken;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text;
use crate::units::{self, Size};

#[derive(Serialize)]
struct FileLine {
    r#type: &'static str,
    from: String,
    name: String,
    size: u64,
    already_there: bool,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Totals {
    messages: u64,
    files: u64,
    refused: u64,
    /// The number of messages that a command has rejected.
    #[serde(skip_serializing_if = "is_zero")]
    rejected: u64,
    /// The number of attempts after which a message was put off.
    #[serde(skip_serializing_if = "is_zero")]
    put_off: u64,
    bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Totals {
    pub(super) fn taken(&self) -> u64 {
        self.messages.saturating_add(self.files)
    }

    /// Counts and reports the result of a command.
    pub(super) fn done(&mut self, settings: &Settings, done: &Done) -> Result<(), Failure> {
        match done {
            Done::Message { size, outcome, .. } => {
                self.messages += 1;
                self.rejected += u64::from(*outcome == "rejected");
                self.bytes = self.bytes.saturating_add(size.unwrap_or_default());
            }
            Done::PutOff { .. } => self.put_off += 1,
            Done::Nothing { reason } => {
                tracing::info!("not delivered: {reason}");
                return Ok(());
            }
        }
        settings.output.text(&done.to_string())?;
        settings.output.line(done)
    }

    pub(super) fn add(&mut self, settings: &Settings, taken: Taken) -> Result<(), Failure> {
        match taken {
            Taken::Message { size } => {
                self.messages += 1;
                self.bytes = self.bytes.saturating_add(size);
            }
            Taken::File { from, path, size, already_there } => {
                self.files += 1;
                if !already_there {
                    self.bytes = self.bytes.saturating_add(size);
                }
                let remark = if already_there { ", was already there" } else { "" };
                let name = text::escape(path.as_bytes());
                settings.output.text(&format!("{}  {name}, {}{remark}", from.short(), Size(size)))?;
                let line =
                    FileLine { r#type: "file", from: from.to_string(), name: path, size, already_there };
                settings.output.line(&line)?;
            }
            Taken::Refused { from, what, reason } => {
                self.refused += 1;
                let (what, reason) = (text::escape(what.as_bytes()), text::escape(reason.as_bytes()));
                settings.note(format!("refused {what} of {}: {reason}", from.short()));
            }
            Taken::Nothing { reason } => tracing::info!("not delivered: {reason}"),
            // `Stuck` keeps the delivery, or the sender tries again.
            Taken::Stuck { .. } | Taken::NotNow { .. } => {}
        }
        Ok(())
    }

    pub(super) fn sum_up(
        &self,
        settings: &Settings,
        took: Duration,
        interrupted: bool,
    ) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Summary<'a> {
            r#type: &'static str,
            end: &'static str,
            #[serde(flatten)]
            totals: &'a Totals,
            seconds: f64,
        }
        let (messages, files) =
            (units::counted(self.messages, "message"), units::counted(self.files, "file"));
        let bytes = Size(self.bytes);
        let rejected = match self.rejected {
            0 => String::new(),
            rejected => format!(" ({} rejected)", units::count(rejected)),
        };
        settings.note(format!("took {messages}{rejected} and {files}, {bytes}, in {}", units::span(took)));
        settings.output.line(&Summary {
            r#type: "summary",
            end: if interrupted { "interrupted" } else { "done" },
            totals: self,
            seconds: took.as_secs_f64(),
        })
    }
}
