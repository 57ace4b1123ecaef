//! `exon checkpoint` and `exon restore`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use exonet::NodeId;

use crate::peers::parse_id;
use crate::units::parse_span;

const CHECKPOINT_HELP: &str = "\
EXAMPLES
  On the new machine: print the id of an identity there; the file is encrypted for it
      exon id

  On the old machine: stop the service `calc`, and put its identity into one file
      exon checkpoint --as calc --to ID calc.exonet

  On the new machine, with the file: restore the identity, and serve as it
      exon restore calc.exonet --as calc
      exon serve --as calc --name calc --method sort --exec sort

The file has the key of the identity, and everything that is under way: messages that are not sent
or not taken, streams, sessions and dead letters. It is encrypted for the node ID: only that node
can open it. The process that runs the identity finishes running calls, stops, writes the file and
ends. If it cannot write the file, it goes on, and nothing has changed.

When the file is complete, only the file has the identity: it does not start here again. If the
command is interrupted after it has ceded the identity, repeat it: it finishes the file. If the
file is lost before it is restored: exon move --take-back. The machines need not reach each other.
If they do, `exon move` is faster, and callers wait for less time.";

/// Stop a service and put its identity, with everything that is under way, into one file for another machine
#[derive(Args, Debug)]
#[command(after_help = CHECKPOINT_HELP)]
pub(crate) struct CheckpointArgs {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The id or the name of the node that will restore the file: an identity of the other machine
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) to: NodeId,
    /// How long to wait for the process that runs the identity to end, if it cannot be asked to stop
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) drain: Duration,
}

const RESTORE_HELP: &str = "\
EXAMPLES
  Restore the identity in a file of `exon checkpoint`, as `calc`, and serve as it
      exon restore calc.exonet --as calc
      exon serve --as calc --name calc --method sort --exec sort

  The same, if the file is encrypted for the identity `store` of this machine
      exon restore calc.exonet --as calc --key store

A file can be restored only once. This machine notes which files it has restored, and refuses the
same file and older ones. If a name service is given (--names), the command first claims the
identity there, and fails if the identity already lives elsewhere. If the file was restored before,
the error says so. After any other error, the identity does not live here, and the file can be used
again. If the name service did not answer, repeat the same command on this machine.";

/// Restore an identity here from a file of `exon checkpoint`
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
