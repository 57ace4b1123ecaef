//! Sessions: clients that each have one request under way, in a conversation that lasts.
//!
//! A client is a [`Caller`] that calls again and again. The server works on each request before it answers.

mod exonet;
mod grpc;
mod nats;
mod quic;
mod rsocket;
mod tcp;

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use super::contact::{self, Caller};
use super::fan::nats::missing as no_nats;
use super::{Peer, Setup, nothing_missing, sessions_only, tasks};
use crate::app::{Answers, Asker, Meter, Work};

pub(super) use self::exonet::Exonet;
pub(super) use self::quic::Quic;
pub(super) use self::tcp::Tcp;

/// Those that take part in nothing else.
pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "grpc-streams",
        label: "gRPC streams (tonic)",
        tuning: "a stream of requests and answers for each client, over HTTP/2 and TLS 1.3 as tonic sets them up, \
                 TCP_NODELAY; the server has a certificate, the client none",
        reliable: true,
        cannot: sessions_only,
        missing: nothing_missing,
        run: run::<grpc::Streams>,
    },
    Peer {
        name: "nats-requests",
        label: "NATS requests",
        tuning: "`nats-server` of NATS_SERVER or PATH beside the server, with which it counts; each client and the server \
                 a connection of async-nats; a request is published, and so is its answer; nothing is repeated, not encrypted",
        reliable: true,
        cannot: sessions_only,
        missing: no_nats,
        run: run::<nats::Requests>,
    },
    rsocket::PEER,
];

/// Runs one end.
pub(super) fn run<C: Caller>(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    tasks::run(setup, meter, |setup, meter| async move { end::<C>(&setup, &meter).await })
}

async fn end<C: Caller>(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let Work::Sessions { clients, work_ms } = setup.work else { bail!("there are no sessions") };
    if setup.is_server() {
        return C::serve(setup, Answers::new(meter).working(work_ms)).await;
    }
    let mut all = JoinSet::new();
    let asker = Asker::new(Arc::clone(meter), setup.bytes);
    for client in contact::gather::<C>(setup, clients).await? {
        all.spawn(talk(client, asker.clone()));
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    // The process ends when it is told to.
    std::future::pending().await
}

/// All that a client does: a request, by which the server hears of it, and from the start on one after the other.
async fn talk<C: Caller>(mut client: C, asker: Asker) -> Result<()> {
    loop {
        let request = asker.request();
        let asked = Instant::now();
        let answer = client.call(&request).await?;
        asker.answer(&request, &answer, asked.elapsed());
        asker.meter.started().await;
        if asker.meter.is_stopped() {
            return client.close().await;
        }
    }
}
