//! Many worlds.

use std::io::IsTerminal;
use std::pin::pin;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::totals::Totals;
use super::worker::{End, Workers, World};
use crate::args::SimArgs;
use crate::command::stop::stop;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::stderr;

/// The interval of progress lines without a terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn run(settings: &Settings, args: &SimArgs) -> Result<Exit, Failure> {
    let jobs = args.jobs.map(usize::from);
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let begun = Instant::now();
    let mut stop = pin!(stop(None)?);
    let mut workers = Workers::start(args.profile, args.first_seed, args.seeds, jobs);
    let mut progress = Progress::new(settings, args.seeds);
    let mut totals = Totals::default();
    let interrupted = loop {
        let world = tokio::select! {
            world = workers.next() => world,
            _ = &mut stop => break true,
        };
        let Some(world) = world else { break false };
        totals.seeds += 1;
        if let End::Sound(report) | End::Broken(report, _) = &world.end {
            totals.add(report);
        }
        if !matches!(world.end, End::Sound(_)) {
            totals.violations += 1;
            progress.pause(|| tell(settings, &world))?;
        }
        progress.tick(&totals, begun.elapsed());
    };
    progress.end();
    let took = begun.elapsed();
    settings.output.text(&format!("\n{}\n\n{}", totals.table(), totals.progress(took)))?;
    settings.output.line(&totals.summary(took, interrupted))?;
    Ok(match (totals.violations, interrupted) {
        (0, false) => Exit::Success,
        (0, true) => Exit::Interrupted,
        _ => Exit::Error,
    })
}

/// Prints a violation.
pub(super) fn tell(settings: &Settings, world: &World) -> Result<(), Failure> {
    let (seed, profile) = (world.seed, world.profile);
    let again = format!("exon sim --seed {seed} --profile {profile}");
    let (what, step, small) = match &world.end {
        End::Sound(_) => return Ok(()),
        End::Broken(report, small) => {
            let all: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            (all, Some(report.broken_at()), small.as_ref())
        }
        End::Panicked(text) => (vec![format!("a panic: {text}")], None, None),
    };
    let lines = what.join("\n  ");
    let mut text = format!("VIOLATION  seed {seed}, profile {profile}\n  {lines}\n  again: {again} --trace");
    let path = small.and_then(|small| small.path.as_ref());
    let replay = path.map(|path| format!("exon sim --replay {}", path.display()));
    if let Some(small) = small {
        let finding = small.finding.as_ref().map(ToString::to_string).unwrap_or_default();
        text += &format!("\n  the shortest schedule that shows it: {finding}\n");
        text.extend(small.schedule.to_string().lines().map(|line| format!("    {line}\n")));
        text += &format!("  again: {} --trace", replay.as_deref().unwrap_or("keep these lines in a file"));
    }
    settings.output.text(&text)?;
    settings.output.line(&serde_json::json!({
        "type": "violation",
        "seed": seed,
        "profile": profile.name(),
        "step": step,
        "violation": what.join("; "),
        "again": again,
        "schedule": small.map(|small| small.schedule.to_string()),
        "replay": replay,
    }))
}

/// A progress bar on a terminal, otherwise lines.
struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    told: Duration,
}

impl Progress {
    fn new(settings: &Settings, seeds: u64) -> Self {
        let watched = std::io::stderr().is_terminal() && !settings.quiet;
        let style = ProgressStyle::with_template("  {bar:24.cyan/dim} {pos}/{len}  {wide_msg}");
        let bar = watched.then(|| {
            let bar = ProgressBar::with_draw_target(Some(seeds), ProgressDrawTarget::stderr());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, lines: !settings.quiet, told: Duration::ZERO }
    }

    /// Lets `tell` print lines without the bar in between.
    fn pause(&self, tell: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        match &self.bar {
            Some(bar) => bar.suspend(tell),
            None => tell(),
        }
    }

    fn tick(&mut self, totals: &Totals, took: Duration) {
        if let Some(bar) = &self.bar {
            bar.set_position(totals.seeds);
            bar.set_message(totals.so_far(took));
        } else if self.lines && took >= self.told + TELL_EVERY {
            self.told = took;
            stderr::line(totals.progress(took));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
