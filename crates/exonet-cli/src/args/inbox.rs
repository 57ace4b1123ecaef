//! `exon inbox`.

use clap::{Args, Subcommand};

const AFTER_HELP: &str = "\
EXAMPLES
  What has arrived and is not processed yet, by `exon listen --exec` for example?
      exon inbox ls

  The same of another identity, and the body of one message of it:
      exon inbox ls --as till
      exon inbox show 1 --as till

The identity is `default` unless --as names another. A message is chosen by its number in
`exon inbox ls`, which changes as messages come and go, or by its id, which --json and -v show. A
message is `waiting` until it is asked for, then `handed out` until it is acknowledged, rejected or
put off; one that is put off comes `again in` some time.

If a command runs the identity (listen, serve, send, up), that is asked. If none does, its journal
is read. That has only which messages were handed out more than once, and how often: the rest stays
with their senders, which send them again to the next life of the identity.";

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
    /// Print the body of one, as it is
    #[command(after_help = "EXAMPLES\n  exon inbox show 1")]
    Show {
        /// Its number, as `exon inbox ls` has it, or its id
        #[arg(value_name = "N")]
        which: String,
    },
}
