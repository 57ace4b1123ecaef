//! `exon proxy`.

use std::time::Duration;

use clap::{Args, Subcommand};
use exonet::NodeId;
use exonet::naming::Name;

use crate::peers::parse_id;
use crate::tunnel::{Pattern, Place};
use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Let one node reach a database (it runs `exon forward -L 5432:db:5432 ID@HOST:PORT`):
      exon proxy serve --allow ID --allow-to db:5432";

const SERVE_HELP: &str = "\
EXAMPLES
  Let one node reach a database and the web servers of a network:
      exon proxy serve --allow ID --allow-to db:5432 --allow-to '*.internal:443'

  Let nodes reach any port of this machine, and have connections to its port 8080:
      exon proxy serve --allow ID --allow-to '127.0.0.1:*' --allow-listen 0.0.0.0:8080

TARGETS
  Nothing may be reached but what --allow-to names:
    db:5432            this name, wherever it leads
    *.internal:443     names below it
    127.0.0.1:*        this address, any port, whatever name led to it
    10.0.0.0/8:5432    addresses of a network; [fd00::]/8:5432
    *:443              any host

A connection in the tunnel survives loss, silence, suspend and a change of address at either end. It
ends with the process at either end, as the socket does that the process holds; both sides see that
as a reset, and new connections work as soon as the process is back. A near end that was killed and
does not come back is given up after --patience.";

/// Carry TCP connections for `exon forward` of other nodes, to targets that are named here
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

/// Be the far end of tunnels, as the stored identity `proxy` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ProxyServeArgs {
    /// Where to wait for near ends; port 0 takes any free one [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// Let connections go to this; may be given several times
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "allow_listen")]
    pub(crate) allow_to: Vec<Pattern>,
    /// Let a near end have this listened at for -R, *:PORT and ADDR:* included; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) allow_listen: Vec<Place>,
    /// Let this node use it, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id, required_unless_present = "anyone")]
    pub(crate) allow: Vec<NodeId>,
    /// Let any node use it that knows this one's address and id
    #[arg(long, conflicts_with = "allow")]
    pub(crate) anyone: bool,
    /// Be found by this name, where --names says; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) called: Vec<Name>,
    /// Do not answer nodes that --allow leaves out. By default each is told that it is refused,
    /// and its command ends; with this it keeps trying, as if no node were here
    #[arg(long, requires = "allow")]
    pub(crate) silent: bool,
    /// Connections of one node at once; more are refused
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) per_peer: u16,
    /// Connections of all nodes at once; more are refused
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_connections: u16,
    /// How long a connection to a target may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span)]
    pub(crate) connect_timeout: Duration,
    /// End a connection through which nothing has gone for this long [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) idle: Option<Duration>,
    /// Give up a near end that has been silent for this long, and its connections
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span)]
    pub(crate) patience: Duration,
    /// Read so much ahead of the other end, for each connection
    #[arg(long, value_name = "BYTES", default_value = "2MiB")]
    pub(crate) window: Size,
}
