//! Exonet: each node has a journal.

use std::path::Path;

use anyhow::{Result, ensure};
use bytes::Bytes;
use exonet::{Allow, Builder, Durability, Node, Outcome, PeerAddr};
use std::sync::Arc;

use super::super::Setup;
use super::Keeps;
use crate::app::{Acts, Meter};

pub(super) struct Exonet {
    node: Node,
    server: PeerAddr,
}

/// A node of this name, with its journal.
fn builder(setup: &Setup, name: &str) -> Builder {
    let durability = if setup.peer == "exonet-sync" { Durability::Sync } else { Durability::Process };
    Node::builder(Allow::anyone()).state_dir(Path::new(&setup.disk).join(name)).durability(durability)
}

impl Keeps for Exonet {
    async fn receive(setup: &Setup, _: &Arc<Meter>, acts: Acts) -> Result<()> {
        let node = builder(setup, "receiver").bind(setup.listen).build().await?;
        setup.hello(&node.peer_addr().to_string());
        loop {
            let delivery = node.recv().await?;
            if let Some(body) = delivery.body().as_whole() {
                acts.act(body)?;
            }
            delivery.ack()?;
        }
    }

    async fn new(setup: &Setup) -> Result<Self> {
        let node = builder(setup, "sender").bind("0.0.0.0:0").build().await?;
        Ok(Self { node, server: setup.server.parse()? })
    }

    async fn send(&self, message: Vec<u8>) -> Result<()> {
        let settled = self.node.peer(&self.server).send(Bytes::from(message)).await?.await;
        ensure!(settled.outcome == Outcome::Delivered, "a message ended {:?}", settled.outcome);
        Ok(())
    }
}
