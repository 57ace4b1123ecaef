//! `exon call`.

use std::time::Duration;

use clap::Args;
use exonet::{PeerAddr, Traceparent};

use crate::peers::parse_peer;
use crate::units::{parse_label, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Call a method, and print the reply:
      exon call ID@HOST:PORT greet alice

  A body of any size from a pipe, and the reply into a file while it arrives:
      tar c photos | exon call ID@HOST:PORT unpack - > report

  Wait two seconds at most:
      exon call ID@HOST:PORT pay '10 to bob' --deadline 2s

  A script that pays once, whatever happens:
      exon call ID@HOST:PORT pay 10 --as shop --json || echo \"how it ended: $?\"

  A call that belongs to a trace, which the server's handler continues:
      exon call ID@HOST:PORT pay 10 \\
          --traceparent 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01

EXIT CODES
    0  the reply is on standard output
    1  an error; this node did not accept the call, or could not read its body
    3  unknown: it ran once or not at all; standard error has its id, which the server knows too
    4  expired or withdrawn before it left, or the server is ending: it certainly did not run
    5  the server answered with a failure; standard error has its status and body

No call runs twice, so you may repeat a call that ended with 4. If a call ended with 3, its id tells
what happened: `exon serve` passes it to the process as EXON_CALL_ID.";

/// Call a method of a node, and print its reply
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CallArgs {
    /// The server: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// The method to call, at most 255 bytes
    #[arg(value_name = "METHOD", value_parser = parse_label)]
    pub(crate) method: String,
    /// The body; - reads it from standard input; without it the body is empty
    #[arg(value_name = "BODY", allow_hyphen_values = true)]
    pub(crate) body: Option<String>,
    /// Wait no longer than this. The call ends as expired if it has not left by then, else as unknown
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) deadline: Option<Duration>,
    /// Wait for a channel instead of leaving together with its opening: two more trips on first contact, but with
    /// forward secrecy
    #[arg(long)]
    pub(crate) no_early: bool,
    /// The trace that this call belongs to, in the form of W3C Trace Context: 00-TRACE-PARENT-FLAGS. Default: the
    /// trace of TRACEPARENT in the environment, if that is valid. The handler finds it in its own TRACEPARENT
    #[arg(long, value_name = "TRACEPARENT")]
    pub(crate) traceparent: Option<Traceparent>,
}
