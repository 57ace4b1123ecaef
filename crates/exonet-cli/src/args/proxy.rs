//! `exon proxy`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};
use exonet::NodeId;
use exonet::naming::Name;

use super::parse_address;
use crate::peers::parse_id;
use crate::tunnel::{Pattern, Place};
use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Allow one node to reach a database (it runs `exon forward -L 5432:db:5432 ID@HOST:PORT`):
      exon proxy serve --allow ID --allow-to db:5432";

const SERVE_HELP: &str = "\
EXAMPLES
  Allow one node to reach a database and the web servers of a network:
      exon proxy serve --allow ID --allow-to db:5432 --allow-to '*.internal:443'

  Allow a node to reach any port of this machine, and to listen at its port 8080:
      exon proxy serve --allow ID --allow-to '127.0.0.1:*' --allow-listen 0.0.0.0:8080

TARGETS
  Only the targets of --allow-to can be reached:
    db:5432            this name, whatever its address
    *.internal:443     all names that end in .internal
    127.0.0.1:*        this address, any port, also if a name leads to it
    10.0.0.0/8:5432    addresses of a network; [fd00::]/8:5432
    *:443              any host

A connection in the tunnel survives loss, silence, suspend and a change of address at either end.
It also survives a restart of this command, because a process beside it keeps the sockets: it
waits for the next run as long as --keep says. Ctrl-C ends all connections; SIGTERM, SIGHUP and
kill -9 leave them to the next run, which ends those that it no longer allows. A systemd unit
needs KillMode=process. A near end that was killed and does not come back is given up after
--patience.";

/// Carry TCP connections of other nodes that run `exon forward`, to targets that are named here
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProxyArgs {
    #[command(subcommand)]
    pub(crate) command: ProxyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    Serve(ProxyServeArgs),
}

/// Be the far end of tunnels, as the stored identity `proxy` unless --as names another
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ProxyServeArgs {
    /// The address at which to wait for near ends; port 0 takes any free port [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) bind: Option<SocketAddr>,
    /// Allow connections to this target; may be given several times
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "allow_listen")]
    pub(crate) allow_to: Vec<Pattern>,
    /// Allow a near end to listen here with -R; *:PORT and ADDR:* are possible; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) allow_listen: Vec<Place>,
    /// Allow this node to use the proxy, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id, required_unless_present = "anyone")]
    pub(crate) allow: Vec<NodeId>,
    /// Allow any node that knows the address and id of this one
    #[arg(long, conflicts_with = "allow")]
    pub(crate) anyone: bool,
    /// Let others find this node by this name, in the service of --names; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) called: Vec<Name>,
    /// Do not answer nodes that --allow leaves out. By default the node tells each that it is refused, and the
    /// command there ends; with this, that command keeps trying, as if no node were here
    #[arg(long, requires = "allow")]
    pub(crate) silent: bool,
    /// How many connections one node may have at once; the proxy refuses more
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) per_peer: u16,
    /// How many connections all nodes together may have at once; the proxy refuses more
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_connections: u16,
    /// How long it may take to connect to a target
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span)]
    pub(crate) connect_timeout: Duration,
    /// End a connection that has carried nothing for this long [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) idle: Option<Duration>,
    /// How long connections wait for this command to come back if it is killed or restarted, and for the other node to
    /// continue them; 0 ends them with the command at either end
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_span)]
    pub(crate) keep: Duration,
    /// Give up a near end, and its connections, if it has been silent for this long
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span)]
    pub(crate) patience: Duration,
    /// How many bytes to read ahead of the other end, for each connection
    #[arg(long, value_name = "BYTES", default_value = "2MiB")]
    pub(crate) window: Size,
}
