//! The process of the receivers. It reports each delivery through a pipe.

use std::future::pending;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use exonet::{Allow, Durability, MessageId, Node};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UdpSocket;

use super::line::{Line, Side};
use super::payload::number;
use super::plain;
use crate::exit::Exit;
use crate::failure::Failure;

/// How long unused records stay: a short time, so that the demo can show that they are dropped.
pub(super) const LINGER: Duration = Duration::from_millis(300);

/// Runs until standard input ends, which happens when the parent ends. `state` keeps the identities across crashes.
/// With `journal`, there is another node, which keeps a journal.
pub(crate) async fn receive(state: Option<&Path>, size: usize, journal: bool) -> Result<Exit, Failure> {
    let state = state.ok_or_else(|| Failure::new("demo-receiver is started by `exon demo`"))?;
    let failed = |e| Failure::new("the demo's receiver has failed").because(&e);
    let node = start(&state.join("exonet"), Durability::Memory).await?;
    let journal = match journal {
        true => Some(start(&state.join("journal"), Durability::Process).await?),
        false => None,
    };
    let (remembering, plain) = (socket().await.map_err(failed)?, socket().await.map_err(failed)?);
    let ready = Line::Ready {
        exonet: node.peer_addr(),
        journal: journal.as_ref().map(Node::peer_addr),
        remembering: remembering.local_addr().map_err(failed)?,
        plain: plain.local_addr().map_err(failed)?,
    };
    say(&ready).map_err(failed)?;
    let heard = |side| {
        move |n: u64, body: &[u8]| match number(body, size) {
            Some(told) if told == n => say(&Line::Delivered(side, n)),
            _ => Ok(()),
        }
    };
    let kept = async {
        match &journal {
            Some(node) => take(node, size, |n, id| Line::Kept(n, (id.r.0, id.s.0))).await,
            None => pending().await,
        }
    };
    let nodes: Vec<&Node> = [&node].into_iter().chain(&journal).collect();
    tokio::select! {
        result = take(&node, size, |n, _| Line::Delivered(Side::Exonet, n)) => result?,
        result = kept => result?,
        result = plain::receive(remembering, true, heard(Side::Remembering)) => result.map_err(failed)?,
        result = plain::receive(plain, false, heard(Side::Plain)) => result.map_err(failed)?,
        result = answer(&nodes) => result.map_err(failed)?,
    }
    Ok(Exit::Success)
}

async fn start(state: &Path, durability: Durability) -> Result<Node, Failure> {
    Node::builder(Allow::anyone())
        .state_dir(state)
        .durability(durability)
        .bind("127.0.0.1:0")
        .config(|config| config.sender_linger = LINGER)
        .build()
        .await
        .map_err(|e| Failure::new("the demo's receiver cannot start").because(&e))
}

async fn socket() -> io::Result<UdpSocket> {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    UdpSocket::bind(address).await
}

/// Receives messages. Never returns without an error.
///
/// It reports each message first, and then takes it. So if a sender learns that a message was delivered, the ledger
/// has that message. If the process is killed in between, the message ends Unknown at its sender. With a journal, the
/// node hands the message out again under the same id.
async fn take(node: &Node, size: usize, line: impl Fn(u64, MessageId) -> Line) -> Result<(), Failure> {
    let failed = |e: &dyn std::error::Error| Failure::new("the demo's receiver has failed").because(e);
    loop {
        let mut delivery = node.recv().await.map_err(|e| failed(&e))?;
        let body = delivery.body_mut().bytes(u64::MAX).await;
        if let Some(n) = body.ok().and_then(|body| number(&body, size)) {
            say(&line(n, delivery.id())).map_err(|e| failed(&e))?;
        }
        // The record is gone only if this process has forgotten it, and the sender learns that.
        let _ = delivery.ack();
    }
}

/// Answers the parent's questions about records, until the parent closes the pipe.
async fn answer(nodes: &[&Node]) -> io::Result<()> {
    let mut questions = BufReader::new(tokio::io::stdin()).lines();
    while questions.next_line().await?.is_some() {
        let stats = nodes.iter().map(|node| node.stats());
        let records = stats.map(|stats| stats.sender_records + stats.receiver_records).sum();
        say(&Line::Records(records))?;
    }
    Ok(())
}

/// Each line is one write. Standard output passes on whole lines unchanged.
fn say(line: &Line) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.to_string().as_bytes())?;
    out.flush()
}
