//! HTTP/2 over one TCP connection.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use h2::{RecvStream, client, server};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

use super::frames::Incoming;
use super::tasks::{self, Shared};
use super::{Peer, Setup, nothing_missing};
use crate::app::{Meter, Pacer, Work};

pub(super) const PEERS: &[Peer] = &[Peer {
    name: "http2",
    label: "HTTP/2 (h2)",
    tuning: "a POST for each stream, whose body goes on for ever, on one connection of TCP (BBR) with TCP_NODELAY; windows of 16 MiB; not encrypted",
    reliable: true,
    cannot: |work| {
        if matches!(work, Work::Lanes { .. }) { None } else { Some("it is compared on streams only") }
    },
    missing,
    run: |setup, meter| tasks::run(setup, meter, lanes),
}];

const WINDOW: u32 = 16 << 20;
/// As many as any workload has.
const STREAMS: u32 = 128;

fn missing() -> Option<String> {
    super::tcp::lacks("bbr").or_else(nothing_missing)
}

async fn lanes(setup: Arc<Setup>, meter: Arc<Meter>) -> Result<()> {
    let Work::Lanes { lanes, per_second } = setup.work else { bail!("there are no lanes") };
    let stream = if setup.is_server() {
        let listener = TcpListener::bind(setup.listen).await?;
        setup.hello(&listener.local_addr()?.to_string());
        listener.accept().await?.0
    } else {
        TcpStream::connect(setup.server_address()?).await.context("cannot connect")?
    };
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_congestion(b"bbr")?;
    if setup.is_server() {
        return serve(&setup, &meter, stream).await;
    }
    let mut builder = client::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    builder.max_send_buffer_size(setup.buffer() as usize);
    let (mut requests, connection) = builder.handshake::<_, Bytes>(stream).await?;
    let connection = tokio::spawn(connection);
    let mut bodies = Vec::new();
    for n in 0..lanes {
        let request = http::Request::post(format!("http://lab/{n}")).body(())?;
        requests = requests.ready().await?;
        bodies.push(requests.send_request(request, false)?);
    }
    let mut pacer = Pacer::new(&meter, (lanes, per_second), setup.bytes);
    loop {
        let (lane, message) = pacer.next().await;
        if connection.is_finished() {
            bail!("the connection has ended");
        }
        let length = u32::try_from(message.len())?.to_be_bytes();
        let (_, body) = bodies.get_mut(lane as usize).context("no such lane")?;
        body.send_data(Bytes::from([&length[..], &message].concat()), false)?;
    }
}

async fn serve(setup: &Setup, meter: &Arc<Meter>, stream: TcpStream) -> Result<()> {
    let mut builder = server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    builder.max_concurrent_streams(STREAMS);
    let mut connection = builder.handshake::<_, Bytes>(stream).await?;
    let shared = Shared::new(setup, meter);
    while let Some(request) = connection.accept().await {
        let (request, _answer) = request?;
        tokio::spawn(take(request.into_body(), shared.clone()));
    }
    bail!("the connection has ended")
}

async fn take(mut body: RecvStream, shared: Shared) -> Result<()> {
    let mut incoming = Incoming::default();
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        shared.take_from(|message| incoming.take(&bytes, message))?;
        body.flow_control().release_capacity(bytes.len())?;
    }
    Ok(())
}
