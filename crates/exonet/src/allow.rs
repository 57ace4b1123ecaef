//! Which peers may talk to a node.

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::Policy;

/// May the owner of this proven id, at this address, talk to this node? The node asks without holding its lock.
pub(crate) type Question = dyn Fn(NodeId, SocketAddr) -> bool + Send + Sync;

/// Decides which peers may talk to a node. There is no default: the application decides when it builds the node, and
/// may change its decision with [`Node::set_allow`](crate::Node::set_allow).
///
/// A node always admits the peers that it sends to.
#[derive(Clone)]
pub struct Allow(Who);

#[derive(Clone)]
enum Who {
    Anyone,
    Only(Vec<NodeId>),
    Ask(Arc<Question>),
}

impl Allow {
    /// Admits every node that proves its id.
    pub const fn anyone() -> Self {
        Self(Who::Anyone)
    }

    /// Admits only these nodes. An empty list admits nobody.
    pub fn only(ids: impl IntoIterator<Item = NodeId>) -> Self {
        Self(Who::Only(ids.into_iter().collect()))
    }

    /// Admits every peer for which `question` returns true. The node's own task calls `question`, once for each
    /// unknown peer, and waits for it: `question` should answer from memory, without blocking. A panic counts as
    /// false.
    pub fn ask(question: impl Fn(NodeId, SocketAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Who::Ask(Arc::new(question)))
    }

    pub(crate) fn into_policy(self) -> (Policy, Option<Arc<Question>>) {
        match self.0 {
            Who::Anyone => (Policy::Anyone, None),
            Who::Only(ids) => (Policy::Only(ids.into_iter().collect()), None),
            Who::Ask(question) => (Policy::Ask, Some(question)),
        }
    }
}

impl fmt::Debug for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Who::Anyone => f.write_str("Anyone"),
            Who::Only(ids) => f.debug_tuple("Only").field(ids).finish(),
            Who::Ask(_) => f.write_str("Ask"),
        }
    }
}
