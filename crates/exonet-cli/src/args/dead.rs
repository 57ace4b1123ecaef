//! `exon dead`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  What was rejected here, by a command of `exon listen --exec` or by an application?
      exon dead ls

  The same of another identity, and the body of one letter of it:
      exon dead ls --as till
      exon dead show 1 --as till

  Once more, by a command as `exon listen --exec` has it, or on standard output:
      exon dead retry 1 --as till
      exon dead retry --all --as till --exec ./pay.sh

  None of it is wanted:
      exon dead drop --all --as till

The identity is `default` unless --as names another; a node may run it or not. A letter is chosen by
its number in `exon dead ls`, where the oldest is 1 (numbers move up when a letter goes), or by its
id, which --json and -v show.

A letter goes when it has been processed: when the command has ended with exit code 0, or when it
has been printed. Otherwise it stays as it was. Its sender has had its outcome, and hears nothing
more. Without --exec, `exon listen --exec` is asked to try it again with its command if it runs the
identity; if not, the letter is printed. Of two that retry one letter at once, one has it, and the
other says `busy`. Exit code 4: some letter that was retried is still there.";

/// Show what a stored identity has rejected, try it again, or throw it away
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    pub(crate) command: DeadCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Show all dead letters, the oldest first
    #[command(after_help = "EXAMPLES\n  exon dead ls --json", visible_alias = "list")]
    Ls,
    /// Print the body of one, as it is
    #[command(after_help = "EXAMPLES\n  exon dead show 1")]
    Show {
        /// Its number, as `exon dead ls` has it, or its id
        #[arg(value_name = "N")]
        which: String,
    },
    /// Hand one of them, or all, to a command once more, or print it
    #[command(after_help = "EXAMPLES\n  exon dead retry 1\n  exon dead retry --all --exec ./pay.sh

Without --exec a letter goes to the command of `exon listen --exec`, if that runs the identity. Else
it is printed here, and goes then.")]
    Retry(RetryArgs),
    /// Remove one of them, or all
    #[command(after_help = "EXAMPLES\n  exon dead drop 1\n  exon dead drop --all")]
    Drop {
        /// Its number, as `exon dead ls` has it, or its id
        #[arg(value_name = "N", required_unless_present = "all")]
        which: Option<String>,
        /// All of them
        #[arg(long, conflicts_with = "which")]
        all: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RetryArgs {
    /// Its number, as `exon dead ls` has it, or its id
    #[arg(value_name = "N", required_unless_present = "all")]
    pub(crate) which: Option<String>,
    /// All of them, one after the other
    #[arg(long, conflicts_with = "which")]
    pub(crate) all: bool,
    /// Run this command for each, as `exon listen --exec` does; it takes the rest of the line
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) exec: Vec<OsString>,
    /// End a command that runs for longer
    #[arg(long, value_name = "TIME", requires = "exec", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}
