//! The messages that have arrived at a node and are not acknowledged, for inspection.

use core::fmt;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use exonet_proto::node::{DeliveryKey, Incoming, Priority, Stand, Unacked as Seen};
use exonet_proto::{MessageId, NodeId, Now};

use crate::engine::{Engine, Phase};
use crate::node::Node;

/// A message that has arrived and is not acknowledged: see [`Node::inbox`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unacked {
    /// The node that sent it.
    pub from: NodeId,
    /// Its id at both ends.
    pub id: MessageId,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// The priority that the sender set.
    pub priority: Priority,
    /// Whether it is a call that waits for its server.
    pub is_call: bool,
    /// The length of its body in bytes; None: the body is read while it arrives, and the sender has not said how long
    /// it is.
    pub size: Option<u64>,
    /// The number of times that it was handed out under a guard, as far as that is known:
    /// [`Delivery::attempt`](crate::Delivery::attempt) of the last time.
    pub attempts: u32,
    /// Where it stands.
    pub stand: Standing,
    /// The beginning of its body, as many bytes as were asked for; None: it is read while it arrives.
    pub body: Option<Bytes>,
}

/// Where an [`Unacked`] message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// The application has not asked for it yet.
    Waiting,
    /// The application has it, under a guard.
    HandedOut {
        /// The time since then.
        since: Duration,
    },
    /// The application has put it off, with [`Delivery::retry_after`](crate::Delivery::retry_after).
    PutOff {
        /// The time after which it is handed out again.
        again: Duration,
    },
}

impl Unacked {
    fn new(seen: Seen, now: Now, queued: &BTreeSet<DeliveryKey>) -> Self {
        let Seen { id, tag, priority, is_call, size, mut attempts, body, stand, .. } = seen;
        let stand = match stand {
            // The queue of a receiver with a filter has it.
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
    /// The messages that have arrived here and are not acknowledged, whoever has them: first those that are handed out,
    /// then those that wait, in order of arrival. The first `glance` bytes of each body are copied;
    /// [`Self::inbox_body`] returns a whole body. A large body that is read while it arrives is not copied.
    ///
    /// The call holds the node's lock, for a time in proportion to the number of messages. A message that has arrived
    /// in part is not included, and a message that was taken without a guard is acknowledged.
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

    /// The body of a message of [`Self::inbox`]. None: the message is acknowledged or rejected by now, or its body is
    /// large and read while it arrives.
    pub fn inbox_body(&self, id: &MessageId) -> Option<Bytes> {
        self.shared().look(
            |engine| {
                if engine.phase >= Phase::Stopped { None } else { engine.core.unacked_body(id) }
            },
        )
    }
}
