//! The nodes that this node found under each name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use exonet_proto::NodeId;

use super::{Name, NamingError};
use crate::state::StateDir;

/// How many names are remembered. Further names are not checked.
const MOST: usize = 10_000;

/// The first node that was found under each name: this node talks to no other under that name. A stored identity
/// keeps the table across restarts.
#[derive(Default)]
pub(crate) struct Pins {
    known: Mutex<BTreeMap<Name, NodeId>>,
    /// Locked during a write. The last write contains everything.
    writing: Mutex<()>,
    store: Option<Weak<StateDir>>,
}

impl Pins {
    /// The table of a stored identity.
    pub(crate) fn of(known: BTreeMap<Name, NodeId>, store: &Arc<StateDir>) -> Self {
        Self { known: Mutex::new(known), writing: Mutex::new(()), store: Some(Arc::downgrade(store)) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Name, NodeId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the node found under `name` may be `id`. If the entry is new and the identity is stored, the entry
    /// is durable when this returns.
    ///
    /// # Errors
    /// [`NamingError::OtherNode`]: another node was found under the name before.
    pub(crate) async fn check(self: &Arc<Self>, name: &Name, id: NodeId) -> Result<(), NamingError> {
        if self.pin(name, id)? && self.store.is_some() {
            let pins = Arc::clone(self);
            // If this fails, the node goes on: it remembers the entry until it ends.
            let _ = tokio::task::spawn_blocking(move || pins.write()).await;
        }
        Ok(())
    }

    /// Checks that no other node than `id` was found under `name` before.
    ///
    /// # Errors
    /// [`NamingError::OtherNode`].
    pub(crate) fn agree(&self, name: &Name, id: NodeId) -> Result<(), NamingError> {
        match self.known().get(name) {
            Some(pinned) if *pinned != id => {
                Err(NamingError::OtherNode { name: name.clone(), pinned: *pinned, now: id })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the entry is new.
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
        // Without the store, the identity has been released, and another process may have it.
        let Some(store) = self.store.as_ref().and_then(Weak::upgrade) else { return };
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known().clone();
        if let Err(error) = store.store_pins(&known) {
            tracing::warn!("which nodes are behind names is not kept: {error}");
        }
    }
}
