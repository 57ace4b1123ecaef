//! `exon listen`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use exonet::NodeId;
use exonet::naming::Name;

use super::{MetricsArgs, parse_address};
use crate::peers::parse_id;
use crate::units::{Size, at_least_one, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Receive messages from anyone, and print them:
      exon listen

  Receive files and messages from two nodes only, into a directory:
      exon listen --out inbox --allow ID --allow ID

  Wait for one message on any free port, for a script:
      exon listen --bind 127.0.0.1:0 --exit-after 1 --json

  Run a command for each message, at most three times if it fails:
      exon listen --attempts 3 --exec ./pay.sh

  Print the messages of streams named `log`, each stream in order (see `exon group send`):
      exon listen --stream log

A message counts as taken once it has been printed, or is on the disk: only then does its sender get
`delivered`. Messages are stored under their ids. Of a message above 1 MiB, the first MiB is
printed, and how many bytes are missing (`not_shown` with --json); --raw, --out and --exec get all.

Files and directories keep the names that the sender gave, and their modes and times. If a name is
already taken, the file is refused, unless the file that is there has exactly the same content. No
name can lead out of the directory, and no link is followed. If the copy of a file is interrupted,
the part that has arrived stays in the directory as .exon-*.part, and the next `exon cp` of the file
continues from there.

A message or file is refused if there is no room for it (--max-store) or it may not be stored: `exon
send` and `exon cp` then end with exit code 4 and the reason. A file takes room for what has arrived
of it, not for the size that its sender announced. The parts of a message are removed when its
sender has been silent for --patience, or for 10 s if other senders wait for their turn; so are
those that an earlier, killed `exon listen` left. The sender may send the message again later, from
the start. The parts of a file that is copied are kept for --keep-parts.

If the directory cannot be written (the disk is full, or the directory was removed or unmounted),
messages and files stay with their senders. Each is tried again, at first after 1 s and later every
minute at most, and standard error says so. If standard output fails or is closed, the command ends
with exit code 1: a message that was not printed was not taken, and its sender keeps it. If it is
closed at the start, or /dev/null, messages are acknowledged and not shown; standard error says so.

With --exec, the command reads the message from standard input. Its environment has EXON_ID,
EXON_FROM, EXON_TAG, EXON_ATTEMPT (1 for the first) and, if the message belongs to a trace,
TRACEPARENT. The end of the command decides:
    exit code 0    the message is processed, and only now acknowledged
    exit code 65   it is rejected at once; the last line of standard error is the reason
    anything else  it is handed out again after --retry-after, then after twice that time each
                   time (1 min at most); after --attempts attempts it is rejected. With --json
                   a line of type `put_off` says so; `again_ms` is the time until it is handed
                   out again

A message whose beginning its sender has not kept cannot be handed out again: a file above 16 MiB,
or input of unknown length above 1 MiB. It ends `unknown` at its sender.

A rejected message is kept in the folder `dead` of the identity, and its sender gets the exit code
and the reason. After a crash the same message may come again, with EXON_ATTEMPT above 1: by EXON_ID
the command can find out whether it has already processed it. What the command writes to standard
output goes to standard output of `exon listen`, or to standard error with --json. Everything after
--exec belongs to the command. After an interrupt, `exon listen` begins nothing new and waits for
running commands, for --drain at most. After a second interrupt, it ends them, and their messages
come again.";

/// Receive messages and files, as the stored identity `default` unless --as names another
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ListenArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The address at which to listen; port 0 takes any free port [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) bind: Option<SocketAddr>,
    /// Store messages and files in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Receive from this node only, an id or a name; may be given several times
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) allow: Vec<NodeId>,
    /// Wait until `exon move` moves the identity ID here from another machine, and then run as that identity
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub(crate) arrive: Option<NodeId>,
    /// The address at which to wait for it (the door)
    #[arg(long, value_name = "ADDR", default_value = "[::]:0", requires = "arrive", value_parser = parse_address)]
    pub(crate) door: SocketAddr,
    /// Let others find this node by this name, in the service of --names; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) called: Vec<Name>,
    /// Do not answer nodes that --allow leaves out. By default the node tells each that it is refused, and the
    /// command there ends; with this, that command keeps trying, as if no node were here
    #[arg(long, requires = "allow")]
    pub(crate) silent: bool,
    /// Store at most this much in the directory, including what is already there
    #[arg(long, value_name = "BYTES", default_value = "10GiB")]
    pub(crate) max_store: Size,
    /// Delete the parts of an unfinished message if its sender has been silent for this long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_span)]
    pub(crate) patience: Duration,
    /// Replace a file of the same name instead of refusing the new one
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
    /// Accept files and directories whose names begin with a dot
    #[arg(long, requires = "out")]
    pub(crate) hidden: bool,
    /// Accept only file names that mean the same on every system
    #[arg(long, requires = "out")]
    pub(crate) portable_names: bool,
    /// Keep the parts of a file for this long after its copy was interrupted
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = parse_span)]
    pub(crate) keep_parts: Duration,
    /// Also print the messages of streams of this name, those of each stream in order. If messages of a stream are
    /// missing, standard error says so. Messages of streams of other names, and without this option of all streams,
    /// are rejected: the sender gets the reason `no --stream NAME here`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["out", "exec"])]
    pub(crate) stream: Option<String>,
    /// Print messages as they are, each followed by a line feed
    #[arg(long, conflicts_with_all = ["json", "out"])]
    pub(crate) raw: bool,
    /// Run this command for each message. All arguments after it belong to the command, so other options must stand
    /// before it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, conflicts_with_all = ["out", "raw"])]
    pub(crate) exec: Vec<OsString>,
    /// Reject a message when the command has failed this many times
    #[arg(long, value_name = "K", default_value = "5", requires = "exec", value_parser = at_least_one::<NonZeroU32>)]
    pub(crate) attempts: NonZeroU32,
    /// Run at most this many commands at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "exec", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: u16,
    /// How long to wait after the command has failed for the first time, before the message is handed out again
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "exec", value_parser = parse_span)]
    pub(crate) retry_after: Duration,
    /// End a command that runs for longer; that counts as a failure, with status 124
    #[arg(long, value_name = "TIME", requires = "exec", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
    /// After an interrupt, wait this long for running commands
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "exec", value_parser = parse_span)]
    pub(crate) drain: Duration,
    /// Stop after this many messages and files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) exit_after: Option<u64>,
}
