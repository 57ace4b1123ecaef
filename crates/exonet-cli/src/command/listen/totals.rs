//! What a listener has taken.

use std::time::Duration;

use serde::Serialize;

use super::taking::Taken;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::{self, Size, count};

#[derive(Debug, Default, Serialize)]
pub(super) struct Totals {
    messages: u64,
    files: u64,
    refused: u64,
    bytes: u64,
}

impl Totals {
    pub(super) fn taken(&self) -> u64 {
        self.messages.saturating_add(self.files)
    }

    pub(super) fn add(&mut self, settings: &Settings, taken: Taken) {
        match taken {
            Taken::Message { size } => {
                self.messages += 1;
                self.bytes = self.bytes.saturating_add(size);
            }
            Taken::File { size } => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(size);
            }
            Taken::Refused { from, what, reason } => {
                self.refused += 1;
                settings.note(format!("refused a {what} of {}: {reason}", from.short()));
            }
            Taken::Nothing { reason } => tracing::info!("not delivered: {reason}"),
            Taken::Stuck { .. } => {}
        }
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
        let (messages, files) = (count(self.messages), count(self.files));
        let bytes = Size(self.bytes);
        settings
            .note(format!("took {messages} messages and {files} files, {bytes}, in {}", units::span(took)));
        settings.output.line(&Summary {
            r#type: "summary",
            end: if interrupted { "interrupted" } else { "done" },
            totals: self,
            seconds: took.as_secs_f64(),
        })
    }
}
