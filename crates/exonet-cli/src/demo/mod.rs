//! `exon demo`: sends over real sockets through a bad network, kills the receiver, and counts what arrives.
//!
//! ```text
//!  parent process                                             child process, killed and started again
//!  exonet node    ─> relay ─┐ loses, doubles, holds back,  ┌─> exonet node: key and one integer on disk
//!  (--journal: a child process with a journal of its own ──┤─> exonet node with a journal)
//!  resend until   ─> relay ─┤ flips bits, dies, forgets    ├─> receiver that remembers what it saw
//!  acknowledged   ─> relay ─┘ translations: by seed        └─> receiver that does not
//!  ledger <────────────────────────── pipe: each delivery, as it happens
//! ```

mod child;
mod journal;
mod ledger;
mod line;
mod outcomes;
mod payload;
mod plain;
mod progress;
mod receiver;
pub(crate) mod relay;
mod report;
mod script;
mod sender;
mod stage;
mod view;
pub(crate) mod weather;

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

pub(crate) use receiver::receive;
pub(crate) use sender::send;

use self::line::Side;
use self::report::{Kept, Report, Row};
use self::script::{Accident, Script};
use self::stage::Stage;
use self::view::{Snapshot, View};
use self::weather::Odds;
use crate::args::DemoArgs;
use crate::command::stop;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::GOODBYE;
use crate::settings::Settings;

/// How often the director checks the state.
const GLANCE: Duration = Duration::from_millis(40);
/// The time limit for both ends to drop all records.
const QUIET: Duration = Duration::from_secs(10);

/// The parameters of a demo.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    messages: u64,
    size: usize,
    odds: Odds,
    outage: Duration,
    crash: bool,
    /// Whether there is a pair that keeps journals.
    journal: bool,
    seed: u64,
    /// The command that repeats the demo.
    again: String,
}

/// The demo.
pub(crate) struct Demo<'a> {
    settings: &'a Settings,
    course: Course,
}

/// The result of a demo.
struct Performance {
    interrupted: bool,
    /// From the first message to the last outcome.
    took: Duration,
}

impl<'a> Demo<'a> {
    pub(crate) fn new(settings: &'a Settings, args: &DemoArgs) -> Self {
        let size = usize::try_from(args.size.0).unwrap_or(usize::MAX);
        // The seed is short, so that a user can type it.
        let seed = args.seed.unwrap_or_else(|| rand::random_range(1..=999_999));
        let course = Course {
            messages: args.messages,
            size,
            odds: Odds {
                loss: args.loss,
                duplication: args.dup,
                reordering: args.reorder,
                corruption: args.corrupt,
                delay: Duration::from_millis(args.delay),
            },
            outage: args.outage,
            crash: !args.no_crash,
            journal: args.journal,
            seed,
            again: args.again(seed),
        };
        Self { settings, course }
    }

    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let state = tempfile::tempdir().map_err(|e| {
            Failure::new("the demo needs a temporary directory").because(&e).hint("set TMPDIR to a directory")
        })?;
        let identity = state.path().join("receiver");
        let mut stage = Stage::set(&self.course, &identity).await?;
        let mut view = View::new(self.settings.output, &self.course);
        let performance = self.perform(&mut stage, &mut view).await?;
        let records = if performance.interrupted { stage.records() } else { quiet(&mut stage).await? };
        stage.node.close(GOODBYE).await;
        view.end();
        let report = self.report(&stage, &performance, records);
        drop(stage);
        report.tell(self.settings.output, &self.course)?;
        Ok(match performance.interrupted {
            true => Exit::Interrupted,
            false => report.exit(self.course.crash),
        })
    }

    /// From the first message until everything is settled.
    async fn perform(&self, stage: &mut Stage<'_>, view: &mut View) -> Result<Performance, Failure> {
        let Course { messages, outage, crash, journal, .. } = self.course;
        let mut script = Script::new(messages, outage, (crash, crash && journal));
        let mut interrupt = pin!(stop::stop(Some(self.limit()))?);
        let mut glances = interval(GLANCE);
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let started = Instant::now();
        let (mut took, mut alive_at) = (None, None);
        stage.open_gate(script.gate());
        stage.begin();
        loop {
            tokio::select! {
                _ = glances.tick() => {}
                why = &mut interrupt => {
                    let interrupted = why == stop::Stop::Interrupted;
                    return Ok(Performance { interrupted, took: took.unwrap_or_else(|| started.elapsed()) });
                }
            }
            if stage.is_settled() {
                took.get_or_insert_with(|| started.elapsed());
            }
            view.show(&self.snapshot(stage, started.elapsed(), alive_at.is_some()))?;
            if stage.is_over().await? {
                return Ok(Performance {
                    interrupted: false,
                    took: took.unwrap_or_else(|| started.elapsed()),
                });
            }
            match alive_at {
                Some(at) if Instant::now() < at => continue,
                Some(_) => {
                    alive_at = None;
                    stage.set_dead(false);
                    view.event(started.elapsed(), "the network is back")?;
                }
                None => {}
            }
            if let Some(accident) = script.due(stage.through()) {
                alive_at = self.strike(accident, stage, view, started).await?;
                stage.open_gate(script.gate());
            }
        }
    }

    /// Makes an accident happen. Returns when the network is back, if it is down now.
    async fn strike(
        &self,
        accident: Accident,
        stage: &mut Stage<'_>,
        view: &mut View,
        started: Instant,
    ) -> Result<Option<Instant>, Failure> {
        let now = || started.elapsed();
        match accident {
            Accident::Outage(span) => {
                stage.set_dead(true);
                let text = format!("the network is down for {}", crate::units::span(span));
                view.event(now(), &text)?;
                return Ok(Some(Instant::now() + span));
            }
            Accident::NewMapping => {
                stage.new_mapping();
                view.event(now(), "the receiver sees the sender at another port")?;
            }
            Accident::Crash => {
                stage.kill_receiver().await?;
                let (who, with) = match stage.journal.is_some() {
                    true => ("receivers are", "its key and one integer; the other with its journal"),
                    false => ("receiver is", "its key and one integer"),
                };
                view.event(now(), &format!("the {who} killed (kill -9)"))?;
                stage.restart_receiver().await?;
                let one = if stage.journal.is_some() { ": one" } else { "," };
                view.event(now(), &format!("the {who} back{one} with {with}"))?;
            }
            Accident::SenderCrash => {
                view.event(now(), "the sender with a journal is killed (kill -9)")?;
                let left = stage.crash_sender().await?;
                let left = crate::units::counted(left, "message");
                view.event(now(), &format!("it is back, and continues with {left} of its journal"))?;
            }
            Accident::Move => {
                stage.move_senders().await?;
                view.event(now(), "the sender moves to another address")?;
            }
        }
        Ok(None)
    }

    fn snapshot(&self, stage: &Stage<'_>, elapsed: Duration, dead: bool) -> Snapshot {
        Snapshot {
            elapsed,
            dead,
            rtt: stage.rtt(),
            records: stage.records(),
            offered: stage.offered(),
            rows: stage.sides().map(|side| stage.row(side, self.course.messages)).collect(),
        }
    }

    fn report(&self, stage: &Stage<'_>, performance: &Performance, records: usize) -> Report {
        let plain = [Side::Remembering, Side::Plain].map(|side| {
            let row = stage.row(side, self.course.messages);
            // After an interrupt, messages that were not offered or are in flight count neither as arrived nor as
            // lost.
            let sent = row.sent.min(row.arrived + row.lost);
            Row { sent, ..row }
        });
        let ledger = stage.ledgers.with(Side::Exonet, |ledger| ledger.clone());
        let outcomes = stage.outcomes();
        let journal = stage.journal.as_ref().map(|journal| Kept {
            row: stage.row(Side::Journal, journal.account.begun()),
            again: stage.ledgers.with(Side::Journal, |ledger| ledger.again()),
            crashes: journal.crashes,
            unsent: self.course.messages.saturating_sub(journal.account.begun()),
        });
        Report {
            journal,
            account: outcomes.account(stage.offered(), &ledger, performance.interrupted),
            unknown_but_there: outcomes.unknown_but_there(&ledger),
            plain,
            unsent: self.course.messages.saturating_sub(stage.offered()),
            took: performance.took,
            records,
            seed: self.course.seed,
        }
    }

    /// A demo that takes longer than this hangs. It then reports its progress.
    fn limit(&self) -> Duration {
        let messages = u32::try_from(self.course.messages / progress::PACE).unwrap_or(u32::MAX);
        Duration::from_secs(60) + self.course.outage * 4 + Duration::from_secs(4).saturating_mul(messages)
    }
}

/// Waits until both ends have dropped all records. Returns the numbers of records that are left.
async fn quiet(stage: &mut Stage<'_>) -> Result<usize, Failure> {
    let until = Instant::now() + QUIET;
    loop {
        let records = stage.all_records().await?;
        if records == 0 || Instant::now() >= until {
            return Ok(records);
        }
        tokio::time::sleep(GLANCE).await;
    }
}
