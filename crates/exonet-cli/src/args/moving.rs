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
sessions and dead letters. Most of it is carried to the door while its process goes on. Then the
process stands still; what is left is carried, encrypted for the door; the identity is ceded here,
for good; and only then its key is carried. So one machine can speak as it at any time, or none;
never two.

A move that fails before the identity is ceded has not happened, and its process goes on. If that
was killed, start it again, or give this command again. After ceding, the identity does not open
here any more, and the same command carries the key again.
--take-back is for an identity that certainly never arrived: its door is gone for good. A name
service that is given (--names) is asked first: if it knows a later generation, that is an error.

Peers that have met the identity at its new place talk to no copy of what was left behind.";

/// Move the identity of a service to another machine, with all that is under way
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MoveArgs {
    /// The door on the other machine, as `exon serve --arrive` or `exon listen --arrive` prints it
    #[arg(long, value_name = "PEER", value_parser = parse_peer, required_unless_present = "take_back")]
    pub(crate) to: Option<PeerAddr>,
    /// Wait this long for a process to end that cannot be asked to move the identity
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) drain: Duration,
    /// Wait this long for the door
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_span)]
    pub(crate) timeout: Duration,
    /// Let the process go on here if the door is silent for this long while it stands still
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_span)]
    pub(crate) freeze: Duration,
    /// Let the identity live here again, though it was ceded: it certainly never arrived
    #[arg(long, conflicts_with = "to")]
    pub(crate) take_back: bool,
}
