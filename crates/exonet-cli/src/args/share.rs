//! `exon share`.

use std::path::PathBuf;

use clap::Args;
use exonet::NodeId;

use super::MetricsArgs;
use crate::peers::parse_id;
use crate::units::Size;

const AFTER_HELP: &str = "\
EXAMPLES
  Let two nodes have the files in a directory (`exon id` on their side prints the id):
      exon share films --allow ID --allow ID

  Let anyone have them who knows the address that this prints:
      exon share films --anyone

  At another port, and with no more than 10 MiB a second:
      exon share films --anyone --bind 0.0.0.0:4000 --rate 10MiB

  Fetch a file from it, and from another node that shares the same file:
      exon get --from ID@HOST:PORT --from ID@HOST:PORT NAME

Files are only read, and only those in the directory and below it. No link is followed, wherever it
leads. Names that begin with a dot are not shared without --hidden, nor what `exon get` has not
finished, nor messages that `exon listen` stores.

A file is read in full when it is asked for first, to know its hash, and again when it has changed.
What is fetched is checked against that hash piece by piece, so no node gets a mixture of two
versions: while a file is changed, those who fetch it are told so.

It runs until it is interrupted.";

/// Let others fetch the files of a directory, as the stored identity `default` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Where to listen; port 0 takes any free one [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// Let this node have files, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id, required_unless_present = "anyone")]
    pub(crate) allow: Vec<NodeId>,
    /// Let any node have files that knows this one's address and id
    #[arg(long, conflicts_with = "allow")]
    pub(crate) anyone: bool,
    /// Do not answer nodes that --allow leaves out. By default each is told that it is refused,
    /// and its command ends; with this it keeps trying, as if no node were here
    #[arg(long, requires = "allow")]
    pub(crate) silent: bool,
    /// Share files and directories whose names begin with a dot too
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Give no more than so many bytes a second, to all together
    #[arg(long, value_name = "BYTES")]
    pub(crate) rate: Option<Size>,
}
