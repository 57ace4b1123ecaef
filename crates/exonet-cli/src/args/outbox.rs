//! `exon outbox`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use exonet::NodeId;

use crate::control::protocol::Which;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Which messages does `exon send --durable` still have to send?
      exon outbox ls

  The same of another identity, and one message of it:
      exon outbox ls --as sensor-7
      exon outbox show 12 --as sensor-7

  What became of message 12, whose number `exon send --durable` printed?
      exon outbox status 12 --as sensor-7

  Continue to send, or try the peers again; or give one message up, or all:
      exon outbox retry --as sensor-7
      exon outbox drop 12 --as sensor-7
      exon outbox drop --all --as sensor-7

The identity is `default` unless --as names another. If a command runs it (listen, serve, send, up),
this command asks that one; otherwise it reads the journal of the identity. You choose a message by
its number in `exon outbox ls`, which it has for good, or by its id, which --json shows once the
message has left; `status` shows it too. A message that is `in doubt` has left, and may have been
delivered. A message that is dropped ends as cancelled, which means certainly not delivered, or as
unknown; the exit code is 3 if one ended as unknown.";

const SHOW_HELP: &str = "\
EXAMPLES
  exon outbox show 12
  exon outbox show 12 --json

A message that has ended has no body any more. For it, the command prints the outcome on standard
error, or as a line of JSON on standard output, and its exit code is that of `exon outbox status`.";

const STATUS_HELP: &str = "\
EXAMPLES
  exon outbox status 12 --as shop
  exon outbox status 12 --as shop --json

The journal of the identity remembers the newest 1,024 outcomes, also over a crash and a move to
another machine; messages that ended together count as one. `exon up` also knows the newest 10,000
since it was started.

EXIT CODES
    0  delivered, or processed
    1  an error; nothing is known of the message
    3  it ended as unknown: delivered once, or not at all
    4  certainly not delivered: rejected, expired, cancelled or refused
    6  queued, or in doubt: it has no outcome yet";

/// Show what a stored identity still has to send, or give it up
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct OutboxArgs {
    #[command(subcommand)]
    pub(crate) command: OutboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Show all messages without an outcome
    #[command(after_help = "EXAMPLES\n  exon outbox ls --json", visible_alias = "list")]
    Ls,
    /// Print the body of one message as it is
    #[command(after_help = SHOW_HELP)]
    Show {
        /// Its number, which `exon send --durable` and `exon outbox ls` print, or its id
        #[arg(value_name = "N", value_parser = parse_which)]
        which: Which,
    },
    /// Tell what is known of one message: queued, in doubt, or its outcome
    #[command(after_help = STATUS_HELP)]
    Status {
        /// Its number, which `exon send --durable` and `exon outbox ls` print, or its id
        #[arg(value_name = "N", value_parser = parse_which)]
        which: Which,
    },
    /// Continue to send all messages, or one. If a node runs, make it try its peers at once
    #[command(after_help = "EXAMPLES\n  exon outbox retry 12 --timeout 30s")]
    Retry {
        /// Wait only for this message, by its number or its id; the others go on meanwhile
        #[arg(value_name = "N", value_parser = parse_which)]
        which: Option<Which>,
        /// Stop waiting after this long. For a node that runs: 5 s by default, at most 20 s
        #[arg(long, value_name = "TIME", value_parser = parse_span)]
        timeout: Option<Duration>,
    },
    /// Give one message up, or all
    #[command(
        after_help = "EXAMPLES\n  exon outbox drop 12\n  exon outbox drop --all",
        group = ArgGroup::new("these").args(["which", "all"]).required(true)
    )]
    Drop {
        /// This message, by its number or its id
        #[arg(value_name = "N", value_parser = parse_which)]
        which: Option<Which>,
        /// All messages
        #[arg(long)]
        all: bool,
    },
}

/// The number of a message, or its id.
pub(super) fn parse_which(text: &str) -> Result<Which, String> {
    if let Ok(number) = text.parse() {
        return Ok(Which::Number(number));
    }
    // An id has the id of its sender first, and two numbers.
    let mut parts = text.split('/');
    let sender = parts.next().is_some_and(|sender| sender.parse::<NodeId>().is_ok());
    let is_number = |part: &str| part == "-" || part.parse::<u64>().is_ok();
    if sender && parts.clone().count() == 2 && parts.all(is_number) {
        return Ok(Which::Id(text.to_owned()));
    }
    Err("write the number of a message as `exon outbox ls` shows it, such as 12, or its id as `exon outbox ls --json` has it"
        .to_owned())
}
