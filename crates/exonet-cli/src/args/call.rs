//! `exon call`.

use std::time::Duration;

use clap::Args;
use exonet::{PeerAddr, Traceparent};

use crate::peers::parse_peer;
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  Ask, and print the answer:
      exon call ID@HOST:PORT greet alice

  A body from a pipe, of any size, and the reply into a file as it comes:
      tar c photos | exon call ID@HOST:PORT unpack - > report

  Wait for two seconds at most:
      exon call ID@HOST:PORT pay '10 to bob' --deadline 2s

  A script that pays once, whatever happens:
      exon call ID@HOST:PORT pay 10 --as shop --json || echo \"how it ended: $?\"

  A call that is part of a trace, which goes on in the server's handler:
      exon call ID@HOST:PORT pay 10 \\
          --traceparent 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01

EXIT CODES
    0  the reply is on standard output
    1  an error; the call was not accepted, or its body could not be read
    3  unknown: it ran once or not at all; its id, told on standard error, is the same at the server
    4  expired or withdrawn before it left, or the server is ending: it certainly did not run
    5  it was answered by a failure, whose status and body are told on standard error

A call is never run twice, so what ended with 4 may be called again freely. What ended with 3 is
found out by its id: `exon serve` gives it to the process as EXON_CALL_ID.";

/// Call a method of a node, and print its reply
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CallArgs {
    /// The server: a name (see `exon peer`), or ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// The method to call, at most 255 bytes
    #[arg(value_name = "METHOD")]
    pub(crate) method: String,
    /// The body; - reads standard input; without it the body is empty
    #[arg(value_name = "BODY", allow_hyphen_values = true)]
    pub(crate) body: Option<String>,
    /// Do not wait for longer than this: expired if the call has not left by then, else unknown
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) deadline: Option<Duration>,
    /// Wait for a channel instead of leaving beside its opening: two trips more on first contact,
    /// with forward secrecy
    #[arg(long)]
    pub(crate) no_early: bool,
    /// The trace that this is part of, as W3C Trace Context writes it: 00-TRACE-PARENT-FLAGS. Default: that of
    /// TRACEPARENT in the environment, if it is one. The handler has it in its own TRACEPARENT
    #[arg(long, value_name = "TRACEPARENT")]
    pub(crate) traceparent: Option<Traceparent>,
}
