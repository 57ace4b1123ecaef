//! How it ended: a table for people, lines of JSON for programs.

use std::time::Duration;

use console::style;
use serde::Serialize;

use super::Course;
use super::line::Side;
use super::outcomes::Account;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::units::{count, rate, span};

/// The figures of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) side: Side,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) duplicates: u64,
    pub(super) lost: u64,
    /// Only we can tell.
    pub(super) unknown: Option<u64>,
}

/// What is told at the end.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) account: Account,
    pub(super) unknown_but_there: u64,
    pub(super) plain: [Row; 2],
    /// Messages that the time, or the user, left no room for.
    pub(super) unsent: u64,
    pub(super) took: Duration,
    pub(super) records: usize,
    pub(super) seed: u64,
}

/// How a side is called.
pub(super) fn name(side: Side) -> &'static str {
    match side {
        Side::Exonet => "exonet",
        Side::Remembering => "retry + dedup",
        Side::Plain => "retry",
    }
}

#[derive(Serialize)]
struct Compared {
    r#type: &'static str,
    side: &'static str,
    sent: u64,
    delivered: u64,
    duplicates: u64,
    lost: u64,
}

/// The last line: these fields, and no others.
#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    account: Account,
    seconds: f64,
    msgs_per_s: f64,
    records_left: usize,
    seed: u64,
}

impl Report {
    /// Anything lost, doubled or never sent is a failure; so is anything unknown where nobody was killed.
    pub(super) fn exit(&self, crash: bool) -> Exit {
        let Account { duplicates, lost, unknown, .. } = self.account;
        if duplicates + lost + self.unsent > 0 || (unknown > 0 && !crash) {
            Exit::Error
        } else {
            Exit::Success
        }
    }

    pub(super) fn tell(&self, output: Output, course: &Course) -> Result<(), Failure> {
        for row in &self.plain {
            output.line(&Compared {
                r#type: "compared",
                side: name(row.side),
                sent: row.sent,
                delivered: row.arrived,
                duplicates: row.duplicates,
                lost: row.lost,
            })?;
        }
        output.text(&self.table(course))?;
        output.line(&Summary {
            account: self.account,
            seconds: self.took.as_secs_f64(),
            msgs_per_s: rate(self.account.sent, self.took),
            records_left: self.records,
            seed: self.seed,
        })
    }

    fn table(&self, course: &Course) -> String {
        let Account { sent, delivered, duplicates, lost, unknown } = self.account;
        let ours =
            Row { side: Side::Exonet, sent, arrived: delivered, duplicates, lost, unknown: Some(unknown) };
        let head = format!(
            "  {:<14}{:>10}{:>12}{:>10}{:>10}{:>12}",
            "", "sent", "delivered", "twice", "lost", "unknown"
        );
        let mut lines = vec![String::new(), style(head).dim().to_string()];
        lines.extend([ours].iter().chain(&self.plain).map(table_row));
        lines.push(String::new());
        if unknown > 0 {
            lines.push(format!(
                "  {} were under way when the receiver was killed: each arrived once or not at all,",
                count(unknown)
            ));
            lines.push(format!(
                "  and its sender is told just that. ({} had arrived.)",
                count(self.unknown_but_there)
            ));
            lines.push(String::new());
        }
        lines.push(format!(
            "  {} at {} messages/s; {} left at both ends afterwards",
            span(self.took),
            count(crate::units::whole(rate(sent, self.took)).unwrap_or(0)),
            match self.records {
                0 => "no record".to_owned(),
                1 => "1 record".to_owned(),
                n => format!("{n} records"),
            },
        ));
        if self.unsent > 0 {
            let text = format!("  ended with {} messages not sent", count(self.unsent));
            lines.push(style(text).red().to_string());
        }
        lines.push(style(format!("  again: {}", course.again)).dim().to_string());
        lines.join("\n")
    }
}

fn table_row(row: &Row) -> String {
    let label = style(format!("  {:<14}", name(row.side)));
    let label = if row.side == Side::Exonet { label.bold() } else { label };
    let bad = |number: u64| {
        let text = style(format!("{:>10}", count(number)));
        if number > 0 { text.red() } else { text.green() }
    };
    let unknown = match row.unknown {
        None => style(format!("{:>12}", "cannot say")).dim(),
        Some(0) => style(format!("{:>12}", 0)).green(),
        Some(unknown) => style(format!("{:>12}", count(unknown))).yellow(),
    };
    format!(
        "{label}{:>10}{:>12}{}{}{unknown}",
        count(row.sent),
        count(row.arrived),
        bad(row.duplicates),
        bad(row.lost)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(account: Account) -> Report {
        let row = |side| Row { side, sent: 10, arrived: 9, duplicates: 2, lost: 1, unknown: None };
        Report {
            account,
            unknown_but_there: 0,
            plain: [row(Side::Remembering), row(Side::Plain)],
            unsent: 0,
            took: Duration::from_secs(2),
            records: 0,
            seed: 5,
        }
    }

    #[test]
    fn the_last_line_has_exactly_these_fields() {
        let report = report(Account::default());
        let line = serde_json::to_value(Summary {
            account: report.account,
            seconds: 1.0,
            msgs_per_s: 1.0,
            records_left: 0,
            seed: 5,
        });
        let mut keys: Vec<String> = line.unwrap().as_object().unwrap().keys().cloned().collect();
        keys.sort();
        let wanted = "delivered duplicates lost msgs_per_s records_left seconds seed sent unknown";
        assert_eq!(keys.join(" "), wanted);
    }

    #[test]
    fn a_broken_promise_fails_the_demo() {
        let good = Account { sent: 3, delivered: 3, ..Account::default() };
        assert_eq!(report(good).exit(true), Exit::Success);
        assert_eq!(report(Account { duplicates: 1, ..good }).exit(true), Exit::Error);
        assert_eq!(report(Account { lost: 1, ..good }).exit(true), Exit::Error);
        assert_eq!(Report { unsent: 1, ..report(good) }.exit(true), Exit::Error);
        let doubtful = Account { unknown: 1, ..good };
        assert_eq!(report(doubtful).exit(true), Exit::Success);
        assert_eq!(report(doubtful).exit(false), Exit::Error);
    }
}
