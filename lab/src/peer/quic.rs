//! QUIC, as quinn does it.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};

use super::contact::{self, Quic};
use super::frames::Incoming;
use super::tasks::{self, Shared};
use super::{Peer, Setup, certificate, no_group, nothing_missing, one_connection, session};
use crate::app::{Crowd, Meter, NUMBERS_APART, Pacer, Work};

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "quinn-cubic",
        label: "QUIC (quinn, CUBIC)",
        tuning: "a stream per message, bodies borrowed both ways, receive windows of 16 MiB, 10,000 streams at once (of a crowd 100), no fairness among streams, packets of 1,472 bytes from the first on, segmentation offload, socket buffers of 4 MiB",
        reliable: true,
        cannot: no_group,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "quinn-bbr",
        label: "QUIC (quinn, BBR)",
        tuning: "as QUIC (quinn, CUBIC), with quinn's BBR",
        reliable: true,
        cannot: one_connection,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "quinn-cubic-1",
        label: "QUIC (quinn, CUBIC, one stream)",
        tuning: "one stream of length-prefixed messages, else as QUIC (quinn, CUBIC)",
        reliable: true,
        cannot: one_connection,
        missing: nothing_missing,
        run,
    },
    Peer {
        name: "quinn-bbr-1",
        label: "QUIC (quinn, BBR, one stream)",
        tuning: "as QUIC (quinn, CUBIC, one stream), with quinn's BBR",
        reliable: true,
        cannot: one_connection,
        missing: nothing_missing,
        run,
    },
];

const WINDOW: u32 = 16 << 20;
const SOCKET_BUFFER: usize = 4 << 20;
/// The bytes that a packet of the link carries above IPv4 and UDP.
const PAYLOAD: u16 = 1_500 - 28;
/// Messages taken from the application at a time, on one stream.
const BATCH: usize = 64;

fn run(setup: &Setup, meter: &Arc<Meter>) -> Result<()> {
    if matches!(setup.work, Work::Contact { .. }) {
        return contact::run::<Quic>(setup, meter);
    }
    if let Work::Sessions { .. } = setup.work {
        return session::run::<session::Quic>(setup, meter);
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
        if let Work::Lanes { lanes, per_second } = setup.work {
            return if setup.is_server() {
                take_lanes(&connection, &shared).await
            } else {
                send_lanes(&connection, lanes, Pacer::new(meter, (lanes, per_second), setup.bytes)).await
            };
        }
        if setup.peer.ends_with("-1") {
            tokio::try_join!(send_on_one(&connection, &shared), receive_on_one(&connection, &shared))?;
        } else {
            tokio::try_join!(send_on_many(&connection, &shared), receive_on_many(&connection, &shared))?;
        }
        Ok(())
    })
}

/// A stream for each message, whose bytes are lent to quinn.
async fn send_on_many(connection: &Connection, shared: &Shared) -> Result<()> {
    loop {
        let mut batch = Vec::new();
        shared.fill(&mut batch, BATCH).await;
        let mut batch = Bytes::from(batch);
        while !batch.is_empty() {
            let mut stream = connection.open_uni().await?;
            stream.write_chunk(batch.split_to(shared.bytes())).await?;
            stream.finish()?;
        }
    }
}

/// Takes each message as quinn lends it. Only who waits for the rest of one is a task of its own.
async fn receive_on_many(connection: &Connection, shared: &Shared) -> Result<()> {
    loop {
        let mut stream = connection.accept_uni().await?;
        let mut message = Message::default();
        let there = poll_fn(|context| match pin!(message.read(&mut stream)).poll(context) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => Poll::Ready(None),
        });
        match there.await {
            Some(read) => {
                if read.is_ok() {
                    shared.take([message.bytes()]);
                }
            }
            None => {
                let shared = shared.clone();
                tokio::spawn(async move {
                    if message.read(&mut stream).await.is_ok() {
                        shared.take([message.bytes()]);
                    }
                });
            }
        }
    }
}

/// The bytes that a stream has brought: most often one piece.
#[derive(Default)]
struct Message {
    first: Bytes,
    /// All of it, if it came in more than one.
    all: Vec<u8>,
}

impl Message {
    /// Reads to the end of the stream. What is dropped while it waits has taken nothing that is lost.
    async fn read(&mut self, stream: &mut RecvStream) -> Result<()> {
        while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
            if self.first.is_empty() {
                self.first = chunk.bytes;
                continue;
            }
            if self.all.is_empty() {
                self.all.extend_from_slice(&self.first);
            }
            self.all.extend_from_slice(&chunk.bytes);
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        if self.all.is_empty() { &self.first } else { &self.all }
    }
}

async fn send_on_one(connection: &Connection, shared: &Shared) -> Result<()> {
    let mut stream = connection.open_uni().await?;
    let length = u32::try_from(shared.bytes())?.to_be_bytes();
    loop {
        let mut batch = Vec::new();
        shared.fill_framed(&mut batch, BATCH, &length).await;
        stream.write_chunk(Bytes::from(batch)).await?;
    }
}

async fn receive_on_one(connection: &Connection, shared: &Shared) -> Result<()> {
    let mut stream: RecvStream = connection.accept_uni().await?;
    let mut incoming = Incoming::default();
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        shared.take_from(|message| incoming.take(&chunk.bytes, message))?;
    }
    Err(anyhow!("the other end has closed the stream"))
}

/// Each lane is a stream of length-prefixed messages.
async fn send_lanes(connection: &Connection, lanes: u32, mut pacer: Pacer) -> Result<()> {
    let mut streams = Vec::new();
    for _ in 0..lanes {
        streams.push(connection.open_uni().await?);
    }
    loop {
        let (lane, message) = pacer.next().await;
        let length = u32::try_from(message.len())?.to_be_bytes();
        let stream = streams.get_mut(lane as usize).context("no such lane")?;
        stream.write_chunk(Bytes::from([&length[..], &message].concat())).await?;
    }
}

async fn take_lanes(connection: &Connection, shared: &Shared) -> Result<()> {
    loop {
        let (mut stream, shared) = (connection.accept_uni().await?, shared.clone());
        tokio::spawn(async move {
            let mut incoming = Incoming::default();
            while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
                shared.take_from(|message| incoming.take(&chunk.bytes, message))?;
            }
            anyhow::Ok(())
        });
    }
}

pub(super) fn server(setup: &Setup) -> Result<Endpoint> {
    let own = certificate::own()?;
    let mut config = ServerConfig::with_single_cert(vec![own.certificate], own.key)?;
    config.transport_config(transport(setup)?);
    let endpoint = endpoint(setup.listen, Some(config))?;
    setup.hello(&format!("{} {}", endpoint.local_addr()?, own.hex));
    Ok(endpoint)
}

/// On a socket with the buffers that quinn's own measurements take.
fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = UdpSocket::bind(address)?;
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_send_buffer_size(SOCKET_BUFFER)?;
    buffers.set_recv_buffer_size(SOCKET_BUFFER)?;
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?)
}

/// A connection to the server, whose certificate is the only one that is believed.
async fn connect(setup: &Setup, meter: &Meter) -> Result<(Endpoint, Connection)> {
    let (endpoint, address) = client(setup, Ipv4Addr::UNSPECIFIED)?;
    meter.hand_over();
    let connection = endpoint.connect(address, certificate::NAME)?.await?;
    Ok((endpoint, connection))
}

/// An endpoint that connects from this address, and the server's address.
pub(super) fn client(setup: &Setup, from: Ipv4Addr) -> Result<(Endpoint, SocketAddr)> {
    let (address, certificate) = certificate::told(&setup.server)?;
    let mut config = ClientConfig::with_root_certificates(certificate::roots(certificate)?)?;
    config.transport_config(transport(setup)?);
    let mut endpoint = endpoint((from, 0).into(), None)?;
    endpoint.set_default_client_config(config);
    Ok((endpoint, address.parse()?))
}

fn transport(setup: &Setup) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    // Each that may be opened takes memory from the beginning, which ten thousand connections do not have.
    let streams = if matches!(setup.work, Work::Crowd { .. } | Work::Sessions { .. }) { 100 } else { 10_000 };
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(PAYLOAD);
    transport
        .send_fairness(false)
        .initial_mtu(PAYLOAD)
        .mtu_discovery_config(Some(discovery))
        .max_concurrent_uni_streams(VarInt::from_u32(streams))
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
