//! Reports the results of a copy.

use std::time::Instant;

use serde::Serialize;

use super::scan::Scan;
use super::sending::{Copied, End};
use crate::command::stop::Stop;
use crate::copy::Hex32;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::text::escape;
use crate::units::{self, Size, count};

#[derive(Serialize)]
struct Line {
    r#type: &'static str,
    /// The local path, and the path at the receiver.
    file: String,
    name: String,
    size: u64,
    outcome: &'static str,
    reason: Option<String>,
    /// BLAKE3 of the stored content.
    hash: Option<Hex32>,
    /// The number of its bytes that are at the receiver.
    held: Option<u64>,
    seconds: f64,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Counts {
    stored: u64,
    there: u64,
    refused: u64,
    unknown: u64,
    cancelled: u64,
    failed: u64,
    /// The number of bytes that were stored.
    bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    r#type: &'static str,
    end: &'static str,
    #[serde(flatten)]
    counts: Counts,
    /// The number of bytes of content that were sent and acknowledged.
    sent: u64,
    seconds: f64,
}

/// Reports the result of each item, and prints a summary.
pub(super) struct Report<'a> {
    settings: &'a Settings,
    started: Instant,
    counts: Counts,
    /// The number of files that were not begun when the command was stopped.
    not_begun: u64,
    /// A file within a directory was copied without a line of output.
    untold: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self { settings, started: Instant::now(), counts: Counts::default(), not_begun: 0, untold: false }
    }

    /// Reports the files that could not be offered.
    pub(super) fn problems(&mut self, scan: &Scan) -> Result<(), Failure> {
        for (path, problem) in &scan.problems {
            self.counts.failed += 1;
            let path = path.display().to_string();
            self.settings.error(format!("{}: {}", escape(path.as_bytes()), escape(problem.as_bytes())));
            let (reason, file) = (Some(problem.clone()), path.clone());
            self.line(Line { file, name: path, reason, ..Line::new("failed") })?;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, copied: &Copied) -> Result<(), Failure> {
        let Copied { item, end, took, stored, anew } = copied;
        if let Some(why) = anew {
            let name = escape(item.name().as_bytes());
            self.settings.note(format!("{name} was started again: {why}"));
        }
        let (outcome, reason) = match end {
            End::Made => return Ok(()),
            End::Stored(_) => ("stored", None),
            End::There => ("there", None),
            End::Refused(reason) => ("refused", Some(reason.clone())),
            End::Unknown => ("unknown", Some(UNKNOWN.to_owned())),
            End::Cancelled { .. } => ("cancelled", None),
            End::Failed(failure) => ("failed", Some(failure.to_string())),
        };
        let size = match end {
            // The size of a stream is known only at its end.
            End::Stored(_) => *stored,
            _ => item.size(),
        };
        self.count(outcome, size);
        self.tell(copied, outcome, size, reason.as_deref())?;
        let held = match end {
            End::Cancelled { held } => Some(*held),
            _ => None,
        };
        let hash = match end {
            End::Stored(hash) => *hash,
            _ => None,
        };
        let (file, name) = (item.path.display().to_string(), item.name().to_owned());
        self.line(Line {
            file,
            name,
            size,
            reason,
            hash,
            held,
            seconds: took.as_secs_f64(),
            ..Line::new(outcome)
        })
    }

    fn count(&mut self, outcome: &str, size: u64) {
        let counts = &mut self.counts;
        let count = match outcome {
            "stored" => {
                counts.bytes = counts.bytes.saturating_add(size);
                &mut counts.stored
            }
            "there" => &mut counts.there,
            "refused" => &mut counts.refused,
            "unknown" => &mut counts.unknown,
            "failed" => &mut counts.failed,
            _ => &mut counts.cancelled,
        };
        *count += 1;
    }

    /// Prints a line for people: for named items and errors, or with -v for every item.
    fn tell(
        &mut self,
        copied: &Copied,
        outcome: &str,
        size: u64,
        reason: Option<&str>,
    ) -> Result<(), Failure> {
        let Copied { item, end, took, .. } = copied;
        let detail = match end {
            End::Stored(_) => {
                let rate = units::whole(units::rate(size, *took)).unwrap_or(0);
                // The rate of a small file is meaningless.
                let rate = if size < 1 << 20 { String::new() } else { format!(", {}/s", Size(rate)) };
                format!("{} in {}{rate}", Size(size), units::span(*took))
            }
            End::There => "was already there".to_owned(),
            End::Cancelled { held: 0 } => {
                self.not_begun += 1;
                return Ok(());
            }
            End::Cancelled { held } => {
                format!(
                    "{} of {} have arrived; the same command continues from there",
                    Size(*held),
                    Size(size)
                )
            }
            // A reason from the receiver is escaped exactly once; reasons of this process may have several lines.
            End::Refused(reason) => escape(reason.as_bytes()),
            _ => reason.unwrap_or_default().to_owned(),
        };
        let good = matches!(end, End::Stored(_) | End::There);
        let text = format!("{outcome:<9}  {}  {detail}", escape(item.name().as_bytes()));
        match (good, self.settings.quiet) {
            (true, true) => Ok(()),
            (true, false) if !item.named && !self.settings.verbose => {
                self.untold = true;
                Ok(())
            }
            (false, true) => {
                self.settings.error(text);
                Ok(())
            }
            _ => self.settings.output.text(&text),
        }
    }

    fn line(&self, line: Line) -> Result<(), Failure> {
        self.settings.output.line(&line)
    }

    /// The number of files that are at the receiver, and the number of other files.
    pub(super) fn ends(&self) -> (u64, u64) {
        let Counts { stored, there, refused, unknown, cancelled, failed, .. } = self.counts;
        (stored + there, refused + unknown + cancelled + failed)
    }

    pub(super) fn sum_up(self, ended: Option<Stop>, sent: u64) -> Result<Exit, Failure> {
        let counts = self.counts;
        let left = counts.refused + counts.unknown + counts.cancelled + counts.failed;
        let exit = match ended {
            Some(Stop::Interrupted) => Exit::Interrupted,
            _ if counts.failed > 0 => Exit::Error,
            _ if counts.unknown > 0 => Exit::Unknown,
            _ if left > 0 => Exit::Undelivered,
            _ => Exit::Success,
        };
        // A named file has its own line, which says the same as a summary.
        let handled = counts.stored + counts.there + left;
        if handled != 1 || self.untold || ended.is_some() {
            let took = units::span(self.started.elapsed());
            let there = if counts.there > 0 {
                format!(", {} already there", count(counts.there))
            } else {
                String::new()
            };
            let rest = if left > 0 { format!(", {} not", count(left)) } else { String::new() };
            let end = match ended {
                None => "",
                Some(Stop::Interrupted) => "; interrupted: the same command continues from here",
                Some(Stop::TimedOut) => "; timed out: the same command continues from here",
            };
            let (stored, bytes) = (count(counts.stored), Size(counts.bytes));
            self.settings.note(format!("{stored} stored, {bytes} in {took}{there}{rest}{end}"));
        }
        self.settings.output.line(&Summary {
            r#type: "summary",
            end: match ended {
                None => "done",
                Some(Stop::Interrupted) => "interrupted",
                Some(Stop::TimedOut) => "timed out",
            },
            counts,
            sent,
            seconds: self.started.elapsed().as_secs_f64(),
        })?;
        Ok(exit)
    }
}

const UNKNOWN: &str = "all of it has been sent, but the receiver has not said that it is stored; repeat the command to find out";

impl Line {
    fn new(outcome: &'static str) -> Self {
        Self {
            r#type: "file",
            file: String::new(),
            name: String::new(),
            size: 0,
            outcome,
            reason: None,
            hash: None,
            held: None,
            seconds: 0.0,
        }
    }
}
