//! Exonet's own calls: a client is a node with a fresh key.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use bytes::Bytes;
use exonet::call::{Failure, Request};
use exonet::{Allow, Node, PeerAddr};

use super::super::Setup;
use super::{Caller, PATIENCE};
use crate::app::Answers;

pub(in crate::peer) struct Exonet {
    node: Node,
    server: PeerAddr,
}

const METHOD: &str = "echo";
const LONGEST: u64 = 1 << 16;

impl Caller for Exonet {
    async fn serve(setup: &Setup, answers: Answers) -> Result<()> {
        let node = Node::builder(Allow::anyone()).bind(setup.listen).build().await?;
        let echo = move |mut request: Request| {
            let answers = answers.clone();
            async move {
                let body = request.body.bytes(LONGEST).await.map_err(Failure::error)?;
                answers.note(&body);
                Ok::<Bytes, Failure>(body)
            }
        };
        let _serving = node.serve(METHOD, echo).start()?;
        setup.hello(&node.peer_addr().to_string());
        std::future::pending().await
    }

    async fn new(setup: &Setup, from: Ipv4Addr) -> Result<Self> {
        let node = Node::builder(Allow::anyone()).bind(SocketAddr::from((from, 0))).build().await?;
        Ok(Self { node, server: setup.server.parse()? })
    }

    async fn call(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        let mut reply = self.node.peer(&self.server).call(METHOD, Bytes::copy_from_slice(request)).await?;
        Ok(reply.body.bytes(LONGEST).await?.to_vec())
    }

    async fn close(self) -> Result<()> {
        self.node.close(PATIENCE).await;
        Ok(())
    }
}
