//! `exon conformance`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use exonet::PeerAddr;

use super::parse_address;
use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Check another implementation, which runs as a subject and prints ID@HOST:PORT:
      exon conformance ID@HOST:PORT

  Only the checks of streams and calls, with another seed:
      exon conformance ID@HOST:PORT --only streams --only calls --seed 7

  Run this implementation as the subject, to see what a subject does:
      exon conformance --subject --bind 127.0.0.1:4000

`docs/conformance.md` says what a subject does: it takes every message, sends back those with the
tag `echo`, and answers a few methods. Each check has a node of its own. Between that node and the
subject, a relay loses, duplicates, reorders, corrupts and repeats datagrams as the seed decides.
`--jobs` runs several checks at once.

The command prints a line for each check: its name, its result, what happened and, if it failed, the
section of PROTOCOL.md. The last line of --json has: passed, failed, seconds, seed. The exit code is
0 only if every check passed.";

/// Check another implementation of the protocol against this one
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConformanceArgs {
    /// The implementation to check, called the subject: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer, required_unless_present_any = ["subject", "list"])]
    pub(crate) peer: Option<PeerAddr>,
    /// Run only this check; may be given several times
    #[arg(long, value_name = "CHECK", conflicts_with = "subject")]
    pub(crate) only: Vec<String>,
    /// List the checks and their sections, and run none
    #[arg(long, conflicts_with = "subject")]
    pub(crate) list: bool,
    /// The seed that decides what happens to each datagram
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How long one check may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) timeout: Duration,
    /// How many checks to run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: u16,
    /// Be the subject, until interrupted, instead of checking one
    #[arg(long, conflicts_with = "peer")]
    pub(crate) subject: bool,
    /// The address at which the subject listens; port 0 takes any free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", requires = "subject", value_parser = parse_address)]
    pub(crate) bind: SocketAddr,
}
