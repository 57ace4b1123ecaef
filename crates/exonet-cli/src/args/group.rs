//! `exon group`.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Command, Subcommand, ValueEnum};
use exonet::group::Mode;
use exonet::stream::MAX_NAME;

use super::send::{Confirmed, Urgency};
use crate::peers::{Named, parse_named};
use crate::units::{at_least_one, parse_label, parse_span};

const AFTER_HELP: &str = "\
EXAMPLES
  To three nodes, all of which must have it:
      exon group send --to A@HOST:PORT --to B@HOST:PORT --to C@HOST:PORT 'the build is green'

  Lines that all three get in the order in which they are sent:
      exon group send --to A@HOST:PORT --to B@HOST:PORT --to C@HOST:PORT --stream log < log.txt

  A node that receives such messages, or such a stream:
      exon listen
      exon listen --stream log";

const SEND_HELP: &str = "\
EXAMPLES
  All must have it (A, B and C are names, see `exon peer`, or ID@HOST:PORT):
      exon group send --to A --to B --to C 'the build is green'

  Three get it, and it is enough if two have it:
      exon group send --mode quorum=2/3 --to A --to B --to C --to D 'block 17' --deadline 10s

  A job for one of them; another gets it only if the first certainly does not:
      exon group send --mode balanced --to A --to B --confirm processed - < job.json

  Each line of a file as a message, in order; each must reach two of three:
      exon group send --stream log --mode quorum=2/3 --to A --to B --to C < log.txt

STREAMS
  With --stream NAME, every TEXT or every line of standard input is a message of an ordered stream
  to all members, which print it with `exon listen --stream NAME`. The mode says how many members
  must have each message; every message goes to all members, so `balanced` is not allowed. If a
  member is half of --queue messages behind the fastest, it falls out, unless --when-full wait is
  given. The table counts for each member how its messages ended. The stream has reached the members
  if every message has.

MODES
  all         all members get it, and all must have it
  any         all members get it, and one must have it
  quorum=P/K  K members get it, and P of them must have it; one that certainly does not get it is
              replaced by another
  balanced=K  the same with P = K; without a number, 1

EXIT CODES
    0  reached: as many members as required have it
    1  an error; standard error says which
    3  failed, and it is unknown whether some member has it: once, or not at all
    4  failed, and it is known of each member whether it has it
    6  failed, and the journal of the stored identity keeps some copy
  130  interrupted

Failed does not mean that no member has the message: the table shows what is known of each. It is
printed when the message has ended at every member, or when --wait is over. With -v, and always with
--json, it has the round trip to each member and the share of packets that were lost.";

/// Send one message to several nodes
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    pub(crate) command: GroupCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    Send(GroupSendArgs),
}

/// Send a message to all of them, to any, to some, or to one, and show who has it
#[derive(Args, Debug)]
#[command(after_help = SEND_HELP)]
pub(crate) struct GroupSendArgs {
    /// A member: a name (see `exon peer`), or ID@HOST:PORT; may be given several times
    #[arg(long = "to", value_name = "PEER", value_parser = parse_named, required = true)]
    pub(crate) members: Vec<Named>,
    /// Which members get it, and how many must have it: all, any, quorum=P/K, balanced or balanced=K
    #[arg(long, value_name = "MODE", value_parser = parse_mode, default_value = "all")]
    pub(crate) mode: Mode,
    /// The message. Without it, or for -: all of standard input. With --stream, each TEXT is a message
    #[arg(value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
    /// Send an ordered stream of this name: each TEXT, or each line of standard input, is a message
    #[arg(long, value_name = "NAME", conflicts_with = "tag")]
    pub(crate) stream: Option<String>,
    /// How many messages of the stream may be open at a member
    #[arg(long, value_name = "N", default_value = "1024", requires = "stream", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) queue: NonZeroUsize,
    /// What happens to a member that has reached this limit
    #[arg(long, value_enum, value_name = "WHAT", default_value = "fall-out", requires = "stream")]
    pub(crate) when_full: WhenFull,
    /// A tag by which the receivers can dispatch the message, at most 255 bytes
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true, value_parser = parse_label)]
    pub(crate) tag: String,
    /// The priority: messages of a higher priority are sent first
    #[arg(long, value_enum, value_name = "PRIORITY", default_value_t)]
    pub(crate) priority: Urgency,
    /// Fail if too few members have it after this long. A copy that has not left by then is not sent
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "30s")]
    pub(crate) deadline: Duration,
    /// When a member has the message: once it is delivered, or once the application there has processed it
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) confirm: Confirmed,
    /// After the verdict, wait this long for the outcomes at the other members
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "1s")]
    pub(crate) wait: Duration,
}

/// What happens to a member that is too slow for a stream.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WhenFull {
    /// It leaves the stream, and learns that; the others go on
    FallOut,
    /// The whole stream waits for it
    Wait,
}

/// Checks the members, the mode and the input, which the parser cannot check by itself.
///
/// # Errors
/// An error in the form of the parser.
pub(super) fn check(args: &GroupSendArgs) -> Result<(), clap::Error> {
    let Some(why) = wrong(args) else { return Ok(()) };
    Err(GroupSendArgs::augment_args(Command::new("send").bin_name("exon group send"))
        .error(ErrorKind::ArgumentConflict, why))
}

/// What is wrong with the arguments together.
fn wrong(args: &GroupSendArgs) -> Option<String> {
    let members = args.members.len();
    let mut ids = BTreeSet::new();
    if let Some(twice) = args.members.iter().find(|member| !ids.insert(member.peer.id)) {
        return Some(format!("{} is a member twice: name each once", twice.name));
    }
    let asked = match args.mode {
        Mode::Balanced { .. } if args.stream.is_some() => {
            return Some("a stream goes to all members, so it cannot be balanced".to_owned());
        }
        Mode::Quorum { send, .. } => send,
        Mode::Balanced { k } => k,
        _ => 1,
    };
    if asked > members {
        return Some(format!("--mode asks for {asked} members, and the group has {members}"));
    }
    match &args.stream {
        Some(name) if name.is_empty() || name.len() > MAX_NAME => {
            Some(format!("the name of a stream has 1 to {MAX_NAME} bytes, and {name:?} has {}", name.len()))
        }
        None if args.texts.len() > 1 => Some(
            "several texts are several messages, and this command sends one\n\n  \
             tip: to send them as a stream: --stream NAME"
                .to_owned(),
        ),
        _ => None,
    }
}

/// `all`, `any`, `quorum=P/K`, `balanced` or `balanced=K`.
fn parse_mode(text: &str) -> Result<Mode, String> {
    let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n > 0);
    let quorum = |text: &str| {
        let (acks, send) = text.split_once('/')?;
        let (acks, send) = (number(acks)?, number(send)?);
        (acks <= send).then_some(Mode::Quorum { send, acks })
    };
    match text {
        "all" => Some(Mode::All),
        "any" => Some(Mode::Any),
        "balanced" => Some(Mode::Balanced { k: 1 }),
        _ => match text.split_once('=') {
            Some(("quorum", of)) => quorum(of),
            Some(("balanced", k)) => number(k).map(|k| Mode::Balanced { k }),
            _ => None,
        },
    }
    .ok_or_else(|| {
        "write all, any, quorum=P/K with P of K members that must have it (P must not exceed K), or balanced=K; all \
         numbers from 1"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read() {
        assert_eq!(parse_mode("all"), Ok(Mode::All));
        assert_eq!(parse_mode("any"), Ok(Mode::Any));
        assert_eq!(parse_mode("quorum=2/3"), Ok(Mode::Quorum { send: 3, acks: 2 }));
        assert_eq!(parse_mode("balanced"), Ok(Mode::Balanced { k: 1 }));
        assert_eq!(parse_mode("balanced=4"), Ok(Mode::Balanced { k: 4 }));
        for wrong in ["", "some", "quorum", "quorum=2", "quorum=3/2", "quorum=0/2", "balanced=0", "all=2"] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }
}
