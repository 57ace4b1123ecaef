//! `exon listen`.

use std::path::PathBuf;

use clap::Args;
use exonet::NodeId;

use crate::units::Size;

const AFTER_HELP: &str = "\
EXAMPLES
  Take messages from anyone and print them:
      exon listen

  Take files and messages from two nodes only, into a directory:
      exon listen --out inbox --allow ID --allow ID

  Wait for one message on any free port, for a script:
      exon listen --bind 127.0.0.1:0 --exit-after 1 --json

A message is taken when it has been printed, or is on the disk: only then does its sender hear
`delivered`. Files keep the name that the sender gave. A name that is taken already is refused,
unless the file there has the very same content; so are names that are paths, hidden or
reserved. Messages are stored under their id.";

/// Take messages and files, as the stored identity `default` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ListenArgs {
    /// Where to listen; port 0 takes any free one [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// Store what comes in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Take from this node only; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) allow: Vec<NodeId>,
    /// Store no more than this in all
    #[arg(long, value_name = "BYTES", default_value = "10GiB")]
    pub(crate) max_store: Size,
    /// Replace a file of the same name instead of refusing the new one
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
    /// Print messages as they are, each with a line feed after it
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub(crate) raw: bool,
    /// Stop after this many messages and files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) exit_after: Option<u64>,
}
