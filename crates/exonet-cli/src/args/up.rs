//! `exon up` and `exon down`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;

use super::{GatewayArgs, MetricsArgs, parse_address};
use crate::units::{Size, at_least_one, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  A node that sends in the background, until it is interrupted:
      exon up --as shop

  Pass messages to it; look later which are not delivered yet:
      exon send --as shop --durable ID@HOST:PORT 'pay 10'
      exon outbox ls --as shop

  The same without a terminal, until `exon down`; or as a service of systemd:
      exon up --as shop --detach
      exon down --as shop
      exon service up --as shop > ~/.config/systemd/user/exon-up.service

  For programs in any language: send, receive, call and serve over HTTP; see docs/gateway.md
      exon up --as shop --http 127.0.0.1:3967 --anyone

The node continues with everything that the journal of its identity has, and takes messages of `exon
send` with the same identity. `exon send --durable` returns when the journal has its messages;
without --durable, it waits for their outcomes. If the node is killed and started again, it
continues where it was.

Without --http, the node only sends, and takes no messages from the network: `exon listen` does
that. Commands of the same user reach it through a socket in the directory of the identity. With
--detach, its output goes to the file `up.log` there.";

/// Run a node in the background that sends for other commands, as the stored identity `default` unless --as names
/// another
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The local address [default: any free port of all addresses]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) bind: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Keep at most this many open messages to each peer; commands that hand over more wait for room
    #[arg(long, value_name = "N", default_value = "65536", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) queue: NonZeroUsize,
    /// Keep at most this many bytes of open messages to each peer; one message always has room
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    pub(crate) queue_bytes: Size,
    /// Return once the node runs, in a session of its own
    #[arg(long)]
    pub(crate) detach: bool,
    /// Runs in a session of its own from the start.
    #[arg(long, hide = true)]
    pub(crate) session: bool,
}

const DOWN_HELP: &str = "\
EXAMPLES
  exon down --as shop

The command ends the `exon up` of the identity in order, as an interrupt does, and says what is left
for the next one. If none runs, it does nothing.";

/// End the background node of an identity, `default` unless --as names another
#[derive(Args, Debug)]
#[command(after_help = DOWN_HELP)]
pub(crate) struct DownArgs {
    /// Wait this long until it has ended
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) timeout: Duration,
}
