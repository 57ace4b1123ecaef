//! `exon cp`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::error::ErrorKind;
use exonet::PeerAddr;

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  On the receiving machine, then on the sending one:
      exon listen --out inbox
      exon cp photo.jpg notes.pdf ID@HOST:PORT

  A directory and all that is in it; given again later, only what is new:
      exon cp -r project ID@HOST:PORT

  What a program writes, under a name:
      tar c project | exon cp - --name project.tar ID@HOST:PORT

  To somebody who has no address of this machine: the code that this prints is all that is needed:
      exon cp --code photo.jpg
      exon get 7-lucky-otter

  In a script: repeated, the copy goes on where it was interrupted:
      exon cp backup.tar ID@HOST:PORT --timeout 10m --json

`stored` means: the receiver has the whole file, its BLAKE3 hash matches, and it is on the disk
under its name. A copy that is interrupted, at either end, goes on when the same command is given
again: what is there is not sent twice. While the command runs, it goes on by itself when the
receiver restarts or the network comes back. A file is `there` if one of the same name, size and
time is there (--checksum: of the same content).

Modes and times are kept, owners are not. Links within a directory stay links, and are never
followed; a link that is named itself is. Sockets and devices are not copied; a pipe that is named
is read to its end.

With --code, nobody listens: this command waits until `exon get` brings the code, and copies to that
one. Both have to be on one network, or to have one name server (--names ID@HOST:PORT, EXON_NAMES).
Three wrong codes end the offer.";

/// Copy files and directories to a node that listens with --out
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, override_usage = "exon cp [OPTIONS] <SRC>... <PEER>\n       exon cp --code [OPTIONS] <SRC>...")]
pub(crate) struct CpArgs {
    /// Files and directories to copy (- is standard input), and last the receiver
    // Together, so that options may stand between them.
    #[arg(value_names = ["SRC", "PEER"], required = true, num_args = 1..)]
    words: Vec<PathBuf>,
    /// Print a code, wait for `exon get CODE` on another machine, and copy there; no PEER is given then
    #[arg(long)]
    pub(crate) code: bool,
    /// Leave the local network alone: the name server alone leads the other one here
    #[arg(long, requires = "code")]
    pub(crate) no_local: bool,
    /// Copy directories with everything in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// The name at the receiver, of the only SRC
    #[arg(long, value_name = "NAME", alias = "as-name")]
    pub(crate) name: Option<String>,
    /// Compare the content of files that the receiver has, not their times
    #[arg(long)]
    pub(crate) checksum: bool,
    /// Give up after this long, and name the files that are open
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}

impl CpArgs {
    /// All of the words, where none is the receiver.
    pub(crate) fn sources(&self) -> &[PathBuf] {
        &self.words
    }

    /// The sources, and the receiver.
    ///
    /// # Errors
    /// As the parser of the command line would say it.
    pub(crate) fn words(&self) -> Result<(&[PathBuf], PeerAddr), clap::Error> {
        let error = |kind, text: String| {
            Self::augment_args(clap::Command::new("cp").bin_name("exon cp")).error(kind, text)
        };
        let Some((peer, sources)) = self.words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
            return Err(error(ErrorKind::TooFewValues, "a SRC and a PEER are wanted".to_owned()));
        };
        let word = peer.to_string_lossy();
        match parse_peer(&word) {
            Ok(peer) => Ok((sources, peer)),
            Err(why) => {
                let text = format!("invalid value '{word}' for '<PEER>', which is the last word: {why}");
                Err(error(ErrorKind::ValueValidation, text))
            }
        }
    }
}
