//! Who may talk to a node.

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::Policy;

/// Asked without the node's lock: may the owner of this proven id, heard from this address, talk to us?
pub(crate) type Question = dyn Fn(NodeId, SocketAddr) -> bool + Send + Sync;

/// Which peers may talk to a node. There is no default: the application decides, when the node is built, and by
/// [`Node::set_allow`](crate::Node::set_allow) while it runs.
///
/// Peers that this node itself sends to are admitted besides.
#[derive(Clone)]
pub struct Allow(Who);

#[derive(Clone)]
enum Who {
    Anyone,
    Only(Vec<NodeId>),
    Ask(Arc<Question>),
}

impl Allow {
    /// Any node that can prove its id.
    pub const fn anyone() -> Self {
        Self(Who::Anyone)
    }

    /// These nodes only; none at all is a choice too.
    pub fn only(ids: impl IntoIterator<Item = NodeId>) -> Self {
        Self(Who::Only(ids.into_iter().collect()))
    }

    /// Every peer for which `question` returns true. It is asked on the node's own task, once of each peer that is not known: answer
    /// at once, from memory. A panic is a no.
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
