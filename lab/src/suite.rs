//! Scenarios, run in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::RunOptions;
use crate::peer;
use crate::results::{Entry, Results, summary};
use crate::run::Plan;
use crate::scenario::{Cell, Scenario};

/// Runs each cell of each scenario with each peer, all peers once before any of them again, so that what the machine
/// does meanwhile meets all alike. False: Exonet has broken a promise, or did not run.
pub(crate) fn run(scenarios: &[Scenario], options: &RunOptions) -> Result<bool> {
    let asked = options.peers.iter().map(|name| peer::find(name)).collect::<Result<Vec<_>>>()?;
    let among = if asked.is_empty() { peer::all().collect() } else { asked };
    let missing: BTreeMap<&str, String> =
        among.iter().filter_map(|peer| Some((peer.name, peer.missing()?))).collect();
    for (name, why) in &missing {
        println!("SKIPPED {name}: {why}");
    }
    let mut fine = true;
    for scenario in scenarios {
        println!("\n{}: {}", scenario.name, scenario.about);
        let mut results = Results::default();
        for cell in &scenario.cells {
            if options.cell.as_ref().is_some_and(|part| !cell.name.contains(part.as_str())) {
                continue;
            }
            println!("  {}", cell.name);
            for repeat in 0..options.repeats.unwrap_or(if options.quick { 1 } else { 3 }) {
                for peer in scenario.peers(cell, &options.peers) {
                    if missing.contains_key(peer.name) {
                        continue;
                    }
                    let entry = once(scenario, cell, peer, repeat, options);
                    println!("    {}", summary(&entry));
                    fine &= !peer.name.starts_with("exonet") || entry.fault().is_none();
                    if let Some((kept, told)) = entry.promise() {
                        println!("      {told}");
                        fine &= kept;
                    }
                    results.entries.push(entry);
                }
            }
        }
        results.write(&options.json, scenario.name)?;
    }
    Ok(fine)
}

fn once(
    scenario: &Scenario,
    cell: &Cell,
    peer: &'static peer::Peer,
    repeat: u32,
    options: &RunOptions,
) -> Entry {
    let span = match (options.quick, cell.span) {
        (true, None) => 2,
        (true, Some(_)) => 8,
        (false, span) => span.unwrap_or(5),
    };
    let rival = cell.rival.map(peer::find).transpose();
    let records = rival.and_then(|rival| {
        let plan = Plan {
            link: cell.wire.shapes(),
            work: cell.work,
            bytes: cell.bytes,
            flows: std::iter::once(peer).chain(rival).collect(),
            warm_up: cell.wire.warm_up(),
            span: Duration::from_secs(span),
            seed: 1 + u64::from(repeat),
        };
        plan.run()
    });
    Entry::new(scenario.name, cell, peer.name, repeat, span, records)
}
