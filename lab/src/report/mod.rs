//! `docs/speed.md` and `docs/first-contact.md`: tables and figures of all results, where Exonet loses, and how to make
//! them again.

mod bars;
mod chart;
mod contact;
mod figures;
mod style;
mod svg;
mod table;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use self::table::Medians;
use crate::app::Work;
use crate::peer;
use crate::results::Results;
use crate::scenario::{self, Scenario};
use crate::stats::figure;

/// Writes the pages and their figures as SVG into `docs`, and the figures as PNG beside the results. What has no results
/// stays as it is.
pub(crate) fn write(results: &Path, docs: &Path, note: Option<&str>) -> Result<()> {
    let scenarios = scenario::all();
    let mut found = Vec::new();
    for scenario in &scenarios {
        if let Some(results) = Results::read(results, scenario.name)? {
            found.push((scenario, results));
        }
    }
    anyhow::ensure!(!found.is_empty(), "there are no results in {}: `lab all` first", results.display());
    let medians = found.iter().map(|(scenario, results)| Medians::new(scenario, results));
    let (contact, speed): (Vec<Medians<'_>>, Vec<_>) =
        medians.partition(|medians| medians.scenario.is_contact());
    if !speed.is_empty() {
        let drawn = figures::all(&speed);
        put("speed", &drawn, results, docs, |names| page(&speed, names, note))?;
    }
    if !contact.is_empty() {
        let drawn = contact::figures(&contact);
        put("first-contact", &drawn, results, docs, |names| {
            contact::page(&contact, names, note, &machine())
        })?;
    }
    Ok(())
}

/// Writes a page, and its figures into the directory of its name.
fn put(
    page: &str,
    figures: &[figures::Figure],
    results: &Path,
    docs: &Path,
    text: impl FnOnce(&[&str]) -> String,
) -> Result<()> {
    let (svgs, pngs) = (docs.join(page), results.join("figures"));
    for directory in [&svgs, &pngs] {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    for (name, drawing) in figures {
        drawing.write(name, &svgs, &pngs)?;
    }
    let names: Vec<&str> = figures.iter().map(|(name, _)| *name).collect();
    let path = docs.join(format!("{page}.md"));
    std::fs::write(&path, text(&names)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}, {} figures; as PNG in {}", path.display(), names.len(), pngs.display());
    Ok(())
}

fn page(all: &[Medians<'_>], figures: &[&str], note: Option<&str>) -> String {
    let mut page = String::from(
        "# Speed\n\nExonet beside other transports, on emulated links and without. This page and its figures are written by\n\n\
         ```sh\ncd lab && cargo run --release -- all && cargo run --release -- report\n```\n\n\
         `lab/README.md` says how it is measured, and what it needs. Figures move by several per cent from run to run and\n\
         more from machine to machine: read them as ratios.\n\n",
    );
    let _ = writeln!(page, "{}\n", machine());
    if let Some(note) = note {
        let _ = writeln!(page, "**{note}**\n");
    }
    page.push_str(&losses(all));
    for medians in all {
        page.push_str(&section(medians, figures));
    }
    page.push_str("## How each is set up\n\n| | |\n|---|---|\n");
    for peer in peer::all().filter(|peer| peer.does(Work::OneWay) || peer.does(Work::Calls { actors: 1 })) {
        let missing = peer.missing().map(|why| format!(" **Not measured: {why}.**")).unwrap_or_default();
        let _ = writeln!(page, "| {} | {}{missing} |", peer.label, peer.tuning);
    }
    page
}

/// First of all: where others are better.
fn losses(all: &[Medians<'_>]) -> String {
    let mut text = String::from(
        "## Where Exonet loses\n\nEvery row in which another transport is more than 3 % ahead, with the best of them.\n\n\
         | | | best | messages or calls/s | Exonet | ratio |\n|---|---|---|---:|---:|---:|\n",
    );
    for medians in all {
        for (cell, best, theirs, ours) in medians.losses() {
            let ratio = figure(ours / theirs);
            let _ = writeln!(
                text,
                "| {} | {cell} | {best} | {} | {} | {ratio} |",
                medians.scenario.about,
                figure(theirs),
                figure(ours)
            );
        }
    }
    text.push('\n');
    text
}

fn section(medians: &Medians<'_>, figures: &[&str]) -> String {
    let scenario: &Scenario = medians.scenario;
    let mut text = format!("## {}\n\n", capital(scenario.about));
    for name in shown_in(scenario.name).iter().filter(|name| figures.contains(name)) {
        let _ = writeln!(text, "![{name}](speed/{name}.svg)\n");
    }
    let what = match scenario.name {
        name if name.contains("call") => "Calls a second; median / 99th percentile of their latency in ms.",
        "cold-start" => {
            "Messages or calls a second from when they were handed over to the last outcome; until the last had arrived / was settled, in ms."
        }
        "asymmetric" => "Messages a second forward and back.",
        "crowd" => {
            "Messages a second; clients that the server had heard of when they were let send, and after how long."
        }
        "one-way-codel" => {
            "Messages a second; median / 99th percentile of the wait in the queue in ms; packets that it dropped / marked, in %."
        }
        "share" => "Messages a second of the flow, and of the one beside it.",
        _ => "Messages a second.",
    };
    let (runs, span) = medians.effort().unwrap_or_default();
    let _ = write!(
        text,
        "{what} Medians of up to {runs} runs of {span} s; the range where it is more than 10 %."
    );
    if let Some(late) = medians.lateness() {
        let _ = write!(
            text,
            " The emulator's own error, p99: {} ms in the median run, {} ms in the worst.",
            figure(late.median),
            figure(late.most)
        );
    }
    let _ = writeln!(text, "\n\n{}", medians.table());
    for told in medians.reaches() {
        let _ = writeln!(text, "{told}\n");
    }
    if scenario.name == "one-way-loss" || scenario.name == "cable" || scenario.name == "crowd" {
        for cell in scenario
            .cells
            .iter()
            .filter(|cell| ["0 %", "5 %", "1,024 bytes", "10,000 clients"].contains(&cell.name.as_str()))
        {
            let _ = writeln!(text, "What it costs: {}.\n\n{}", cell.name, medians.costs(&cell.name));
        }
    }
    for fault in medians.faults() {
        let _ = writeln!(text, "* Does not count: {fault}");
    }
    text.push('\n');
    text
}

/// The figures of a scenario.
fn shown_in(scenario: &str) -> &'static [&'static str] {
    match scenario {
        "one-way-loss" => &["one-way-loss", "queue"],
        "calls-0" => &["calls-rate", "calls-p50", "calls-p99"],
        "one-way-links" => &["one-way-links"],
        "calls-links" => &["calls-links"],
        "share" => &["share"],
        "cable" => &["cable"],
        _ => &[],
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What it ran on.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model).trim().to_owned();
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let congestion = read("/proc/sys/net/ipv4/tcp_congestion_control");
    format!(
        "Measured on {processors} processors ({model}), Linux {}, whose TCP uses {} unless told otherwise.",
        kernel.trim(),
        congestion.trim().to_uppercase()
    )
}
