//! `exon`: messages and files between machines, exactly once, from the command line.
//!
//! Arguments ([`args`]) become [`settings`], and a [`command`] does the work with them. Data goes to standard
//! output, everything about the work to standard error.

// These macros panic if the output is closed or full. `output` and `stderr` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bench;
mod code;
mod command;
mod conformance;
mod control;
mod copy;
mod demo;
mod exit;
mod failure;
mod gateway;
mod http;
mod identity;
mod log;
mod metrics;
mod moving;
mod node;
mod numbered;
mod output;
mod peers;
mod settings;
mod share;
mod sim;
mod stderr;
mod store;
mod text;
mod top;
mod trace;
mod traceparent;
mod transfer;
mod tunnel;
mod units;

use std::process::ExitCode;

use cap::Cap;
use clap::Parser;
use mimalloc::MiMalloc;

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::peers::{Names, Wanted, services};

/// Counts allocated bytes, so that `exon bench` can report bytes per peer. Without a limit, this costs one atomic
/// addition per allocation.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

fn main() -> ExitCode {
    let cli = match Cli::try_parse().and_then(Cli::check) {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let json = cli.common.json;
    let exit = run(cli).unwrap_or_else(|failure| {
        failure.report(json);
        failure.exit()
    });
    exit.into()
}

/// The command line with its names looked up.
async fn with_names(mut cli: Cli) -> Result<Cli, Failure> {
    // An empty variable counts as unset.
    cli.common.names = cli.common.names.filter(|names| !names.is_empty());
    let Some(text) = cli.common.names.clone() else {
        return match Wanted::of_command_line() {
            Some(wanted) => wanted.look_up(None).await.map(|()| cli),
            None => Ok(cli),
        };
    };
    let names = Names(services(&text, None).await?);
    if let Some(wanted) = Wanted::of_command_line() {
        wanted.look_up(Some(&names)).await?;
        let again = Cli::try_parse().and_then(Cli::check);
        cli = again.map_err(|error| Failure::new("cannot read the command line again").because(&error))?;
    }
    cli.common.naming = Some(names);
    Ok(cli)
}

/// Makes a write beyond the limit on the size of files an error, which is reported. Without a handler, the signal ends the
/// process. If there can be no handler, that stays so.
fn ignore_file_limit() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // The handler stays for as long as the process.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())));
    }
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    #[cfg(unix)]
    if matches!(cli.command, args::Command::ServeReaper) {
        return Ok(command::exec::reaper::reap());
    }
    #[cfg(unix)]
    if matches!(cli.command, args::Command::TunnelKeeper(_)) {
        tunnel::keep::close_inherited();
    }
    log::start(&cli.common);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start the runtime").because(&error))?;
    let result = runtime.block_on(async {
        ignore_file_limit();
        command::run(with_names(cli).await?).await
    });
    // A thread that still waits for standard input must not delay the end of the process.
    runtime.shutdown_background();
    result
}
