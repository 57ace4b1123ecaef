//! `exon bench`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Everything, in a quarter of a minute:
      exon bench

  One size of message, measured for longer:
      exon bench --size 4KiB --seconds 20

  The memory of a hundred thousand peers:
      exon bench --seconds 1 --peers 100000

  Calls:
      exon bench calls

Two nodes in this process over loopback sockets, encrypted as always. For the memory, one node
meets many fresh ones of another process, with datagrams over a pipe and a clock that is moved
by hand, so that idle times pass at once; what these peers need themselves is not counted.";

/// Measure this machine: messages a second, round trips, memory per peer; calls
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) measure: Option<Measure>,
    /// Only messages of this size; the default is 1,024 and 64 bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<Size>,
    /// How long to measure each
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_span)]
    pub(crate) seconds: Duration,
    /// How many peers to meet for the memory; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(crate) peers: u32,
}

/// What else can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Measure {
    Calls(CallsArgs),
}

const CALLS_AFTER_HELP: &str = "\
EXAMPLES
  One, ten and a hundred that call without pause:
      exon bench calls

  Every call from a node that was never heard of:
      exon bench calls --first-contact

  For a script:
      exon bench calls --actors 4 --seconds 10 --size 1KiB --json -q

Two nodes in this process over loopback sockets; the server echoes. With --first-contact every call
has a fresh key and a fresh socket, and its latency counts from the call to the reply, handshake
included; the rate and the time of the processor count the making and closing of the node too.";

/// Measure calls: how many a second, and how long each takes
#[derive(Args, Debug)]
#[command(after_help = CALLS_AFTER_HELP)]
pub(crate) struct CallsArgs {
    /// How many call at once; may be given several times [default: 1, 10 and 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) actors: Vec<u32>,
    /// Bytes of each body and of each reply
    #[arg(long, value_name = "BYTES", default_value = "64")]
    pub(crate) size: Size,
    /// How long to measure each
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_span)]
    pub(crate) seconds: Duration,
    /// Every call from a new identity
    #[arg(long)]
    pub(crate) first_contact: bool,
}

/// The process of the many peers.
#[derive(Args, Debug)]
pub(crate) struct CrowdArgs {
    /// Bytes of the message that each sends
    #[arg(long)]
    pub(crate) size: usize,
}
