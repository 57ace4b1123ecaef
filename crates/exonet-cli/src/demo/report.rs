//! The report of the demo: a table for people, and lines of JSON for programs.

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
    /// The number of messages that ended as unknown. Only Exonet reports this.
    pub(super) unknown: Option<u64>,
}

/// The figures of the pair that keeps journals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) row: Row,
    /// Messages that a later life of the receiver reported again, under the same id.
    pub(super) again: u64,
    /// How many processes were killed.
    pub(super) crashes: u64,
    pub(super) unsent: u64,
}

impl Kept {
    /// Whether the guarantee of the journal was kept.
    fn is_whole(&self) -> bool {
        let Row { sent, arrived, duplicates, lost, unknown, .. } = self.row;
        self.unsent == 0 && sent == arrived && duplicates + lost == 0 && unknown == Some(0)
    }
}

/// The final report.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) journal: Option<Kept>,
    pub(super) account: Account,
    pub(super) unknown_but_there: u64,
    pub(super) plain: [Row; 2],
    /// Messages that were not sent, because the time limit passed or the user interrupted the demo.
    pub(super) unsent: u64,
    pub(super) took: Duration,
    pub(super) records: usize,
    pub(super) seed: u64,
}

/// The name of a side.
pub(super) fn name(side: Side) -> &'static str {
    match side {
        Side::Exonet => "exonet",
        Side::Journal => "exonet, journal",
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
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<u64>,
}

/// The last line about the pair that keeps journals, if there is one.
#[derive(Serialize)]
struct KeptSummary {
    sent: u64,
    delivered: u64,
    duplicates: u64,
    lost: u64,
    unknown: u64,
    crashes: u64,
    seconds: f64,
    msgs_per_s: f64,
    records_left: usize,
    seed: u64,
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
    /// A lost, duplicated or unsent message is a failure. So is an Unknown, if no process was killed.
    pub(super) fn exit(&self, crash: bool) -> Exit {
        let Account { duplicates, lost, unknown, .. } = self.account;
        let journal = self.journal.as_ref().is_none_or(Kept::is_whole);
        if !journal || duplicates + lost + self.unsent > 0 || (unknown > 0 && !crash) {
            Exit::Error
        } else {
            Exit::Success
        }
    }

    pub(super) fn tell(&self, output: Output, course: &Course) -> Result<(), Failure> {
        let ours = self.journal.is_some().then(|| self.ours());
        for row in ours.iter().chain(&self.plain) {
            output.line(&Compared {
                r#type: "compared",
                side: name(row.side),
                sent: row.sent,
                delivered: row.arrived,
                duplicates: row.duplicates,
                lost: row.lost,
                unknown: row.unknown,
            })?;
        }
        output.text(&self.table(course))?;
        if let Some(Kept { row, crashes, .. }) = self.journal {
            return output.line(&KeptSummary {
                sent: row.sent,
                delivered: row.arrived,
                duplicates: row.duplicates,
                lost: row.lost,
                unknown: row.unknown.unwrap_or(0),
                crashes,
                seconds: self.took.as_secs_f64(),
                msgs_per_s: rate(row.sent, self.took),
                records_left: self.records,
                seed: self.seed,
            });
        }
        output.line(&Summary {
            account: self.account,
            seconds: self.took.as_secs_f64(),
            msgs_per_s: rate(self.account.sent, self.took),
            records_left: self.records,
            seed: self.seed,
        })
    }

    /// The figures of the pair without a journal.
    fn ours(&self) -> Row {
        let Account { sent, delivered, duplicates, lost, unknown } = self.account;
        Row { side: Side::Exonet, sent, arrived: delivered, duplicates, lost, unknown: Some(unknown) }
    }

    fn table(&self, course: &Course) -> String {
        let Account { sent, unknown, .. } = self.account;
        let head = format!(
            "  {:<15}{:>10}{:>12}{:>10}{:>10}{:>12}",
            "", "sent", "delivered", "twice", "lost", "unknown"
        );
        let mut lines = vec![String::new(), style(head).dim().to_string()];
        let journal = self.journal.map(|kept| kept.row);
        lines.extend([self.ours()].iter().chain(&journal).chain(&self.plain).map(table_row));
        lines.push(String::new());
        if unknown > 0 {
            lines.push(format!(
                "  {} were under way when the receiver was killed: each arrived once or not at all,",
                count(unknown)
            ));
            lines.push(format!(
                "  and its sender learns exactly that. ({} had arrived.)",
                count(self.unknown_but_there)
            ));
            lines.push(String::new());
        }
        lines.extend(self.journal.iter().flat_map(journal_lines));
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

fn journal_lines(kept: &Kept) -> Vec<String> {
    let mut lines = Vec::new();
    if kept.is_whole() && kept.crashes > 0 {
        lines.push(
            "  The pair with journals was killed too, its receiver and later its sender: nothing is unknown."
                .to_owned(),
        );
    }
    match kept.again {
        0 => {}
        1 => lines.push("  (1 was printed again, under the same id: it was not taken when its receiver was killed.)".to_owned()),
        n => lines.push(format!(
            "  ({} were printed again, under the same ids: they were not taken when their receiver was killed.)",
            count(n)
        )),
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn table_row(row: &Row) -> String {
    let label = style(format!("  {:<15}", name(row.side)));
    let label = if matches!(row.side, Side::Exonet | Side::Journal) { label.bold() } else { label };
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
            journal: None,
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
        let row = Row { side: Side::Journal, sent: 3, arrived: 3, duplicates: 0, lost: 0, unknown: Some(0) };
        let kept = |row, unsent| Report {
            journal: Some(Kept { row, again: 1, crashes: 2, unsent }),
            ..report(good)
        };
        assert_eq!(kept(row, 0).exit(true), Exit::Success);
        assert_eq!(kept(row, 1).exit(true), Exit::Error);
        for row in [
            Row { arrived: 2, ..row },
            Row { duplicates: 1, ..row },
            Row { lost: 1, ..row },
            Row { unknown: Some(1), ..row },
        ] {
            assert_eq!(kept(row, 0).exit(true), Exit::Error, "{row:?}");
        }
        let doubtful = Account { unknown: 1, ..good };
        assert_eq!(report(doubtful).exit(true), Exit::Success);
        assert_eq!(report(doubtful).exit(false), Exit::Error);
    }
}
