//! `exon cp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use exonet::PeerAddr;

use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  On the receiving machine, then on the sending one:
      exon listen --out inbox
      exon cp photo.jpg notes.pdf ID@HOST:PORT

  In a script:
      exon cp backup.tar ID@HOST:PORT --timeout 10m --json

`stored` means: the receiver has the whole file, its BLAKE3 hash matches, and it is on the disk
under its name. After exit code 3 the same command may be repeated without harm: a file that is
there already, with the same content, is not stored again.";

/// Copy files of any size to a node that listens with --out
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CpArgs {
    /// What to copy
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// To whom
    #[arg(value_name = "PEER", required = true)]
    pub(crate) peer: PeerAddr,
    /// Give up after this long, and say what is open
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}
