//! `exon send`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use exonet::{Confirm, PeerAddr, Priority, Traceparent};

use crate::peers::parse_peer;
use crate::units::{parse_label, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  One message:
      exon send ID@HOST:PORT 'the build is green'

  Each line of a log as a message, as it is written:
      tail -f app.log | exon send ID@HOST:PORT

  A message that nobody needs after two seconds:
      exon send ID@HOST:PORT --deadline 2s --priority urgent 'look now'

  A script that must know whether it was delivered:
      exon send ID@HOST:PORT --timeout 30s 'pay 10' || echo \"not known to be paid: $?\"

  A message that survives a crash of this command, and how to continue later:
      exon send --durable ID@HOST:PORT --timeout 30s 'pay 10'
      exon send --as default --continue

  The same by a node in the background, whether or not the receiver can be reached:
      exon up --detach
      exon send --durable ID@HOST:PORT 'pay 10'

  A message that counts once the application there has processed it:
      exon send ID@HOST:PORT --confirm processed 'pay 10'

  Where do the milliseconds go? Each step of each message:
      exon send --trace ID@HOST:PORT 'hello'

EXIT CODES
    0  every message was delivered, or processed
    1  an error; standard error says which
    3  unknown: some message was delivered once or not at all
    4  some message was certainly not delivered: expired, cancelled, refused; or rejected by
       the application there, which said why
    6  kept: some message was still open when this ended, by --timeout or an interrupt, and the
       journal of the stored identity has it; --continue continues with it
  130  interrupted, and the journal keeps nothing

With a stored identity (--as NAME, --durable), what was read and not delivered survives the end of
this process, even by kill -9. The next `exon send` of the identity continues with it, under the
same ids. It waits for the messages to the same PEER; with --continue it waits for all. Input of
unknown length, and files above 16 MiB, are exceptions: they are read while they are sent, and are
not kept.

If `exon up` runs the identity, this command passes the messages to it. With --durable it returns
when all are in the journal, and says `queued durably`; otherwise it waits for the outcomes. A
message may then have 16 MiB at most. If it is interrupted, the background node keeps the messages
that it has (exit code 6).

Exit code 3 means that some message was delivered once or not at all, and nobody can tell which; its
id is the same at both ends. If first messages end so every time, a clock is wrong: `exon ping`
shows the difference, and --no-early works without clocks. Exit code 4 means that some message was
certainly not delivered: you may send it again.

If the reader of standard output goes away, the command reads no more input and ends, with the exit
code of the messages that it has sent; or with 1 if these were delivered and input was left.";

/// Send messages: arguments, files, or the lines of standard input
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SendArgs {
    /// The receiver: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer, required_unless_present = "go_on")]
    pub(crate) peer: Option<PeerAddr>,
    /// The messages, one per argument
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// Send the content of this file as a message; - is all of standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Send each line of standard input as a message; this is the default without a text or a file
    #[arg(long)]
    pub(crate) stdin_lines: bool,
    /// A tag by which the receiver can dispatch the message, at most 255 bytes
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true, value_parser = parse_label)]
    pub(crate) tag: String,
    /// The priority: messages of a higher priority are sent first
    #[arg(long, value_enum, value_name = "PRIORITY", default_value_t)]
    pub(crate) priority: Urgency,
    /// Do not send a message that has not left after this long
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) deadline: Option<Duration>,
    /// What to wait for: that the message is delivered, or that the application there has processed it. In both cases
    /// a message that the application rejects ends as `rejected`
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) confirm: Confirmed,
    /// Wait for a channel instead of leaving together with its opening: two more trips on first contact, but with
    /// forward secrecy, and independent of the clocks
    #[arg(long)]
    pub(crate) no_early: bool,
    /// Stop waiting for outcomes after this long, and name the messages that are still open
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
    /// Send as a stored identity, which is created if it is missing: `default` unless --as names another. What this
    /// command has read survives its end. If `exon up` runs the identity, return once its journal has everything
    #[arg(long)]
    pub(crate) durable: bool,
    /// Send nothing new, but continue with what a former `exon send` of this identity has left: `default` unless --as
    /// names another. With PEER, look for that node at the address of PEER
    #[arg(long = "continue", conflicts_with_all = ["texts", "files", "stdin_lines", "durable"])]
    pub(crate) go_on: bool,
    /// Pass the messages to the background node of the identity (see `exon up`), and fail if there is none. Without
    /// this option, the command uses such a node if there is one
    #[arg(long, conflicts_with = "go_on")]
    pub(crate) up: bool,
    /// Show on standard error what happens to each message, step by step: queued, bound, each packet, settled. If
    /// `exon up` sends the messages, `exon trace` shows that
    #[arg(long, conflicts_with_all = ["go_on", "up"])]
    pub(crate) trace: bool,
    /// The trace that the messages belong to, in the form of W3C Trace Context: 00-TRACE-PARENT-FLAGS. Default: the
    /// trace of TRACEPARENT in the environment, if that is valid
    #[arg(long, value_name = "TRACEPARENT")]
    pub(crate) traceparent: Option<Traceparent>,
}

impl SendArgs {
    /// Whether lines of standard input are messages.
    pub(crate) fn reads_input(&self) -> bool {
        self.stdin_lines || (self.texts.is_empty() && self.files.is_empty() && !self.go_on)
    }

    /// Whether the sender is a stored identity even if the command line names none.
    pub(crate) fn is_stored(&self) -> bool {
        self.durable || self.go_on || self.up
    }

    /// The arguments for sending nothing new, but continuing with what a former run has left.
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

/// What a sender waits for, as an argument.
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
