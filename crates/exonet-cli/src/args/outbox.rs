//! `exon outbox`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  What has `exon send --durable` still to send?
      exon outbox ls

  The same of another identity, and one message of it:
      exon outbox ls --as sensor-7
      exon outbox show 12 --as sensor-7

  Go on with it, or look for its peers again; or give a message up, or all of them:
      exon outbox retry --as sensor-7
      exon outbox drop 12 --as sensor-7
      exon outbox drop --as sensor-7

The identity is `default` unless --as names another. If a command runs it (listen, serve, send, up),
that is asked; if none does, its journal is read. A message that `in doubt` is said of has left, and
may have been delivered. One that is dropped ends as cancelled, certainly not delivered, or as
unknown; exit code 3 if one is unknown.";

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
    /// Print the body of one message, as it is
    #[command(after_help = "EXAMPLES\n  exon outbox show 12")]
    Show {
        /// Its number, as `exon outbox ls` has it
        #[arg(value_name = "N")]
        number: u64,
    },
    /// Go on with all of them, or one; of a node that runs, look for their peers at once
    #[command(after_help = "EXAMPLES\n  exon outbox retry 12 --timeout 30s")]
    Retry {
        /// Wait for this one only, by its number; the others go on meanwhile
        #[arg(value_name = "N")]
        number: Option<u64>,
        /// Stop waiting after this long; a node that runs looks for 5 s by default, and for 20 s at most
        #[arg(long, value_name = "TIME", value_parser = parse_span)]
        timeout: Option<Duration>,
    },
    /// Give one of them up, or all
    #[command(after_help = "EXAMPLES\n  exon outbox drop 12\n  exon outbox drop --all")]
    Drop {
        /// This one only, by its number
        #[arg(value_name = "N")]
        number: Option<u64>,
        /// All of them, as without a number
        #[arg(long, conflicts_with = "number")]
        all: bool,
    },
}
