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

  A directory with all its content; repeated later, only what is new:
      exon cp -r project ID@HOST:PORT

  What a program writes, under a name:
      tar c project | exon cp - --name project.tar ID@HOST:PORT

  To somebody who does not know this machine's address: the code that this prints is enough:
      exon cp --code photo.jpg
      exon get 7-lucky-otter

  In a script: if the copy is interrupted, the same command continues it:
      exon cp backup.tar ID@HOST:PORT --timeout 10m --json

`stored` means: the receiver has the whole file, its BLAKE3 hash is right, and it is on the disk
under its name. If a copy is interrupted, at either end, the same command continues it: nothing that
the receiver already has is sent again. While the command runs, it continues by itself when the
receiver restarts or the network comes back. `there` means: the receiver already has a file of the
same name, size and time (--checksum: of the same content).

Files keep their modes and times, but not their owners. Links within a directory stay links and are
never followed; only a link that is named on the command line is followed. Sockets and devices are
not copied; a pipe that is named is read to its end.

With --code, nobody listens: this command waits until `exon get` on another machine brings the code,
and copies to that machine. Both machines must be on one network, or use one name server (--names
ID@HOST:PORT, EXON_NAMES). Three wrong codes end the offer.";

/// Copy files and directories to a node that listens with --out
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, override_usage = "exon cp [OPTIONS] <SRC>... <PEER>\n       exon cp --code [OPTIONS] <SRC>...")]
pub(crate) struct CpArgs {
    /// Files and directories to copy (- is standard input), and last the receiver
    // One list, so that options may stand between the words.
    #[arg(value_names = ["SRC", "PEER"], required = true, num_args = 1..)]
    words: Vec<PathBuf>,
    /// Print a code, wait for `exon get CODE` on another machine, and copy to it; no PEER is given then
    #[arg(long)]
    pub(crate) code: bool,
    /// Do not use the local network: the other machine finds this one only through the name server
    #[arg(long, requires = "code")]
    pub(crate) no_local: bool,
    /// Copy directories with all their content
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// The name for the file at the receiver, if there is only one SRC
    #[arg(long, value_name = "NAME", alias = "as-name")]
    pub(crate) name: Option<String>,
    /// Compare files that the receiver has by content, not by time
    #[arg(long)]
    pub(crate) checksum: bool,
    /// Give up after this long, and name the files that are still open
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}

impl CpArgs {
    /// All words, if none of them is the receiver.
    pub(crate) fn sources(&self) -> &[PathBuf] {
        &self.words
    }

    /// The sources, and the receiver.
    ///
    /// # Errors
    /// An error in the form of the argument parser.
    pub(crate) fn words(&self) -> Result<(&[PathBuf], PeerAddr), clap::Error> {
        let error = |kind, text: String| {
            Self::augment_args(clap::Command::new("cp").bin_name("exon cp")).error(kind, text)
        };
        let Some((peer, sources)) = self.words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
            return Err(error(ErrorKind::TooFewValues, "give a SRC and a PEER".to_owned()));
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
