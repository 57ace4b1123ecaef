//! `exon move`.

use std::time::Duration;

use clap::Args;
use exonet::PeerAddr;

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  On the new machine: wait for the identity of a service, then serve as that identity
      exon serve --as calc --arrive ID --method sort --exec sort

  On the old machine: move the identity. The new machine has printed this line.
      exon move --as calc --to ID@HOST:PORT

  Callers continue: those that use a name find it, and so do those that it knows
      exon call name:calc sort - < names

The command moves the identity with everything that is under way: what it has not sent or not taken,
its streams, its sessions and its dead letters. Most of that is copied to the door while the process
goes on. Then the process stops. What is left is copied, encrypted for the door; the identity is
ceded here, for good; and only then is its key sent. So at any time at most one machine can act as
the identity.

If a move fails before the identity is ceded, nothing has moved, and its process goes on. If that
process was killed, start it again, or repeat this command. After ceding, the identity cannot be
opened here any more, and the same command sends the key again. --take-back is for an identity that
certainly never arrived: its door is gone for good. If a name service is given (--names), the
command asks it first: if the service knows a later generation, the command fails.

Peers that have met the identity at its new place do not talk to any copy that was left behind.";

/// Move the identity of a service to another machine, with everything that is under way
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MoveArgs {
    /// The door on the other machine, as `exon serve --arrive` or `exon listen --arrive` prints it
    #[arg(long, value_name = "PEER", value_parser = parse_peer, required_unless_present = "take_back")]
    pub(crate) to: Option<PeerAddr>,
    /// If the process that runs the identity cannot be asked to move it: wait this long for that process to end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) drain: Duration,
    /// Wait this long until the door answers
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_span)]
    pub(crate) timeout: Duration,
    /// If the door is silent for this long while the process is stopped, let the process go on here
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_span)]
    pub(crate) freeze: Duration,
    /// Let the identity run here again although it was ceded. Only if it certainly never arrived elsewhere
    #[arg(long, conflicts_with = "to")]
    pub(crate) take_back: bool,
}
