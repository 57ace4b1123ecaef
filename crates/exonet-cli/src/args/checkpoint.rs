//! `exon checkpoint` and `exon restore`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use exonet::NodeId;

use crate::peers::parse_id;
use crate::units::parse_span;

const CHECKPOINT_HELP: &str = "\
EXAMPLES
  On the new machine: the id of an identity there, for which the file is to be encrypted
      exon id

  On the old machine: stop the service `calc`, and put its identity into one file
      exon checkpoint --as calc --to ID calc.exonet

  On the new machine, with the file: the identity lives there, and serves
      exon restore calc.exonet --as calc
      exon serve --as calc --name calc --method sort --exec sort

The file has everything that is under way, as with `exon move`: what the identity has not sent or
not taken, its streams, its sessions and its dead letters; and it has the key. It is encrypted for
the node ID, which alone can open it. The process that runs the identity finishes the calls that
run, stops, writes the file and ends. If the file cannot be written, the process goes on, and
nothing has changed.

Once the file is there, the identity lives in it only: it does not start here again. If the
command is interrupted behind that point, the same command finishes the file. If the file is lost
before it was restored: exon move --take-back. The other machine need not be reachable; if it is,
`exon move` is faster, and callers wait for less.";

/// Stop a service and put its identity, with everything that is under way, into one file for another machine
#[derive(Args, Debug)]
#[command(after_help = CHECKPOINT_HELP)]
pub(crate) struct CheckpointArgs {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The node that is to restore the file, as its id or its name: an identity of the other machine
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) to: NodeId,
    /// If the process that runs the identity cannot be asked to stop: wait this long for that process to end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) drain: Duration,
}

const RESTORE_HELP: &str = "\
EXAMPLES
  Restore the identity in a file of `exon checkpoint`, as `calc`, and serve as it
      exon restore calc.exonet --as calc
      exon serve --as calc --name calc --method sort --exec sort

  The file is encrypted for another identity of this machine than `default`
      exon restore calc.exonet --as calc --key store

A file is restored once. This machine remembers what it has restored, and refuses the same file
and older ones. If a name service is given (--names), the command claims the identity there first:
if it lives elsewhere already, the command fails. Whatever fails, the identity does not live here,
and the file can be used again; only if the name service does not answer, the same command has to
be repeated on this machine.";

/// Restore the identity in a file of `exon checkpoint`, here
#[derive(Args, Debug)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct RestoreArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The stored identity for which the file is encrypted
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) key: String,
}
