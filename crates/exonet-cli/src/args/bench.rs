//! `exon bench`.

use std::time::Duration;

use clap::Args;

use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Everything, in a quarter of a minute:
      exon bench

  One size of message, measured for longer:
      exon bench --size 4KiB --seconds 20

  The memory of a hundred thousand peers:
      exon bench --seconds 1 --peers 100000

Two nodes in this process over loopback sockets, encrypted as always. For the memory, one node
meets many fresh ones of another process, with datagrams over a pipe and a clock that is moved
by hand, so that idle times pass at once; what these peers need themselves is not counted.";

/// Measure this machine: messages a second, round trips, memory per peer
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
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

/// The process of the many peers.
#[derive(Args, Debug)]
pub(crate) struct CrowdArgs {
    /// Bytes of the message that each sends
    #[arg(long)]
    pub(crate) size: usize,
}
