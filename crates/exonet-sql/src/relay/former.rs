//! What was open in the node when the relay began.
//!
//! A node with a journal goes on with the messages of its former life, and a node may have had a relay before in this one. Copies of rows
//! are among them. Another copy beside an open one could be processed after the row and its inbox row are gone. So the rows
//! for a receiver wait until all that was open to it is settled. Those that were processed meanwhile are handed over once more,
//! and the receiver's inbox knows them.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use exonet::send::MessageKey;
use exonet::{Node, NodeId};

pub(crate) struct Former {
    open: HashMap<NodeId, HashSet<MessageKey>>,
}

impl Former {
    pub(crate) async fn find(node: &Node) -> Self {
        Self { open: Self::look(node).await }
    }

    async fn look(node: &Node) -> HashMap<NodeId, HashSet<MessageKey>> {
        let mut found: HashMap<_, HashSet<_>> = HashMap::new();
        for message in node.flush(Duration::ZERO).await {
            found.entry(message.peer).or_default().insert(message.key);
        }
        found
    }

    /// Looks what is settled meanwhile.
    pub(crate) async fn update(&mut self, node: &Node) {
        if self.is_empty() {
            return;
        }
        let still = Self::look(node).await;
        self.open.retain(|peer, keys| {
            keys.retain(|key| still.get(peer).is_some_and(|open| open.contains(key)));
            !keys.is_empty()
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The receivers that rows wait for.
    pub(crate) fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.open.keys().copied()
    }
}
