//! TLS 1.3 over TCP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::{Setup, certificate};
use super::{Caller, stream};
use crate::app::Answers;

pub(super) struct Tls {
    server: SocketAddr,
    from: Ipv4Addr,
    connector: TlsConnector,
    stream: Option<TlsStream<TcpStream>>,
}

impl Caller for Tls {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let own = certificate::own()?;
        let mut config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.certificate], own.key)?;
        // Nobody comes again.
        config.send_tls13_tickets = 0;
        let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), stream::listen(setup, &own.hex)?);
        loop {
            let (tcp, _) = listener.accept().await?;
            tcp.set_nodelay(true)?;
            let (acceptor, answers) = (acceptor.clone(), answers.clone());
            tokio::spawn(async move { stream::answer(&mut acceptor.accept(tcp).await?, &answers).await });
        }
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let (address, certificate) = certificate::told(&setup.server)?;
        let roots = certificate::roots(certificate)?;
        let mut config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self { server: address.parse()?, from, connector: Arc::new(config).into(), stream: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => {
                let tcp = stream::connect(self.server, self.from).await?;
                let name = ServerName::try_from(certificate::NAME)?;
                empty.insert(self.connector.connect(name, tcp).await?)
            }
        };
        stream::ask(stream, request).await
    }

    async fn close(self) -> Result<()> {
        let Some(mut stream) = self.stream else { return Ok(()) };
        stream.shutdown().await?;
        stream::read(&mut stream).await.map(drop)
    }
}
