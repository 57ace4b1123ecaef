//! The data of the page of `--ui`: `GET /v1/watch` sends a snapshot of the node every second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exonet::send::{Status, Waiting};
use exonet::stats::{PeerStats, Stats};
use exonet::{Node, NodeId};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::inbox::{event, events};
use super::respond::{Answer, ApiError};
use super::{Office, about};

/// The page, which is self-contained.
pub(super) const PAGE: &str = include_str!("page.html");
const EVERY: Duration = Duration::from_secs(1);
/// The maximum number of peers and of open messages in a snapshot. If there are more than [`LOOKED_AT`] open
/// messages, none is shown.
const PEERS: usize = 60;
const SHOWN: usize = 40;
const LOOKED_AT: usize = 5_000;

/// Streams snapshots until the client disconnects.
pub(super) fn watch(office: &Arc<Office>) -> Result<Answer, ApiError> {
    let waiting = office.place_to_wait()?;
    let (say, said) = mpsc::channel(1);
    let watched = Arc::clone(office);
    office.spawn(async move {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = say.closed() => break,
                _ = ticks.tick() => {
                    if say.send(event("picture", None, &picture(&watched))).await.is_err() {
                        break;
                    }
                }
            }
        }
        drop(waiting);
    });
    Ok(events(said))
}

fn picture(office: &Office) -> Value {
    let node = &office.node;
    let stats = node.stats();
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let known = node.peers();
    let mut peers: Vec<(NodeId, PeerStats)> =
        known.iter().filter_map(|id| Some((*id, node.peer(id).stats()?))).collect();
    // Peers with the most open messages come first. Peers with the same number stay in the order of their ids, so
    // that the map does not jump.
    peers.sort_by_key(|(_, peer)| (peer.remote.is_none(), std::cmp::Reverse(peer.in_doubt + peer.queued)));
    peers.truncate(PEERS);
    peers.sort_by_key(|(id, _)| *id);
    let figures: Map<String, Value> =
        Stats::FIGURES.iter().map(|figure| (figure.metric.to_owned(), (figure.of)(&stats).into())).collect();
    json!({
        "at_ms": u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        "id": node.id().to_string(),
        "identity": office.identity,
        "out": office.inbox.out(),
        "known": known.len(),
        "figures": figures,
        "peers": peers.iter().filter_map(|(id, _)| about::peer(node, id)).collect::<Vec<_>>(),
        "open": open(node, &stats),
    })
}

/// The oldest open messages, and why each is open. None: there are too many to look at.
fn open(node: &Node, stats: &Stats) -> Option<Vec<Value>> {
    if stats.open_messages > LOOKED_AT {
        return None;
    }
    let mut peers = HashMap::new();
    let one = |waiting: &Waiting| {
        let peer = waiting.message.peer;
        let stats = *peers.entry(peer).or_insert_with(|| node.peer(peer).stats());
        let (state, id) = match waiting.message.status {
            Status::InDoubt { id, .. } => ("in doubt", Some(id.to_string())),
            _ => ("queued", None),
        };
        json!({
            "peer": peer.to_string(),
            "state": state,
            "id": id,
            "number": waiting.number,
            "size": waiting.message.size,
            "tag": String::from_utf8_lossy(&waiting.tag),
            "why": why(id.is_some(), stats.as_ref()),
        })
    };
    Some(node.outbox(0).iter().take(SHOWN).map(one).collect())
}

/// Why a message has no outcome.
fn why(has_left: bool, peer: Option<&PeerStats>) -> &'static str {
    let reached = peer.is_some_and(|peer| peer.remote.is_some());
    match (has_left, reached) {
        (true, true) => "the peer's application has not taken it yet, or it is on its way",
        (true, false) => "it has left, and the peer does not answer: only the peer knows whether it has it",
        (false, true) => "it has not left: the peer has no room at present",
        (false, false) => "it has not left: the peer does not answer",
    }
}

#[cfg(test)]
mod tests {
    use super::PAGE;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        for word in ["http://", "https://", "src=", "@import", "url(", "<link"] {
            let found: Vec<_> =
                PAGE.match_indices(word).map(|(at, _)| &PAGE[at..(at + 60).min(PAGE.len())]).collect();
            // The name of an XML namespace is not an address that the page loads.
            assert!(found.iter().all(|text| text.starts_with("http://www.w3.org/")), "{found:?}");
        }
    }
}
