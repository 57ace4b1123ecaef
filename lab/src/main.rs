//! Compares Exonet with other transports on emulated links. See README.md.

mod app;
mod calibrate;
mod child;
mod link;
mod net;
mod peer;
mod report;
mod results;
mod run;
mod scenario;
mod stats;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Compares Exonet with other transports on emulated links.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names scenarios and peers
    List,
    /// Measures the emulator itself; fails if it is beyond its bounds
    Calibrate,
    /// Runs some scenarios
    Run {
        /// Scenarios, as `lab list` names them
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        options: RunOptions,
    },
    /// Runs all scenarios
    All {
        #[command(flatten)]
        options: RunOptions,
    },
    /// Writes docs/speed.md, docs/first-contact.md and their figures from results
    Report {
        /// Where results are
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
        json: PathBuf,
        /// Where the page goes
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"))]
        docs: PathBuf,
        /// Said above all figures, as: "the machine was busy"
        #[arg(long)]
        note: Option<String>,
    },
    /// One end of a connection; started by the others
    #[command(hide = true)]
    Child {
        /// What to do, as JSON
        setup: String,
    },
}

/// How scenarios are run.
#[derive(Args)]
pub(crate) struct RunOptions {
    /// Two seconds a run, and one of each
    #[arg(long)]
    quick: bool,
    /// Runs of each kind; medians are shown [default: 3; 1 if quick]
    #[arg(long)]
    repeats: Option<u32>,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Only cells whose name contains this
    #[arg(long)]
    cell: Option<String>,
    /// Where results go; what is there of the same scenarios is replaced
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    json: PathBuf,
}

fn main() -> ExitCode {
    match command(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(command: Command) -> Result<ExitCode> {
    let fine = match command {
        Command::List => scenario::list(),
        Command::Calibrate => calibrate::run()?,
        Command::Run { names, options } => suite::run(&scenario::find(&names)?, &options)?,
        Command::All { options } => suite::run(&scenario::all(), &options)?,
        Command::Report { json, docs, note } => {
            report::write(&json, &docs, note.as_deref()).map(|()| true)?
        }
        Command::Child { setup } => child::main(&setup).is_ok(),
    };
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
