//! A place in the queue to a peer.

use core::fmt;
use std::sync::Arc;

use crate::engine::Engine;
use crate::error::SendError;
use crate::peer_addr::PeerAddr;
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::shared::Shared;

/// A place in the queue to a peer, which [`Peer::reserve`](crate::Peer::reserve) returns. If the caller drops it
/// unused, the place is given back, and nothing has been queued.
#[must_use = "a permit holds a place in the queue until it is used or dropped"]
pub struct Permit {
    pub(crate) shared: Arc<Shared>,
    pub(crate) to: Arc<PeerAddr>,
}

impl Permit {
    pub(crate) fn new(shared: Arc<Shared>, to: Arc<PeerAddr>) -> Self {
        Self { shared, to }
    }

    /// Queues the message at once.
    ///
    /// # Errors
    /// The errors of [`Peer::send`](crate::Peer::send). [`SendError::Full`] occurs only if other messages have
    /// meanwhile used up the limit on *bytes*: a permit reserves none.
    pub fn send(self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        let (shared, mut message) = (&self.shared, Some(message.into()));
        let hints = shared.names.known(&self.to);
        let redeem = |engine: &mut Engine, now| engine.redeem(now, self.to.id, &hints, &mut message);
        let (slot, _) = shared.step(redeem)?;
        Ok(Receipt::new(Arc::clone(shared), slot))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.amend(|engine| engine.give_back(&self.to.id));
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("peer", &self.to.id).finish_non_exhaustive()
    }
}
