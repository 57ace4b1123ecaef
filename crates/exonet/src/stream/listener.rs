//! Streams that are accepted by their name.

use bytes::Bytes;

use super::desk::Entrance;
use super::{OpenError, Stream, accept};
use crate::error::Closed;
use crate::node::Node;

/// Accepts the streams of one name. Made by [`Node::stream_listener`].
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
pub struct StreamListener {
    node: Node,
    name: Bytes,
    entrance: Entrance,
}

impl StreamListener {
    pub(super) fn open(node: Node, name: Bytes) -> Result<Self, OpenError> {
        let entrance = Entrance::Stream(name.clone());
        if node.shared().amend(|engine| engine.streams.listen(&entrance)) {
            Ok(Self { node, name, entrance })
        } else {
            Err(OpenError::Listened)
        }
    }

    /// The name of the streams.
    pub const fn name(&self) -> &Bytes {
        &self.name
    }

    /// The next stream of the name, as [`Node::accept_stream`] gives those of other names.
    ///
    /// Cancel-safe, and may be called by many tasks: each stream goes to one.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub async fn accept(&self) -> Result<Stream, Closed> {
        accept(&self.node, &self.entrance).await
    }
}

impl Drop for StreamListener {
    fn drop(&mut self) {
        self.node.shared().step_calmly(|engine, _| engine.unlisten(&self.entrance));
    }
}
