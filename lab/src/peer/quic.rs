//! QUIC, as quinn does it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, ServerConfig, TransportConfig, VarInt};

use super::contact::{self, Quic};
use super::frames::Incoming;
use super::tasks::{self, Shared};
use super::{Peer, Setup, certificate, everything, nothing_missing, one_connection};
use crate::app::{Crowd, Meter, NUMBERS_APART, Work};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "quinn-cubic",
        label: "QUIC (quinn, CUBIC)",
        tuning: "a stream per message, receive windows of 16 MiB, 10,000 streams at once",
        reliable: true,
        does: everything,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "quinn-bbr",
        label: "QUIC (quinn, BBR)",
        tuning: "as QUIC (quinn, CUBIC), with quinn's BBR",
        reliable: true,
        does: one_connection,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "quinn-cubic-1",
        label: "QUIC (quinn, CUBIC, one stream)",
        tuning: "one stream of length-prefixed messages, receive windows of 16 MiB",
        reliable: true,
        does: one_connection,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "quinn-bbr-1",
        label: "QUIC (quinn, BBR, one stream)",
        tuning: "as QUIC (quinn, CUBIC, one stream), with quinn's BBR",
        reliable: true,
        does: one_connection,
        missing: nothing_missing,
        run,
    },
];

const WINDOW: u32 = 16 << 20;
/// Messages taken from the application at a time, on one stream.
const BATCH: usize = 64;

fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    if matches!(setup.work, Work::Contact { .. }) {
        return contact::run::<Quic>(setup, meter);
    }
    tasks::run(setup, meter, |setup, meter| async move {
        let (setup, meter) = (&*setup, &meter);
        if let Work::Crowd { clients, per_second } = setup.work {
            let crowd = Crowd::new(Arc::clone(meter), setup.part, setup.bytes, (clients, per_second));
            return if setup.is_server() {
                serve_crowd(setup, meter).await
            } else {
                visit(setup, clients, crowd).await
            };
        }
        let (_endpoint, connection) = if setup.is_server() {
            let endpoint = server(setup)?;
            let incoming = endpoint.accept().await.context("the endpoint has closed")?;
            (endpoint, incoming.await?)
        } else {
            connect(setup, meter).await?
        };
        let shared = Shared::new(setup, meter);
        if setup.peer.ends_with("-1") {
            tokio::try_join!(send_on_one(&connection, &shared), receive_on_one(&connection, &shared))?;
        } else {
            tokio::try_join!(send_on_many(&connection, &shared), receive_on_many(&connection, &shared))?;
        }
        Ok(())
    })
}

async fn send_on_many(connection: &Connection, shared: &Shared) -> Result<()> {
    loop {
        for message in shared.next(1).await {
            let mut stream = connection.open_uni().await?;
            stream.write_all(&message).await?;
            stream.finish()?;
        }
    }
}

async fn receive_on_many(connection: &Connection, shared: &Shared) -> Result<()> {
    loop {
        let mut stream = connection.accept_uni().await?;
        let shared = shared.clone();
        tokio::spawn(async move {
            if let Ok(message) = stream.read_to_end(1 << 24).await {
                shared.take([message.as_slice()]);
            }
        });
    }
}

async fn send_on_one(connection: &Connection, shared: &Shared) -> Result<()> {
    let mut stream = connection.open_uni().await?;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        for message in shared.next(BATCH).await {
            bytes.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
            bytes.extend_from_slice(&message);
        }
        stream.write_all(&bytes).await?;
    }
}

async fn receive_on_one(connection: &Connection, shared: &Shared) -> Result<()> {
    let mut stream: RecvStream = connection.accept_uni().await?;
    let mut incoming = Incoming::default();
    while let Some(chunk) = stream.read_chunk(64 << 10, true).await? {
        let mut all = Vec::new();
        incoming.take(&chunk.bytes, |message| all.push(message.to_vec()))?;
        shared.take(all.iter().map(Vec::as_slice));
    }
    Err(anyhow!("the other end has closed the stream"))
}

fn server(setup: &Setup) -> Result<Endpoint> {
    let own = certificate::own()?;
    let mut config = ServerConfig::with_single_cert(vec![own.certificate], own.key)?;
    config.transport_config(transport(setup)?);
    let endpoint = Endpoint::server(config, setup.listen)?;
    setup.hello(&format!("{} {}", endpoint.local_addr()?, own.hex));
    Ok(endpoint)
}

/// A connection to the server, whose certificate is the only one that is believed.
async fn connect(setup: &Setup, meter: &Meter) -> Result<(Endpoint, Connection)> {
    let (address, certificate) = certificate::told(&setup.server)?;
    let mut config = ClientConfig::with_root_certificates(certificate::roots(certificate)?)?;
    config.transport_config(transport(setup)?);
    let mut endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    endpoint.set_default_client_config(config);
    meter.hand_over();
    let connection = endpoint.connect(address.parse()?, certificate::NAME)?.await?;
    Ok((endpoint, connection))
}

fn transport(setup: &Setup) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(10_000))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(setup.buffer().into())
        .max_idle_timeout(Some(std::time::Duration::from_secs(60).try_into()?));
    if setup.peer.contains("bbr") {
        transport.congestion_controller_factory(Arc::new(BbrConfig::default()));
    } else {
        transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
    }
    Ok(Arc::new(transport))
}

async fn serve_crowd(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    let (endpoint, shared) = (server(setup)?, Shared::new(setup, meter));
    while let Some(incoming) = endpoint.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let connection = incoming.await?;
            receive_on_many(&connection, &shared).await
        });
    }
    Ok(())
}

/// Each client has a socket of its own.
async fn visit(setup: &Setup, clients: u32, crowd: Crowd) -> Result<()> {
    let mut all = tokio::task::JoinSet::new();
    for n in 0..clients {
        let (setup, meter, mut visitor) = (setup.clone(), crowd.meter(), crowd.visitor(n));
        all.spawn(async move {
            let (_endpoint, connection) = connect(&setup, &meter).await?;
            loop {
                let message = visitor.message().await;
                let mut stream = connection.open_uni().await?;
                stream.write_all(&message).await?;
                stream.finish()?;
            }
        });
        tokio::time::sleep(NUMBERS_APART).await;
    }
    match all.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}
