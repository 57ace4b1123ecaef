//! A node whose identity lives elsewhere: this is the rest after a move, or a copy. It stops, for good.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Weak};

use tokio::time::sleep;

use super::{Naming, NamingError, Term};
use crate::node::Node;
use crate::shared::Shared;
use crate::state::StateDir;

/// How often the node asks the name service whether the identity still lives here.
const WATCH: Duration = Duration::from_secs(10);
/// The least time between two such questions if peers report a later generation: any peer may do so.
const PAUSE: Duration = Duration::from_secs(1);

/// The place where an identity lives of which this node was only a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// The generation that is alive.
    pub generation: u64,
    /// Its addresses, if a name has them.
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
    /// Waits until it turns out that the identity lives elsewhere, which may never happen. The node has stopped by
    /// then, and its identity no longer opens here.
    ///
    /// A node with a stored identity and a name service that [decides](Naming::is_authority) asks this service every
    /// ten seconds, and when a peer reports that it has met a later generation. It does not trust the peer alone, which
    /// could otherwise stop any node that it knows.
    pub async fn superseded(&self) -> Superseded {
        let mut told = self.shared().superseded.subscribe();
        let waited = told.wait_for(Option::is_some).await.map(|told| told.clone());
        match waited {
            Ok(Some(superseded)) => superseded,
            _ => core::future::pending().await,
        }
    }
}

/// Stops `node` if its identity turns out to live elsewhere. Runs until the node ends.
pub(crate) async fn watch(node: Arc<Shared>, naming: Arc<dyn Naming>, store: Weak<StateDir>, term: Term) {
    loop {
        tokio::select! {
            _ = node.ended.acquire() => return,
            () = node.suspected.notified() => {}
            () = sleep(WATCH) => {}
        }
        if let Err(NamingError::Superseded { generation }) = naming.claim(&node.id, term).await {
            let superseded = Superseded { generation, addresses: whereabouts(&*naming, &node).await };
            tracing::error!(node = %node.id.short(), "{superseded}: the node stops");
            // The mark is durable first: the identity does not start again.
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

/// The addresses of the identity according to the names.
async fn whereabouts(naming: &dyn Naming, node: &Shared) -> Vec<String> {
    let names = naming.list().await.unwrap_or_default();
    let later = names.into_iter().map(|(_, found)| found.record);
    let later = later.filter(|record| record.peer.id == node.id && record.generation > node.generation);
    later.flat_map(|record| record.peer.hints().collect::<Vec<_>>()).collect()
}
