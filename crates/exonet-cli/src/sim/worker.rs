//! Threads that run worlds, one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use exonet_sim::scenario::{Finding, Profile, Report, Schedule, run, shrink};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::args::Profiles;

/// The maximum number of runs for shrinking one violation.
const SHRINK_RUNS: u32 = 1_500;
/// How many violations are shrunk. For later ones, only the seed is reported.
const SHRUNK: u64 = 3;

/// The result of a world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) profile: Profile,
    pub(super) end: End,
}

/// The end of a world.
#[derive(Debug)]
pub(super) enum End {
    /// The world ended as it should.
    Sound(Report),
    /// The world ended with a violation.
    Broken(Report, Option<Box<Small>>),
    /// The thread panicked: the core or the world violated one of its own invariants.
    Panicked(String),
}

/// The smallest schedule that shows a violation.
#[derive(Debug)]
pub(super) struct Small {
    pub(super) schedule: Schedule,
    pub(super) finding: Option<Finding>,
    /// The file with the schedule, if it could be written.
    pub(super) path: Option<PathBuf>,
}

/// The state that all threads share.
#[derive(Debug)]
struct Shared {
    profiles: Profiles,
    first: u64,
    begun: AtomicU64,
    count: u64,
    stop: AtomicBool,
    broken: AtomicU64,
}

/// Running threads; they stop when this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    worlds: UnboundedReceiver<World>,
}

impl Workers {
    /// Begins to run `count` seeds of `profiles`, from `first` on, on `jobs` threads. The number after the largest
    /// one is 0.
    pub(super) fn start(profiles: Profiles, first: u64, count: u64, jobs: usize) -> Self {
        let shared = Arc::new(Shared {
            profiles,
            first,
            begun: AtomicU64::new(0),
            count,
            stop: AtomicBool::new(false),
            broken: AtomicU64::new(0),
        });
        let (sender, worlds) = unbounded_channel();
        for _ in 0..jobs {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            std::thread::spawn(move || shared.work(&sender));
        }
        Self { shared, worlds }
    }

    /// The next world that has ended. None: all have ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<World> {
        self.worlds.recv().await
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn work(&self, sender: &UnboundedSender<World>) {
        while !self.stop.load(Ordering::Relaxed) {
            let place = self.begun.fetch_add(1, Ordering::Relaxed);
            let seed = self.first.wrapping_add(place);
            if place >= self.count || sender.send(self.world(seed)).is_err() {
                return;
            }
        }
    }

    fn world(&self, seed: u64) -> World {
        let profile = self.profiles.of(seed);
        let schedule = Schedule::full(seed, profile);
        let end = match catch_unwind(AssertUnwindSafe(|| run(&schedule.scenario()))) {
            Ok(report) if report.findings.is_empty() => End::Sound(report),
            Ok(report) => {
                let few = self.broken.fetch_add(1, Ordering::Relaxed) < SHRUNK;
                End::Broken(report, few.then(|| small(&schedule)).flatten())
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                End::Panicked(text.unwrap_or("panicked").to_owned())
            }
        };
        World { seed, profile, end }
    }
}

/// Finds the smallest schedule that shows the same violation as `schedule`, and writes it to a file for a replay.
pub(super) fn small(schedule: &Schedule) -> Option<Box<Small>> {
    let shrunk = catch_unwind(AssertUnwindSafe(|| shrink(schedule, SHRINK_RUNS))).ok().flatten()?;
    let name = format!("exon-sim-{}-{}.schedule", schedule.profile, schedule.seed);
    let path = std::env::temp_dir().join(name);
    let written = std::fs::write(&path, shrunk.schedule.to_string());
    Some(Box::new(Small {
        schedule: shrunk.schedule,
        finding: shrunk.report.findings.into_iter().next(),
        path: written.is_ok().then_some(path),
    }))
}
