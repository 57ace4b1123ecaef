//! The messages that were open in the node when the relay began.
//!
//! A node with a journal continues with the messages of its former life, and a node may have had a relay before in
//! this life. Copies of rows may be among these messages. If a row were handed over while such a copy is open, the
//! copy could be processed after the row and its inbox row are gone. So the rows for a receiver wait until all
//! messages that were open to it are settled. Rows that were processed meanwhile are handed over once more, and the
//! receiver's inbox recognizes them.

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

    /// Checks which messages are settled now.
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

    /// The receivers whose rows have to wait.
    pub(crate) fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.open.keys().copied()
    }
}
