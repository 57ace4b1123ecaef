//! Medians of all runs, as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::app::Work;
use crate::peer;
use crate::results::{Entry, Results};
use crate::run::{Lane, Record};
use crate::scenario::{Cell, Scenario, Wire};
use crate::stats::{Spread, figure};

/// The results of a scenario, by cell and peer.
pub(super) struct Medians<'a> {
    pub(super) scenario: &'a Scenario,
    runs: BTreeMap<(&'a str, &'a str), Vec<&'a Entry>>,
}

impl<'a> Medians<'a> {
    pub(super) fn new(scenario: &'a Scenario, results: &'a Results) -> Self {
        let mut runs: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
        for entry in &results.entries {
            runs.entry((&entry.cell, &entry.peer)).or_default().push(entry);
        }
        Self { scenario, runs }
    }

    /// Peers that have taken part, in the order of all tables.
    pub(super) fn peers(&self) -> Vec<&'static peer::Peer> {
        peer::all().filter(|peer| self.runs.keys().any(|(_, name)| *name == peer.name)).collect()
    }

    /// What the runs of a peer in a cell gave, of flow `flow`: those that count.
    pub(super) fn spread(
        &self,
        cell: &str,
        peer: &str,
        flow: usize,
        of: impl Fn(&Record) -> f64,
    ) -> Option<Spread> {
        let runs = self.runs.get(&(cell, peer))?;
        let fine = runs.iter().filter(|entry| entry.fault().is_none());
        Spread::of(fine.filter_map(|entry| entry.records.get(flow)).map(of))
    }

    pub(super) fn median(&self, cell: &str, peer: &str, of: impl Fn(&Record) -> f64) -> Option<f64> {
        self.spread(cell, peer, 0, of).map(|spread| spread.median)
    }

    /// Runs that do not count, and why.
    pub(super) fn faults(&self) -> Vec<String> {
        let faulty = self.runs.values().flatten();
        let tell =
            |entry: &&Entry| Some(format!("{}, {}: {}", entry.cell, label(&entry.peer), entry.fault()?));
        faulty.filter_map(tell).collect()
    }

    /// What each run said of Exonet's promise of first contact.
    pub(super) fn promises(&self) -> Vec<(&str, String)> {
        let runs = self.runs.values().flatten();
        runs.filter_map(|entry| Some((entry.cell.as_str(), entry.promise()?.1))).collect()
    }

    /// The most runs of one kind, and how long each was.
    pub(super) fn effort(&self) -> Option<(usize, u64)> {
        let runs = self.runs.values().map(Vec::len).max()?;
        Some((runs, self.runs.values().flatten().map(|entry| entry.span).max()?))
    }

    /// How late packets were at most, by the emulator's own measure: the worst p99 in ms.
    pub(super) fn lateness(&self) -> Option<Spread> {
        let lanes = self
            .runs
            .values()
            .flatten()
            .flat_map(|entry| &entry.records)
            .filter_map(|record| record.lanes.as_ref());
        Spread::of(lanes.flatten().map(|lane| lane.late_p99))
    }

    /// Peers down, cells across.
    pub(super) fn table(&self) -> String {
        let cells: Vec<&str> = self.scenario.cells.iter().map(|cell| cell.name.as_str()).collect();
        let mut text = format!("| | {} |\n|---|{}\n", cells.join(" | "), "---:|".repeat(cells.len()));
        for peer in self.peers() {
            let row: Vec<String> =
                self.scenario.cells.iter().map(|cell| self.cell(cell, peer.name)).collect();
            let name =
                if peer.name == "exonet" { format!("**{}**", peer.label) } else { peer.label.to_owned() };
            let _ = writeln!(text, "| {name} | {} |", row.join(" | "));
        }
        let ceiling =
            |cell: &Cell| cell.wire.ceiling(cell.bytes).filter(|_| matches!(cell.work, Work::OneWay));
        let ceilings: Vec<f64> = self.scenario.cells.iter().filter_map(ceiling).collect();
        if ceilings.len() == cells.len() && self.scenario.cells.iter().all(|cell| cell.rival.is_none()) {
            let row: Vec<String> = ceilings.into_iter().map(figure).collect();
            let _ = writeln!(
                text,
                "| *Exonet's ceiling: rate less headers, times what is not lost* | {} |",
                row.join(" | ")
            );
        }
        text
    }

    fn cell(&self, cell: &Cell, peer: &str) -> String {
        let (wire, work, cell) = (cell.wire, cell.work, cell.name.as_str());
        let Some(rate) = self.spread(cell, peer, 0, |record| record.rate) else { return "-".into() };
        let mut text = figure(rate.median);
        // A spread that is worth a word.
        if rate.most - rate.least > 0.1 * rate.median {
            let _ = write!(text, " ({} to {})", figure(rate.least), figure(rate.most));
        }
        let of =
            |value: fn(&Record) -> f64| self.median(cell, peer, value).map_or_else(|| "-".into(), figure);
        match work {
            Work::Calls { .. } => {
                let _ = write!(text, "; {} / {}", of(|r| r.latency.p50), of(|r| r.latency.p99));
            }
            Work::BothWays => {
                let _ = write!(text, " and {}", of(|r| r.rate_back));
            }
            Work::Crowd { clients: all, .. } => {
                #[allow(clippy::cast_precision_loss)] // clients
                let heard =
                    self.median(cell, peer, |r| r.gathered.map_or(0.0, |gathered| gathered.clients as f64));
                let after = of(|r| r.gathered.map_or(0.0, |gathered| gathered.after));
                if let Some(heard) = heard.filter(|heard| *heard > 0.0) {
                    let all = figure(f64::from(all));
                    let _ = write!(text, "; {} of {all} after {after} s", figure(heard));
                }
            }
            Work::OneWay if matches!(wire, Wire::Codel { .. }) => {
                let wait =
                    (of(|r| forward(r, |lane| lane.queue_p50)), of(|r| forward(r, |lane| lane.queue_p99)));
                let dropped = of(|r| forward(r, |lane| percent(lane.dropped, lane.packets)));
                let marked = of(|r| forward(r, |lane| percent(lane.marked, lane.packets)));
                let _ = write!(text, "; {} / {}; {dropped} / {marked}", wait.0, wait.1);
            }
            Work::Cold { .. } => {
                let arrived = of(|r| r.cold.map_or(0.0, |cold| cold.arrived));
                let _ = write!(text, "; {arrived} / {}", of(|r| r.cold.map_or(0.0, |cold| cold.settled)));
            }
            Work::OneWay | Work::Contact { .. } => (),
        }
        if let Some(rival) = self.spread(cell, peer, 1, |record| record.rate) {
            let _ = write!(text, " : {}", figure(rival.median));
        }
        text
    }

    /// What it costs, in one cell.
    pub(super) fn costs(&self, cell: &str) -> String {
        let mut text = "| | processor seconds per million | peak memory, client + server, MB | wire bytes per payload byte | wait in the queue, p50 / p99, ms | dropped by the queue, % |\n|---|---:|---:|---:|---:|---:|\n".to_owned();
        for peer in self.peers() {
            let of = |value: fn(&Record) -> f64| {
                self.median(cell, peer.name, value).map_or_else(|| "-".into(), figure)
            };
            let dropped = of(|r| forward(r, |lane| percent(lane.dropped, lane.packets)));
            let _ = writeln!(
                text,
                "| {} | {} | {} + {} | {} | {} / {} | {dropped} |",
                peer.label,
                of(|r| r.cpu_per_million),
                of(|r| megabytes(r.client_rss)),
                of(|r| megabytes(r.server_rss)),
                self.median(cell, peer.name, |r| r.wire_per_payload.unwrap_or_default())
                    .map_or_else(|| "-".into(), |wire| format!("{wire:.3}")),
                of(|r| forward(r, |lane| lane.queue_p50)),
                of(|r| forward(r, |lane| lane.queue_p99)),
            );
        }
        text
    }

    /// How far Exonet is from what its packets allow, in each cell where both were measured.
    pub(super) fn reaches(&self) -> Vec<String> {
        let tell = |cell: &Cell| {
            let rate = |peer: &str| self.median(&cell.name, peer, |record| record.rate);
            let (ours, limit) = (rate("exonet")?, rate("udp-sealed")?);
            let percent = ours / limit.max(1e-9) * 100.0;
            let loop_of = "a bare loop of seal + GSO/GRO + open";
            Some(format!("{}: Exonet reaches {percent:.0} % of {loop_of}.", cell.name))
        };
        self.scenario.cells.iter().filter_map(tell).collect()
    }

    /// Cells in which another is ahead of Exonet by more than the noise: who is first, with what, and Exonet's.
    pub(super) fn losses(&self) -> Vec<(String, String, f64, f64)> {
        const NOISE: f64 = 1.03;
        let mut losses = Vec::new();
        for cell in &self.scenario.cells {
            let rate = |peer: &str| self.median(&cell.name, peer, |record| record.rate + record.rate_back);
            let Some(ours) = rate("exonet") else { continue };
            let others =
                self.peers().into_iter().filter(|peer| peer.reliable && !peer.name.starts_with("exonet"));
            let best =
                others.filter_map(|peer| Some((peer, rate(peer.name)?))).max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((peer, theirs)) = best
                && theirs > ours * NOISE
                && cell.rival.is_none()
            {
                losses.push((cell.name.clone(), peer.label.to_owned(), theirs, ours));
            }
        }
        losses
    }
}

/// Something of the link forward; 0 where there is none.
fn forward(record: &Record, of: fn(&Lane) -> f64) -> f64 {
    record.lanes.as_ref().map_or(0.0, |[lane, _]| of(lane))
}

#[allow(clippy::cast_precision_loss)] // packets
fn percent(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64 * 100.0
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// How a peer is called.
fn label(peer: &str) -> &str {
    peer::find(peer).map_or(peer, |peer| peer.label)
}
