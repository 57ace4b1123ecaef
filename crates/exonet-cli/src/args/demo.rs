//! `exon demo`.

use std::time::Duration;

use clap::{Args, Parser};
use exonet::PeerAddr;

use crate::units::{ParseError, Size, parse_share, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  The whole demo, about 15 seconds:
      exon demo

  A worse network, which the seed makes repeatable:
      exon demo --loss 20% --reorder 30% --seed 7

  Without the crash no message may end unknown; for a script:
      exon demo --no-crash --json | tail -n 1

  With journals no message ends unknown, though sender and receiver are killed:
      exon demo --journal

The demo uses real sockets on loopback, and a relay that behaves like a bad network. The receiver is
a process of its own that stores only its key and one integer; it is killed (kill -9) in the middle,
and started again. Beside it, the same messages go through a second relay of the same kind by the
usual method: resending until acknowledged.

The last line of --json has: sent, delivered, duplicates, lost, unknown, seconds, msgs_per_s,
records_left, seed. The exit code is 1 if a message was lost or arrived twice, or if the run took
too long.

With --journal, a second pair of nodes keeps journals (`exon --help`, DURABILITY). Its sender is a
process too, and is killed after the receivers. If the receiver is killed after it has printed a
message and before it has taken it, its next life prints the message again. The id is the same, so
the ledger counts no duplicate. The last line of --json is then about this pair, and also has
crashes; the exit code is 1 unless every message was delivered, and none twice, lost or unknown.";

/// A size of at least the 8 bytes that the number of a message takes. At most, a message fits into one datagram of each
/// protocol that the demo compares.
fn parse_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|e: ParseError| e.to_string())?;
    match size.0 {
        8..=1_200 => Ok(size),
        _ => Err("a message of the demo has 8 to 1200 bytes".to_owned()),
    }
}

/// Show what Exonet guarantees over a network that loses, duplicates, corrupts, moves and fails
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// How many messages to send
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) messages: u64,
    /// Size of each message in bytes, from 8 to 1200
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = parse_size)]
    pub(crate) size: Size,
    /// Share of datagrams that are lost, each way
    #[arg(long, value_name = "P", default_value = "5%", value_parser = parse_share)]
    pub(crate) loss: f64,
    /// Share of datagrams that are duplicated
    #[arg(long, value_name = "P", default_value = "2%", value_parser = parse_share)]
    pub(crate) dup: f64,
    /// Share of datagrams that are delayed behind later ones
    #[arg(long, value_name = "P", default_value = "5%", value_parser = parse_share)]
    pub(crate) reorder: f64,
    /// Share of datagrams in which a bit is flipped
    #[arg(long, value_name = "P", default_value = "0.5%", value_parser = parse_share)]
    pub(crate) corrupt: f64,
    /// Delay each way, in milliseconds; jitter is added to it
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub(crate) delay: u64,
    /// How long the network is down in the middle
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_span)]
    pub(crate) outage: Duration,
    /// The seed for everything that happens in the network; a new one by default
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Kill no process
    #[arg(long)]
    pub(crate) no_crash: bool,
    /// Also run a sender and a receiver that keep journals, and kill both
    #[arg(long)]
    pub(crate) journal: bool,
}

impl DemoArgs {
    /// The command that repeats this run, with the same seed.
    pub(crate) fn again(&self, seed: u64) -> String {
        type Shown = fn(&DemoArgs) -> String;
        #[derive(Parser)]
        struct Usual {
            #[command(flatten)]
            demo: DemoArgs,
        }
        let usual = Usual::try_parse_from(["demo"]).ok().map(|usual| usual.demo);
        let mut again = format!("exon demo --seed {seed}");
        let mut add = |flag: &str, value: String, usual: Option<String>| {
            if usual.as_ref() != Some(&value) {
                again.push_str(&format!(" --{flag} {value}"));
            }
        };
        let values: [(&str, Shown); 8] = [
            ("messages", |args| args.messages.to_string()),
            ("size", |args| args.size.0.to_string()),
            ("loss", |args| args.loss.to_string()),
            ("dup", |args| args.dup.to_string()),
            ("reorder", |args| args.reorder.to_string()),
            ("corrupt", |args| args.corrupt.to_string()),
            ("delay", |args| args.delay.to_string()),
            ("outage", |args| format!("{}ms", args.outage.as_millis())),
        ];
        for (flag, value) in values {
            add(flag, value(self), usual.as_ref().map(value));
        }
        for (chosen, flag) in [(self.no_crash, " --no-crash"), (self.journal, " --journal")] {
            if chosen {
                again.push_str(flag);
            }
        }
        again
    }
}

/// The receiver's process.
#[derive(Args, Debug)]
pub(crate) struct DemoReceiverArgs {
    /// The size that every message must have, in bytes
    #[arg(long)]
    pub(crate) size: usize,
    /// Also run a node that keeps a journal
    #[arg(long)]
    pub(crate) journal: bool,
}

/// The process of a sender with a journal.
#[derive(Args, Debug)]
pub(crate) struct DemoSenderArgs {
    #[arg(long)]
    pub(crate) peer: PeerAddr,
    /// The size of every message, in bytes
    #[arg(long)]
    pub(crate) size: usize,
    #[arg(long)]
    pub(crate) messages: u64,
    /// The number of the first message that has not been sent yet
    #[arg(long)]
    pub(crate) from: u64,
}
