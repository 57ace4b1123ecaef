//! `exon demo`.

use std::time::Duration;

use clap::Args;

use crate::units::{Size, parse_share, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  The whole show, about a quarter of a minute:
      exon demo

  A worse network, and the same one again:
      exon demo --loss 20% --reorder 30% --seed 7

  Without the crash nothing may stay unknown; for a script:
      exon demo --no-crash --json | tail -n 1

Real sockets on loopback, through a relay that spoils them. The receiver is a process of its own
that keeps nothing but its key and one integer; it is killed (kill -9) and started again in the
middle. Beside it, the same messages go through an equal relay, by resending until acknowledged,
as most programs do.

The last line of --json has: sent, delivered, duplicates, lost, unknown, seconds, msgs_per_s,
records_left, seed. Exit code 1 if anything was lost or came twice.";

/// See it at work over a network that loses, doubles, garbles, moves and dies
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// How many messages
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) messages: u64,
    /// Bytes of each, at least 8
    #[arg(long, value_name = "BYTES", default_value = "100")]
    pub(crate) size: Size,
    /// Share of datagrams lost, each way
    #[arg(long, value_name = "P", default_value = "5%", value_parser = parse_share)]
    pub(crate) loss: f64,
    /// Share of datagrams doubled
    #[arg(long, value_name = "P", default_value = "2%", value_parser = parse_share)]
    pub(crate) dup: f64,
    /// Share of datagrams held back behind later ones
    #[arg(long, value_name = "P", default_value = "5%", value_parser = parse_share)]
    pub(crate) reorder: f64,
    /// Share of datagrams with a flipped bit
    #[arg(long, value_name = "P", default_value = "0.5%", value_parser = parse_share)]
    pub(crate) corrupt: f64,
    /// Delay each way, in milliseconds; jitter comes on top
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub(crate) delay: u64,
    /// How long the network is dead in the middle
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_span)]
    pub(crate) outage: Duration,
    /// Decides every accident of the network; the default is a new one
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Do not kill the receiver
    #[arg(long)]
    pub(crate) no_crash: bool,
}

/// The receiver's process.
#[derive(Args, Debug)]
pub(crate) struct DemoReceiverArgs {
    /// Bytes that every message must have
    #[arg(long)]
    pub(crate) size: usize,
}
