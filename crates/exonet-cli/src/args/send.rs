//! `exon send`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use exonet::{Confirm, PeerAddr, Priority, Traceparent};

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  One message:
      exon send ID@HOST:PORT 'the build is green'

  Each line of a log as a message, as it is written:
      tail -f app.log | exon send ID@HOST:PORT

  A message that is worth nothing after two seconds:
      exon send ID@HOST:PORT --deadline 2s --priority urgent 'look now'

  A script that must know whether it was delivered:
      exon send ID@HOST:PORT --timeout 30s 'pay 10' || echo \"not known to be paid: $?\"

  A message that no crash of this command takes, and what is left of it later:
      exon send --durable ID@HOST:PORT --timeout 30s 'pay 10'
      exon send --as default --continue

  The same at once, whether the receiver can be reached or not, by a node in the background:
      exon up --detach
      exon send --durable ID@HOST:PORT 'pay 10'

  A message that counts when the application there has done its work, not when it has it:
      exon send ID@HOST:PORT --confirm processed 'pay 10'

  Where do the milliseconds go? Each step of each message:
      exon send --trace ID@HOST:PORT 'hello'

EXIT CODES
    0  every message was delivered, or processed
    1  an error, told on standard error
    3  unknown: some message was delivered once or not at all
    4  some message was certainly not delivered: expired, cancelled, refused; or rejected by
       the application there, which said why
    6  kept: some message was still open when this ended, by --timeout or an interrupt, and the
       journal of the stored identity has it; --continue goes on with it
  130  interrupted, and nothing is kept

With a stored identity (--as NAME, --durable) what was read and not delivered is not lost with this
process, kill -9 included. The next `exon send` of the identity goes on with it, under the same ids,
and waits for what was for the same PEER; --continue waits for all of it. An input of unknown
length and a file above 16 MiB are the exceptions: they are read as they leave, and not kept.

If `exon up` runs the identity, this hands over to it. With --durable it returns when all is in the
journal, which is said as `queued durably`; else it waits for the outcomes. A message has 16 MiB at
most then. Interrupted, it leaves to the background node what that has (exit code 6).

Exit code 3 means that some message was delivered once or not at all, and nobody can tell which;
its id is the same at both ends. If first messages end so each time, a clock is wrong: `exon ping`
shows the difference, and --no-early does without clocks. Exit code 4 means that some message was
certainly not delivered: send it again freely.";

/// Send messages: arguments, files, or the lines of standard input
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SendArgs {
    /// The receiver: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer, required_unless_present = "go_on")]
    pub(crate) peer: Option<PeerAddr>,
    /// Messages, one per argument
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// Send the content of this file as a message, - that of standard input to its end; may be given several times
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Send each line of standard input as a message; the default without a text or a file
    #[arg(long)]
    pub(crate) stdin_lines: bool,
    /// A tag for dispatch at the receiver, at most 255 bytes
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true)]
    pub(crate) tag: String,
    /// The priority: messages of a higher one go first
    #[arg(long, value_enum, value_name = "PRIORITY", default_value_t)]
    pub(crate) priority: Urgency,
    /// Do not send a message that has not left after this long
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) deadline: Option<Duration>,
    /// What to be told: that the message was delivered, or that the application there has processed it.
    /// One that it rejects ends as `rejected` either way
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) confirm: Confirmed,
    /// Wait for a channel instead of leaving beside its opening: two trips more on first contact,
    /// with forward secrecy, and independent of both clocks
    #[arg(long)]
    pub(crate) no_early: bool,
    /// Stop waiting for outcomes after this long, and name the messages that are open
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
    /// Send as a stored identity, `default` unless --as names another, and make it if it is not there:
    /// what was read survives the end of this process. If `exon up` runs it, return when that has all in its journal
    #[arg(long)]
    pub(crate) durable: bool,
    /// Send nothing new, but go on with what a former `exon send` of this identity, `default` unless --as
    /// names another, has left; with PEER, that node is looked for there
    #[arg(long = "continue", conflicts_with_all = ["texts", "files", "stdin_lines", "durable"])]
    pub(crate) go_on: bool,
    /// Hand over to the background node of the identity (see `exon up`), and fail if none runs. Without
    /// this, such a node is made use of where it runs
    #[arg(long, conflicts_with = "go_on")]
    pub(crate) up: bool,
    /// Tell on standard error what happens to each message, step by step: queued, bound, each packet,
    /// settled. Where `exon up` sends them, `exon trace` shows that
    #[arg(long, conflicts_with_all = ["go_on", "up"])]
    pub(crate) trace: bool,
    /// The trace that the messages are part of, as W3C Trace Context writes it: 00-TRACE-PARENT-FLAGS.
    /// Default: that of TRACEPARENT in the environment, if it is one
    #[arg(long, value_name = "TRACEPARENT")]
    pub(crate) traceparent: Option<Traceparent>,
}

impl SendArgs {
    /// Whether lines of standard input are messages.
    pub(crate) fn reads_input(&self) -> bool {
        self.stdin_lines || (self.texts.is_empty() && self.files.is_empty() && !self.go_on)
    }

    /// Whether the sender is a stored identity even if none is named.
    pub(crate) fn is_stored(&self) -> bool {
        self.durable || self.go_on || self.up
    }

    /// Nothing new, but what a former run has left.
    pub(crate) fn go_on(timeout: Option<Duration>) -> Self {
        Self {
            peer: None,
            texts: Vec::new(),
            files: Vec::new(),
            stdin_lines: false,
            tag: String::new(),
            priority: Urgency::default(),
            deadline: None,
            confirm: Confirmed::default(),
            no_early: false,
            timeout,
            durable: false,
            go_on: true,
            up: false,
            trace: false,
            traceparent: None,
        }
    }
}

/// What a sender is told, as an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Confirmed {
    #[default]
    Delivered,
    Processed,
}

impl From<Confirmed> for Confirm {
    fn from(confirmed: Confirmed) -> Self {
        match confirmed {
            Confirmed::Delivered => Self::Delivered,
            Confirmed::Processed => Self::Processed,
        }
    }
}

/// The classes of priority, as arguments.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Urgency {
    Urgent,
    #[default]
    Normal,
    Low,
    Bulk,
}

impl From<Urgency> for Priority {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Urgent => Self::Urgent,
            Urgency::Normal => Self::Normal,
            Urgency::Low => Self::Low,
            Urgency::Bulk => Self::Bulk,
        }
    }
}
