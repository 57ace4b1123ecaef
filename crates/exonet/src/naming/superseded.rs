//! Stops a node whose identity lives elsewhere: the node is what a move has left behind, or a copy.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Weak};

use tokio::time::sleep;

use exonet_proto::NodeId;

use super::{Naming, NamingError, Term};
use crate::error::BuildError;
use crate::node::Node;
use crate::shared::Shared;
use crate::state::StateDir;

/// How often the node asks the name service whether its identity still lives here.
const WATCH: Duration = Duration::from_secs(10);
/// The shortest time between two such questions that reports of peers cause: any peer may make such a report.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the identity of this node lives now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// The generation that lives.
    pub generation: u64,
    /// The addresses of the identity, if a name has them.
    pub addresses: Vec<String>,
}

impl fmt::Display for Superseded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this identity has moved: it lives elsewhere as generation {}", self.generation)?;
        match self.addresses.as_slice() {
            [] => f.write_str(", says the name service"),
            addresses => write!(f, ", at {}, says the name service", addresses.join(" or ")),
        }
    }
}

impl std::error::Error for Superseded {}

impl Node {
    /// Waits until the node learns that its identity lives elsewhere, which may never happen. When this returns, the
    /// node has stopped, and its identity cannot be opened here again.
    ///
    /// A node asks only if it has a stored identity and a name service that [is an
    /// authority](Naming::is_authority). It asks the service every ten seconds, and when a peer reports that it has
    /// met a later generation. The node does not trust the report alone: otherwise any peer could stop it.
    pub async fn superseded(&self) -> Superseded {
        let mut told = self.shared().superseded.subscribe();
        let waited = told.wait_for(Option::is_some).await.map(|told| told.clone());
        match waited {
            Ok(Some(superseded)) => superseded,
            _ => core::future::pending().await,
        }
    }
}

/// Stops `node` if its identity turns out to live elsewhere. Runs until the node has ended.
pub(crate) async fn watch(node: Arc<Shared>, naming: Arc<dyn Naming>, store: Weak<StateDir>, term: Term) {
    loop {
        tokio::select! {
            _ = node.ended.acquire() => return,
            () = node.suspected.notified() => {}
            () = sleep(WATCH) => {}
        }
        if let Err(NamingError::Superseded { generation }) = naming.claim(&node.id, term).await {
            let superseded = Superseded::learn(&*naming, &node.id, term, generation).await;
            tracing::error!(node = %node.id.short(), "{superseded}: the node stops");
            // The mark is durable before the node stops, so that the identity does not start here again.
            if let Some(store) = Weak::upgrade(&store) {
                let stored = tokio::task::spawn_blocking(move || store.supersede(generation)).await;
                if let Ok(Err(error)) = stored {
                    tracing::error!(node = %node.id.short(), "{error}");
                }
            }
            node.superseded.send_replace(Some(superseded));
            node.stop(Some("its identity lives elsewhere"));
            return;
        }
        tokio::select! {
            _ = node.ended.acquire() => return,
            () = sleep(PAUSE) => {}
        }
    }
}

/// Claims that the identity `id` lives where `term` says.
pub(crate) async fn claim(naming: &dyn Naming, id: &NodeId, term: Term) -> Result<(), BuildError> {
    match naming.claim(id, term).await {
        Err(NamingError::Superseded { generation }) => {
            Err(Superseded::learn(naming, id, term, generation).await.into())
        }
        claimed => Ok(claimed?),
    }
}

impl Superseded {
    /// Asks the service for the addresses of `id`, which lives as `generation`, and here was left with `term`.
    async fn learn(naming: &dyn Naming, id: &NodeId, term: Term, generation: u64) -> Self {
        let names = naming.list().await.unwrap_or_default();
        let later = names.into_iter().map(|(_, found)| found.record);
        let later = later.filter(|record| record.peer.id == *id && record.generation > term.generation);
        let mut addresses: Vec<_> =
            later.flat_map(|record| record.peer.hints().collect::<Vec<_>>()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self { generation, addresses }
    }
}
