//! `exon session`.

use std::time::Duration;

use clap::{Args, Subcommand};
use exonet::PeerAddr;
use exonet::session::SessionId;

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Talk to a calculator, line by line, and end with Ctrl-D:
      exon session open calc ID@HOST:PORT

  The other side, which gives each session a process of its own:
      exon serve --sessions calc --exec bc";

const OPEN_HELP: &str = "\
EXAMPLES
  Talk line by line: your lines are sent, and those that arrive are printed; Ctrl-D ends:
      exon session open calc ID@HOST:PORT

  In a pipe: it ends when both sides have sent everything.
      echo '6*7' | exon session open calc ID@HOST:PORT

  A session that continues in another run, of a stored identity; standard error says its id.
      exon session open calc ID@HOST:PORT --as me
      exon session ls --as me
      exon session open calc ID@HOST:PORT --as me --id 0123456789abcdef

A session survives loss, silence, suspend and a change of the network, at either end. Standard error
says when the other side is away, and when it is back. After an interrupt, a session of a stored
identity stays open, and --id continues it; any other session is aborted. The same goes for the end
of --timeout.

EXIT CODES
    0  both sides have ended the session, and every line was delivered
    1  an error
    3  it is unknown whether some line was delivered
    4  the other side refused, aborted or forgot the session, or ended it before the end of the
       input; its program failed; some line was not delivered; or both sides have not ended the
       session within --timeout
    6  the session stays open, and --id continues it
  130  interrupted";

const LS_HELP: &str = "\
EXAMPLES
  exon session ls --as me
  exon session ls --as me --json

It reads the journal of the identity, which no process may run meanwhile, and sends nothing. It
shows sessions that have begun and have not ended, as far as the journal knows: the id, the role of
the identity, the name and the peer. The client is the side that has opened the session.";

/// Talk to a program at another node, in a session that outlives connections
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    Open(SessionOpenArgs),
    /// Show the sessions of a stored identity that have not ended; --id continues one of which it is the client
    #[command(after_help = LS_HELP, visible_alias = "list")]
    Ls,
}

impl SessionArgs {
    /// The default identity of the command.
    pub(crate) const fn identity(&self) -> Option<&'static str> {
        match self.command {
            SessionCommand::Open(_) => None,
            SessionCommand::Ls => Some(crate::command::DEFAULT_IDENTITY),
        }
    }
}

/// Open a session, send the lines of standard input, and print what the other side sends
#[derive(Args, Debug)]
#[command(after_help = OPEN_HELP)]
pub(crate) struct SessionOpenArgs {
    /// The name of the session, which the other side serves with `exon serve --sessions NAME`
    #[arg(value_name = "SESSION")]
    pub(crate) name: String,
    /// The other side: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// Continue this session, which a former run of the stored identity has left
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<SessionId>,
    /// End the session after this much silence; 0s means never
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span)]
    pub(crate) idle: Duration,
    /// Ask the other side after this much silence, so that its absence is noticed even if nobody types
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_span)]
    pub(crate) keepalive: Duration,
    /// End after this long, as by an interrupt, if both sides have not ended the session
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}
