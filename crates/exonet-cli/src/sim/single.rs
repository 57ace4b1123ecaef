//! One world.

use std::io::{self, Write};
use std::time::Instant;

use exonet_sim::scenario::{self, Report, Schedule};

use super::sweep::tell;
use super::totals::Totals;
use super::worker::{End, Small, World, small};
use crate::command::stop::stop;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

/// The form of a trace.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
}

/// Runs one world. With `trace`, it prints everything that happens.
pub(super) async fn run(settings: &Settings, schedule: Schedule, trace: bool) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let stop = stop(None)?;
    let whole = schedule.clone();
    let traced = trace.then_some(if settings.output.is_json() { Form::Json } else { Form::Text });
    let running = tokio::task::spawn_blocking(move || world(&schedule, traced));
    let (report, shrunk) = tokio::select! {
        done = running => done.map_err(|e| Failure::new("the world has failed").because(&e))??,
        _ = stop => return Ok(Exit::Interrupted),
    };
    let mut totals = Totals::default();
    totals.seeds = 1;
    totals.add(&report);
    let sound = report.findings.is_empty();
    if sound {
        settings.output.text(&report.to_string())?;
    } else {
        totals.violations = 1;
        tell(
            settings,
            &World { seed: whole.seed, profile: whole.profile, end: End::Broken(report, shrunk) },
        )?;
    }
    settings.output.text(&format!("\n{}", totals.table()))?;
    settings.output.line(&totals.summary(begun.elapsed(), false))?;
    Ok(if sound { Exit::Success } else { Exit::Error })
}

/// Returns the report and, if there was a violation, the smallest schedule that shows it.
fn world(schedule: &Schedule, traced: Option<Form>) -> Result<(Report, Option<Box<Small>>), Failure> {
    let scenario = schedule.scenario();
    let report = if let Some(form) = traced {
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut written = Ok(());
        let report = scenario::run_traced(&scenario, &mut |lines| {
            if written.is_ok() {
                written = match form {
                    Form::Text => out.write_all(lines.as_bytes()),
                    Form::Json => in_json(&mut out, lines),
                };
            }
        });
        written.and_then(|()| out.flush()).map_err(|error| Failure::output(&error))?;
        report
    } else {
        scenario::run(&scenario)
    };
    let shrunk = if report.findings.is_empty() || traced.is_some() { None } else { small(schedule) };
    Ok((report, shrunk))
}

fn in_json(out: &mut impl Write, lines: &str) -> io::Result<()> {
    for line in lines.lines() {
        serde_json::to_writer(&mut *out, &serde_json::json!({ "type": "trace", "line": line }))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
