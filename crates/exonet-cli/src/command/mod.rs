//! What each command does.

mod announce;
mod bench;
mod call;
mod cp;
mod demo;
mod id;
mod listen;
mod ping;
mod refusals;
mod send;
mod serve;
mod show;
mod sim;
pub(crate) mod stop;

use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

/// The identity that listens and serves when none is named.
const DEFAULT_IDENTITY: &str = "default";

/// Runs the command of the command line.
pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    let common = &cli.common;
    match cli.command {
        Command::Id(args) => {
            let name = args.name.as_deref().unwrap_or(DEFAULT_IDENTITY);
            id::run(&Settings::new(common, Some(name))?, &args)
        }
        Command::Listen(args) => listen::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Send(args) => send::run(&Settings::new(common, None)?, &args).await,
        Command::Cp(args) => cp::run(&Settings::new(common, None)?, &args).await,
        Command::Call(args) => call::run(&Settings::new(common, None)?, &args).await,
        Command::Serve(args) => serve::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Ping(args) => ping::run(&Settings::new(common, None)?, &args).await,
        Command::Demo(args) => demo::run(&Settings::new(common, None)?, &args).await,
        Command::Bench(args) => bench::run(&Settings::new(common, None)?, &args).await,
        Command::Sim(args) => sim::run(&Settings::new(common, None)?, &args).await,
        Command::DemoReceiver(args) => crate::demo::receive(common.state.as_deref(), args.size).await,
        Command::BenchCrowd(args) => crate::bench::crowd(args.size),
    }
}
