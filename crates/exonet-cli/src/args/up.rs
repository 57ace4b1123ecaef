//! `exon up` and `exon down`.

use std::time::Duration;

use clap::Args;

use super::{GatewayArgs, MetricsArgs};
use crate::units::parse_span;

const AFTER_HELP: &str = "\
EXAMPLES
  A node that sends in the background, until it is interrupted:
      exon up --as shop

  Hand messages over to it, and go home; look later what is not delivered yet:
      exon send --as shop --durable ID@HOST:PORT 'pay 10'
      exon outbox ls --as shop

  The same without a terminal, until it is ended; or as a service of systemd:
      exon up --as shop --detach
      exon down --as shop
      exon service up --as shop > ~/.config/systemd/user/exon-up.service

  For programs in any language: send, receive, call and serve by HTTP; see docs/gateway.md
      exon up --as shop --http 127.0.0.1:3967 --anyone

It goes on with all that the journal of its identity has, and takes messages of `exon send` with the
same identity. `exon send --durable` returns when the journal has its messages; without --durable,
it waits for their outcomes. Killed, it goes on where it was when it is started again.

It sends, and takes no messages from the network without --http: that does `exon listen`. Commands
of this user reach it through a socket in the directory of the identity. With --detach, what it says
goes to the file `up.log` there.";

/// Run a node in the background that sends for others, as the stored identity `default` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// The local address [default: any free port of all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// Return when it runs, in a session of its own
    #[arg(long)]
    pub(crate) detach: bool,
    /// In a session of its own from the start.
    #[arg(long, hide = true)]
    pub(crate) session: bool,
}

const DOWN_HELP: &str = "\
EXAMPLES
  exon down --as shop

It ends the `exon up` of the identity in order, as an interrupt does, and says what is left for the
next one. There is nothing to do if none runs.";

/// End the background node of an identity, `default` unless told otherwise
#[derive(Args, Debug)]
#[command(after_help = DOWN_HELP)]
pub(crate) struct DownArgs {
    /// Wait for its end for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_span)]
    pub(crate) timeout: Duration,
}
