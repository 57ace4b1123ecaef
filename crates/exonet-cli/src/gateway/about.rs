//! `GET /v1/node` and `GET /v1/peers`.

use exonet::stats::{PeerStats, Reading, Stats};
use exonet::{Node, NodeId};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Office;
use super::request::Given;
use super::respond::{Answer, ApiError, in_json};

/// The maximum, and the default, number of peers in one answer.
const PEERS: u64 = 1_000;

pub(super) fn node(office: &Office) -> Answer {
    let (node, stats) = (&office.node, office.node.stats());
    let figures: Map<String, Value> =
        Stats::FIGURES.iter().map(|figure| (figure.metric.to_owned(), (figure.of)(&stats).into())).collect();
    in_json(
        StatusCode::OK,
        &json!({
            "id": node.id().to_string(),
            "peer": crate::command::reachable_as(node),
            "identity": office.identity,
            "version": env!("CARGO_PKG_VERSION"),
            "durability": office.durability,
            "takes": office.takes,
            "methods": office.served.names(),
            "messages_out": office.inbox.out(),
            "figures": figures,
        }),
    )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    max: Option<u64>,
}

pub(super) fn peers(office: &Office, given: &Given) -> Result<Answer, ApiError> {
    let Page { max } = given.options()?;
    let most = usize::try_from(max.unwrap_or(PEERS).min(PEERS)).unwrap_or_default();
    let all = office.node.peers();
    let peers: Vec<Value> = all.iter().take(most).filter_map(|id| peer(&office.node, id)).collect();
    Ok(in_json(StatusCode::OK, &json!({ "known": all.len(), "peers": peers })))
}

/// The figures of a peer, or None if the node no longer knows it.
pub(super) fn peer(node: &Node, id: &NodeId) -> Option<Value> {
    let stats = node.peer(id).stats()?;
    let figures = PeerStats::FIGURES.iter().filter_map(|figure| {
        let name = figure.metric.strip_prefix("peer_").unwrap_or(figure.metric);
        let value = match figure.of {
            Reading::Truth(of) => of(&stats).into(),
            Reading::Count(of) => of(&stats).into(),
            of => json!(of.number(&stats)?),
        };
        Some((name.to_owned(), value))
    });
    let mut fields: Map<String, Value> = figures.collect();
    fields.insert("id".to_owned(), id.to_string().into());
    fields.insert("address".to_owned(), stats.remote.map(|remote| remote.to_string()).into());
    Some(Value::Object(fields))
}
