//! `exon forward`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use exonet::PeerAddr;

use crate::peers::parse_peer;
use crate::tunnel::{Bind, Spec, Target};
use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  A database near another node, as if it were here (there: `exon proxy serve --allow-to db:5432`):
      exon forward -L 5432:db:5432 ID@HOST:PORT
      psql -h 127.0.0.1

  Everything that the other node allows, through a SOCKS5 server here; names are looked up there:
      exon forward -D 1080 ID@HOST:PORT
      curl -x socks5h://127.0.0.1:1080 https://wiki.internal/

  A web server here, at a port of the other node (there: --allow-listen 127.0.0.1:8080):
      exon forward -R 8080:127.0.0.1:80 ID@HOST:PORT

  ssh through the tunnel; it survives a change of the network and suspend:
      ssh -o ProxyCommand='exon forward --stdio %h:%p ID@HOST:PORT' host

A connection in the tunnel survives loss, silence, suspend, a change of address at either end and
a restart of `exon proxy serve`. With --as it also survives a restart of this command, because a
process beside it keeps the sockets: it waits for the next run as long as --keep says. Ctrl-C ends
all connections; SIGTERM, SIGHUP and kill -9 leave them to the next run. While the other node is
away, this command keeps running: open connections wait for it, new ones wait for --timeout, and
all continue as soon as it is back.

EXIT CODES
    0  with --stdio: both sides have sent everything
    1  an error, or with --stdio: the connection broke
    4  the other node does not admit this one, or does not allow the target of --stdio or -R
  130  interrupted";

/// Carry TCP connections through another node, which runs `exon proxy serve`
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["local", "remote", "socks", "stdio"])))]
pub(crate) struct ForwardArgs {
    /// Listen here, and connect to HOST:PORT from the other node; may be given several times. BIND is an address of
    /// this machine, or * for all; without it, only this machine can connect. Port 0 takes any free port
    #[arg(short = 'L', long = "local", value_name = "[BIND:]PORT:HOST:PORT")]
    pub(crate) local: Vec<Spec>,
    /// Listen at the other node, and connect to HOST:PORT from here; may be given several times
    #[arg(short = 'R', long = "remote", value_name = "[BIND:]PORT:HOST:PORT")]
    pub(crate) remote: Vec<Spec>,
    /// Run a SOCKS5 server here, and connect from the other node; may be given several times
    #[arg(short = 'D', long = "socks", value_name = "[BIND:]PORT")]
    pub(crate) socks: Vec<Bind>,
    /// Join standard input and output to a connection from the other node to HOST:PORT, as a ProxyCommand of ssh
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["local", "remote", "socks", "json"])]
    pub(crate) stdio: Option<Target>,
    /// The other node: a name (see `exon peer`), ID@HOST:PORT, or name:NAME
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// How long it may take to make a connection, including the time in which the other node is away
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) timeout: Duration,
    /// End a connection that has carried nothing for this long [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) idle: Option<Duration>,
    /// How long connections wait for this command to come back if it is killed or restarted, and for the other node to
    /// continue them. They outlive this command only with --as; 0 ends them with the command at either end
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_span)]
    pub(crate) keep: Duration,
    /// How many connections may be open at once; more wait until one has ended
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_connections: u16,
    /// How many bytes to read ahead of the other end, for each connection
    #[arg(long, value_name = "BYTES", default_value = "2MiB")]
    pub(crate) window: Size,
}

/// Hold the TCP connections of a tunnel while its command is restarted. `exon forward --as` and `exon proxy serve` start
/// this process, and it ends by itself when no connection is left
#[derive(Args, Debug)]
pub(crate) struct KeeperArgs {
    /// The socket at which the command reaches it
    #[arg(value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
}
