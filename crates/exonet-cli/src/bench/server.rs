//! `exon bench server`: receives messages of clients, and echoes calls.

use std::collections::BTreeMap;

use bytes::Bytes;
use exonet::call::Request;
use exonet::error::SendError;
use exonet::receive::Received;
use exonet::{Message, Node, NodeId, Priority};
use serde::Serialize;
use tokio::sync::mpsc;

use super::work::{ECHO, METHOD, REPORT, Seen};
use crate::args::ServerArgs;
use crate::command::stop::stop;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;

/// The maximum number of messages that are received at once.
const TAKEN: usize = 4_096;

#[derive(Serialize)]
struct Ready {
    r#type: &'static str,
    peer: String,
}

pub(super) async fn serve(settings: &Settings, args: &ServerArgs) -> Result<Exit, Failure> {
    let stop = stop(None)?;
    let node = node::at(settings, Some(args.bind), &[], |_| ()).await?;
    let echo = |mut request: Request| async move { request.body.bytes(u64::MAX).await };
    let calls = node.serve(METHOD, echo).concurrency(usize::MAX >> 4).start();
    let _calls = calls.map_err(|e| Failure::new("cannot serve calls").because(&e))?;
    let peer = node.peer_addr().to_string();
    settings.output.text(&peer)?;
    settings.output.line(&Ready { r#type: "ready", peer })?;
    let served = tokio::select! {
        served = tokio::spawn(take(node.clone())) => served,
        _ = stop => Ok(Ok(())),
    };
    node.close(GOODBYE).await;
    served.map_err(|e| Failure::new("the bench's server has failed").because(&e))??;
    Ok(Exit::Success)
}

/// A message that has arrived in full.
struct Taken {
    from: NodeId,
    tag: Bytes,
    body: Bytes,
}

/// What is known of a client.
#[derive(Default)]
struct Client {
    seen: Seen,
    /// Its large messages that are still being read.
    reading: usize,
    /// It waits for its report.
    asks: bool,
}

async fn take(node: Node) -> Result<(), Failure> {
    let messages = node.at_most_once();
    let mut clients: BTreeMap<NodeId, Client> = BTreeMap::new();
    let mut replies: Vec<(NodeId, Message)> = Vec::new();
    let (sink, mut streamed) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            batch = messages.recv_batch(TAKEN) => {
                let Ok(batch) = batch else { return Ok(()) };
                for Received { from, tag, mut body, .. } in batch {
                    if let Some(body) = body.as_whole() {
                        answer(Taken { from, tag, body: body.clone() }, &mut clients, &mut replies);
                        continue;
                    }
                    // A large message is read while it arrives, beside all others; the node limits their number.
                    let sink = sink.clone();
                    clients.entry(from).or_default().reading += 1;
                    tokio::spawn(async move {
                        let body = body.bytes(u64::MAX).await;
                        let _ = sink.send((from, body.ok().map(|body| Taken { from, tag, body })));
                    });
                }
            }
            Some((from, taken)) = streamed.recv() => {
                clients.entry(from).or_default().reading -= 1;
                if let Some(taken) = taken {
                    answer(taken, &mut clients, &mut replies);
                }
                report(from, &mut clients, &mut replies);
            }
        }
        while let Some((to, _)) = replies.first() {
            let to = *to;
            let (now, later) = replies.drain(..).partition::<Vec<_>, _>(|(other, _)| *other == to);
            replies = later;
            send(&node, to, now.into_iter().map(|(_, message)| message).collect()).await?;
        }
    }
}

/// Counts a message, and makes the reply.
fn answer(taken: Taken, clients: &mut BTreeMap<NodeId, Client>, replies: &mut Vec<(NodeId, Message)>) {
    let Taken { from, tag, body } = taken;
    let client = clients.entry(from).or_default();
    if tag == REPORT {
        client.asks = true;
        return report(from, clients, replies);
    }
    client.seen.note(&body);
    if tag == ECHO {
        replies.push((from, Message::new(body)));
    }
}

/// Makes the report that a client waits for, once all of its messages are counted. One that is read as it comes is delivered before it
/// is counted here.
fn report(from: NodeId, clients: &mut BTreeMap<NodeId, Client>, replies: &mut Vec<(NodeId, Message)>) {
    let client = clients.entry(from).or_default();
    if client.asks && client.reading == 0 {
        client.asks = false;
        let report = serde_json::to_vec(&client.seen.report()).unwrap_or_default();
        replies.push((from, Message::new(report).tag(REPORT).priority(Priority::Urgent)));
    }
}

async fn send(node: &Node, to: NodeId, mut messages: Vec<Message>) -> Result<(), Failure> {
    let to = node.peer(to);
    let failed = |e: SendError| Failure::new("the bench's server cannot reply").because(&e);
    match (messages.pop(), messages.is_empty()) {
        (Some(message), true) => to.send(message).await.map(drop).map_err(failed),
        (last, _) => {
            messages.extend(last);
            to.send_batch(messages).await.map(drop).map_err(|error| failed(error.source))
        }
    }
}
