//! First contact: clients that the server has never met, and what their calls cost.
//!
//! A client has its identity, its socket and its configuration before it begins. What it then does until the answer is
//! there is what is timed: connecting, where there is such a thing, and one call.

pub(super) mod exonet;
pub(super) mod grpc;
mod quic;
pub(super) mod stream;
mod tls;
pub(super) mod udp;

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::tasks::runtime;
use super::{Peer, Setup, contact_only, nothing_missing};
use crate::app::{Answers, Asker, CLIENTS_APART, Leaves, Meter, Work};

pub(super) use self::quic::Quic;

/// Those that take part in nothing else.
pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "tcp-tls",
        label: "TCP + TLS 1.3",
        tuning: "rustls, TCP_NODELAY; the server has a certificate (P-256), the client none; no session is resumed",
        reliable: true,
        cannot: contact_only,
        missing: nothing_missing,
        run: run::<tls::Tls>,
    },
    Peer {
        name: "quinn-0rtt",
        label: "QUIC 0-RTT (quinn)",
        tuning: "as QUIC (quinn, CUBIC); the client has called before and kept what the server then gave it, and its \
                 request goes as early data, which who repeats the datagram may have run twice",
        reliable: true,
        cannot: contact_only,
        missing: nothing_missing,
        run: run::<quic::Returning>,
    },
    Peer {
        name: "grpc-tonic",
        label: "gRPC (tonic)",
        tuning: "HTTP/2 over TCP and TLS 1.3, as tonic sets them up; the server has a certificate, the client none",
        reliable: true,
        cannot: contact_only,
        missing: nothing_missing,
        run: run::<grpc::Grpc>,
    },
];

/// Clients that prepare themselves at the same time.
const AT_ONCE: usize = 16;
/// An answer that does not come by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transport that carries calls.
pub(super) trait Caller: Sized + Send + 'static {
    /// Serves every client, for ever.
    fn serve(setup: &Setup, answers: Answers) -> impl Future<Output = Result<()>> + Send;
    /// A client, at this address, of the server that `setup` names; it has sent nothing yet, unless it must have been
    /// there before.
    fn new(setup: &Setup, from: Ipv4Addr) -> impl Future<Output = Result<Self>> + Send;
    /// Calls; connects first, if it has not.
    fn call(&mut self, request: &[u8]) -> impl Future<Output = Result<Vec<u8>>> + Send;
    /// Leaves as a client should.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}

/// Runs one end.
pub(super) fn run<C: Caller>(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    runtime()?.block_on(async {
        if setup.is_server() {
            return C::serve(setup, Answers::new(meter)).await;
        }
        let Work::Contact { clients, calls, leaves, .. } = setup.work else { return Ok(()) };
        let waiting = gather::<C>(setup, clients).await?;
        setup.hello("");
        meter.started().await;
        let asker = Asker::new(Arc::clone(meter), setup.bytes);
        let mut clock = tokio::time::interval(CLIENTS_APART);
        let (mut all, stays) = (JoinSet::new(), leaves == Leaves::WhenTold);
        for client in waiting {
            clock.tick().await;
            all.spawn(visit(client, asker.clone(), calls, stays));
        }
        while let Some(ended) = all.join_next().await {
            ended??;
        }
        // The process ends when it is told to.
        std::future::pending().await
    })
}

/// Clients that are ready to begin.
pub(super) async fn gather<C: Caller>(setup: &Setup, clients: u32) -> Result<Vec<C>> {
    let (mut coming, mut waiting) = (JoinSet::new(), Vec::new());
    for n in 0..clients {
        if coming.len() >= AT_ONCE
            && let Some(client) = coming.join_next().await
        {
            waiting.push(client??);
        }
        let (setup, from) = (setup.clone(), setup.client_address(n));
        coming.spawn(async move { C::new(&setup, from).await });
    }
    while let Some(client) = coming.join_next().await {
        waiting.push(client??);
    }
    Ok(waiting)
}

/// All that a client does.
async fn visit<C: Caller>(mut client: C, asker: Asker, calls: u32, stays: bool) -> Result<()> {
    for _ in 0..calls {
        let request = asker.request();
        let asked = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, client.call(&request)).await.context("no answer")??;
        asker.answer(&request, &answer, asked.elapsed());
    }
    if stays {
        asker.meter.stopped().await;
    }
    client.close().await
}
