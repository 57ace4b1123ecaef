//! Exonet's groups.

use std::sync::Arc;
use std::time::Duration;

use ::exonet::group::{Group, Mode};
use ::exonet::{Allow, Message, Node, Outcome, PeerAddr};
use anyhow::{Context, Result, bail};

use super::super::tasks::Shared;
use super::super::{Setup, find};
use crate::app::{Meter, Pacer, Taker, Tally, Work, machine_time};

/// Longer than any repair takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// Each member is a node with a key and a socket of its own. The peer's name gives the mode.
///
/// The sender counts a message as received when it has the verdict and each copy has ended.
pub(in super::super) async fn fan(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let (members, per_second) = super::work(&setup)?;
    let mode = mode(&setup, members)?;
    let balanced = matches!(mode, Mode::Balanced { .. });
    if setup.is_server() {
        let mut addresses = Vec::new();
        let tally = Arc::new(Tally::new(find(&setup.peer)?.required(members)));
        // No two members may have the same balanced message.
        let together = Shared::new(&setup, &meter);
        for n in 0..members {
            let node = Node::builder(Allow::anyone()).bind(super::listen(&setup, n)?).build().await?;
            addresses.push(node.peer_addr().to_string());
            let shared = match mode {
                Mode::All => Shared::new(&setup, &meter),
                Mode::Balanced { .. } => together.clone(),
                _ => Shared::of(&setup, Box::new(Taker::of_member(Arc::clone(&meter), Arc::clone(&tally)))),
            };
            tokio::spawn(take(node, shared));
        }
        setup.hello(&addresses.join(","));
        return std::future::pending().await;
    }
    let node = Node::builder(Allow::anyone()).bind("0.0.0.0:0").build().await?;
    let group = node.group(addresses(&setup)?).build()?;
    // A balanced message makes one copy. So that as many copies leave, there are more messages.
    let per_second = if balanced { per_second * members } else { per_second };
    let mut pacer = Pacer::new(&meter, (1, per_second), setup.bytes);
    loop {
        let (_, body) = pacer.next().await;
        let (mut receipt, meter) = (group.send(mode, body).await?, Arc::clone(&meter));
        tokio::spawn(async move {
            let reached = receipt.decided().await.is_reached();
            // The verdict of a balanced message is the end of its only copy.
            if !balanced {
                receipt.ended().await;
            }
            if reached {
                meter.receive();
            } else {
                meter.damage();
            }
        });
    }
}

/// The mode that the peer's name gives.
fn mode(setup: &Setup, members: u32) -> Result<Mode> {
    let peer = find(&setup.peer)?;
    Ok(match peer.name {
        "exonet" | "exonet-all" => Mode::All,
        "exonet-any" => Mode::Any,
        "exonet-quorum" => Mode::Quorum { send: members as usize, acks: peer.required(members) as usize },
        _ => Mode::Balanced { k: 1 },
    })
}

/// Sends each message to some of the members, in the mode that the peer's name gives. The latency of a message ends when the sender
/// knows the verdict.
pub(in super::super) async fn spread(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let Work::Spread { per_second } = setup.work else { bail!("there are no members apart") };
    if setup.is_server() {
        let node = Node::builder(Allow::anyone()).bind(setup.listen).build().await?;
        setup.hello(&node.peer_addr().to_string());
        return take(node, Shared::new(&setup, &meter)).await;
    }
    let node = Node::builder(Allow::anyone()).bind("0.0.0.0:0").build().await?;
    let members = addresses(&setup)?;
    let by_turns = setup.peer == "exonet-round-robin";
    let mode = mode(&setup, u32::try_from(members.len())?)?;
    let group = node.group(members.clone()).build()?;
    let mut pacer = Pacer::new(&meter, (1, per_second), setup.bytes);
    for next in members.iter().cycle() {
        let (_, body) = pacer.next().await;
        let (due, meter) = (pacer.last_due(), Arc::clone(&meter));
        let (group, peer) = (group.clone(), by_turns.then(|| node.peer(next)));
        tokio::spawn(async move {
            let arrived = match peer {
                Some(peer) => peer.send(body).await?.await.outcome == Outcome::Delivered,
                None => to_group(&group, mode, body).await?,
            };
            if arrived {
                meter.latency(machine_time().saturating_sub(due));
                meter.receive();
            } else {
                meter.damage();
            }
            anyhow::Ok(())
        });
    }
    bail!("there are no members")
}

async fn to_group(group: &Group, mode: Mode, body: Vec<u8>) -> Result<bool> {
    let mut receipt = group.send(mode, Message::new(body).deadline(DEADLINE)).await?;
    Ok(receipt.decided().await.is_reached())
}

async fn take(node: Node, shared: Shared) -> Result<()> {
    let messages = node.at_most_once();
    loop {
        let received = messages.recv_batch(64).await?;
        shared.take(received.views().filter_map(|message| message.body));
    }
}

fn addresses(setup: &Setup) -> Result<Vec<PeerAddr>> {
    setup.server.split(',').map(|address| address.parse().context("no address of a member")).collect()
}
