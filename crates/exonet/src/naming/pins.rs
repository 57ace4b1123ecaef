//! The nodes that were met under each name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use exonet_proto::NodeId;

use super::{Name, NamingError};
use crate::state::StateDir;

/// The largest number of names that are remembered; further names are not checked.
const MOST: usize = 10_000;

/// The first node that was found behind each name: this node talks to no other under that name. A stored identity keeps
/// this across restarts.
#[derive(Default)]
pub(crate) struct Pins {
    known: Mutex<BTreeMap<Name, NodeId>>,
    /// Held during a write: the last write contains everything.
    writing: Mutex<()>,
    store: Option<Weak<StateDir>>,
}

impl Pins {
    /// The pins that a stored identity has.
    pub(crate) fn of(known: BTreeMap<Name, NodeId>, store: &Arc<StateDir>) -> Self {
        Self { known: Mutex::new(known), writing: Mutex::new(()), store: Some(Arc::downgrade(store)) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Name, NodeId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that `name` may be bound to `id`. A new pin of a stored identity is durable on return.
    ///
    /// # Errors
    /// [`NamingError::OtherNode`]: the name was bound to another node.
    pub(crate) async fn check(self: &Arc<Self>, name: &Name, id: NodeId) -> Result<(), NamingError> {
        if self.pin(name, id)? && self.store.is_some() {
            let pins = Arc::clone(self);
            // If this fails, the node goes on: it knows the pin for as long as it lives.
            let _ = tokio::task::spawn_blocking(move || pins.write()).await;
        }
        Ok(())
    }

    /// True: the pin is new.
    fn pin(&self, name: &Name, id: NodeId) -> Result<bool, NamingError> {
        let mut known = self.known();
        match known.get(name) {
            Some(pinned) if *pinned == id => Ok(false),
            Some(pinned) => Err(NamingError::OtherNode { name: name.clone(), pinned: *pinned, now: id }),
            None if known.len() >= MOST => Ok(false),
            None => {
                known.insert(name.clone(), id);
                Ok(true)
            }
        }
    }

    fn write(&self) {
        // Without the store, the identity is released, and another process may have it.
        let Some(store) = self.store.as_ref().and_then(Weak::upgrade) else { return };
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known().clone();
        if let Err(error) = store.store_pins(&known) {
            tracing::warn!("which nodes are behind names is not kept: {error}");
        }
    }
}
