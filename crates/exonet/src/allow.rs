//! Who may talk to a node.

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::Policy;

/// The question that [`Allow::Ask`] asks: may the owner of this proven id, heard from this address, talk to us?
pub type Question = dyn Fn(NodeId, SocketAddr) -> bool + Send + Sync;

/// Which peers may talk to a node. There is no default: the application decides.
///
/// Peers that this node itself sends to are admitted besides.
#[derive(Clone)]
pub enum Allow {
    /// Any node that can prove its id.
    Anyone,
    /// These nodes only.
    Only(Vec<NodeId>),
    /// The application decides on each. It is asked on the node's own task: answer at once, from memory. A panic is a no.
    Ask(Arc<Question>),
}

impl Allow {
    /// Any node that can prove its id.
    pub const fn anyone() -> Self {
        Self::Anyone
    }

    /// These nodes only; none at all is a choice too.
    pub fn only(ids: impl IntoIterator<Item = NodeId>) -> Self {
        Self::Only(ids.into_iter().collect())
    }

    /// Every peer for which `question` returns true.
    pub fn ask(question: impl Fn(NodeId, SocketAddr) -> bool + Send + Sync + 'static) -> Self {
        Self::Ask(Arc::new(question))
    }

    pub(crate) fn into_policy(self) -> (Policy, Option<Arc<Question>>) {
        match self {
            Self::Anyone => (Policy::Anyone, None),
            Self::Only(ids) => (Policy::Only(ids.into_iter().collect()), None),
            Self::Ask(question) => (Policy::Ask, Some(question)),
        }
    }
}

impl fmt::Debug for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("Anyone"),
            Self::Only(ids) => f.debug_tuple("Only").field(ids).finish(),
            Self::Ask(_) => f.write_str("Ask"),
        }
    }
}
