//! `exon share`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use exonet::NodeId;

use super::{MetricsArgs, parse_address};
use crate::peers::parse_id;
use crate::units::Size;

const AFTER_HELP: &str = "\
EXAMPLES
  Allow two nodes to fetch the files of a directory (`exon id` prints their ids there):
      exon share films --allow ID --allow ID

  Allow anyone who knows the address that this prints:
      exon share films --anyone

  At another port, and with at most 10 MiB per second:
      exon share films --anyone --bind 0.0.0.0:4000 --rate 10MiB

  Fetch a file from it, and from another node that shares the same file:
      exon get --from ID@HOST:PORT --from ID@HOST:PORT NAME

The command only reads files, and only those in the directory and below it. It never follows links.
Without --hidden it does not share names that begin with a dot. It never shares unfinished files of
`exon get`, nor messages that `exon listen` has stored.

The command reads a file in full when it is asked for it the first time, to compute its hash, and
again when the file has changed. It checks each piece against that hash, so no node gets a mixture
of two versions. If a file changes meanwhile, the nodes that fetch it are told so.

The command runs until it is interrupted.";

/// Let others fetch the files of a directory, as the stored identity `default` unless --as names another
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, group = ArgGroup::new("whom").args(["allow", "anyone"]).required(true))]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The address at which to listen; port 0 takes any free port [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) bind: Option<SocketAddr>,
    /// Allow this node to fetch files, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) allow: Vec<NodeId>,
    /// Allow any node that knows the address and id of this one to fetch files
    #[arg(long)]
    pub(crate) anyone: bool,
    /// Do not answer nodes that --allow leaves out. By default the node tells each that it is refused, and the
    /// command there ends; with this, that command keeps trying, as if no node were here
    #[arg(long, requires = "allow")]
    pub(crate) silent: bool,
    /// Also share files and directories whose names begin with a dot
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Send at most this many bytes per second, to all nodes together
    #[arg(long, value_name = "BYTES")]
    pub(crate) rate: Option<Size>,
}
