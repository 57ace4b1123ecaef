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
    /// Of each cell, the runs of the tree that came last: no others are comparable.
    pub(super) fn new(scenario: &'a Scenario, results: &'a Results) -> Self {
        let entries = || results.entries.iter().filter(|entry| entry.scenario == scenario.name);
        let last: BTreeMap<&str, &str> =
            entries().map(|entry| (entry.cell.as_str(), entry.origin.commit.as_str())).collect();
        let mut runs: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
        for entry in
            entries().filter(|entry| last.get(entry.cell.as_str()) == Some(&entry.origin.commit.as_str()))
        {
            runs.entry((&entry.cell, &entry.peer)).or_default().push(entry);
        }
        Self { scenario, runs }
    }

    pub(super) fn has_any(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Whether all cells and peers still exist.
    pub(super) fn knows_all(&self) -> bool {
        let cell = |name: &str| self.scenario.cells.iter().any(|cell| cell.name == name);
        self.runs.keys().all(|(name, peer)| cell(name) && peer::find(peer).is_ok())
    }

    /// Peers that have taken part, in the order of all tables.
    pub(super) fn peers(&self) -> Vec<&'static peer::Peer> {
        peer::all().filter(|peer| self.runs.keys().any(|(_, name)| *name == peer.name)).collect()
    }

    /// Cells that somebody has run, and those that nobody has.
    pub(super) fn measured(&self) -> Vec<&'a Cell> {
        self.scenario
            .cells
            .iter()
            .filter(|cell| self.runs.keys().any(|(name, _)| *name == cell.name))
            .collect()
    }

    pub(super) fn unmeasured(&self) -> Vec<&str> {
        let measured = self.measured();
        let names = self.scenario.cells.iter().map(|cell| cell.name.as_str());
        names.filter(|name| !measured.iter().any(|cell| cell.name == *name)).collect()
    }

    pub(super) fn ran(&self, cell: &str, peer: &str) -> bool {
        self.runs.contains_key(&(cell, peer))
    }

    /// Whether there is a run that counts.
    pub(super) fn counts(&self, cell: &str, peer: &str) -> bool {
        self.spread(cell, peer, 0, |record| record.rate).is_some()
    }

    /// As [`Self::spread`], of what only some records have.
    pub(super) fn spread_some(
        &self,
        cell: &str,
        peer: &str,
        of: impl Fn(&Record) -> Option<f64>,
    ) -> Option<Spread> {
        let runs = self.runs.get(&(cell, peer))?;
        let fine = runs.iter().filter(|entry| entry.fault().is_none());
        Spread::of(fine.filter_map(|entry| entry.records.first()).filter_map(of))
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

    /// Runs that do not count, and why: alike ones once.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut all: BTreeMap<String, (u32, &str)> = BTreeMap::new();
        for entry in self.runs.values().flatten() {
            let Some(fault) = entry.fault() else { continue };
            let (runs, _) =
                all.entry(format!("{}, {}", entry.cell, label(&entry.peer))).or_insert((0, fault));
            *runs += 1;
        }
        let tell = |(what, (runs, why)): (String, (u32, &str))| {
            format!(
                "{what}, {}: {why}",
                if runs == 1 { "a run".into() } else { format!("{runs} runs, the first") }
            )
        };
        all.into_iter().map(tell).collect()
    }

    /// What each run said of Exonet's promise of first contact.
    pub(super) fn promises(&self) -> Vec<(&str, String)> {
        let runs = self.runs.values().flatten();
        runs.filter_map(|entry| Some((entry.cell.as_str(), entry.promise()?.1))).collect()
    }

    /// The most runs of one kind.
    pub(super) fn most_runs(&self) -> usize {
        self.runs.values().map(Vec::len).max().unwrap_or(0)
    }

    /// How many runs there are of each kind, and how long each was.
    pub(super) fn effort(&self) -> String {
        let counts = |entries: &Vec<&Entry>| entries.iter().filter(|entry| entry.fault().is_none()).count();
        let runs = self.runs.values().map(counts).max().unwrap_or(0);
        let spans = || self.runs.values().flatten().map(|entry| entry.span);
        let (least, most) = (spans().fold(f64::MAX, f64::min), spans().fold(0.0, f64::max));
        let span = match () {
            () if most == 0.0 => String::new(),
            () if least < most => format!(" of {least} to {most} s"),
            () => format!(" of {most} s"),
        };
        format!("Medians of {runs} runs{span}; (1) or (2) marks a median of fewer runs.")
    }

    pub(super) fn has_lanes(&self) -> bool {
        self.runs.values().flatten().flat_map(|entry| &entry.records).any(|record| record.lanes.is_some())
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
        let cells = self.measured();
        let mut text = self.grid(&cells, |cell, peer| self.cell(cell, peer));
        let ceiling =
            |cell: &&Cell| cell.wire.ceiling(cell.bytes).filter(|_| matches!(cell.work, Work::OneWay));
        let ceilings: Vec<f64> = cells.iter().filter_map(ceiling).collect();
        if ceilings.len() == cells.len() && cells.iter().all(|cell| cell.rival.is_none()) {
            let row: Vec<String> = ceilings.into_iter().map(figure).collect();
            let _ = writeln!(
                text,
                "| *Exonet's ceiling: rate less headers, times what is not lost* | {} |",
                row.join(" | ")
            );
        }
        text
    }

    /// A row for each peer that has something to show.
    fn grid(&self, cells: &[&Cell], of: impl Fn(&Cell, &str) -> Option<String>) -> String {
        let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---:|".repeat(cells.len()));
        for peer in self.peers() {
            let row: Vec<Option<String>> = cells.iter().map(|cell| of(cell, peer.name)).collect();
            if row.iter().all(Option::is_none) {
                continue;
            }
            let name =
                if peer.name == "exonet" { format!("**{}**", peer.label) } else { peer.label.to_owned() };
            let row: Vec<String> = row.into_iter().map(|text| text.unwrap_or_else(|| "-".into())).collect();
            let _ = writeln!(text, "| {name} | {} |", row.join(" | "));
        }
        text
    }

    fn told(&self, cell: &str, peer: &str, of: impl Fn(&Record) -> Option<f64>) -> Option<String> {
        self.spread_some(cell, peer, of).map(|spread| spread.tell())
    }

    /// How many runs count, where they are few.
    fn few(&self, cell: &str, peer: &str) -> String {
        let counting = |entries: &Vec<&Entry>| entries.iter().filter(|entry| entry.fault().is_none()).count();
        let most = self.runs.values().map(counting).max().unwrap_or(0);
        let here = self.runs.get(&(cell, peer)).map_or(0, counting);
        if here < most { format!(" ({here})") } else { String::new() }
    }

    fn cell(&self, cell: &Cell, peer: &str) -> Option<String> {
        let (wire, work, cell) = (cell.wire, cell.work, cell.name.as_str());
        let of = |value: fn(&Record) -> f64| {
            self.told(cell, peer, move |record| Some(value(record))).unwrap_or_else(|| "-".into())
        };
        let mut text = self.told(cell, peer, |record| Some(record.rate))?;
        match work {
            Work::Durable { kills, .. } if kills > 0 => {
                let lost = of(|r| r.killed.map_or(0.0, |killed| count(killed.lost)));
                let twice = of(|r| r.killed.map_or(0.0, |killed| count(killed.twice)));
                text =
                    format!("{lost}; {twice}; {}", of(|r| r.killed.map_or(0.0, |killed| count(killed.sent))));
            }
            Work::Calls { .. } | Work::Durable { .. } | Work::Lanes { .. } | Work::Sessions { .. } => {
                let _ = write!(text, "; {} / {}", of(|r| r.latency.p50), of(|r| r.latency.p99));
                if matches!((work, wire), (Work::Sessions { .. }, Wire::Rough(_))) {
                    let _ = write!(text, "; {}", of(|r| r.latency.max));
                }
            }
            Work::Fan { .. } => {
                let _ = write!(text, "; {} / {}", of(|r| r.latency.p50), of(|r| r.latency.p99));
                let _ = write!(text, "; {}", of(|r| r.sender_cpu.unwrap_or_default()));
            }
            Work::Spread { .. } => {
                let _ = write!(text, "; {} / {}", of(|r| r.latency.p50), of(|r| r.latency.p99));
                let share = |n: usize| {
                    let share = self.spread_some(cell, peer, |r| r.shares?.get(n).copied());
                    share.map_or_else(|| "-".into(), |spread| format!("{:.0}", spread.median))
                };
                let _ = write!(text, "; {} : {} : {} %", share(0), share(1), share(2));
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
                    let _ = write!(text, "; {} of {all}; {after}", figure(heard));
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
                text = format!("{arrived} / {}", of(|r| r.cold.map_or(0.0, |cold| cold.settled)));
            }
            Work::OneWay | Work::Contact { .. } | Work::Download { .. } => (),
        }
        if let Some(rival) = self.spread(cell, peer, 1, |record| record.rate) {
            let _ = write!(text, " : {}", rival.tell());
        }
        Some(text + &self.few(cell, peer))
    }

    /// What it costs: processor time, and bytes on the link. Empty: nothing that was measured.
    pub(super) fn costs(&self) -> String {
        let cells: Vec<&Cell> = self.measured().into_iter().filter(|cell| cell.rival.is_none()).collect();
        if cells.is_empty() {
            return String::new();
        }
        self.grid(&cells, |cell, peer| {
            let cpu = self.told(&cell.name, peer, |it| Some(it.cpu_per_million).filter(|cpu| *cpu > 0.0));
            let wire = self.told(&cell.name, peer, |it| it.wire_bytes_each);
            let parts: Vec<String> = cpu.into_iter().chain(wire).collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        })
    }

    /// What the server takes: processor time for each request, memory and threads.
    pub(super) fn servers(&self) -> String {
        self.grid(&self.measured(), |cell, peer| {
            let of = |value: fn(&Record) -> Option<f64>| self.told(&cell.name, peer, value);
            #[allow(clippy::cast_precision_loss)] // threads
            let threads = |serving: crate::run::Serving| serving.threads as f64;
            let threads = self.spread_some(&cell.name, peer, |r| r.serving.map(threads))?;
            let cpu = of(|r| r.serving.map(|serving| serving.cpu_each))?;
            let memory = of(|r| Some(megabytes(r.server_rss)))?;
            Some(format!("{cpu}; {memory}; {:.0}", threads.median))
        })
    }

    /// The memory of client and server in each cell.
    pub(super) fn memories(&self) -> String {
        self.grid(&self.measured(), |cell, peer| {
            let of = |value: fn(&Record) -> u64| {
                self.told(&cell.name, peer, move |record| Some(megabytes(value(record))))
            };
            Some(format!("{} + {}", of(|r| r.client_rss)?, of(|r| r.server_rss)?))
        })
    }

    /// Memory, and what is in the queue, in one cell.
    pub(super) fn memory(&self, cell: &str) -> String {
        let on_link = self.has_lanes();
        let mut text = "| | peak memory, client + server, MB |".to_owned();
        if on_link {
            text.push_str(
                " wait in the queue, p50 / p99, ms | dropped by the queue, % |\n|---|---:|---:|---:|\n",
            );
        } else {
            text.push_str("\n|---|---:|\n");
        }
        for peer in self.peers().into_iter().filter(|peer| self.counts(cell, peer.name)) {
            let of = |value: fn(&Record) -> f64| {
                self.told(cell, peer.name, move |record| Some(value(record))).unwrap_or_else(|| "-".into())
            };
            let _ = write!(
                text,
                "| {} | {} + {} |",
                peer.label,
                of(|r| megabytes(r.client_rss)),
                of(|r| megabytes(r.server_rss))
            );
            if on_link {
                let (p50, p99) =
                    (of(|r| forward(r, |lane| lane.queue_p50)), of(|r| forward(r, |lane| lane.queue_p99)));
                let dropped = of(|r| forward(r, |lane| percent(lane.dropped, lane.packets)));
                let _ = write!(text, " {p50} / {p99} | {dropped} |");
            }
            text.push('\n');
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
fn count(messages: u64) -> f64 {
    messages as f64
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// How a peer is called.
fn label(peer: &str) -> &str {
    peer::find(peer).map_or(peer, |peer| peer.label)
}
