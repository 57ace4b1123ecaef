//! `exon bench`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use exonet::PeerAddr;

use super::parse_address;
use crate::peers::parse_peer;
use crate::units::{ParseError, Size, parse_some_time, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  Everything, in about 15 seconds:
      exon bench

  One size of message, measured for longer:
      exon bench --size 4KiB --seconds 20

  The memory of a hundred thousand peers:
      exon bench --seconds 1 --peers 100000

  Between two machines: the first command prints the peer for the second one.
      exon bench server --bind 0.0.0.0:3967
      exon bench client ID@HOST:3967 --mode rpc --size 64 --actors 8 --seconds 5

  Calls:
      exon bench calls

Two nodes in this process exchange encrypted messages over loopback sockets. For the memory, one
node connects to many new nodes of another process. Datagrams go through a pipe, and a clock that
the command advances makes idle times pass at once. What these nodes need themselves is not counted.
The bare loop only seals, sends, receives and opens datagrams of the same size. The echo sends plain
datagrams through the same runtime.";

/// The bare loop and the echo send a message in one datagram, which has at most 65,507 bytes.
fn parse_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|e: ParseError| e.to_string())?;
    match size.0 {
        0..=65_000 => Ok(size),
        _ => Err("a message has at most 65000 bytes here, since the bare loop sends each in one datagram"
            .to_owned()),
    }
}

fn parse_call_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|e: ParseError| e.to_string())?;
    if size.0 <= 16 << 20 { Ok(size) } else { Err("a call has at most 16 MiB here".to_owned()) }
}

/// Measure this machine: messages per second, round trips, memory per peer, calls
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    /// Measure only messages of this size, 65000 bytes at most; the default is 1,024 and 64 bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) size: Option<Size>,
    /// How long to measure each size
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_some_time)]
    pub(crate) seconds: Duration,
    /// How many peers to connect for the measurement of memory; 0 skips it
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(crate) peers: u32,
}

const CALLS_AFTER_HELP: &str = "\
EXAMPLES
  One, ten and a hundred callers that call without pause:
      exon bench calls

  Every call from a new node:
      exon bench calls --first-contact

  For a script:
      exon bench calls --actors 4 --seconds 10 --size 1KiB --json -q

Two nodes in this process use loopback sockets; the server echoes. With --first-contact every call
has a new key and a new socket. Its latency is the time from the call to the reply, including the
handshake. The rate and the processor time include making and closing the node.";

/// Measure calls: how many per second, and how long each takes
#[derive(Args, Debug)]
#[command(after_help = CALLS_AFTER_HELP)]
pub(crate) struct CallsArgs {
    /// How many callers call at once; may be given several times [default: 1, 10 and 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) actors: Vec<u32>,
    /// Size of each body and of each reply, at most 16MiB
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = parse_call_size)]
    pub(crate) size: Size,
    /// How long to measure each number of callers
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_some_time)]
    pub(crate) seconds: Duration,
    /// Make every call from a new identity
    #[arg(long)]
    pub(crate) first_contact: bool,
}

/// Runs the peers for the measurement of memory, in a process of their own.
#[derive(Args, Debug)]
pub(crate) struct CrowdArgs {
    /// Size of the message that each peer sends, in bytes
    #[arg(long)]
    pub(crate) size: usize,
}

/// What else `exon bench` can measure: calls, and messages between processes.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Calls(CallsArgs),
    /// Take what clients send, and send it back, until interrupted
    #[command(after_help = SERVER_HELP)]
    Server(ServerArgs),
    /// Send to a server, and count the outcomes
    #[command(after_help = CLIENT_HELP)]
    Client(ClientArgs),
}

const SERVER_HELP: &str = "\
EXAMPLES
  On every address:
      exon bench server --bind 0.0.0.0:3967

Prints the peer for `exon bench client`. Takes messages from anyone.";

const CLIENT_HELP: &str = "\
EXAMPLES
  How many messages of 1 KiB arrive per second, if 64 are handed over at a time:
      exon bench client ID@HOST:PORT --batch 64

  A hundred thousand messages of eight actors, with their echoes, as one line of JSON:
      exon bench client ID@HOST:PORT --mode rpc --actors 8 --messages 100000 --json

  Calls in place of messages and echoes:
      exon bench client ID@HOST:PORT --call --actors 100

Every message has a number, so that the server can find duplicates. The client waits for the outcome
of each message, and counts it. A time is measured from the hand-over of a message to its outcome or
its reply; with --batch, to the last outcome of the batch. The warm-up does not count for the rate
and the times, but for what was sent, delivered and received.

With oneway, the client keeps open what fits into four congestion windows: at least 64 KiB and two
messages of each actor, and at most 16,384 messages. --open sets another number.

EXIT CODES
  0  every message was delivered, and every reply came
  1  an error: no server, wrong replies
  3  it is unknown whether some message was delivered";

/// The receiving end.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// The local address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = parse_address)]
    pub(crate) bind: SocketAddr,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Messages one way
    Oneway,
    /// A message and its echo, one at a time for each actor
    Rpc,
}

/// The sending end.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    /// The server, as it prints its own address: ID@HOST:PORT
    #[arg(value_name = "PEER", value_parser = parse_peer)]
    pub(crate) peer: PeerAddr,
    /// The kind of traffic to measure
    #[arg(long, value_enum, default_value = "oneway")]
    pub(crate) mode: Mode,
    /// Measure calls and their replies instead of messages, one at a time for each actor
    #[arg(long, conflicts_with_all = ["mode", "batch"])]
    pub(crate) call: bool,
    /// Size of each message: from 16 bytes, which its number needs, to 1 GiB
    #[arg(long, value_name = "BYTES", default_value = "1KiB")]
    pub(crate) size: Size,
    /// How many tasks (actors) send at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) actors: u32,
    /// How many messages to hand over at a time, for oneway
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) batch: u32,
    /// How many messages may be open at a time, for all actors together, for oneway
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) open: Option<u32>,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = parse_some_time)]
    pub(crate) seconds: Duration,
    /// How long to send before measuring, while windows grow and caches fill
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_span)]
    pub(crate) warm_up: Duration,
    /// Send this many messages, however long that takes
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) messages: Option<u64>,
    /// Give up if the server has been silent for this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_span)]
    pub(crate) timeout: Duration,
}
