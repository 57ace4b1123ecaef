//! `exon session`.

use std::time::Duration;

use clap::{Args, Subcommand};
use exonet::PeerAddr;
use exonet::session::SessionId;

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Talk to a calculator, by lines, and end with Ctrl-D:
      exon session open calc ID@HOST:PORT

  The other side, which gives each session a process of its own:
      exon serve --sessions calc --exec bc";

const OPEN_HELP: &str = "\
EXAMPLES
  Talk by lines: what is typed goes there, what comes is printed; Ctrl-D ends it:
      exon session open calc ID@HOST:PORT

  In a pipe: it ends when both sides have said all.
      echo '6*7' | exon session open calc ID@HOST:PORT

  One that goes on in another run, of a stored identity: the id is told when it is left.
      exon session open calc ID@HOST:PORT --as me
      exon session open calc ID@HOST:PORT --as me --id 0123456789abcdef

A session outlives loss, silence, suspend and a change of the network, at either end. That the other
side is away, and back, is told on standard error. Interrupted, a session of a stored identity is
left as it is, and goes on with --id; any other is given up.

EXIT CODES
    0  both sides have ended the session, and every line was delivered
    1  an error
    3  of a line it is unknown whether it was delivered, or the other side has forgotten the session
    4  the session was refused or given up by the other side, or a line was not delivered
    6  the session was left, and goes on with --id
  130  interrupted";

/// Talk with a program of another node, in a session that outlives connections
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    Open(SessionOpenArgs),
}

/// Open a session, send the lines of standard input, and print what comes
#[derive(Args, Debug)]
#[command(after_help = OPEN_HELP)]
pub(crate) struct SessionOpenArgs {
    /// The name of the session: what the other side serves with `exon serve --sessions NAME`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The other side: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// Go on with this session, which a former run of the stored identity has left
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<SessionId>,
    /// End the session after so much silence; 0s: never
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span)]
    pub(crate) idle: Duration,
    /// Look for the other side after this much silence, so that its absence is noticed when nothing is typed
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_span)]
    pub(crate) keepalive: Duration,
}
