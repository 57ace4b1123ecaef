//! Which node was met under which name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use exonet_proto::NodeId;

use super::{Name, NamingError};
use crate::state::StateDir;

/// Names beyond this many are not remembered, and checked by nobody.
const MOST: usize = 10_000;

/// The first node that was found behind each name: no other is talked to under that name. A stored identity keeps that through
/// restarts.
#[derive(Default)]
pub(crate) struct Pins {
    known: Mutex<BTreeMap<Name, NodeId>>,
    /// Held while they are written: the last write has all.
    writing: Mutex<()>,
    store: Option<Weak<StateDir>>,
}

impl Pins {
    /// Those that a stored identity knows.
    pub(crate) fn of(known: BTreeMap<Name, NodeId>, store: &Arc<StateDir>) -> Self {
        Self { known: Mutex::new(known), writing: Mutex::new(()), store: Some(Arc::downgrade(store)) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Name, NodeId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `name` may stand for `id`. What a stored identity learns by that is durable on return.
    ///
    /// # Errors
    /// [`NamingError::OtherNode`]: it stood for another one.
    pub(crate) async fn check(self: &Arc<Self>, name: &Name, id: NodeId) -> Result<(), NamingError> {
        if self.pin(name, id)? && self.store.is_some() {
            let pins = Arc::clone(self);
            // The node goes on without: it knows them for as long as it lives.
            let _ = tokio::task::spawn_blocking(move || pins.write()).await;
        }
        Ok(())
    }

    /// True: that is new.
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
        // Without it, the identity is free, and may be another process's.
        let Some(store) = self.store.as_ref().and_then(Weak::upgrade) else { return };
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known().clone();
        if let Err(error) = store.store_pins(&known) {
            tracing::warn!("which nodes are behind names is not kept: {error}");
        }
    }
}
