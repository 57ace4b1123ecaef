//! The syntax of the command line.

mod bench;
mod call;
mod checkpoint;
mod conformance;
mod cp;
mod dead;
mod demo;
mod exec;
mod forward;
mod gateway;
mod get;
mod group;
mod id;
mod inbox;
mod listen;
mod metrics;
mod moving;
mod names;
mod outbox;
mod peer;
mod ping;
mod proxy;
mod send;
mod serve;
mod session;
mod share;
mod shell;
mod sim;
mod top;
mod trace;
mod up;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
use exonet::carrier::Proxy;
use exonet::{Carrier, Durability};

use crate::peers::Names;

pub(crate) use bench::{BenchArgs, BenchCommand, CallsArgs, ClientArgs, CrowdArgs, Mode, ServerArgs};
pub(crate) use call::CallArgs;
pub(crate) use checkpoint::{CheckpointArgs, RestoreArgs};
pub(crate) use conformance::ConformanceArgs;
pub(crate) use cp::CpArgs;
pub(crate) use dead::{DeadArgs, DeadCommand, RetryArgs};
pub(crate) use demo::{DemoArgs, DemoReceiverArgs, DemoSenderArgs};
pub(crate) use forward::{ForwardArgs, KeeperArgs};
pub(crate) use gateway::GatewayArgs;
pub(crate) use get::GetArgs;
pub(crate) use group::{GroupArgs, GroupCommand, GroupSendArgs, WhenFull};
pub(crate) use id::IdArgs;
pub(crate) use inbox::{InboxArgs, InboxCommand};
pub(crate) use listen::ListenArgs;
pub(crate) use metrics::MetricsArgs;
pub(crate) use moving::MoveArgs;
pub(crate) use names::{NamesArgs, NamesCommand, NamesServeArgs};
pub(crate) use outbox::{OutboxArgs, OutboxCommand};
pub(crate) use peer::{PeerArgs, PeerCommand};
pub(crate) use ping::PingArgs;
pub(crate) use proxy::{ProxyArgs, ProxyCommand, ProxyServeArgs};
pub(crate) use send::{Confirmed, SendArgs, Urgency};
pub(crate) use serve::ServeArgs;
pub(crate) use session::{SessionArgs, SessionCommand, SessionOpenArgs};
pub(crate) use share::ShareArgs;
pub(crate) use shell::{CompletionsArgs, ManArgs, ServiceArgs};
pub(crate) use sim::{Profiles, SimArgs};
pub(crate) use top::TopArgs;
pub(crate) use trace::TraceArgs;
pub(crate) use up::{DownArgs, UpArgs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
EXAMPLES
  See what it does over a network that loses, duplicates, corrupts and fails:
      exon demo

  Two machines: the first command prints the address for the second one.
      exon listen
      exon send ID@HOST:PORT 'hello'

  A program that answers each call once, and a call of it:
      exon serve --method sort --exec sort
      exon call ID@HOST:PORT sort - < names

  A file that several nodes share, from all of them at once:
      exon share films --anyone
      exon get --from ID@HOST:PORT --from ID@HOST:PORT film.mkv

  A file to a machine of which you know nothing: the first command prints the code:
      exon cp --code photo.jpg
      exon get 7-lucky-otter

  A database that another node can reach, as if it were here:
      exon proxy serve --allow ID --allow-to db:5432
      exon forward -L 5432:db:5432 ID@HOST:PORT

EXIT CODES
    0  done; every message was delivered, the call has its reply
    1  an error; standard error says which
    2  wrong usage
    3  it is unknown whether some message or call was delivered: once, or not at all
    4  some message or call was certainly not delivered: expired, cancelled or refused
    5  the server answered the call with a failure
    6  some message is kept: it waits in the journal of the stored identity. The next `exon send` of
       the identity continues with it
  130  interrupted

DURABILITY
  A node with a stored identity (--as, --state; `exon listen` and `exon serve` have one by default)
  keeps a journal of what is under way. What survives:
    memory       nothing: what was under way when the process was killed ends unknown
    process      everything if the process ends, also by kill -9; default of a stored identity
    batched=MS   everything even if the power fails: the node waits for the disk, once in MS
                 milliseconds for all messages
    sync         everything even if the power fails: the node waits for the disk, at once

A peer is written ID@HOST:PORT. The id is its public key and decides which node is reached; the
address is a hint. Several addresses may be given: ID@HOST:PORT,HOST:PORT. `exon peer add lab
ID@HOST:PORT` gives the peer a name. A service that moves is written name:NAME; it is looked up in
the service of --names (see `exon names`).";

/// Messages and files between machines, exactly once, encrypted, with no server in between.
#[derive(Debug, Parser)]
#[command(name = "exon", version, styles = STYLES, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Checks what the parser cannot check by itself.
    ///
    /// # Errors
    /// An error in the form of the parser.
    pub(crate) fn check(self) -> Result<Self, clap::Error> {
        match &self.command {
            Command::Cp(args) if !args.code => drop(args.words()?),
            Command::Get(args) => drop(args.code()?),
            Command::Group(GroupArgs { command: GroupCommand::Send(args) }) => group::check(args)?,
            Command::Serve(args) => {
                exec::check(&["serve"], &args.exec)?;
                args.check()?;
            }
            Command::Listen(args) => exec::check(&["listen"], &args.exec)?,
            _ => {}
        }
        self.check_durability()?;
        Ok(self)
    }

    /// Only an identity that is stored can have a journal.
    fn check_durability(&self) -> Result<(), clap::Error> {
        let Some(level) = self.common.durability else { return Ok(()) };
        let why = match (&self.command, level) {
            (Command::Send(args), Durability::Memory) if args.is_stored() => {
                "--durability memory keeps no journal, and --durable and --continue need one"
            }
            (Command::Up(_), Durability::Memory) => {
                "--durability memory keeps no journal, and `exon up` needs one"
            }
            (_, Durability::Memory)
            | (
                Command::Listen(_)
                | Command::Serve(_)
                | Command::Id(_)
                | Command::Outbox(_)
                | Command::Inbox(_)
                | Command::Dead(_)
                | Command::Top(_)
                | Command::Trace(_)
                | Command::Up(_)
                | Command::Down(_)
                | Command::Proxy(_),
                _,
            ) => return Ok(()),
            (Command::Send(args), _) if args.is_stored() => return Ok(()),
            _ if self.common.identity.is_some() || self.common.state.is_some() => return Ok(()),
            _ => {
                "--durability needs a stored identity, since a temporary one has no next life\n\n  \
                 tip: use `--as NAME`; `exon id NAME --new` makes one"
            }
        };
        Err(Self::command().error(ErrorKind::ArgumentConflict, why))
    }
}

/// The options of every command.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Use the stored identity NAME instead of the command's default
    #[arg(long = "as", value_name = "NAME", global = true, help_heading = "Common options")]
    pub(crate) identity: Option<String>,
    /// Keep the identity in this directory
    #[arg(long, value_name = "DIR", global = true, help_heading = "Common options")]
    pub(crate) state: Option<PathBuf>,
    /// What the node keeps if it crashes: memory (nothing that is under way), process (everything if only the process
    /// ends), batched=MS and sync (everything, even if the power fails); see `exon --help`. Needs a stored identity
    #[arg(long, value_name = "LEVEL", global = true, value_parser = parse_durability, help_heading = "Common options")]
    pub(crate) durability: Option<Durability>,
    /// The name service for names such as `name:chat`: ID@HOST:PORT of a name server, file:PATH, etcd:URL or
    /// dns:DOMAIN; see `exon names`
    #[arg(
        long,
        value_name = "WHERE",
        env = "EXON_NAMES",
        hide_env_values = true,
        global = true,
        help_heading = "Common options"
    )]
    pub(crate) names: Option<String>,
    /// How packets travel: udp, tcp (for networks that let nothing else through), or auto (udp, and tcp where udp
    /// does not get through, until it does again). With tcp and auto, a node that waits for others also accepts tcp, at
    /// the port number of udp. Default: auto, without tcp if another program has the tcp port. Default of bench, demo
    /// and conformance: udp
    #[arg(long, value_name = "CARRIER", global = true, value_parser = parse_carrier, help_heading = "Common options")]
    pub(crate) carrier: Option<Carrier>,
    /// Open tcp connections through a proxy: http://HOST:PORT or socks5://HOST:PORT, with NAME:PASSWORD@ before HOST
    /// if the proxy requires it. With socks5h:// the proxy also looks up the names of peers. Without --carrier, this
    /// implies tcp
    #[arg(
        long,
        value_name = "URL",
        env = "EXON_PROXY",
        hide_env_values = true,
        global = true,
        help_heading = "Common options"
    )]
    pub(crate) proxy: Option<Proxy>,
    /// Open tcp connections with TLS, for networks that let nothing else out; NAME is the server name (SNI). A node
    /// that waits for others accepts connections with and without TLS. Without --carrier, this implies tcp
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        global = true,
        help_heading = "Common options"
    )]
    pub(crate) tls: Option<String>,
    /// Print one JSON object per line; a command that works through several things ends with a summary
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// Report more: the outcome of each message, peers that connect, move and go; -vv, -vvv: what the node does
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Common options")]
    pub(crate) verbose: u8,
    /// The opened name service of `names`.
    #[arg(skip)]
    pub(crate) naming: Option<Names>,
    /// Print only errors and data
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Common options")]
    pub(crate) quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Id(IdArgs),
    Peer(PeerArgs),
    Listen(ListenArgs),
    Send(SendArgs),
    Group(GroupArgs),
    Up(UpArgs),
    Down(DownArgs),
    Outbox(OutboxArgs),
    Inbox(InboxArgs),
    Dead(DeadArgs),
    Top(TopArgs),
    Trace(TraceArgs),
    Cp(CpArgs),
    Share(ShareArgs),
    Get(GetArgs),
    Call(CallArgs),
    Serve(ServeArgs),
    Session(SessionArgs),
    Forward(ForwardArgs),
    Proxy(ProxyArgs),
    Names(NamesArgs),
    Move(MoveArgs),
    Checkpoint(CheckpointArgs),
    Restore(RestoreArgs),
    Ping(PingArgs),
    Demo(DemoArgs),
    Bench(BenchArgs),
    Sim(SimArgs),
    Conformance(ConformanceArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Service(ServiceArgs),
    #[command(hide = true)]
    DemoReceiver(DemoReceiverArgs),
    #[command(hide = true)]
    DemoSender(DemoSenderArgs),
    #[command(hide = true)]
    ServeReaper,
    #[command(hide = true)]
    TunnelKeeper(KeeperArgs),
    #[command(hide = true)]
    BenchCrowd(CrowdArgs),
}

/// An address of this machine, with a port.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an address and a port, such as 127.0.0.1:9366 or [::1]:9366; port 0 takes any free port, and names such as \
         localhost are not looked up"
            .to_owned()
    })
}

/// `memory`, `process`, `batched=MS` or `sync`.
fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "memory" => Ok(Durability::Memory),
        "process" => Ok(Durability::Process),
        "sync" => Ok(Durability::Sync),
        _ => {
            let ms = text.strip_prefix("batched=").and_then(|ms| ms.trim_end_matches("ms").parse().ok());
            let ms = ms.filter(|ms| (1..=60_000).contains(ms)).map(Duration::from_millis);
            ms.map(Durability::Batched).ok_or_else(|| {
                "write memory, process, sync, or batched=MS with 1 to 60000 milliseconds".to_owned()
            })
        }
    }
}

/// `udp`, `tcp` or `auto`.
fn parse_carrier(text: &str) -> Result<Carrier, String> {
    match text {
        "udp" => Ok(Carrier::Udp),
        "tcp" => Ok(Carrier::Tcp),
        "auto" => Ok(Carrier::Auto),
        _ => Err("write udp, tcp or auto".to_owned()),
    }
}

/// The durability as it is written on the command line.
pub(crate) fn durability_name(level: Durability) -> String {
    match level {
        Durability::Memory => "memory".to_owned(),
        Durability::Batched(interval) => format!("batched={}", interval.as_millis()),
        Durability::Sync => "sync".to_owned(),
        // The command line accepts no other.
        _ => "process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_durability() {
        assert_eq!(parse_durability("memory"), Ok(Durability::Memory));
        assert_eq!(parse_durability("process"), Ok(Durability::Process));
        assert_eq!(parse_durability("sync"), Ok(Durability::Sync));
        assert_eq!(parse_durability("batched=5"), Ok(Durability::Batched(Duration::from_millis(5))));
        for text in ["memory", "process", "batched=5", "sync"] {
            assert_eq!(parse_durability(text).map(durability_name).as_deref(), Ok(text));
        }
        for wrong in ["", "batched", "batched=", "batched=0", "batched=1.5", "batched=60001", "disk"] {
            assert!(parse_durability(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_explained() {
        assert_eq!(parse_address("[::1]:0").ok(), Some(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0))));
        for wrong in ["39671", "127.0.0.1", "localhost:9366", ""] {
            assert!(parse_address(wrong).is_err_and(|why| why.contains("127.0.0.1:9366")), "{wrong}");
        }
    }

    #[test]
    fn carriers() {
        assert_eq!(parse_carrier("udp"), Ok(Carrier::Udp));
        assert_eq!(parse_carrier("tcp"), Ok(Carrier::Tcp));
        assert_eq!(parse_carrier("auto"), Ok(Carrier::Auto));
        assert!(parse_carrier("").is_err() && parse_carrier("TCP").is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        let mut exon = Cli::command();
        exon.build();
        for command in exon.get_subcommands_mut().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            let name = command.get_name().to_owned();
            let help = command.render_help().to_string();
            assert!(help.contains("EXAMPLES"), "{name} has no examples");
            let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(own.lines().all(|line| line.len() <= 100), "{name}: the terminal would break a line");
            assert!(help.contains(&format!("exon {name}")), "{name} is not in its examples");
        }
    }
}
