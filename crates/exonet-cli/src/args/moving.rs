//! `exon move`.

use std::time::Duration;

use clap::Args;
use exonet::PeerAddr;

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  On the new machine: wait for the identity of a service, and serve as it at once
      exon serve --as calc --arrive ID --method sort --exec sort

  On the old one: move it there. The line to be said is what the other one has printed.
      exon move --as calc --to ID@HOST:PORT

  Callers go on: those that know a name find it, and so do those that it knows
      exon call name:calc sort - < names

What moves is the identity, with all that is under way: what it has not sent or not taken, streams,
sessions and dead letters. The process that runs it is ended in order first. Then its state is
carried to the door on the other machine, encrypted for it; the identity is ceded here, for good;
and only then its key is carried. So one machine can speak as it at any time, or none; never two.

A move that is cut off before the identity is ceded has not happened: start its process here again.
After that it does not open here any more, and the same command, given again, carries the key again.
--take-back is for an identity that certainly never arrived: its door is gone for good.

Peers that have met the identity at its new place talk to no copy of what was left behind.";

/// Move the identity of a service to another machine, with all that is under way
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MoveArgs {
    /// The door on the other machine, as `exon serve --arrive` or `exon listen --arrive` prints it
    #[arg(long, value_name = "PEER", value_parser = parse_peer, required_unless_present = "take_back")]
    pub(crate) to: Option<PeerAddr>,
    /// Wait this long for the process that runs the identity to end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) drain: Duration,
    /// Wait this long for the door
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_span)]
    pub(crate) timeout: Duration,
    /// Let the identity live here again, though it was ceded: it certainly never arrived
    #[arg(long, conflicts_with = "to")]
    pub(crate) take_back: bool,
}
