//! Reports the figures of the node, for a command that watches it.

use std::time::Duration;

use exonet::stats::{Presence, Stats};
use exonet::{Node, NodeId};
use tokio::net::unix::OwnedWriteHalf;

use super::figures::{NodeFigures, PeerFigures, PeerState};
use super::protocol::Reply;
use super::server::Office;
use super::wire::say;

/// Reports the figures of the node and of each peer. Stops if the client has disconnected.
pub(super) async fn tell(office: &Office, to: &mut OwnedWriteHalf) {
    if say(to, &Reply::Figures(Box::new(node(office)))).await.is_err() {
        return;
    }
    for id in office.node.peers() {
        if let Some(peer) = peer(&office.node, &id)
            && say(to, &Reply::PeerFigures(Box::new(peer))).await.is_err()
        {
            return;
        }
    }
}

fn node(office: &Office) -> NodeFigures {
    let (node, stats) = (&office.node, office.node.stats());
    let figures = Stats::FIGURES.iter().map(|figure| (figure.metric.to_owned(), (figure.of)(&stats)));
    NodeFigures {
        id: node.id().to_string(),
        peer: crate::command::reachable_as(node),
        identity: office.identity.to_string(),
        command: office.role.command().to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        durability: office.durability.clone(),
        up_ms: millis(office.started.elapsed()),
        journal_lag_bytes: node.journal_lag(),
        figures: figures.collect(),
    }
}

/// The figures of a peer. None: the node no longer knows the peer.
fn peer(node: &Node, id: &NodeId) -> Option<PeerFigures> {
    let peer = node.peer(id);
    let (stats, flow) = (peer.stats()?, peer.flow()?);
    let state = match flow.presence {
        _ if peer.conflict().is_some() => PeerState::Conflict,
        Presence::Up => PeerState::Up,
        Presence::Opening => PeerState::Opening,
        Presence::Away => PeerState::Away,
        _ => PeerState::Idle,
    };
    Some(PeerFigures {
        id: id.to_string(),
        state,
        address: stats.remote.map(|remote| remote.to_string()),
        tcp: stats.piped,
        rtt_ms: stats.remote.map(|_| stats.rtt.as_secs_f64() * 1e3),
        packets_sent: stats.packets_sent,
        packets_lost: stats.packets_lost,
        messages_in: flow.messages_in,
        messages_out: flow.messages_out,
        bytes_in: flow.bytes_in,
        bytes_out: flow.bytes_out,
        queued: stats.queued as u64,
        in_doubt: stats.in_doubt as u64,
        oldest_in_doubt_ms: flow.oldest_in_doubt.map(millis),
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
