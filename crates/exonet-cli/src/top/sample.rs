//! A sample of a node.

use std::time::Duration;

use tokio::time::timeout;

use crate::control::Client;
use crate::control::figures::{NodeFigures, PeerFigures};
use crate::control::protocol::{Reply, Request};
use crate::failure::Failure;

/// The time limit for the answer of the process. It answers at once, or hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node and its peers at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) node: NodeFigures,
    pub(crate) peers: Vec<PeerFigures>,
}

impl Sample {
    /// Asks the process that runs the node.
    ///
    /// # Errors
    /// The process has ended, hangs, or gives an answer that cannot be understood.
    pub(crate) async fn take(process: &Client) -> Result<Self, Failure> {
        let hangs =
            |_| Failure::new(format!("process {}, which runs the node, does not answer", process.pid));
        timeout(PATIENCE, Self::ask(process)).await.map_err(hangs)?
    }

    async fn ask(process: &Client) -> Result<Self, Failure> {
        let (mut hearer, mut sample) = (process.ask(Request::Figures).await?, Self::default());
        loop {
            match hearer.next().await? {
                Some(Reply::Figures(node)) => sample.node = *node,
                Some(Reply::PeerFigures(peer)) => sample.peers.push(*peer),
                Some(_) => {}
                None => return Ok(sample),
            }
        }
    }

    /// The number of messages that have not been sent.
    pub(crate) fn queued(&self) -> u64 {
        self.peers.iter().map(|peer| peer.queued).sum()
    }

    /// The number of messages that have been sent and have no outcome.
    pub(crate) fn in_doubt(&self) -> u64 {
        self.peers.iter().map(|peer| peer.in_doubt).sum()
    }
}
