//! `exon outbox`.

use clap::{Args, Subcommand};

const AFTER_HELP: &str = "\
EXAMPLES
  What has `exon send --durable` still to send?
      exon outbox ls

  The same of another identity, and one message of it:
      exon outbox ls --as sensor-7
      exon outbox show 12 --as sensor-7

  Go on with it; or give it up:
      exon send --as sensor-7 --continue
      exon outbox drop --as sensor-7

The journal of a stored identity is read while no command runs it. Without --as it is that of
`default`. A message that `in doubt` is said of has left, and may have been delivered. One that is
dropped ends as cancelled, certainly not delivered, or as unknown; exit code 3 if one is unknown.";

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
    /// Give all of them up
    #[command(after_help = "EXAMPLES\n  exon outbox drop")]
    Drop,
}
