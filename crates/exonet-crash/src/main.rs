//! Real processes that crash, and a check that every message arrives exactly once.
//!
//! A *world* is a sender and a receiver, each a process with a stored identity. The laboratory ends their lives: by
//! `kill -9` at any time or at a named point of the disk (before and after each write, sync and rename, or in the
//! middle of a write), by errors of the disk, and by power cuts that lose the data that was not forced. Then it lets
//! both settle their messages, and compares the outcomes that the sender was told with the messages that the receiver
//! got.
#![cfg_attr(not(unix), allow(unused))]

#[cfg(unix)]
mod account;
#[cfg(unix)]
mod fault;
#[cfg(unix)]
mod life;
#[cfg(unix)]
mod part;
#[cfg(unix)]
mod world;

use std::process::ExitCode;

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("exonet-crash kills processes by signals: it runs on Unix only");
    ExitCode::FAILURE
}

#[cfg(unix)]
fn main() -> ExitCode {
    command::run()
}

#[cfg(unix)]
mod command {
    use std::process::ExitCode;

    use clap::{Parser, Subcommand};
    use serde::Serialize;

    use crate::part::{self, Kind, Part};
    use crate::world;

    /// Kills real senders and receivers, fills and fails their disks, cuts their power, and proves from what both sides
    /// say that every message arrived once.
    ///
    /// Example: `exonet-crash --worlds 100 --seed 7`
    #[derive(Parser)]
    #[command(name = "exonet-crash", version)]
    struct Args {
        #[command(subcommand)]
        part: Option<Sub>,
        /// How many worlds, each with a pair of identities of its own.
        #[arg(long, default_value_t = 20, value_name = "N")]
        worlds: u64,
        /// The seed of the first world; each further one has the next.
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
        /// How many lives end in each world.
        #[arg(long, default_value_t = 14, value_name = "N")]
        crashes: usize,
        /// The store that keeps the journals: `log` or `sqlite`. With `sqlite`, processes are killed, and no other faults
        /// occur.
        #[arg(long, value_enum, default_value_t, value_name = "STORE")]
        store: Kind,
        /// Disks say that a sync worked and forget it, and then the power fails. Messages that were accepted before may be
        /// lost or come twice. All others must arrive once, and every journal must be continued, or refused with a remedy.
        #[arg(long, conflicts_with = "store")]
        lies: bool,
        /// One line of JSON at the end.
        #[arg(long)]
        json: bool,
        /// Tell each crash.
        #[arg(long, short)]
        verbose: bool,
    }

    #[derive(Subcommand)]
    enum Sub {
        /// One of the processes of a world.
        #[command(hide = true)]
        Part(Part),
    }

    /// The totals of all worlds.
    #[derive(Default, Serialize)]
    struct Sum {
        worlds: u64,
        crashes: usize,
        at_points: usize,
        cuts_of_power: usize,
        errors_of_disks: usize,
        lies_of_disks: usize,
        damaged_journals: usize,
        accepted: usize,
        processed: usize,
        redelivered: usize,
        unknown: usize,
        violations: Vec<String>,
    }

    pub(super) fn run() -> ExitCode {
        let args = Args::parse();
        if let Some(Sub::Part(part)) = args.part {
            return part::run(&part);
        }
        let Args { crashes, store, lies, verbose, .. } = args;
        let rules = world::Rules { crashes, store, lies, verbose };
        let mut sum = Sum::default();
        for seed in args.seed..args.seed.saturating_add(args.worlds) {
            match world::run(seed, &rules) {
                Ok(report) => {
                    if !args.json {
                        println!("world {seed}: {report}");
                    }
                    sum.crashes += report.crashes;
                    sum.at_points += report.at_points;
                    sum.cuts_of_power += report.cuts;
                    sum.errors_of_disks += report.errors;
                    sum.lies_of_disks += report.lies;
                    sum.damaged_journals += report.damaged;
                    sum.accepted += report.accepted;
                    sum.processed += report.processed;
                    sum.redelivered += report.redelivered;
                    sum.unknown += report.unknown;
                    let named = report.violations.into_iter().map(|it| format!("world {seed}: {it}"));
                    sum.violations.extend(named);
                }
                Err(error) => sum.violations.push(format!("world {seed}: {error}")),
            }
            sum.worlds += 1;
        }
        if args.json {
            println!("{}", serde_json::to_string(&sum).unwrap_or_default());
        } else {
            println!(
                "{} worlds, {} crashes ({} at named points, {} cuts of power, {} errors of disks, {} lies of disks, \
                 {} damaged journals): {} messages accepted, {} processed once, {} handed out again with the flag, {} unknown, {} violations",
                sum.worlds,
                sum.crashes,
                sum.at_points,
                sum.cuts_of_power,
                sum.errors_of_disks,
                sum.lies_of_disks,
                sum.damaged_journals,
                sum.accepted,
                sum.processed,
                sum.redelivered,
                sum.unknown,
                sum.violations.len(),
            );
        }
        for violation in &sum.violations {
            eprintln!("VIOLATION: {violation}");
        }
        if sum.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
