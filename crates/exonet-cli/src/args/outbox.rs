//! `exon outbox`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Which messages does `exon send --durable` still have to send?
      exon outbox ls

  The same of another identity, and one message of it:
      exon outbox ls --as sensor-7
      exon outbox show 12 --as sensor-7

  Continue to send, or try the peers again; or give one message up, or all:
      exon outbox retry --as sensor-7
      exon outbox drop 12 --as sensor-7
      exon outbox drop --as sensor-7

The identity is `default` unless --as names another. If a command runs it (listen, serve, send, up),
this command asks that one; otherwise it reads the journal of the identity. A message that is `in
doubt` has left, and may have been delivered. A message that is dropped ends as cancelled, which
means certainly not delivered, or as unknown; the exit code is 3 if one ended as unknown.";

/// Show what a stored identity still has to send, or give it up
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    pub(crate) command: OutboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show all messages without an outcome
    #[command(after_help = "EXAMPLES\n  exon outbox ls --json", visible_alias = "list")]
    Ls,
    /// Print the body of one message as it is
    #[command(after_help = "EXAMPLES\n  exon outbox show 12")]
    Show {
        /// Its number in `exon outbox ls`
        #[arg(value_name = "N")]
        number: u64,
    },
    /// Continue to send all messages, or one. If a node runs, make it try its peers at once
    #[command(after_help = "EXAMPLES\n  exon outbox retry 12 --timeout 30s")]
    Retry {
        /// Wait only for this message, by its number; the others go on meanwhile
        #[arg(value_name = "N")]
        number: Option<u64>,
        /// Stop waiting after this long. For a node that runs: 5 s by default, at most 20 s
        #[arg(long, value_name = "TIME", value_parser = parse_span)]
        timeout: Option<Duration>,
    },
    /// Give one message up, or all
    #[command(after_help = "EXAMPLES\n  exon outbox drop 12\n  exon outbox drop --all")]
    Drop {
        /// Only this message, by its number
        #[arg(value_name = "N")]
        number: Option<u64>,
        /// All messages, which is also the default without a number
        #[arg(long, conflicts_with = "number")]
        all: bool,
    },
}
