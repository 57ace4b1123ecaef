//! The process of a sender that keeps a journal. It can be killed at any time, and then continues with the same
//! identity.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use exonet::state::{StateDir, StateError};
use exonet::{Allow, Node, Outcome, PeerAddr};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::line::Strange;
use super::payload::{number, payload};
use super::receiver::LINGER;
use crate::args::DemoSenderArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// The lines that the process writes to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// It continues with `left` messages of its journal.
    Ready { left: u64 },
    /// It is about to send a message. Those before it are in the journal, or settled.
    Begins(u64),
    /// A message ended, and was not delivered.
    Failed,
    /// All are settled.
    Done,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { left } => writeln!(f, "ready {left}"),
            Self::Begins(n) => writeln!(f, "begins {n}"),
            Self::Failed => writeln!(f, "failed"),
            Self::Done => writeln!(f, "done"),
        }
    }
}

impl FromStr for Said {
    type Err = Strange;

    fn from_str(text: &str) -> Result<Self, Strange> {
        let (word, number) = text.split_once(' ').map_or((text, None), |(word, n)| (word, n.parse().ok()));
        match (word, number) {
            ("ready", Some(left)) => Ok(Self::Ready { left }),
            ("begins", Some(n)) => Ok(Self::Begins(n)),
            ("failed", None) => Ok(Self::Failed),
            ("done", None) => Ok(Self::Done),
            _ => Err(Strange),
        }
    }
}

/// What the parent orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The number of messages that may have been sent by now.
    Allow(u64),
    /// The sender must move to another address.
    Move,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow(n) => writeln!(f, "allow {n}"),
            Self::Move => writeln!(f, "move"),
        }
    }
}

impl FromStr for Order {
    type Err = Strange;

    fn from_str(text: &str) -> Result<Self, Strange> {
        match text.split_once(' ') {
            Some(("allow", n)) => n.parse().map(Self::Allow).map_err(|_| Strange),
            None if text == "move" => Ok(Self::Move),
            _ => Err(Strange),
        }
    }
}

/// Sends until all messages are settled, and stays until standard input ends.
pub(crate) async fn send(state: Option<&Path>, args: &DemoSenderArgs) -> Result<Exit, Failure> {
    let state = state.ok_or_else(|| Failure::new("demo-sender is started by `exon demo`"))?;
    let failed = |e: &dyn std::error::Error| Failure::new("the demo's sender has failed").because(e);
    let next = next_of(state, args).map_err(|e| failed(&e))?;
    let node = Node::builder(Allow::only([args.peer.id]))
        .state_dir(state)
        .bind("127.0.0.1:0")
        .config(|config| config.sender_linger = LINGER)
        .build()
        .await
        .map_err(|e| failed(&e))?;
    let open: FuturesUnordered<_> = node.recovered().into_iter().map(|(_, receipt)| receipt).collect();
    say(Said::Ready { left: u64::try_from(open.len()).unwrap_or(u64::MAX) }).map_err(|e| failed(&e))?;
    run(&node, args, next, open).await
}

/// The number of the first message that no life of this identity has sent. A message that a killed life was about to
/// send is in the journal, or was not sent. It is not settled, since the parent would then have counted it.
fn next_of(state: &Path, args: &DemoSenderArgs) -> Result<u64, StateError> {
    let outbox = match StateDir::open(state) {
        Ok(directory) => directory.outbox()?,
        Err(StateError::Missing { .. }) => return Ok(args.from),
        Err(error) => return Err(error),
    };
    let numbers = outbox.messages.iter().filter_map(|message| number(&message.body, args.size));
    Ok(numbers.map(|n| n.saturating_add(1)).fold(args.from, u64::max))
}

async fn run(
    node: &Node,
    args: &DemoSenderArgs,
    mut next: u64,
    mut open: FuturesUnordered<exonet::Receipt>,
) -> Result<Exit, Failure> {
    let failed = |e: &dyn std::error::Error| Failure::new("the demo's sender has failed").because(e);
    let peer = node.peer(PeerAddr::clone(&args.peer));
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let (mut allowed, mut begun, mut done) = (0, next, false);
    loop {
        let may_send = next < allowed.min(args.messages);
        if may_send && begun == next {
            say(Said::Begins(next)).map_err(|e| failed(&e))?;
            begun += 1;
        }
        if next >= args.messages && open.is_empty() && !done {
            done = true;
            say(Said::Done).map_err(|e| failed(&e))?;
        }
        tokio::select! {
            order = orders.next_line() => match order.map_err(|e| failed(&e))?.map(|order| order.parse()) {
                Some(Ok(Order::Allow(n))) => allowed = n,
                Some(Ok(Order::Move)) => {
                    node.rebind(([127, 0, 0, 1], 0).into()).await.map_err(|e| failed(&e))?;
                }
                Some(Err(strange)) => return Err(failed(&strange)),
                None => return Ok(Exit::Success),
            },
            sent = peer.send(payload(next, args.size)), if may_send => {
                open.push(sent.map_err(|e| failed(&e))?);
                next += 1;
            }
            Some(settled) = open.next() => if settled.outcome != Outcome::Delivered {
                say(Said::Failed).map_err(|e| failed(&e))?;
            },
        }
    }
}

/// Each line is one write.
fn say(said: Said) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(said.to_string().as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        for said in [Said::Ready { left: 3 }, Said::Begins(7), Said::Failed, Said::Done] {
            assert_eq!(said.to_string().trim_end().parse(), Ok(said));
        }
        for order in [Order::Allow(9), Order::Move] {
            assert_eq!(order.to_string().trim_end().parse(), Ok(order));
        }
        assert_eq!("begins".parse::<Said>(), Err(Strange));
        assert_eq!("allow".parse::<Order>(), Err(Strange));
    }
}
