//! QUIC: a connection for each client, with one stream that goes both ways.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream};
use tokio::io::{Join, join};

use super::super::contact::stream::{ask, read, write};
use super::super::{Setup, certificate, quic};
use super::Caller;
use crate::app::Answers;

pub(in crate::peer) struct Quic {
    endpoint: Endpoint,
    server: SocketAddr,
    open: Option<(Connection, Join<RecvStream, SendStream>)>,
}

impl Caller for Quic {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let endpoint = quic::server(setup)?;
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(answer(incoming, answers.clone()));
        }
        Ok(())
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let (endpoint, server) = quic::client(setup, from)?;
        Ok(Self { endpoint, server, open: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let (_, stream) = match &mut self.open {
            Some(open) => open,
            empty => {
                let connection = self.endpoint.connect(self.server, certificate::NAME)?.await?;
                let (send, receive) = connection.open_bi().await?;
                empty.insert((connection, join(receive, send)))
            }
        };
        ask(stream, request).await
    }

    async fn close(self) -> Result<()> {
        std::future::pending().await
    }
}

async fn answer(incoming: Incoming, answers: Answers) -> Result<()> {
    let connection = incoming.await?;
    let (send, receive) = connection.accept_bi().await?;
    let mut stream = join(receive, send);
    while let Some(request) = read(&mut stream).await? {
        answers.work(&request).await;
        write(&mut stream, &request).await?;
    }
    Ok(())
}
