//! The outcomes that an identity remembers over its lives.

use exonet_proto::node::PastOutcome;
use exonet_proto::{MessageId, NodeId};

use crate::error::Closed;
use crate::node::Node;
use crate::send::outcomes::{Ended, Ending};

/// The newest outcomes of the messages of an identity with a journal, of all its lives: see [`Node::past_outcomes`] and
/// [`Outbox::past`](crate::state::Outbox::past).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastOutcomes(Vec<(u64, Ending)>);

impl PastOutcomes {
    pub(crate) fn new<'a>(sender: NodeId, past: impl Iterator<Item = &'a PastOutcome>) -> Self {
        Self(past.map(|past| (past.letter.get(), Ending::past(sender, past))).collect())
    }

    /// Returns how the message of this number has ended. The number is that of
    /// [`Waiting::number`](crate::send::Waiting::number) and [`KeptMessage::number`](crate::state::KeptMessage::number).
    /// None: the message is open, was forgotten, or never was.
    pub fn by_number(&self, number: u64) -> Option<Ended> {
        self.0.iter().rev().find_map(|(first, ending)| ending.nth_if(number.checked_sub(*first)?))
    }

    /// Returns how the message of this id has ended, and its number.
    pub fn by_id(&self, id: &MessageId) -> Option<(u64, Ended)> {
        self.0.iter().rev().find_map(|(number, ending)| {
            let n = ending.place_of(id)?;
            Some((number.checked_add(n)?, ending.nth_if(n)?))
        })
    }
}

impl Node {
    /// Returns the newest 1,024 outcomes of messages in the journal, of this life and of former ones, where messages that
    /// ended together count as one. A message that never left has no id, and is found by its number. Empty without a
    /// journal. Waits until a crash cannot take these outcomes.
    ///
    /// ```
    /// # use exonet::{Allow, Node, Outcome};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let home = tempfile::tempdir()?;
    /// let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").state_dir(home.path()).build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let receipt = alice.peer(bob.peer_addr()).send("pay 3").await?;
    /// let number = receipt.open_message().and_then(|open| alice.waiting(&open, 0)?.number);
    /// bob.recv().await?.ack()?;
    /// receipt.await;
    /// let ended = alice.past_outcomes().await?.by_number(number.ok_or("it has none")?);
    /// assert_eq!(ended.map(|ended| ended.outcome), Some(Outcome::Delivered));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`]: the node has ended.
    pub async fn past_outcomes(&self) -> Result<PastOutcomes, Closed> {
        let past =
            self.shared().look(|engine| PastOutcomes::new(engine.core.id(), engine.core.past_outcomes()));
        self.journaled().await?;
        Ok(past)
    }
}
