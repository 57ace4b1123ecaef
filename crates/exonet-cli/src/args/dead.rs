//! `exon dead`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Which messages has a command of `exon listen --exec`, or an application, rejected here?
      exon dead ls

  The same of another identity, and the body of one letter of it:
      exon dead ls --as till
      exon dead show 1 --as till

  Retry letters with a command, as `exon listen --exec` does, or print one:
      exon dead retry 1 --as till
      exon dead retry --all --as till --exec ./pay.sh

  Delete all of them:
      exon dead drop --all --as till

The identity is `default` unless --as names another; a node may run it or not. You choose a letter
by its number in `exon dead ls`, where the oldest is 1 (the numbers change when a letter is
deleted), or by its id, which --json and -v show.

A letter is deleted when it has been processed: when the command has ended with exit code 0, or when
the letter has been printed. Otherwise it stays as it was. Its sender has its outcome already, and
learns nothing more. Without --exec, if `exon listen --exec` runs the identity, it retries the
letter with its own command; otherwise the letter is printed. If two commands retry one letter at
the same time, one gets it, and the other prints `busy`. Exit code 4: some letter that was retried
still exists.";

/// Show what a stored identity has rejected, retry it, or delete it
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
    /// Print the body of a dead letter as it is
    #[command(after_help = "EXAMPLES\n  exon dead show 1")]
    Show {
        /// Its number in `exon dead ls`, or its id
        #[arg(value_name = "N")]
        which: String,
    },
    /// Pass one dead letter, or all, to a command again, or print it
    #[command(after_help = "EXAMPLES\n  exon dead retry 1\n  exon dead retry --all --exec ./pay.sh

Without --exec, if `exon listen --exec` runs the identity, the letter goes to its command. Otherwise
it is printed here, and then deleted.")]
    Retry(RetryArgs),
    /// Delete one dead letter, or all
    #[command(
        after_help = "EXAMPLES\n  exon dead drop 1\n  exon dead drop --all",
        group = ArgGroup::new("these").args(["which", "all"]).required(true)
    )]
    Drop {
        /// Its number in `exon dead ls`, or its id
        #[arg(value_name = "N")]
        which: Option<String>,
        /// All dead letters
        #[arg(long)]
        all: bool,
    },
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(group = ArgGroup::new("those").args(["which", "all"]).required(true))]
pub(crate) struct RetryArgs {
    /// Its number in `exon dead ls`, or its id
    #[arg(value_name = "N")]
    pub(crate) which: Option<String>,
    /// All dead letters, one after the other
    #[arg(long)]
    pub(crate) all: bool,
    /// Run this command for each, as `exon listen --exec` does. All arguments after it belong to the command
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) exec: Vec<OsString>,
    /// End a command that runs for longer than this
    #[arg(long, value_name = "TIME", requires = "exec", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}
