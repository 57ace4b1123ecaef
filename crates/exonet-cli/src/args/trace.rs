//! `exon trace`.

use std::time::Duration;

use clap::Args;
use exonet::NodeId;

use super::outbox::parse_which;
use crate::peers::parse_id;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Follow the next message of the node that `exon up`, `exon listen` or `exon serve` runs:
      exon trace -n 1

  All messages to and from one peer, until Ctrl-C; and each step as a line for a script:
      exon trace --as shop --peer till
      exon trace --as shop --peer till --json

  Why has message 12 of the outbox no outcome?
      exon trace 12 --as shop

  A message at the node that receives it, by the id that its sender has:
      exon trace ID/RECORD/SLOT --as till

The identity is `default` unless --as names another. The command shows what happens to a message
from now on: queued, journaled, bound to a slot, each packet that carries it and why it is sent
again, acknowledged, settled; and at the receiver: arrived, handed out, taken. For a trace, a node
follows up to 1,024 messages at once, and says how many it missed. If several messages are followed,
each is shown when it has ended.";

/// Follow messages of a running node, step by step
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TraceArgs {
    /// Follow only this message: its number in `exon outbox ls`, or its id
    #[arg(value_name = "MESSAGE", value_parser = parse_message, conflicts_with_all = ["peer", "count"])]
    pub(crate) message: Option<String>,
    /// Follow only messages to and from this peer: a name (see `exon peer`), or its id
    #[arg(long, value_name = "PEER", value_parser = parse_id)]
    pub(crate) peer: Option<NodeId>,
    /// End when N messages have ended; without it, at Ctrl-C
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// Stop after this long
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}

/// The number of a message, or its id, as it is written.
fn parse_message(text: &str) -> Result<String, String> {
    match parse_which(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => {
            Err("write the number of a message in `exon outbox ls`, or its id, NODE/RECORD/SLOT".to_owned())
        }
    }
}
