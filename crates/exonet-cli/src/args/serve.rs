//! `exon serve`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use exonet::NodeId;
use exonet::naming::Name;

use super::MetricsArgs;
use crate::peers::parse_id;
use crate::units::{Size, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  A process per call: body in, reply out.
      exon serve --method sort --exec sort

  Several methods, served by one command that looks at EXON_METHOD:
      exon serve --method add --method remove --allow ID --exec ./shelf.sh

  No more than four at a time, and none for longer than a minute:
      exon serve --method convert --concurrency 4 --timeout 1m --exec convert - png:-

  A conversation with a process of its own for each client (see `exon session open`):
      exon serve --sessions calc --exec bc

  A server to try calls with, which answers each with its own body:
      exon serve --echo --bind 127.0.0.1:0

All that follows --exec is the command, so options of `exon serve` stand before it. What the
command is to get and `exon serve` has too goes through a shell: --exec sh -c 'report --json'.

The command runs once per call, never again for the same one, with the body on its standard input
and in its environment EXON_CALLER (an id), EXON_CALL_ID (the same at both ends, never used again:
a key for effects outside), EXON_METHOD, and TRACEPARENT if the call is part of a trace. Its output
is the reply, its exit code the status; 128 and N: ended by signal N; 126, 127: could not be
started. What it writes to standard error is logged here. A body that breaks off ends its process
before that sees the end of its input.

Everything that a process started and did not put into a group of its own ends with it when it is
ended: by --timeout, --end-orphans or the end of this command, kill -9 included. The reply is what
the process itself wrote before it ended. Interrupted, this takes no further call, and lets those
that run finish, for --drain at most; interrupted again, it ends them at once.";

/// Answer calls and serve sessions, as the stored identity `default` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Where to listen; port 0 takes any free one [default: port 3966 of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    /// The method to serve; may be given several times
    #[arg(long = "method", value_name = "NAME", required_unless_present_any = ["echo", "sessions"])]
    pub(crate) methods: Vec<String>,
    /// Serve the sessions of this name; may be given several times. Each has a process of its own,
    /// which gets the messages as lines and whose lines are the answers
    #[arg(long, value_name = "NAME")]
    pub(crate) sessions: Vec<String>,
    /// Run this command for each call; it takes the rest of the line, so that other options go before it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, required_unless_present = "echo")]
    pub(crate) exec: Vec<OsString>,
    /// Answer each call with its own body, as the method `echo` unless --method names another
    #[arg(long, conflicts_with = "exec")]
    pub(crate) echo: bool,
    /// Answer this node only, an id or a name; may be given several times
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
    /// Run this many calls of a method at once; more calls wait at their callers
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrency: u16,
    /// End a process that runs for longer; its caller is told `timed out`
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
    /// End a process when its caller has been silent for this long; a waiting caller is heard every 5 s
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) end_orphans: Option<Duration>,
    /// Refuse a body that is larger
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    pub(crate) max_body: Size,
    /// End a process whose reply is larger; replies are held in memory
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Cli;

    fn checked(words: &[&str]) -> Result<Cli, String> {
        let line = ["exon", "serve", "--method", "m"].iter().chain(words);
        Cli::try_parse_from(line).and_then(Cli::check).map_err(|error| error.to_string())
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
