//! `exon listen`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use exonet::NodeId;
use exonet::naming::Name;

use super::MetricsArgs;
use crate::peers::parse_id;
use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Take messages from anyone and print them:
      exon listen

  Take files and messages from two nodes only, into a directory:
      exon listen --out inbox --allow ID --allow ID

  Wait for one message on any free port, for a script:
      exon listen --bind 127.0.0.1:0 --exit-after 1 --json

  Run a command for each message, three times at most if it fails:
      exon listen --attempts 3 --exec ./pay.sh

  Print the messages of streams named `log`, each stream in its order (see `exon group send`):
      exon listen --stream log

A message is taken when it has been printed, or is on the disk: only then does its sender hear
`delivered`. Messages are stored under their id.

Files and directories keep the names that the sender gave, and their modes and times. A name that
is taken already is refused, unless the file there has the very same content. No name leads out of
the directory, and no link is followed. What is there of a file whose copy was interrupted is kept
in the directory as .exon-*.part, and the next `exon cp` of it goes on from there.

What does not fit any more (--max-store), and what may not be stored, is refused: `exon send` and
`exon cp` end with exit code 4 and the reason. Room is taken by what has come of a file, not by the
size that its sender announces. What has come of a message is removed when its sender has been
silent for --patience, or for 10 s if others wait for their turn, and so is what an earlier, killed
`exon listen` left of it; the sender may go on later, from the start. Of a file that is copied it
is kept for --keep-parts.

A directory that cannot be written (a full disk, a directory that was removed or unmounted) leaves
messages and files with their senders. Each is tried again, after 1 s at first and 1 min at most,
and standard error says so. When standard output fails or is closed, the command ends with exit
code 1: what was not printed was not taken, and its sender keeps it.

With --exec each message is the standard input of a command, which has EXON_ID, EXON_FROM, EXON_TAG,
EXON_ATTEMPT (1 for the first) and, if the message is part of a trace, TRACEPARENT in its
environment. How it ends decides:
    exit code 0    the message is processed, and only now acknowledged
    exit code 65   it is rejected at once; the last line of standard error is the reason
    anything else  it is put off, for --retry-after, then twice as long each time (1 min at most);
                   after --attempts attempts it is rejected
A message that is rejected is kept in the folder `dead` of the identity, and its sender is told the
exit code and the reason. The same message may come again after a crash, with EXON_ATTEMPT above 1:
EXON_ID is the key by which the command can tell. What the command writes to standard output goes to
that of `exon listen`, with --json to standard error. All that follows --exec is the command.
Interrupted, this begins nothing new and lets commands finish, for --drain at most; interrupted
again, it ends them, and their messages come again.";

/// Take messages and files, as the stored identity `default` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ListenArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Where to listen; port 0 takes any free one [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// Store messages and files in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Take from this node only, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) allow: Vec<NodeId>,
    /// Wait for the identity ID to move in, by `exon move` at its former place, and go on as it
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub(crate) arrive: Option<NodeId>,
    /// Where the door for it is
    #[arg(long, value_name = "ADDR", default_value = "[::]:0", requires = "arrive")]
    pub(crate) door: String,
    /// Be found by this name, where --names says; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) called: Vec<Name>,
    /// Do not answer nodes that --allow leaves out. By default each is told that it is refused,
    /// and its command ends; with this it keeps trying, as if no node were here
    #[arg(long, requires = "allow")]
    pub(crate) silent: bool,
    /// Let the directory hold no more than this, including what it holds already
    #[arg(long, value_name = "BYTES", default_value = "10GiB")]
    pub(crate) max_store: Size,
    /// Drop the parts of an unfinished message when its sender has been silent for this long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_span)]
    pub(crate) patience: Duration,
    /// Replace a file of the same name instead of refusing the new one
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
    /// Take files and directories whose names begin with a dot
    #[arg(long, requires = "out")]
    pub(crate) hidden: bool,
    /// Take only file names that mean the same on every system
    #[arg(long, requires = "out")]
    pub(crate) portable_names: bool,
    /// Keep the parts of a file for this long after its copy was interrupted
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = parse_span)]
    pub(crate) keep_parts: Duration,
    /// Print the messages of streams of this name too, those of each stream in order. What is missing of
    /// one is told on standard error
    #[arg(long, value_name = "NAME", conflicts_with_all = ["out", "exec"])]
    pub(crate) stream: Option<String>,
    /// Print messages as they are, each with a line feed after it
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub(crate) raw: bool,
    /// Run this command for each message; it takes the rest of the line, so that other options go before it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, conflicts_with_all = ["out", "raw"])]
    pub(crate) exec: Vec<OsString>,
    /// Reject a message when the command has failed this many times
    #[arg(long, value_name = "K", default_value = "5", requires = "exec")]
    pub(crate) attempts: NonZeroU32,
    /// Run this many commands at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "exec", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: u16,
    /// Put a message off for this long when the command has failed for the first time
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "exec", value_parser = parse_span)]
    pub(crate) retry_after: Duration,
    /// End a command that runs for longer; that is a failure as any other, with status 124
    #[arg(long, value_name = "TIME", requires = "exec", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
    /// After an interrupt, wait this long for running commands
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "exec", value_parser = parse_span)]
    pub(crate) drain: Duration,
    /// Stop after this many messages and files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) exit_after: Option<u64>,
}
