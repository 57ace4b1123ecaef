//! `exon serve`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Command};
use exonet::NodeId;
use exonet::naming::Name;

use super::{MetricsArgs, parse_address};
use crate::peers::parse_id;
use crate::units::{Size, parse_label, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  One process per call: it reads the body, and writes the reply:
      exon serve --method sort --exec sort

  Several methods, served by one command that reads EXON_METHOD:
      exon serve --method add --method remove --allow ID --exec ./shelf.sh

  At most four calls at a time, and none longer than a minute:
      exon serve --method convert --concurrency 4 --timeout 1m --exec convert - png:-

  Sessions: a process of its own for each client (see `exon session open`):
      exon serve --sessions calc --exec bc

  A server for trying calls, which answers each with its own body:
      exon serve --echo --bind 127.0.0.1:0

Everything after --exec belongs to the command, so options of `exon serve` must stand before it. To
give the command an option that `exon serve` also has, use a shell: --exec sh -c 'report --json'.

The command runs once for each call, and never again for the same one. It reads the body from
standard input. Its environment has EXON_CALLER (an id), EXON_CALL_ID (the same at both ends, and
never used again, so it can be the key of an external effect), EXON_METHOD and, if the call belongs
to a trace, TRACEPARENT. Its output is the reply, and its exit code the status; 128 + N: a signal N
ended it; 126, 127: it could not be started. What it writes to standard error goes to the log here.
If a body breaks off, its process is ended before it sees the end of its input.

If the command is ended, by --timeout, by --end-orphans or because `exon serve` ends (even by kill
-9), everything that it has started ends too, unless the command has put it into a process group of
its own. The reply is what the command itself wrote before it ended. After an interrupt, `exon
serve` takes no further call, and waits for running ones, for --drain at most. After a second
interrupt, it ends them at once.

A session ends when its command has ended. If the command fails, `exon session open` says so and
fails, too. A line counts as processed once it is written to the standard input of the command.";

/// Answer calls and serve sessions, as the stored identity `default` unless --as names another
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The address at which to listen; port 0 takes any free port [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) bind: Option<SocketAddr>,
    /// The method to serve; may be given several times
    #[arg(long = "method", value_name = "NAME", value_parser = parse_label, required_unless_present_any = ["echo", "sessions"])]
    pub(crate) methods: Vec<String>,
    /// Serve the sessions of this name; may be given several times. Each session has a process of its own, which
    /// reads the messages as lines; the lines that it writes are the answers
    #[arg(long, value_name = "NAME")]
    pub(crate) sessions: Vec<String>,
    /// Run this command for each call. All arguments after it belong to the command, so other options must stand
    /// before it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, required_unless_present = "echo")]
    pub(crate) exec: Vec<OsString>,
    /// Answer each call with its own body, under the method `echo` unless --method names another; with --sessions, send
    /// each message of a session back
    #[arg(long, conflicts_with = "exec")]
    pub(crate) echo: bool,
    /// Answer this node only, an id or a name; may be given several times
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
    /// Run at most this many calls of a method at once; more calls wait at their callers
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    /// End the process of a call if it runs for longer; its caller gets `timed out`. No process of a session is ended
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
    /// End the process of a call if its caller has been silent for this long; a waiting caller asks every 5 s. No
    /// process of a session is ended: its client sets a time by `exon session open --idle`
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) end_orphans: Option<Duration>,
    /// Refuse a body that is larger than this
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    pub(crate) max_body: Size,
    /// End a process whose reply is larger than this; replies are kept in memory
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    pub(crate) max_reply: Size,
    /// Forget a reply that its caller has not acknowledged for this long
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_span)]
    pub(crate) keep_replies: Duration,
    /// After an interrupt, wait this long for running calls and for replies on their way
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span)]
    pub(crate) drain: Duration,
    /// Stop after this many calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) exit_after: Option<u64>,
}

impl ServeArgs {
    /// Checks that each option for calls has calls to which it applies.
    pub(super) fn check(&self) -> Result<(), clap::Error> {
        if self.sessions.is_empty() || !self.methods.is_empty() {
            return Ok(());
        }
        let option = match (self.timeout, self.end_orphans) {
            (Some(_), _) => "--timeout",
            (None, Some(_)) => "--end-orphans",
            (None, None) => return Ok(()),
        };
        let why = format!(
            "{option} is for calls, and --sessions without --method serves none\n\n  \
             tip: the client of a session sets its time by `exon session open --idle`"
        );
        Err(ServeArgs::augment_args(Command::new("serve").bin_name("exon serve"))
            .error(ErrorKind::ArgumentConflict, why))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Cli;

    fn checked(words: &[&str]) -> Result<Cli, String> {
        let line = ["exon", "serve", "--method", "m"].iter().chain(words);
        Cli::try_parse_from(line).and_then(Cli::check).map_err(|error| error.to_string())
    }

    #[test]
    fn an_option_for_calls_needs_calls() {
        let serve = |words: &[&str]| {
            let line = ["exon", "serve", "--sessions", "s"].iter().chain(words).chain(&["--exec", "cat"]);
            Cli::try_parse_from(line).and_then(Cli::check).map_err(|error| error.to_string())
        };
        for option in ["--timeout", "--end-orphans"] {
            let error = serve(&[option, "1m"]).unwrap_err();
            assert!(error.contains(&format!("{option} is for calls")), "{error}");
            serve(&[option, "1m", "--method", "m"]).unwrap();
        }
    }

    #[test]
    fn an_option_behind_the_command_is_not_swallowed() {
        for option in ["--bind", "--allow=x", "--as", "--json"] {
            let error = checked(&["--exec", "sort", option, "x"]).unwrap_err();
            assert!(error.contains("put it before --exec"), "{error}");
        }
        checked(&["--bind", "127.0.0.1:0", "--exec", "sort", "--reverse", "-k", "--", "x"]).unwrap();
        checked(&["--exec", "sh", "-c", "report --json"]).unwrap();
    }
}
