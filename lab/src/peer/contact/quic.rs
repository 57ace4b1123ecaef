//! QUIC: a stream for each call.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, VarInt};
use rustls::client::Resumption;
use rustls::server::ServerSessionMemoryCache;

use super::super::{Setup, certificate};
use super::Caller;
use crate::app::Answers;

const LONGEST: usize = 1 << 16;
/// Sessions that the server keeps for clients that come again: more than there are, with what each is given.
const SESSIONS: usize = 8_192;

/// A client that has never been there.
pub(in crate::peer) struct Quic {
    server: SocketAddr,
    endpoint: Endpoint,
    connection: Option<Connection>,
}

fn server(setup: &Setup) -> Result<Endpoint> {
    let own = certificate::own()?;
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(vec![own.certificate], own.key)?;
    if setup.peer == "quinn-0rtt" {
        tls.max_early_data_size = u32::MAX;
        tls.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    } else {
        tls.send_tls13_tickets = 0;
    }
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = Endpoint::server(config, setup.listen)?;
    setup.hello(&format!("{} {}", endpoint.local_addr()?, own.hex));
    Ok(endpoint)
}

async fn answer(connection: Connection, answers: Answers) -> Result<()> {
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        let request = receive.read_to_end(LONGEST).await?;
        answers.note(&request);
        send.write_all(&request).await?;
        send.finish()?;
    }
}

async fn ask(connection: &Connection, request: &[u8]) -> Result<Vec<u8>> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(request).await?;
    send.finish()?;
    Ok(receive.read_to_end(LONGEST).await?)
}

impl Quic {
    fn with(setup: &Setup, from: Ipv4Addr, resumption: Resumption) -> Result<Self> {
        let (address, certificate) = certificate::told(&setup.server)?;
        let mut tls = rustls::ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
            .with_root_certificates(certificate::roots(certificate)?)
            .with_no_client_auth();
        tls.resumption = resumption;
        tls.enable_early_data = true;
        let mut endpoint = Endpoint::client((from, 0).into())?;
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
        Ok(Self { server: address.parse()?, endpoint, connection: None })
    }
}

impl Caller for Quic {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let endpoint = server(setup)?;
        while let Some(incoming) = endpoint.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move { answer(incoming.await?, answers).await });
        }
        Ok(())
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        Self::with(setup, from, Resumption::disabled())
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(self.endpoint.connect(self.server, certificate::NAME)?.await?),
        };
        ask(connection, request).await
    }

    async fn close(self) -> Result<()> {
        if let Some(connection) = self.connection {
            connection.close(VarInt::from_u32(0), &[]);
        }
        self.endpoint.wait_idle().await;
        Ok(())
    }
}

/// A client that has called once before, and left.
pub(super) struct Returning(Quic);

impl Caller for Returning {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let endpoint = server(setup)?;
        while let Some(incoming) = endpoint.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                let accepting = incoming.accept()?;
                // A server may always use what comes early.
                let Ok((connection, _)) = accepting.into_0rtt() else { return Ok(()) };
                answer(connection, answers).await
            });
        }
        Ok(())
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let client = Quic::with(setup, from, Resumption::in_memory_sessions(4))?;
        // A visit: the handshake and an empty stream, behind whose end the server's tickets have come.
        let connection = client.endpoint.connect(client.server, certificate::NAME)?.await?;
        let answer = ask(&connection, &[]).await?;
        ensure!(answer.is_empty(), "the server did not answer the first visit");
        connection.close(VarInt::from_u32(0), &[]);
        Ok(Self(client))
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        if let Some(connection) = &self.0.connection {
            return ask(connection, request).await;
        }
        let connecting = self.0.endpoint.connect(self.0.server, certificate::NAME)?;
        let (connection, accepted) =
            connecting.into_0rtt().ok().context("nothing was kept of the first visit")?;
        let answer = ask(&connection, request).await?;
        ensure!(accepted.await, "the server did not take what came early");
        self.0.connection = Some(connection);
        Ok(answer)
    }

    async fn close(self) -> Result<()> {
        self.0.close().await
    }
}
