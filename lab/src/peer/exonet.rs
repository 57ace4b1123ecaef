//! Exonet itself.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use exonet::{Allow, Builder, Node, NodeId, PeerAddr};
use tokio::sync::watch;

use super::tasks::{self, Shared};
use super::{Peer, Setup, calls, mode, nothing_missing, one_connection, spread, transfer};
use super::{cold, contact, fan, session};
use crate::app::{Crowd, Meter, NUMBERS_APART, Pacer, Work};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "exonet",
        label: "Exonet",
        tuning: "what is ready is sent and received in batches of up to 64, bodies borrowed both ways",
        reliable: true,
        cannot: not_a_mode,
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
        tuning: "a call of the library for each message, and its receipt awaited",
        reliable: true,
        cannot: one_connection,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-sends",
        label: "Exonet, sent one by one",
        tuning: "as Exonet, one by one; received as Exonet",
        reliable: true,
        cannot: one_connection,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-balanced",
        label: "Exonet, Balanced",
        tuning: "a group, each message for the member that has the least load",
        reliable: true,
        cannot: mode,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-round-robin",
        label: "Exonet, by turns, no group",
        tuning: "each message for one of three members in turn, sent by the application",
        reliable: true,
        cannot: spread,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-any",
        label: "Exonet, Any",
        tuning: "a group, one member of which must have the message",
        reliable: true,
        cannot: mode,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-quorum",
        label: "Exonet, Quorum",
        tuning: "a group, half of whose members, rounded up, must have the message",
        reliable: true,
        cannot: mode,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-all",
        label: "Exonet, All",
        tuning: "a group, all of whose members must have the message",
        reliable: true,
        cannot: spread,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-window-1",
        label: "Exonet, 1 open",
        tuning: "the application has at most 1 chunk open, and waits for the oldest receipt",
        reliable: true,
        cannot: transfer,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-window-32",
        label: "Exonet, 32 open",
        tuning: "the application has at most 32 chunks open, and waits for the oldest receipt",
        reliable: true,
        cannot: transfer,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "exonet-window-128",
        label: "Exonet, 128 open",
        tuning: "the application has at most 128 chunks open, and waits for the oldest receipt",
        reliable: true,
        cannot: transfer,
        missing: nothing_missing,
        run,
    },
];

/// For plain Exonet: the modes of a group have rows of their own.
const fn not_a_mode(work: Work) -> Option<&'static str> {
    match work {
        Work::Spread { .. } => Some("each mode has a row of its own"),
        Work::Durable { .. } => Some("each durability has a row of its own"),
        _ => None,
    }
}

const BATCH: usize = 64;
/// Messages whose receipts are open at a time, sent one by one.
const OPEN: usize = 8_192;

fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    if matches!(setup.work, Work::Contact { .. }) {
        return contact::run::<contact::exonet::Exonet>(setup, meter);
    }
    if let Work::Sessions { .. } = setup.work {
        return session::run::<session::Exonet>(setup, meter);
    }
    if let Work::Fan { .. } = setup.work {
        return tasks::run(setup, meter, fan::exonet);
    }
    if let Work::Spread { .. } = setup.work {
        return tasks::run(setup, meter, fan::spread);
    }
    tasks::run(setup, meter, |setup, meter| async move { work(&setup, &meter).await })
}

fn builder(setup: &Setup) -> Builder {
    Node::builder(Allow::anyone()).limits(|limits| limits.queued_bytes = setup.buffer() as usize)
}

async fn work(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let (sent, taken) = match setup.peer.as_str() {
        "exonet" => (BATCH, BATCH),
        "exonet-sends" => (1, BATCH),
        _ => (1, 1),
    };
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
    if let Work::Lanes { lanes, per_second } = setup.work {
        return if setup.is_server() {
            take_lanes(&node, Shared::new(setup, meter)).await
        } else {
            send_lanes(&node, setup, lanes, Pacer::new(meter, (lanes, per_second), setup.bytes)).await
        };
    }
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
    tokio::try_join!(send(&node, &shared, other, sent), receive(&node, &shared, &heard, taken))?;
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
    let (mut buffer, mut open) = (Vec::new(), VecDeque::new());
    loop {
        shared.fill(&mut buffer, BATCH).await;
        let bodies = buffer.chunks(shared.bytes());
        if batch > 1 {
            drop(to.send_bodies(bodies).await?);
            continue;
        }
        for body in bodies {
            open.push_back(to.send(body).await?);
            if open.len() > OPEN
                && let Some(first) = open.pop_front()
            {
                first.await;
            }
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
        if let (1, Some(_)) = (batch, from) {
            let received = messages.recv().await?;
            shared.take(received.body.as_whole().map(|body| &body[..]));
            continue;
        }
        let received = messages.recv_batch(batch).await?;
        if let (None, Some(first)) = (from, received.views().next()) {
            let sender = first.id.sender;
            from = Some(sender);
            heard.send_if_modified(|other| other.is_none() && other.replace(sender.into()).is_none());
        }
        shared.take(received.views().filter_map(|message| message.body));
    }
}

/// Each lane is a stream.
async fn send_lanes(node: &Node, setup: &Setup, lanes: u32, mut pacer: Pacer) -> Result<()> {
    let to = node.peer(setup.server.parse::<PeerAddr>()?);
    let open = |n: u32| anyhow::Ok(to.stream(format!("lane {n}"))?.split());
    let mut streams = (0..lanes).map(open).collect::<Result<Vec<_>>>()?;
    loop {
        let (lane, message) = pacer.next().await;
        let (sender, _) = streams.get_mut(lane as usize).context("no such lane")?;
        drop(sender.send(message).await?);
    }
}

async fn take_lanes(node: &Node, shared: Shared) -> Result<()> {
    loop {
        let (back, mut messages) = node.accept_stream().await?.split();
        let shared = shared.clone();
        tokio::spawn(async move {
            let _back = back;
            while let Some(received) = messages.recv_at_most_once().await? {
                shared.take(received.body.as_whole().map(|body| &body[..]));
            }
            anyhow::Ok(())
        });
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
