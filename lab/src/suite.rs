//! Scenarios, run in turn: what is run is planned, said, done, and kept as it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::RunOptions;
use crate::peer::{self, Peer};
use crate::report;
use crate::results::{Entry, Keeper, Origin, Results, summary};
use crate::run::Plan;
use crate::scenario::{Cell, Scenario};
use crate::stats::figure;

/// A cell, and the runs of it that are to be done.
struct Todo<'a> {
    scenario: &'a Scenario,
    cell: &'a Cell,
    /// All peers once before any of them again, so that what the machine does meanwhile meets all alike.
    runs: Vec<(u32, &'static Peer)>,
    /// How long each is, if runs that are there already say so.
    fixed: Option<f64>,
}

/// The runs to do, and the runs that are dropped.
struct Planned<'a> {
    todo: Vec<Todo<'a>>,
    dropped: Vec<(&'static str, &'a str)>,
    /// Between the shortest spans, 0, and the good ones, 1.
    length: f64,
    hurry: bool,
}

impl Todo<'_> {
    fn span(&self, length: f64) -> f64 {
        let [least, good] = self.cell.spans;
        // Tenths of a second, which tables show.
        self.fixed.unwrap_or_else(|| ((least + (good - least) * length) * 10.0).round() / 10.0)
    }

    #[allow(clippy::cast_precision_loss)] // a few runs
    fn cost(&self, length: f64, hurry: bool) -> f64 {
        self.cell.cost(self.span(length), self.cell.wire.warm_up(hurry)) * self.runs.len() as f64
    }
}

impl<'a> Planned<'a> {
    /// Leaves out what tells least until the rest fits in this many seconds, if there is a limit; then makes runs as long
    /// as fits.
    fn new(mut todo: Vec<Todo<'a>>, budget: Option<f64>, quick: bool) -> Self {
        let hurry = quick || budget.is_some();
        let cost = |todo: &[Todo<'a>], length| todo.iter().map(|one| one.cost(length, hurry)).sum::<f64>();
        let mut dropped = Vec::new();
        let Some(budget) = budget else {
            return Self { todo, dropped, length: if quick { 0.0 } else { 1.0 }, hurry };
        };
        while cost(&todo, 0.0) > budget
            && let Some((last, _)) = todo.iter().enumerate().max_by_key(|(at, one)| (one.cell.rank, *at))
        {
            let one = todo.remove(last);
            dropped.push((one.scenario.name, one.cell.name.as_str()));
        }
        let (short, long) = (cost(&todo, 0.0), cost(&todo, 1.0));
        let length = ((budget - short) / (long - short).max(1e-9)).clamp(0.0, 1.0);
        // The most telling runs come first, in case the time runs out all the same.
        todo.sort_by_key(|one| one.cell.rank);
        Self { todo, dropped, length, hurry }
    }

    fn seconds(&self) -> f64 {
        self.todo.iter().map(|one| one.cost(self.length, self.hurry)).sum()
    }

    fn tell(&self) -> String {
        let mut text = String::new();
        let runs: usize = self.todo.iter().map(|one| one.runs.len()).sum();
        let minutes = figure(self.seconds() / 60.0);
        let _ = writeln!(text, "{runs} runs, about {minutes} min:");
        for one in &self.todo {
            let peers: BTreeSet<&str> = one.runs.iter().map(|(_, peer)| peer.name).collect();
            let _ = writeln!(
                text,
                "  {:<14} {:<34} {} peers, {} runs of {} s",
                one.scenario.name,
                one.cell.name,
                peers.len(),
                one.runs.len(),
                one.span(self.length)
            );
        }
        for (scenario, cell) in &self.dropped {
            let _ = writeln!(text, "  {scenario:<14} {cell:<34} left out: there is no time");
        }
        text
    }
}

/// The runs that are asked for and not there yet. `again`: runs are added to the existing ones.
fn todo<'a>(
    scenarios: &'a [Scenario],
    options: &RunOptions,
    (there, origin): (&[Entry], &Origin),
    missing: &BTreeMap<&str, String>,
    again: bool,
) -> Vec<Todo<'a>> {
    let repeats = options.repeats.unwrap_or(if options.quick { 1 } else { 3 });
    let mut all = Vec::new();
    for scenario in scenarios {
        for cell in &scenario.cells {
            if options.cell.as_ref().is_some_and(|part| !cell.name.contains(part.as_str())) {
                continue;
            }
            let of_cell = |entry: &&Entry| {
                (&entry.origin.commit, entry.scenario.as_str(), &entry.cell)
                    == (&origin.commit, scenario.name, &cell.name)
            };
            let kept: Vec<&Entry> = there.iter().filter(of_cell).collect();
            let first = if again { kept.iter().map(|entry| entry.repeat + 1).max().unwrap_or(0) } else { 0 };
            let is_there = |repeat, peer: &Peer| {
                kept.iter().any(|entry| (entry.repeat, entry.peer.as_str()) == (repeat, peer.name))
            };
            let peers = scenario.peers(cell, &options.peers);
            let peers: Vec<_> = peers.into_iter().filter(|peer| !missing.contains_key(peer.name)).collect();
            let runs =
                (first..first + repeats).flat_map(|repeat| peers.iter().map(move |peer| (repeat, *peer)));
            let runs: Vec<_> = runs.filter(|(repeat, peer)| !is_there(*repeat, peer)).collect();
            let fixed = kept.first().map(|entry| entry.span).filter(|_| !again);
            if !runs.is_empty() {
                all.push(Todo { scenario, cell, runs, fixed });
            }
        }
    }
    all
}

/// Runs what is asked for, and keeps it in the pages' directories. False: Exonet has broken a promise, or did not run.
/// Without `again`, a run whose result is there for this tree already is not repeated.
pub(crate) fn run(scenarios: &[Scenario], options: &RunOptions, again: bool) -> Result<bool> {
    let asked = options.peers.iter().map(|name| peer::find(name)).collect::<Result<Vec<_>>>()?;
    let among = if asked.is_empty() { peer::all().collect() } else { asked };
    let missing: BTreeMap<&str, String> =
        among.iter().filter_map(|peer| Some((peer.name, peer.missing()?))).collect();
    for (name, why) in &missing {
        println!("SKIPPED {name}: {why}");
    }
    if let Some(part) = &options.cell
        && !scenarios.iter().flat_map(|it| &it.cells).any(|cell| cell.name.contains(part.as_str()))
    {
        bail!("no cell of these scenarios has {part:?} in its name; `lab list` names the cells");
    }
    let origin = Origin::now();
    let mut kept = Kept::open(&options.docs, &origin, &missing)?;
    let todo = todo(scenarios, options, (&kept.there, &origin), &missing, again);
    if todo.is_empty() {
        println!("All that is asked for is there for {}.", origin.commit);
        return Ok(true);
    }
    let budget = options.minutes.map(|minutes| minutes * 60.0);
    let planned = Planned::new(todo, budget, options.quick);
    println!("{}", planned.tell());
    if options.plan {
        return Ok(true);
    }
    if planned.todo.is_empty() {
        bail!("there is no time for anything");
    }
    let began = Instant::now();
    let mut fine = true;
    for one in &planned.todo {
        let left = budget.map(|budget| budget - began.elapsed().as_secs_f64());
        let told = left.map(|left| format!(", {left:.0} s left")).unwrap_or_default();
        println!("{}: {}{told}", one.scenario.name, one.cell.name);
        if left.is_some_and(|left| left < 0.7 * one.cost(planned.length, planned.hurry)) {
            println!("  left out: there is no time");
            continue;
        }
        fine &= cell(one, &planned, &origin, &mut kept)?;
    }
    Ok(fine)
}

/// All runs of a cell.
fn cell(one: &Todo<'_>, planned: &Planned<'_>, origin: &Origin, kept: &mut Kept) -> Result<bool> {
    /// In a hurry, the runs of a peer are not repeated if one took this many seconds longer than it should.
    const LATE: f64 = 8.0;
    let (scenario, cell, mut fine) = (one.scenario, one.cell, true);
    let span = one.span(planned.length);
    let mut slow = BTreeSet::new();
    for (repeat, peer) in &one.runs {
        if slow.contains(peer.name) {
            continue;
        }
        let warm_up = cell.wire.warm_up(planned.hurry);
        let (began, expected) = (Instant::now(), cell.cost(span, warm_up));
        // One that has measured more than the link carries has not shown much. It is kept, and done once more.
        for _ in 0..2 {
            let plan = |rival| Plan {
                link: cell.wire.shapes(),
                spokes: cell.wire.spokes(),
                work: cell.work,
                bytes: cell.bytes,
                flows: std::iter::once(*peer).chain(rival).collect(),
                warm_up,
                span: Duration::from_secs_f64(span),
                seed: 1 + u64::from(*repeat),
                patient: !planned.hurry,
            };
            let records = cell.rival.map(peer::find).transpose().and_then(|rival| plan(rival).run());
            let entry = Entry::new((origin, scenario.name, &cell.name), peer.name, *repeat, span, records);
            println!("    {}", summary(cell, &entry));
            if let Some((as_promised, told)) = entry.promise() {
                println!("      {told}");
                fine &= as_promised;
            }
            kept.keep(scenario, &entry)?;
            if entry.records.iter().all(|record| !record.over) {
                fine &= !peer.name.starts_with("exonet") || entry.fault().is_none();
                break;
            }
        }
        if planned.hurry && began.elapsed().as_secs_f64() > expected + LATE {
            println!("      took long, is not done again");
            slow.insert(peer.name);
        }
    }
    Ok(fine)
}

/// Where results of speed and of first contact are kept. A file is made when there is something to keep.
struct Kept {
    docs: PathBuf,
    note: String,
    keepers: BTreeMap<&'static str, Keeper>,
    there: Vec<Entry>,
}

impl Kept {
    fn open(docs: &Path, origin: &Origin, missing: &BTreeMap<&str, String>) -> Result<Self> {
        let skipped: String = missing.iter().map(|(name, why)| format!(" Without {name}: {why}.")).collect();
        let note = format!("{}: {}{skipped}", origin.commit, report::machine());
        let mut there = Vec::new();
        for page in report::PAGES {
            there.extend(Results::read(&report::results(docs, page))?.unwrap_or_default().entries);
        }
        Ok(Self { docs: docs.to_owned(), note, keepers: BTreeMap::new(), there })
    }

    fn keep(&mut self, scenario: &Scenario, entry: &Entry) -> Result<()> {
        let page = report::page_of(scenario);
        if !self.keepers.contains_key(page) {
            self.keepers.insert(page, Keeper::open(&report::results(&self.docs, page), &self.note)?);
        }
        self.keepers.get_mut(page).map_or(Ok(()), |keeper| keeper.keep(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    fn options(peers: &[&str]) -> RunOptions {
        RunOptions { peers: peers.iter().map(|name| (*name).to_owned()).collect(), ..RunOptions::default() }
    }

    fn origin() -> Origin {
        Origin { date: String::new(), commit: "now".into() }
    }

    #[test]
    fn a_plan_fits_and_leaves_out_what_tells_least() {
        let scenarios = scenario::all();
        let options = options(&[]);
        let all = || todo(&scenarios, &options, (&[], &origin()), &BTreeMap::new(), false);
        let planned = Planned::new(all(), Some(2_000.0), false);
        assert!((1_500.0..=2_100.0).contains(&planned.seconds()), "{}", planned.seconds());
        let rank = |names: &(&str, &str)| {
            let of = scenarios.iter().find(|one| one.name == names.0).unwrap();
            of.cells.iter().find(|cell| cell.name == names.1).unwrap().rank
        };
        let most_told = planned.todo.iter().map(|one| one.cell.rank).max();
        assert!(!planned.dropped.is_empty() && planned.dropped.iter().map(rank).min() >= most_told);
        let everything = Planned::new(all(), None, false);
        assert!(everything.dropped.is_empty() && everything.seconds() > 3_600.0);
        let few = scenario::find(&["calls-5".to_owned()]).unwrap();
        let of = |budget| {
            let todo = todo(&few, &options, (&[], &origin()), &BTreeMap::new(), false);
            Planned::new(todo, Some(budget), false)
        };
        assert!(of(800.0).dropped.is_empty() && of(800.0).length > of(600.0).length);
    }

    #[test]
    fn peers_take_turns_and_what_is_there_is_not_run_again() {
        let scenarios = scenario::find(&["one-way-loss".to_owned()]).unwrap();
        let options = RunOptions { cell: Some("20 %".into()), ..options(&["exonet", "tcp-bbr"]) };
        let names = |there: &[Entry], again| -> Vec<(u32, &str)> {
            let all = todo(&scenarios, &options, (there, &origin()), &BTreeMap::new(), again);
            all.iter().flat_map(|one| &one.runs).map(|(repeat, peer)| (*repeat, peer.name)).collect()
        };
        let turns =
            [(0, "exonet"), (0, "tcp-bbr"), (1, "exonet"), (1, "tcp-bbr"), (2, "exonet"), (2, "tcp-bbr")];
        assert_eq!(names(&[], false), turns);
        let done = Entry::new((&origin(), "one-way-loss", "20 %"), "exonet", 1, 2.5, Ok(Vec::new()));
        let other =
            Entry { origin: Origin { commit: "before".into(), ..origin() }, repeat: 0, ..done.clone() };
        let there = [done, other];
        assert_eq!(names(&there, false), [turns[0], turns[1], turns[3], turns[4], turns[5]]);
        assert_eq!(names(&there, true).first(), Some(&(2, "exonet")));
        let all = todo(&scenarios, &options, (&there, &origin()), &BTreeMap::new(), false);
        assert_eq!(all.first().map(|one| one.span(0.0)), Some(2.5), "as long as those that are there");
    }
}
