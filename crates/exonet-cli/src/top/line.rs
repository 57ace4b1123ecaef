//! The output for scripts: one line for each sample.

use std::collections::BTreeMap;

use serde::Serialize;

use super::course::{PeerView, Rates, View};
use crate::control::figures::PeerState;
use crate::units::whole;

/// The node and its peers, with rates.
#[derive(Debug, Serialize)]
pub(crate) struct TopLine<'a> {
    r#type: &'static str,
    node: NodeLine<'a>,
    peers: Vec<PeerLine<'a>>,
}

#[derive(Debug, Serialize)]
struct NodeLine<'a> {
    id: &'a str,
    peer: &'a str,
    identity: &'a str,
    command: &'a str,
    pid: u32,
    version: &'a str,
    durability: &'a str,
    up_ms: u64,
    journal_lag_bytes: u64,
    queued: u64,
    in_doubt: u64,
    #[serde(flatten)]
    rates: RateFields,
    /// All figures of the node.
    figures: &'a BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct PeerLine<'a> {
    id: &'a str,
    name: Option<&'a str>,
    state: PeerState,
    address: Option<&'a str>,
    carrier: &'static str,
    rtt_ms: Option<f64>,
    /// The share of the packets of the last 10 s that were lost. None: no packet was sent.
    loss: Option<f64>,
    queued: u64,
    in_doubt: u64,
    oldest_in_doubt_ms: Option<u64>,
    #[serde(flatten)]
    rates: RateFields,
    packets_sent: u64,
    packets_lost: u64,
    messages_in: u64,
    messages_out: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// The rates. The fields are None if there is only one sample.
#[derive(Debug, Serialize)]
struct RateFields {
    messages_in_per_second: Option<f64>,
    messages_out_per_second: Option<f64>,
    bytes_in_per_second: Option<u64>,
    bytes_out_per_second: Option<u64>,
}

impl From<Option<Rates>> for RateFields {
    fn from(rates: Option<Rates>) -> Self {
        Self {
            messages_in_per_second: rates.map(|rates| rates.messages_in),
            messages_out_per_second: rates.map(|rates| rates.messages_out),
            bytes_in_per_second: rates.and_then(|rates| whole(rates.bytes_in)),
            bytes_out_per_second: rates.and_then(|rates| whole(rates.bytes_out)),
        }
    }
}

/// The line for a view.
pub(crate) fn line(view: &View) -> TopLine<'_> {
    let node = &view.node;
    TopLine {
        r#type: "top",
        node: NodeLine {
            id: &node.id,
            peer: &node.peer,
            identity: &node.identity,
            command: &node.command,
            pid: node.pid,
            version: &node.version,
            durability: &node.durability,
            up_ms: node.up_ms,
            journal_lag_bytes: node.journal_lag_bytes,
            queued: view.queued,
            in_doubt: view.in_doubt,
            rates: view.rates.into(),
            figures: &node.figures,
        },
        peers: view.peers.iter().map(peer).collect(),
    }
}

fn peer(peer: &PeerView) -> PeerLine<'_> {
    let figures = &peer.figures;
    PeerLine {
        id: &figures.id,
        name: peer.name.as_deref(),
        state: figures.state,
        address: figures.address.as_deref(),
        carrier: if figures.tcp { "tcp" } else { "udp" },
        rtt_ms: figures.rtt_ms,
        loss: peer.loss,
        queued: figures.queued,
        in_doubt: figures.in_doubt,
        oldest_in_doubt_ms: figures.oldest_in_doubt_ms,
        rates: peer.rates.into(),
        packets_sent: figures.packets_sent,
        packets_lost: figures.packets_lost,
        messages_in: figures.messages_in,
        messages_out: figures.messages_out,
        bytes_in: figures.bytes_in,
        bytes_out: figures.bytes_out,
    }
}
