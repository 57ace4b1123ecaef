//! `exon demo`.

use std::time::Duration;

use clap::{Args, Parser};
use exonet::PeerAddr;

use crate::units::{ParseError, Size, parse_share, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  The whole show, about a quarter of a minute:
      exon demo

  A worse network, and the same one again:
      exon demo --loss 20% --reorder 30% --seed 7

  Without the crash nothing may stay unknown; for a script:
      exon demo --no-crash --json | tail -n 1

  With journals nothing is unknown, though the sender and the receiver are killed:
      exon demo --journal

Real sockets on loopback, through a relay that spoils them. The receiver is a process of its own
that keeps nothing but its key and one integer; it is killed (kill -9) and started again in the
middle. Beside it, the same messages go through an equal relay, by resending until acknowledged,
as most programs do.

The last line of --json has: sent, delivered, duplicates, lost, unknown, seconds, msgs_per_s,
records_left, seed. Exit code 1 if anything was lost or came twice, or if it took too long to end.

With --journal a second pair of nodes keeps journals (`exon --help`, DURABILITY). Its sender is a
process too, and is killed later than the receivers. What a receiver has printed and not yet taken
when it is killed is printed again by its next life, under the same id, by which the ledger knows
it: that is no duplicate. The last line of --json is about this pair then, and has crashes besides;
exit code 1 unless all was delivered, and nothing twice, lost or unknown.";

/// Room for a number, and no more than fits a datagram of the sides that it is compared with.
fn parse_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|e: ParseError| e.to_string())?;
    match size.0 {
        8..=1_200 => Ok(size),
        _ => Err("a message of the demo has 8 to 1200 bytes".to_owned()),
    }
}

/// Show the guarantee over a network that loses, doubles, garbles, moves and dies
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// How many messages
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) messages: u64,
    /// Bytes of each, from 8 to 1200
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = parse_size)]
    pub(crate) size: Size,
    /// Share of datagrams lost, each way
    #[arg(long, value_name = "P", default_value = "5%", value_parser = parse_share)]
    pub(crate) loss: f64,
    /// Share of datagrams doubled
    #[arg(long, value_name = "P", default_value = "2%", value_parser = parse_share)]
    pub(crate) dup: f64,
    /// Share of datagrams held back behind later ones
    #[arg(long, value_name = "P", default_value = "5%", value_parser = parse_share)]
    pub(crate) reorder: f64,
    /// Share of datagrams with a flipped bit
    #[arg(long, value_name = "P", default_value = "0.5%", value_parser = parse_share)]
    pub(crate) corrupt: f64,
    /// Delay each way, in milliseconds; jitter comes on top
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub(crate) delay: u64,
    /// How long the network is dead halfway
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_span)]
    pub(crate) outage: Duration,
    /// The seed of every accident of the network; a new one by default
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Kill nobody
    #[arg(long)]
    pub(crate) no_crash: bool,
    /// Show beside the others a sender and a receiver with journals, and kill both
    #[arg(long)]
    pub(crate) journal: bool,
}

impl DemoArgs {
    /// The command that plays the same again, with this seed.
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
    /// Bytes that every message must have
    #[arg(long)]
    pub(crate) size: usize,
    /// With another node, which keeps a journal
    #[arg(long)]
    pub(crate) journal: bool,
}

/// The process of a sender with a journal.
#[derive(Args, Debug)]
pub(crate) struct DemoSenderArgs {
    #[arg(long)]
    pub(crate) peer: PeerAddr,
    /// Bytes of every message
    #[arg(long)]
    pub(crate) size: usize,
    #[arg(long)]
    pub(crate) messages: u64,
    /// The first message that nobody has sent
    #[arg(long)]
    pub(crate) from: u64,
}
