//! What has arrived at a node and is not acknowledged, as it is looked at from outside.

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
    /// Who sent it.
    pub from: NodeId,
    /// Its name at both ends.
    pub id: MessageId,
    /// For dispatch.
    pub tag: Bytes,
    /// As the sender set it.
    pub priority: Priority,
    /// It is a call that waits for its server.
    pub is_call: bool,
    /// Bytes of its body; None: they are read as they come, and its sender has not said how many there are.
    pub size: Option<u64>,
    /// How many times it was handed out under a guard, as far as that is known: [`Delivery::attempt`](crate::Delivery::attempt)
    /// of the last time.
    pub attempts: u32,
    /// Where it is.
    pub stand: Standing,
    /// The begin of its body, as many bytes as were asked for; None: it is read as it comes.
    pub body: Option<Bytes>,
}

/// Where an [`Unacked`] message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Nobody has asked for it yet.
    Waiting,
    /// The application has it, under a guard.
    HandedOut {
        /// For so long.
        since: Duration,
    },
    /// The application has put it off, by [`Delivery::retry_after`](crate::Delivery::retry_after).
    PutOff {
        /// It is handed out again after this time.
        again: Duration,
    },
}

impl Unacked {
    fn new(seen: Seen, now: Now, queued: &BTreeSet<DeliveryKey>) -> Self {
        let Seen { id, tag, priority, is_call, size, mut attempts, body, stand, .. } = seen;
        let stand = match stand {
            // A receiver of its own has it in its queue.
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
    /// What has arrived here and is not acknowledged, whoever has it: first what was handed out, then what waits, in the order in
    /// which it came. Of each body the first `glance` bytes are copied; [`Self::inbox_body`] gives one whole.
    /// A large body that is read as it comes is not given.
    ///
    /// It holds the node's lock while it looks, for a time in proportion to how much there is. What has arrived in part is not
    /// there yet; what was taken without a guard is acknowledged.
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

    /// The body of a message of [`Self::inbox`]. None: it is acknowledged or rejected by now, or it is large and read as it comes.
    pub fn inbox_body(&self, id: &MessageId) -> Option<Bytes> {
        self.shared().look(
            |engine| {
                if engine.phase >= Phase::Stopped { None } else { engine.core.unacked_body(id) }
            },
        )
    }
}
