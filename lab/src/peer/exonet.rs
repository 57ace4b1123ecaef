//! Exonet itself.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use exonet::{Allow, Builder, Node, NodeId, PeerAddr};
use tokio::sync::watch;

use super::tasks::{self, Shared};
use super::{Peer, Setup, calls, everything, nothing_missing, one_connection};
use super::{cold, contact};
use crate::app::{Crowd, Meter, NUMBERS_APART, Work};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "exonet",
        label: "Exonet",
        tuning: "what is ready is sent and received in batches of up to 64, bodies borrowed both ways",
        reliable: true,
        cannot: everything,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-calls",
        label: "Exonet, calls at most once",
        tuning: "`Peer::call`, and a method that the server serves; in all other rows a call is a message that is answered by a message",
        reliable: true,
        cannot: calls,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-single",
        label: "Exonet, one by one",
        tuning: "a call of the library for each message",
        reliable: true,
        cannot: one_connection,
        missing: nothing_missing,
        run,
    },
];

const BATCH: usize = 64;

fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    if matches!(setup.work, Work::Contact { .. }) {
        return contact::run::<contact::exonet::Exonet>(setup, meter);
    }
    tasks::run(setup, meter, |setup, meter| async move { work(&setup, &meter).await })
}

fn builder(setup: &Setup) -> Builder {
    Node::builder(Allow::anyone()).limits(|limits| limits.queued_bytes = setup.buffer() as usize)
}

async fn work(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let batch = if setup.peer == "exonet" { BATCH } else { 1 };
    if let Work::Crowd { clients, per_second } = setup.work
        && !setup.is_server()
    {
        let of = (clients, per_second);
        return crowd(setup, clients, Crowd::new(Arc::clone(meter), setup.part, setup.bytes, of)).await;
    }
    let node = if setup.is_server() {
        let node = builder(setup).bind(setup.listen).build().await?;
        setup.hello(&node.peer_addr().to_string());
        node
    } else {
        builder(setup).bind("0.0.0.0:0").build().await?
    };
    if let Work::Cold { messages, calls } = setup.work {
        return cold::run(&node, setup, meter, messages, calls).await;
    }
    if let (Work::Calls { actors }, "exonet-calls") = (setup.work, setup.peer.as_str()) {
        return cold::calls(&node, setup, meter, actors).await;
    }
    let shared = Shared::new(setup, meter);
    // The server answers whom it has heard of.
    let (heard, other) = watch::channel(None);
    if !setup.is_server() {
        heard.send_replace(Some(setup.server.parse::<PeerAddr>()?));
    }
    tokio::try_join!(send(&node, &shared, other, batch), receive(&node, &shared, &heard, batch))?;
    Ok(())
}

async fn send(
    node: &Node,
    shared: &Shared,
    mut other: watch::Receiver<Option<PeerAddr>>,
    batch: usize,
) -> Result<()> {
    let to = other.wait_for(Option::is_some).await?.clone().context("nobody to send to")?;
    let to = node.peer(to);
    let mut buffer = Vec::new();
    loop {
        if batch == 1 {
            for message in shared.next(1).await {
                drop(to.send(message).await?);
            }
        } else {
            shared.fill(&mut buffer, batch).await;
            let bodies = buffer.chunks(shared.bytes());
            drop(to.send_bodies(bodies).await?);
        }
    }
}

async fn receive(
    node: &Node,
    shared: &Shared,
    heard: &watch::Sender<Option<PeerAddr>>,
    batch: usize,
) -> Result<()> {
    let messages = node.at_most_once();
    let mut from: Option<NodeId> = None;
    loop {
        let received = messages.recv_batch(batch).await?;
        if let (None, Some(first)) = (from, received.views().next()) {
            let sender = first.id.sender;
            from = Some(sender);
            heard.send_if_modified(|other| other.is_none() && other.replace(sender.into()).is_none());
        }
        shared.take(received.views().filter_map(|message| message.body));
    }
}

/// Each client is a node with a key and a socket of its own.
async fn crowd(setup: &Setup, clients: u32, crowd: Crowd) -> Result<()> {
    let to: PeerAddr = setup.server.parse()?;
    let mut all = tokio::task::JoinSet::new();
    for n in 0..clients {
        let node = Node::builder(Allow::anyone())
            .bind(SocketAddr::from((setup.client_address(n), 0)))
            .build()
            .await?;
        let (to, mut visitor) = (node.peer(&to), crowd.visitor(n));
        all.spawn(async move {
            loop {
                drop(to.send(visitor.message().await).await?);
            }
        });
        tokio::time::sleep(NUMBERS_APART).await;
    }
    match all.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}
