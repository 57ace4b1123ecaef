//! The policy of which peers may talk to a node.

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::Policy;

/// Called without the node's lock: may the owner of this proven id, heard from this address, talk to this node?
pub(crate) type Question = dyn Fn(NodeId, SocketAddr) -> bool + Send + Sync;

/// Which peers may talk to a node. There is no default: the application decides when it builds the node, and may change
/// its decision with [`Node::set_allow`](crate::Node::set_allow).
///
/// The node also admits peers that it sends to itself.
#[derive(Clone)]
pub struct Allow(Who);

#[derive(Clone)]
enum Who {
    Anyone,
    Only(Vec<NodeId>),
    Ask(Arc<Question>),
}

impl Allow {
    /// Admits every node that can prove its id.
    pub const fn anyone() -> Self {
        Self(Who::Anyone)
    }

    /// Admits only these nodes; there may be none.
    pub fn only(ids: impl IntoIterator<Item = NodeId>) -> Self {
        Self(Who::Only(ids.into_iter().collect()))
    }

    /// Admits every peer for which `question` returns true. The node's own task calls it, once for each unknown peer:
    /// it should answer at once, from memory. A panic counts as false.
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
