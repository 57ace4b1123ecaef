//! Accepts streams by name.

use bytes::Bytes;

use super::desk::Entrance;
use super::{OpenError, Stream, accept};
use crate::error::Closed;
use crate::node::Node;

/// Accepts the streams of one name. [`Node::stream_listener`] makes it.
///
/// ```
/// use exonet::{Allow, Node};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
/// let orders = bob.stream_listener("orders")?;
///
/// let (mut order, _) = alice.peer(bob.peer_addr()).stream("orders")?.split();
/// order.send("tea").await?;
///
/// let (_, mut lines) = orders.accept().await?.split();
/// assert!(lines.recv_at_most_once().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamListener(Listening);

/// Reserves an entrance, and so a name, until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    node: Node,
    name: Bytes,
    entrance: Entrance,
}

impl Listening {
    /// Begins to listen. `of` makes the entrance of a name. None: the entrance already has a listener.
    pub(crate) fn begin(node: Node, name: Bytes, of: impl FnOnce(Bytes) -> Entrance) -> Option<Self> {
        let entrance = of(name.clone());
        let free = node.shared().amend(|engine| engine.streams.listen(&entrance));
        // Made only if the entrance is free: its destructor would take the entrance from the listener that has it.
        free.then(|| Self { node, name, entrance })
    }

    pub(crate) const fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) const fn name(&self) -> &Bytes {
        &self.name
    }

    pub(crate) const fn entrance(&self) -> &Entrance {
        &self.entrance
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.node.shared().step_calmly(|engine, _| engine.unlisten(&self.entrance));
    }
}

impl StreamListener {
    pub(super) fn open(node: Node, name: Bytes) -> Result<Self, OpenError> {
        Listening::begin(node, name, Entrance::Stream).map(Self).ok_or(OpenError::Listened)
    }

    /// The name of the streams.
    pub const fn name(&self) -> &Bytes {
        self.0.name()
    }

    /// Waits for the next stream of this name. [`Node::accept_stream`] returns those of other names.
    ///
    /// Cancel-safe. Many tasks may call it: each stream goes to one of them.
    ///
    /// # Errors
    /// [`Closed`] when the node is closed.
    pub async fn accept(&self) -> Result<Stream, Closed> {
        accept(self.0.node(), self.0.entrance()).await
    }
}
