//! The totals of all worlds.

use std::collections::BTreeMap;
use std::time::Duration;

use exonet_sim::scenario::{Coverage, Report};
use serde::Serialize;

use crate::units::{count, precise};

/// Sums over worlds.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) seeds: u64,
    pub(super) violations: u64,
    messages: u64,
    calls: u64,
    virtual_time: Duration,
    coverage: Coverage,
}

/// The last line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Summary<'a> {
    r#type: &'static str,
    end: &'static str,
    seeds: u64,
    violations: u64,
    messages: u64,
    calls: u64,
    crashes: u64,
    partitions: u64,
    virtual_hours: f64,
    seconds: f64,
    coverage: &'a BTreeMap<&'static str, u64>,
}

impl Totals {
    pub(super) fn add(&mut self, report: &Report) {
        self.messages += report.totals.sent;
        self.calls += report.totals.calls;
        self.virtual_time += report.lasted;
        self.coverage.merge(&report.coverage);
        let outcomes = [
            ("delivered", report.totals.delivered),
            ("unknown", report.totals.unknown),
            ("withdrawn", report.totals.withdrawn),
            ("replies", report.totals.replies),
        ];
        outcomes.into_iter().for_each(|(what, times)| self.coverage.add(what, times));
    }

    fn hours(&self) -> f64 {
        self.virtual_time.as_secs_f64() / 3_600.0
    }

    fn partitions(&self) -> u64 {
        self.coverage.of("partitions") + self.coverage.of("one_way_partitions")
    }

    pub(super) fn summary(&self, took: Duration, interrupted: bool) -> Summary<'_> {
        Summary {
            r#type: "summary",
            end: if interrupted { "interrupted" } else { "done" },
            seeds: self.seeds,
            violations: self.violations,
            messages: self.messages,
            calls: self.calls,
            crashes: self.coverage.of("crashes"),
            partitions: self.partitions(),
            virtual_hours: self.hours(),
            seconds: took.as_secs_f64(),
            coverage: &self.coverage.0,
        }
    }

    /// A line about the progress so far.
    pub(super) fn progress(&self, took: Duration) -> String {
        format!("{} worlds, {}", count(self.seeds), self.so_far(took))
    }

    /// The same text for a display that already counts the worlds. The most important part comes first, since a
    /// narrow terminal cuts the rest.
    pub(super) fn so_far(&self, took: Duration) -> String {
        let rate = precise(self.seeds) / took.as_secs_f64().max(1e-9) * 60.0;
        format!(
            "{} violations, {rate:.0} a minute: {} messages, {} calls, {} crashes, {} partitions, {:.0} virtual hours",
            count(self.violations),
            count(self.messages),
            count(self.calls),
            count(self.coverage.of("crashes")),
            count(self.partitions()),
            self.hours(),
        )
    }

    /// The number of each kind of event, in columns.
    pub(super) fn table(&self) -> String {
        let cells: Vec<String> = self
            .coverage
            .0
            .iter()
            .map(|(what, times)| format!("{:<22}{:>12}", what.replace('_', " "), count(*times)))
            .collect();
        let rows = cells.chunks(2).map(|pair| format!("  {}", pair.join("    ")));
        rows.collect::<Vec<_>>().join("\n")
    }
}
