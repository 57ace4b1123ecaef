//! The messages that have arrived at a node and are not acknowledged, for inspection.

use core::fmt;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use exonet_proto::node::{DeliveryKey, Incoming, Priority, Stand, Unacked as Seen};
use exonet_proto::{MessageId, NodeId, Now};

use crate::engine::{Engine, Phase};
use crate::node::Node;

/// A message that has arrived at a node and is not acknowledged: see [`Node::inbox`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unacked {
    /// The node that sent it.
    pub from: NodeId,
    /// The id of the message: the same at both ends.
    pub id: MessageId,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// The priority that the sender set.
    pub priority: Priority,
    /// Whether it is a call that waits for its server.
    pub is_call: bool,
    /// The length of the body in bytes. None: the body arrives while the application reads it, and the sender has not
    /// announced its length.
    pub size: Option<u64>,
    /// How many times the node has handed the message out under a guard, as far as it knows:
    /// [`Delivery::attempt`](crate::Delivery::attempt) of the last time.
    pub attempts: u32,
    /// Where the message is.
    pub stand: Standing,
    /// The beginning of the body, as many bytes as the caller asked for. None: the body arrives while the application
    /// reads it.
    pub body: Option<Bytes>,
}

/// Where an [`Unacked`] message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It waits in the node: the application has not asked for it yet.
    Waiting,
    /// The application has it, under a guard.
    HandedOut {
        /// How long the application has had it.
        since: Duration,
    },
    /// The application has postponed it with [`Delivery::retry_after`](crate::Delivery::retry_after).
    PutOff {
        /// How long it is until the node hands it out again.
        again: Duration,
    },
}

impl Unacked {
    fn new(seen: Seen, now: Now, queued: &BTreeSet<DeliveryKey>) -> Self {
        let Seen { id, tag, priority, is_call, size, mut attempts, body, stand, .. } = seen;
        let stand = match stand {
            // It waits in the queue of a receiver with a filter.
            Stand::HandedOut { key, .. } if queued.contains(&key) => {
                attempts = attempts.saturating_sub(1);
                Standing::Waiting
            }
            Stand::Waiting => Standing::Waiting,
            Stand::HandedOut { since, .. } => Standing::HandedOut { since: now.mono.since(since) },
            Stand::PutOff { until } => Standing::PutOff { again: until.since(now.mono) },
        };
        Self { from: id.sender, id, tag, priority, is_call, size, attempts, stand, body }
    }
}

impl fmt::Debug for Unacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unacked")
            .field("id", &self.id)
            .field("attempts", &self.attempts)
            .field("stand", &self.stand)
            .finish_non_exhaustive()
    }
}

impl Engine {
    fn unacked(&self, now: Now, glance: usize) -> Vec<Unacked> {
        if self.phase >= Phase::Stopped {
            return Vec::new();
        }
        let queued = self.routes.queued().map(|incoming: &Incoming| incoming.key).collect();
        let seen = self.core.unacked(glance).into_iter();
        seen.map(|seen| Unacked::new(seen, now, &queued)).collect()
    }
}

impl Node {
    /// Returns the messages that have arrived here and are not acknowledged: first those that the application has,
    /// then those that wait, in order of arrival. Each comes with a copy of the first `glance` bytes of its body;
    /// [`Self::inbox_body`] returns a whole body. A large body that arrives while the application reads it is not
    /// copied.
    ///
    /// This method holds the node's lock for a time in proportion to the number of messages. A message of which only
    /// a part has arrived is not included. A message that was taken without a guard counts as acknowledged.
    ///
    /// ```
    /// # use exonet::{Allow, Node, receive::Standing};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// alice.peer(bob.peer_addr()).send("at work").await?;
    /// let at_work = bob.recv().await?;
    /// let inbox = bob.inbox(2);
    /// assert_eq!((inbox[0].id, inbox[0].body.as_deref()), (at_work.id(), Some(&b"at"[..])));
    /// assert!(matches!(inbox[0].stand, Standing::HandedOut { .. }));
    /// at_work.ack()?;
    /// assert!(bob.inbox(0).is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn inbox(&self, glance: usize) -> Vec<Unacked> {
        let shared = self.shared();
        shared.look(|engine| engine.unacked(shared.clock().now(), glance))
    }

    /// Returns the body of a message of [`Self::inbox`]. None: the message was acknowledged or rejected meanwhile, or
    /// its body is large and arrives while the application reads it.
    pub fn inbox_body(&self, id: &MessageId) -> Option<Bytes> {
        self.shared().look(
            |engine| {
                if engine.phase >= Phase::Stopped { None } else { engine.core.unacked_body(id) }
            },
        )
    }
}
