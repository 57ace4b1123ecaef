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
    /// Runs what of all scenarios is not there yet for this tree
    All {
        #[command(flatten)]
        options: RunOptions,
    },
    /// Writes docs/speed.md, docs/first-contact.md and their figures from the results that are kept beside them
    Report {
        /// Where pages and results are
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"))]
        docs: PathBuf,
        /// Write nothing; fail if a page is not what its results give
        #[arg(long)]
        check: bool,
        /// Where figures go as PNG, too
        #[arg(long)]
        png: Option<PathBuf>,
    },
    /// One end of a connection; started by the others
    #[command(hide = true)]
    Child {
        /// What to do, as JSON
        setup: String,
    },
}

/// How scenarios are run.
#[derive(Args, Default)]
pub(crate) struct RunOptions {
    /// The shortest runs, and one of each
    #[arg(long)]
    quick: bool,
    /// How long all may take: runs are made as long as fits, and what tells least is left out
    #[arg(long)]
    minutes: Option<f64>,
    /// Runs of each kind; medians are shown [default: 3; 1 if quick]
    #[arg(long)]
    repeats: Option<u32>,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Only cells whose name contains this
    #[arg(long)]
    cell: Option<String>,
    /// Say what would be run, and run nothing
    #[arg(long)]
    plan: bool,
    /// Where results are kept, as PAGE/results.tsv; they are added to what is there
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    docs: PathBuf,
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
        Command::Run { names, options } => suite::run(&scenario::find(&names)?, &options, true)?,
        Command::All { options } => suite::run(&scenario::all(), &options, false)?,
        Command::Report { docs, check: true, .. } => report::check(&docs)?,
        Command::Report { docs, png, .. } => report::write(&docs, png.as_deref()).map(|()| true)?,
        Command::Child { setup } => child::main(&setup).is_ok(),
    };
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
