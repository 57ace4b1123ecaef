//! `exon bench server`: takes what clients send, and echoes calls.

use std::collections::BTreeMap;

use exonet::{Batch, Message, Node, NodeId, PeerAddr, Received};
use serde::Serialize;

use super::work::{CALL, REPORT, Seen};
use crate::args::ServerArgs;
use crate::command::stop::stop;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::node::{self, GOODBYE};
use crate::settings::Settings;

/// Messages taken at once.
const TAKEN: usize = 4_096;

#[derive(Serialize)]
struct Ready {
    r#type: &'static str,
    peer: String,
}

pub(super) async fn serve(settings: &Settings, args: &ServerArgs) -> Result<Exit, Failure> {
    let stop = stop(None)?;
    let node = node::at(settings, Some(&args.bind), &[], |_| ()).await?;
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

async fn take(node: Node) -> Result<(), Failure> {
    let mut seen: BTreeMap<NodeId, Seen> = BTreeMap::new();
    let mut replies: Vec<(NodeId, Message)> = Vec::new();
    loop {
        let Ok(batch) = node.recv_batch(TAKEN).await else { return Ok(()) };
        answer(batch, &mut seen, &mut replies);
        while let Some((to, _)) = replies.first() {
            let to = *to;
            let (now, later) = replies.drain(..).partition::<Vec<_>, _>(|(other, _)| *other == to);
            replies = later;
            send(&node, to, now.into_iter().map(|(_, message)| message).collect()).await?;
        }
    }
}

/// Counts what has come, and makes the replies.
fn answer(batch: Batch, seen: &mut BTreeMap<NodeId, Seen>, replies: &mut Vec<(NodeId, Message)>) {
    let mut known: Option<(NodeId, &mut Seen)> = None;
    for Received { from, tag, body, .. } in batch {
        let here = match known {
            Some((id, here)) if id == from => here,
            _ => seen.entry(from).or_default(),
        };
        let body = body.as_whole().cloned().unwrap_or_default();
        if tag == REPORT {
            let report = serde_json::to_vec(&here.report()).unwrap_or_default();
            replies.push((from, Message::new(report).tag(REPORT)));
        } else {
            here.note(&body);
            if tag == CALL {
                replies.push((from, Message::new(body)));
            }
        }
        known = Some((from, here));
    }
}

async fn send(node: &Node, to: NodeId, mut messages: Vec<Message>) -> Result<(), Failure> {
    let to = PeerAddr::from(to);
    let failed = |e: exonet::SendError| Failure::new("the bench's server cannot reply").because(&e);
    match (messages.pop(), messages.is_empty()) {
        (Some(message), true) => node.send(&to, message).await.map(drop).map_err(failed),
        (last, _) => {
            messages.extend(last);
            node.send_batch(&to, messages).await.map(drop).map_err(|(_, error)| failed(error))
        }
    }
}
