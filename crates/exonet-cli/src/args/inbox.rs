//! `exon inbox`.

use clap::{Args, Subcommand};

const AFTER_HELP: &str = "\
EXAMPLES
  Which messages have arrived and are not processed yet, for example by `exon listen --exec`?
      exon inbox ls

  The same of another identity, and the body of one message of it:
      exon inbox ls --as till
      exon inbox show 1 --as till

The identity is `default` unless --as names another. You choose a message by its number in `exon
inbox ls`, which changes as messages come and go, or by its id, which --json and -v show. A message
is `waiting` until the application asks for it, then `handed out` until the application
acknowledges, rejects or postpones it; `again in` says when a postponed message is handed out again.

If a command runs the identity (listen, serve, send, up), this command asks it. Otherwise it reads
the journal of the identity. The journal only has which messages were handed out more than once, and
how often. All others stay with their senders, which send them again to the next life of the
identity.";

/// Show what has arrived at a stored identity and is not acknowledged
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    pub(crate) command: InboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Show all messages that are not acknowledged
    #[command(after_help = "EXAMPLES\n  exon inbox ls --json", visible_alias = "list")]
    Ls,
    /// Print the body of one message as it is
    #[command(after_help = "EXAMPLES\n  exon inbox show 1")]
    Show {
        /// Its number in `exon inbox ls`, or its id
        #[arg(value_name = "N")]
        which: String,
    },
}
