//! The filter of a receiver.

use bytes::Bytes;
use exonet_proto::NodeId;
use exonet_proto::node::Incoming;

/// Selects the messages that a [`Receiver`](crate::receive::Receiver) gets: those of a peer, those with a tag, or those
/// with both.
///
/// ```
/// use exonet::{NodeId, receive::Filter};
///
/// let orders = Filter::any().tag("order");
/// let orders_of_one = orders.clone().peer(NodeId([7; 32]));
/// # let _ = orders_of_one;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    peer: Option<NodeId>,
    tag: Option<Bytes>,
}

impl Filter {
    /// Selects every message that no other receiver gets.
    pub const fn any() -> Self {
        Self { peer: None, tag: None }
    }

    /// Selects only messages of this peer.
    #[must_use]
    pub fn peer(mut self, id: NodeId) -> Self {
        self.peer = Some(id);
        self
    }

    /// Selects only messages with this tag, which may be empty.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Bytes>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    pub(crate) const fn takes_any(&self) -> bool {
        self.peer.is_none() && self.tag.is_none()
    }

    pub(crate) fn takes(&self, incoming: &Incoming) -> bool {
        self.peer.is_none_or(|peer| peer == incoming.id.sender)
            && self.tag.as_ref().is_none_or(|tag| *tag == incoming.tag)
    }
}
