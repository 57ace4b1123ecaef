//! Exonet's sessions: a client is a node with a fresh key.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use bytes::Bytes;
use exonet::session::Session;
use exonet::{Allow, Node, PeerAddr};

use super::super::Setup;
use super::Caller;
use crate::app::Answers;

/// The name of each session.
const NAME: &str = "talk";

pub(in crate::peer) struct Exonet {
    node: Node,
    server: PeerAddr,
    session: Option<Session>,
}

impl Caller for Exonet {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let node = Node::builder(Allow::anyone()).bind(setup.listen).build().await?;
        setup.hello(&node.peer_addr().to_string());
        loop {
            tokio::spawn(answer(node.accept_session().await?, answers.clone()));
        }
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let node = Node::builder(Allow::anyone()).bind(SocketAddr::from((from, 0))).build().await?;
        Ok(Self { node, server: setup.server.parse()?, session: None })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let session = match &mut self.session {
            Some(session) => session,
            empty => empty.insert(self.node.peer(&self.server).session(NAME)?.open().await?),
        };
        drop(session.send(Bytes::copy_from_slice(request)).await?);
        let message = session.recv().await?.context("the server has closed the session")?;
        Ok(message.take()?.to_vec())
    }

    /// The session stays open until the process ends, as the connections of the others do.
    async fn close(self) -> Result<()> {
        std::future::pending().await
    }
}

/// Acknowledges a request together with sending its answer: a server that dies before that is given the request again.
async fn answer(mut session: Session, answers: Answers) -> Result<()> {
    while let Some(message) = session.recv().await? {
        answers.work(message.body()).await;
        let answer = message.body().clone();
        drop(session.answer(message, answer).await?);
    }
    Ok(())
}
