//! The messages that a node still has to send or settle, for inspection.

use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;
use exonet_proto::Now;
use exonet_proto::node::{MessageKey, OpenMessage, Outcome, Priority, Status};

use crate::engine::{Engine, Phase};
use crate::node::Node;

/// How many places of the core's table are read in one hold of the node's lock. A place is a message, or a bundle of
/// small ones.
const PLACES: u32 = 16;

/// A message that the node has accepted and that is not settled: see [`Node::outbox`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The number of the message in the journal, which is the same in every life of the identity. None: the journal
    /// does not have the message.
    pub number: Option<u64>,
    /// The peer of the message, the state of the message, and the length of its body.
    pub message: OpenMessage,
    /// The addresses at which the peer may be; the newest is the last.
    pub addresses: Vec<SocketAddr>,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// The priority.
    pub priority: Priority,
    /// The beginning of the body: as many bytes as the caller asked for, or all.
    pub body: Bytes,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("number", &self.number)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl Engine {
    fn waiting(&self, message: OpenMessage, glance: usize) -> Option<Waiting> {
        let given = self.core.content(message.key, glance)?;
        Some(Waiting {
            number: self.core.letter_id(message.key).map(exonet_proto::node::LetterId::get),
            addresses: self.core.hints(&message.peer),
            tag: given.tag,
            priority: given.priority,
            body: given.body,
            message,
        })
    }

    fn outbox_from(&self, from: u32, glance: usize) -> (Vec<Waiting>, Option<u32>) {
        if self.phase >= Phase::Stopped {
            return (Vec::new(), None);
        }
        let (open, next) = self.core.open_messages_from(from, PLACES);
        (open.into_iter().filter_map(|message| self.waiting(message, glance)).collect(), next)
    }

    /// Gives a message up, and returns its outcome. None: the message is already settled.
    fn give_up(&mut self, now: Now, key: MessageKey) -> Option<Outcome> {
        let outcome = match self.core.status(key) {
            _ if self.phase >= Phase::Stopped => return None,
            Status::Queued => Outcome::Cancelled,
            Status::InDoubt { .. } => Outcome::Unknown,
            Status::Settled => return None,
        };
        self.core.abandon(now, key);
        Some(outcome)
    }
}

impl Node {
    /// Returns the messages that this node has accepted and that are not settled, including calls. It does not matter
    /// who holds their receipts. Messages in the journal are in the order in which the node accepted them. Each comes
    /// with a copy of the first `glance` bytes of its body; `usize::MAX` copies it whole.
    ///
    /// This method reads a few messages at a time, so that the node goes on meanwhile: a message that is accepted or
    /// settled during the call may be missing. It takes memory and time for every open message.
    ///
    /// ```
    /// # use exonet::{Allow, Node};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let receipt = alice.peer(bob.peer_addr()).send("not taken yet").await?;
    /// let outbox = alice.outbox(3);
    /// assert_eq!((outbox.len(), &outbox[0].body[..]), (1, &b"not"[..]));
    /// assert!(alice.give_up(&outbox[0].message).is_some());
    /// assert!(alice.outbox(0).is_empty());
    /// # drop(receipt);
    /// # Ok(())
    /// # }
    /// ```
    pub fn outbox(&self, glance: usize) -> Vec<Waiting> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let (part, next) = self.shared().look(|engine| engine.outbox_from(at, glance));
            all.extend(part);
            from = next;
        }
        all.sort_by_key(|waiting: &Waiting| (waiting.number.is_none(), waiting.number, waiting.message.key));
        all.dedup_by_key(|waiting| waiting.message.key);
        all
    }

    /// Returns the message as it is now, with the first `glance` bytes of its body. None: the message is settled.
    pub fn waiting(&self, message: &OpenMessage, glance: usize) -> Option<Waiting> {
        self.shared().look(|engine| {
            let mut now = *message;
            now.status = engine.core.status(message.key);
            if engine.phase >= Phase::Stopped { None } else { engine.waiting(now, glance) }
        })
    }

    /// Gives a message up, and returns its outcome: Cancelled if it never left, else Unknown. Its receipt has the
    /// same outcome. None: the message is already settled.
    pub fn give_up(&self, message: &OpenMessage) -> Option<Outcome> {
        self.shared().step(|engine, now| engine.give_up(now, message.key))
    }

    /// Waits until everything that was accepted, taken and given up so far is as safe as the node's
    /// [`Durability`](crate::Durability) requires. Returns at once unless that setting waits for the disk. One call
    /// makes all messages safe that were sent by [`try_send`](crate::Peer::try_send), a
    /// [`Permit`](crate::send::Permit) or a sink.
    ///
    /// ```
    /// # use exonet::{Allow, Durability, Node};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let home = tempfile::tempdir()?;
    /// let builder = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path());
    /// let alice = builder.durability(Durability::Sync).build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// for n in 0..10 {
    ///     drop(alice.peer(bob.peer_addr()).try_send(format!("order {n}"))?);
    /// }
    /// alice.journaled().await?;
    /// // All ten go on after a crash.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](crate::error::Closed): the node ended before.
    pub async fn journaled(&self) -> Result<(), crate::error::Closed> {
        let shared = self.shared();
        let at = shared.look(Engine::accepted_at);
        shared.until_safe(at).await
    }
}
