//! `exon peer`.

use clap::{Args, Subcommand};
use exonet::PeerAddr;

use crate::peers::{parse_name, parse_unlisted};

const AFTER_HELP: &str = "\
EXAMPLES
  Give a node a name once, and then use the name:
      exon peer add lab ID@HOST:PORT
      exon send lab 'hello'
      exon listen --allow lab

  The same for a name of a name service:
      exon peer add chat name:chat --names ID@HOST:PORT

  Show all names, and one of them:
      exon peer list
      exon peer show lab

  Remove a name:
      exon peer remove lab

The names are lines NAME ID@HOST:PORT in the file `peers`, in the directory where identities are:
$EXONET_STATE if that is set, else ~/.local/state/exonet. You may edit the file; # begins a comment.
A name has at most 32 characters and an id has 56, so they cannot be confused.";

/// Give peers names, which can be used wherever a peer is expected
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PeerArgs {
    #[command(subcommand)]
    pub(crate) command: PeerCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeerCommand {
    /// Give a peer a name
    #[command(after_help = "EXAMPLES\n  exon peer add lab ID@HOST:PORT")]
    Add {
        /// The name
        #[arg(value_name = "NAME", value_parser = parse_name)]
        name: String,
        /// The peer, as `exon listen` prints it: ID@HOST:PORT; or name:NAME. The command looks the name up now; later
        /// commands with --names look it up again if the peer does not answer
        #[arg(value_name = "PEER", value_parser = parse_unlisted)]
        peer: PeerAddr,
        /// Replace the peer that has this name
        #[arg(long)]
        replace: bool,
    },
    /// Show all names
    #[command(after_help = "EXAMPLES\n  exon peer list --json", visible_alias = "ls")]
    List,
    /// Print the peer of a name, as ID@HOST:PORT
    #[command(after_help = "EXAMPLES\n  exon peer show lab")]
    Show {
        /// The name
        #[arg(value_name = "NAME", value_parser = parse_name)]
        name: String,
    },
    /// Forget a name
    #[command(after_help = "EXAMPLES\n  exon peer remove lab", visible_alias = "rm")]
    Remove {
        /// The name
        #[arg(value_name = "NAME", value_parser = parse_name)]
        name: String,
    },
}
