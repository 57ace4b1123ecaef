//! Exonet's part where receipts and calls are its own: a cold start, and calls in steady state.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use exonet::call::{Failure, Request};
use exonet::{Node, Outcome, Peer, PeerAddr, Receipt};
use tokio::task::JoinSet;

use super::Setup;
use super::tasks::Shared;
use crate::app::Meter;

const METHOD: &str = "echo";
const LONGEST: u64 = 1 << 16;
/// Calls that the server runs at once.
const MOST: usize = 1_024;
/// Messages taken at a time.
const BATCH: usize = 64;

/// Runs this end of a cold start, with `messages` messages or calls.
pub(super) async fn run(
    node: &Node,
    setup: &Setup,
    meter: &Arc<Meter>,
    messages: u32,
    calls: bool,
) -> Result<()> {
    let shared = Shared::new(setup, meter);
    match (setup.is_server(), calls) {
        (true, false) => receive(node, &shared).await,
        (true, true) => answer(node, &shared).await,
        (false, false) => send(node, setup, meter, &shared, messages).await,
        (false, true) => call(node, setup, &shared, messages).await,
    }
}

/// Each actor makes one call after the other.
pub(super) async fn calls(node: &Node, setup: &Setup, meter: &Arc<Meter>, actors: u32) -> Result<()> {
    let shared = Shared::new(setup, meter);
    if setup.is_server() {
        return answer(node, &shared).await;
    }
    let to: PeerAddr = setup.server.parse()?;
    let mut all = JoinSet::new();
    for _ in 0..actors {
        let (to, shared) = (node.peer(&to), shared.clone());
        all.spawn(async move {
            loop {
                let Some(request) = shared.try_next() else {
                    return std::future::pending::<Result<()>>().await;
                };
                let mut reply = to.call(METHOD, request).await?;
                shared.take([&*reply.body.bytes(LONGEST).await?]);
            }
        });
    }
    match all.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

async fn receive(node: &Node, shared: &Shared) -> Result<()> {
    let messages = node.at_most_once();
    loop {
        let received = messages.recv_batch(BATCH).await?;
        shared.take(received.views().filter_map(|message| message.body));
    }
}

async fn answer(node: &Node, shared: &Shared) -> Result<()> {
    let shared = shared.clone();
    let echo = move |mut request: Request| {
        let shared = shared.clone();
        async move {
            let body = request.body.bytes(LONGEST).await.map_err(Failure::error)?;
            shared.take([&*body]);
            Ok::<Bytes, Failure>(body)
        }
    };
    let _serving = node.serve(METHOD, echo).concurrency(MOST).start()?;
    std::future::pending().await
}

/// Done when each has its outcome.
async fn send(node: &Node, setup: &Setup, meter: &Meter, shared: &Shared, messages: u32) -> Result<()> {
    let to: PeerAddr = setup.server.parse()?;
    let mut buffer = Vec::new();
    shared.fill(&mut buffer, messages as usize).await;
    let to = node.peer(&to);
    let delivered = match window(&setup.peer) {
        None => to.send_bodies(buffer.chunks(setup.bytes)).await?.await.delivered,
        Some(window) => send_within(&to, buffer.chunks(setup.bytes), window).await?,
    };
    if delivered != u64::from(messages) {
        bail!("of {messages} messages {delivered} were delivered");
    }
    meter.finish();
    std::future::pending().await
}

/// The number of messages that the application of this peer has open at most. None: the node alone decides.
fn window(peer: &str) -> Option<usize> {
    peer.strip_prefix("exonet-window-")?.parse().ok()
}

/// Returns the number of messages that were delivered.
async fn send_within<'a>(to: &Peer, bodies: impl Iterator<Item = &'a [u8]>, window: usize) -> Result<u64> {
    let (mut open, mut delivered) = (VecDeque::new(), 0);
    for body in bodies {
        if open.len() >= window
            && let Some(oldest) = open.pop_front()
        {
            delivered += is_delivered(oldest).await;
        }
        open.push_back(to.send(body).await?);
    }
    for receipt in open {
        delivered += is_delivered(receipt).await;
    }
    Ok(delivered)
}

async fn is_delivered(receipt: Receipt) -> u64 {
    u64::from(receipt.await.outcome == Outcome::Delivered)
}

async fn call(node: &Node, setup: &Setup, shared: &Shared, messages: u32) -> Result<()> {
    let to: PeerAddr = setup.server.parse()?;
    let mut all = JoinSet::new();
    for request in shared.next(messages as usize).await {
        let (to, shared) = (node.peer(&to), shared.clone());
        all.spawn(async move {
            let mut reply = to.call(METHOD, Bytes::from(request)).await?;
            shared.take([&*reply.body.bytes(LONGEST).await?]);
            anyhow::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    std::future::pending().await
}
