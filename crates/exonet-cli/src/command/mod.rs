//! The commands.

mod announce;
mod bench;
mod call;
mod checkpoint;
mod conformance;
mod cp;
mod dead;
mod demo;
mod down;
pub(crate) mod exec;
mod forward;
mod get;
mod group;
mod group_stream;
mod id;
mod inbox;
mod listen;
mod moving;
mod names;
mod outbox;
mod peer;
mod ping;
mod proxy;
mod refusals;
mod running;
mod send;
mod serve;
mod service;
mod session;
mod share;
mod shell;
mod show;
mod sim;
mod standing;
pub(crate) mod stop;
mod top;
mod trace;
mod traced;
mod up;
mod view;

use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

/// The default identity of listeners and servers.
pub(crate) const DEFAULT_IDENTITY: &str = "default";
/// The identity of a name server.
pub(crate) const NAMES_IDENTITY: &str = "names";

/// The identity of the far end of tunnels. It keeps no journal, unlike the identity of a listener.
const PROXY_IDENTITY: &str = "proxy";

/// The address under which others reach `node`, as a peer.
pub(crate) fn reachable_as(node: &exonet::Node) -> String {
    announce::peer_of(node).to_string()
}

/// The error for a name on the command line that cannot be looked up.
pub(crate) fn name_failed(name: &exonet::naming::Name, error: &exonet::error::NamingError) -> Failure {
    names::failed("look up", name, error)
}

/// Runs the command of the command line.
pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    let common = &cli.common;
    match cli.command {
        Command::Id(args) => {
            let name = args.name.as_deref().unwrap_or(DEFAULT_IDENTITY);
            let named = args.name.is_some() || common.identity.is_some();
            id::run(&Settings::new(common, Some(name))?, &args, named)
        }
        Command::Peer(args) => peer::run(&Settings::new(common, None)?, &args),
        Command::Listen(args) => listen::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Send(args) => {
            let stored = args.is_stored().then_some(DEFAULT_IDENTITY);
            send::run(&Settings::new(common, stored)?, &args).await
        }
        Command::Group(args) => group::run(&Settings::new(common, None)?, &args).await,
        Command::Up(args) => up::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Down(args) => down::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Outbox(args) => outbox::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Inbox(args) => inbox::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Dead(args) => dead::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Cp(args) if args.code => cp::offer(Settings::new(common, None)?, &args).await,
        Command::Top(args) => top::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Trace(args) => trace::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Cp(args) => cp::run(&Settings::new(common, None)?, &args).await,
        Command::Share(args) => share::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, args).await,
        Command::Get(args) => get::run(&Settings::new(common, None)?, &args).await,
        Command::Call(args) => call::run(&Settings::new(common, None)?, &args).await,
        Command::Serve(args) => serve::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Session(args) => session::run(&Settings::new(common, args.identity())?, &args).await,
        Command::Forward(args) => forward::run(&Settings::new(common, None)?.without_journal(), &args).await,
        Command::Proxy(args) => {
            proxy::run(&Settings::new(common, Some(PROXY_IDENTITY))?.without_journal(), &args).await
        }
        Command::Move(args) => moving::run(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await,
        Command::Checkpoint(args) => {
            checkpoint::checkpoint(&Settings::new(common, Some(DEFAULT_IDENTITY))?, &args).await
        }
        Command::Restore(args) => checkpoint::restore(&Settings::new(common, None)?, &args).await,
        Command::Names(args) => names::run(&Settings::new(common, args.identity())?, &args).await,
        Command::Ping(args) => ping::run(&Settings::new(common, None)?, &args).await,
        Command::Demo(args) => demo::run(&Settings::new(common, None)?.with_datagrams(), &args).await,
        Command::Bench(args) => bench::run(&Settings::new(common, None)?.with_datagrams(), &args).await,
        Command::Conformance(args) => {
            conformance::run(&Settings::new(common, None)?.with_datagrams(), &args).await
        }
        Command::Sim(args) => sim::run(&Settings::new(common, None)?, &args).await,
        Command::Completions(args) => shell::completions(&Settings::new(common, None)?, &args),
        Command::Man(args) => shell::man(&Settings::new(common, None)?, &args),
        Command::Service(args) => service::run(&Settings::new(common, None)?, &args),
        Command::DemoReceiver(args) => {
            crate::demo::receive(common.state.as_deref(), args.size, args.journal).await
        }
        Command::DemoSender(args) => crate::demo::send(common.state.as_deref(), &args).await,
        // This runs before the runtime starts: see `main`.
        Command::ServeReaper => Ok(Exit::Success),
        #[cfg(unix)]
        Command::TunnelKeeper(args) => crate::tunnel::keep::run(&args.socket).await,
        #[cfg(not(unix))]
        Command::TunnelKeeper(_) => Err(Failure::new("this system keeps no connections of tunnels")),
        Command::BenchCrowd(args) => crate::bench::crowd(args.size),
    }
}
