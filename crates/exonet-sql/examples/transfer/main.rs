//! Two services, each with a database of its own, move money between their accounts. Both are killed with `kill -9` again and again,
//! and with `--postgres` their database servers crash as well. At the end each transfer has been booked once at each side.
//!
//! `cargo run --release -p exonet-sql --example transfer -- [--postgres] [--memory] [--kills N] [--json]`

#![allow(clippy::indexing_slicing)] // of two services

mod run;
#[path = "../../tests/common/server.rs"]
mod server;
mod service;

use std::process::{Command, ExitCode};

use run::Options;

const HELP: &str = "\
Moves money between two services, while both are killed again and again.

  --postgres   databases of PostgreSQL, in servers of their own that crash too; else SQLite
  --memory     nodes without a journal
  --kills N    how often something is killed [30]
  --json       the figures as a line of JSON, last

Example: cargo run --release -p exonet-sql --example transfer -- --postgres --kills 50";

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    if let Some(role) = service::Role::of_environment() {
        service::serve(role).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut options, mut json) = (Options::default(), false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--postgres" => options.postgres = true,
            "--memory" => options.memory = true,
            "--json" => json = true,
            "--kills" => options.kills = args.next().ok_or("--kills needs a number")?.parse()?,
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            other => return Err(format!("no option {other}; --help has them").into()),
        }
    }
    let program = std::env::current_exe()?;
    let figures = run::run(options, || Command::new(&program)).await?;
    println!("{figures}");
    if json {
        println!("{}", figures.json());
    }
    Ok(if figures.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
