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

  Which files A shares (A is a name, see `exon peer`):
      exon get --from A --list

  To another place, and only the content with a hash that you know (as b3sum prints it):
      exon get --from A --from B films/one.mkv --out /tmp/film.mkv --root HASH

  What `exon cp --code` offers on another machine, into this directory or another one:
      exon get 7-lucky-otter
      exon get 7-lucky-otter --out photos

  As a node that the others admit by --allow:
      exon id me --new
      exon get --as me --from A --from B film.mkv

The command asks each node for as many pieces as its path has room for, so a fast node sends more.
If a node does not send a piece, the command asks another, and it tries a silent node again. It
checks every piece against the BLAKE3 hash of the whole file. If a node sends anything else, the
command names the node, and asks it for nothing more. If nodes have different files under the name,
the command ends, unless --root says which one to fetch.

Until the file is complete, what has arrived is in NAME.part and NAME.part.map. After an interrupt,
a crash or a power cut, the same command continues from there, with the same nodes or with others.

A code needs no --from: it is a number and two words, in capital or small letters, with hyphens or
blanks between them. The beginning of a word is enough if only one word begins so. The other machine
is found on the local network, or by a name server that both use (--names, EXON_NAMES).

EXIT CODES
    0  the file is complete, and on the disk
    1  an error; standard error says which; what has arrived is kept
  130  interrupted; what has arrived is kept";

const USAGE: &str = "exon get [OPTIONS] --from <PEER>... <NAME>\n       exon get [OPTIONS] <CODE>";

/// Fetch a file from several nodes that share it, or the files that a code stands for
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
pub(crate) struct GetArgs {
    /// A node that shares the file: a name (see `exon peer`), or ID@HOST:PORT; may be given several times
    #[arg(long = "from", value_name = "PEER", value_parser = parse_named)]
    pub(crate) servers: Vec<Named>,
    /// The name of the file, as --list shows it; or without --from a code, as `exon cp --code` prints it
    #[arg(value_name = "NAME|CODE", required_unless_present = "list")]
    pub(crate) name: Option<String>,
    /// List the shared files with their sizes
    #[arg(long, conflicts_with_all = ["name", "out", "root", "force"])]
    pub(crate) list: bool,
    /// Where to put the file: a file name, or a directory that exists. For a code: a directory, which is created if
    /// it is missing [default: the last part of NAME, here]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Take only the content with this BLAKE3 hash, 64 hexadecimal digits
    #[arg(long, value_name = "HASH", value_parser = parse_hash)]
    pub(crate) root: Option<Hex32>,
    /// Replace a file of this name, and a part of another version
    #[arg(long)]
    pub(crate) force: bool,
    /// With a code: also take files whose names begin with a dot
    #[arg(long, conflicts_with_all = ["servers", "list"])]
    pub(crate) hidden: bool,
    /// Do not use the local network: find the offer of a code only through the name server
    #[arg(long, conflicts_with_all = ["servers", "list"])]
    pub(crate) no_local: bool,
    /// Give up if no node has answered for this long
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "30s")]
    pub(crate) patience: Duration,
}

impl GetArgs {
    /// The code, if the command line has one instead of nodes and a name.
    ///
    /// # Errors
    /// An error in the form of the argument parser.
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
                    "{name:?} is not a code such as 7-lucky-otter; to fetch a file, name the nodes that share it: --from PEER"
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
            let what =
                "--root is only for a file that nodes share; a code proves by itself what arrives".to_owned();
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
