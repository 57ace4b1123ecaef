//! `exon ping`.

use std::time::Duration;

use clap::Args;
use exonet::PeerAddr;

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Is the node there, and how long is the round trip?
      exon ping ID@HOST:PORT

  Twenty pings, five per second:
      exon ping ID@HOST:PORT -n 20 --interval 200ms

A ping is authenticated: an answer proves that the node with this id is there. Exit code 4: no
answer came, or the node says that it does not admit this one.";

/// Measure the round-trip time to a node
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PingArgs {
    /// The node: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// How many pings to send
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    /// How long to wait between two pings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_span)]
    pub(crate) interval: Duration,
    /// How long to wait for each answer
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_span)]
    pub(crate) timeout: Duration,
}
