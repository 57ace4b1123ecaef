//! Which node was met under which name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use exonet_proto::NodeId;

use super::{Name, NamingError};

/// The first node that was found behind each name. For as long as this node lives, no other is talked to under that name.
#[derive(Default)]
pub(crate) struct Pins(Mutex<BTreeMap<Name, NodeId>>);

impl Pins {
    /// Whether `name` may stand for `id`.
    ///
    /// # Errors
    /// [`NamingError::OtherNode`]: it stood for another one.
    pub(crate) fn check(&self, name: &Name, id: NodeId) -> Result<(), NamingError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = *known.entry(name.clone()).or_insert(id);
        if pinned == id {
            return Ok(());
        }
        Err(NamingError::OtherNode { name: name.clone(), pinned, now: id })
    }
}
