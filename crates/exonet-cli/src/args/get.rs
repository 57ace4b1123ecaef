//! `exon get`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::error::ErrorKind;

use crate::code::{self, Code};
use crate::copy::Hex32;
use crate::peers::{Named, parse_named};
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  A file that three nodes share, from all of them at once:
      exon get --from A@HOST:PORT --from B@HOST:PORT --from C@HOST:PORT film.mkv

  What there is (A is a name here, see `exon peer`):
      exon get --from A --list

  To another place, and only the content of a hash that you know (as b3sum prints it):
      exon get --from A --from B films/one.mkv --out /tmp/film.mkv --root HASH

  What `exon cp --code` offers on another machine, here or in another directory:
      exon get 7-lucky-otter
      exon get 7-lucky-otter --out photos

  As a node that the others --allow:
      exon id me --new
      exon get --as me --from A --from B film.mkv

Each node is asked for the pieces that its path has room for, so that the fast ones bring more. What
one does not bring is asked of another, and one that is silent is tried again. Every piece is
checked against the BLAKE3 hash of the whole file: a node that brings something else is named, and
asked no more. Nodes that say the name stands for different files end the command, unless --root
says which.

What has come is in NAME.part and NAME.part.map until the file is complete. The same command goes on
from there, after an interrupt, a crash or a power cut, with the same nodes or with others.

A code needs no --from: a number and two words, in capital or small letters, with hyphens or blanks;
the beginning of a word is enough where only one begins so. The other machine is found on the local
network, or by a name server that both have (--names, EXON_NAMES).

EXIT CODES
    0  the file is complete, and on the disk
    1  an error, told on standard error; what has come is kept
  130  interrupted; what has come is kept";

const USAGE: &str = "exon get [OPTIONS] --from <PEER>... <NAME>\n       exon get [OPTIONS] <CODE>";

/// Fetch a file from several nodes at once that share it, or what a code stands for
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
pub(crate) struct GetArgs {
    /// A node that shares the file: a name (see `exon peer`), or ID@HOST:PORT; given once for each
    #[arg(long = "from", value_name = "PEER", value_parser = parse_named)]
    pub(crate) servers: Vec<Named>,
    /// The name of the file, as --list shows it; or without --from a code, as `exon cp --code` prints it
    #[arg(value_name = "NAME|CODE", required_unless_present = "list")]
    pub(crate) name: Option<String>,
    /// Show the names and sizes of the files that are shared
    #[arg(long, conflicts_with_all = ["name", "out", "root", "force"])]
    pub(crate) list: bool,
    /// Where to put it: a file, or a directory that is there; of a code, the directory, which is made if need be
    /// [default: the last part of NAME, here]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Take only the content of this BLAKE3 hash, 64 hexadecimal digits
    #[arg(long, value_name = "HASH", value_parser = parse_hash)]
    pub(crate) root: Option<Hex32>,
    /// Replace a file of this name, and what is there of another version
    #[arg(long)]
    pub(crate) force: bool,
    /// Take files of a code whose names begin with a dot
    #[arg(long, conflicts_with_all = ["servers", "list"])]
    pub(crate) hidden: bool,
    /// Leave the local network alone: the name server alone leads to the offer of a code
    #[arg(long, conflicts_with_all = ["servers", "list"])]
    pub(crate) no_local: bool,
    /// Give up when no node has answered for this long
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "30s")]
    pub(crate) patience: Duration,
}

impl GetArgs {
    /// The code, if one is given in place of nodes and a name.
    ///
    /// # Errors
    /// As the parser of the command line would say it.
    pub(crate) fn code(&self) -> Result<Option<Code>, clap::Error> {
        let error = |kind, text: String| {
            let command = clap::Command::new("get").bin_name("exon get");
            Err(Self::augment_args(command).error(kind, text))
        };
        let name = match (self.servers.is_empty(), &self.name) {
            (false, _) => return Ok(None),
            (true, Some(name)) if code::looks_like(name) => name,
            (true, Some(name)) => {
                let what = format!(
                    "{name:?} is no code, as in 7-lucky-otter, and a file is fetched from nodes that are named: --from PEER"
                );
                return error(ErrorKind::MissingRequiredArgument, what);
            }
            (true, None) => {
                return error(
                    ErrorKind::MissingRequiredArgument,
                    "--list needs a node: --from PEER".to_owned(),
                );
            }
        };
        if self.root.is_some() {
            let what = "--root is of a file that nodes share; a code proves by itself what comes".to_owned();
            return error(ErrorKind::ArgumentConflict, what);
        }
        match name.parse() {
            Ok(code) => Ok(Some(code)),
            Err(why) => error(ErrorKind::ValueValidation, format!("invalid code {name:?}: {why}")),
        }
    }
}

fn parse_hash(text: &str) -> Result<Hex32, String> {
    let hash = blake3::Hash::from_hex(text).map(|hash| Hex32(hash.into()));
    hash.map_err(|_| "a BLAKE3 hash has 64 hexadecimal digits, as `b3sum` prints them".to_owned())
}
