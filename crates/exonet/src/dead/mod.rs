//! Dead letters: messages that the application of this node has rejected.
//!
//! [`Delivery::reject`](crate::Delivery::reject) ends a message with a reason. So does the node after the last of the
//! attempts that [`Builder::attempts`](crate::Builder::attempts) allows. The sender's outcome is
//! [`Outcome::Rejected`](crate::Outcome::Rejected). Before the node tells the sender, it keeps the message as a
//! [`DeadLetter`], so that a rejected message is never lost. A node with a [state
//! directory](crate::Builder::state_dir) keeps dead letters in its folder `dead`, one file each; other nodes keep
//! them in memory.
//!
//! If the folder cannot take a letter (a full disk), the node repeats that with growing pauses of a minute at most.
//! Until it succeeds, the sender has no outcome, and the application does not get the message again.
//!
//! The sender has its outcome, so the application of this node decides what to do with a dead letter: inspect it,
//! process it by hand, or [take](DeadLetters::take) it away. [`DeadLetters::claim`] prevents two tasks from trying
//! one letter at the same time.
//!
//! ```
//! use exonet::{Allow, Node, Outcome};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bank = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let shop = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let mut receipt = shop.peer(bank.peer_addr()).send("pay 3 to nobody").await?;
//!
//! bank.recv().await?.reject("no such account");
//! assert!(matches!(receipt.outcome().await.outcome, Outcome::Rejected { attempts: 1, .. }));
//! assert_eq!(receipt.reason().as_deref(), Some("no such account"));
//!
//! let dead = bank.dead_letters();
//! let letter = dead.list()?.remove(0);
//! assert_eq!((letter.from, &*letter.reason), (shop.id(), "no such account"));
//! assert_eq!(dead.take(&letter.id)?.and_then(|letter| letter.body).unwrap(), "pay 3 to nobody");
//! # Ok(())
//! # }
//! ```

mod claim;
mod folder;
pub(crate) mod keeper;
mod letter;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::VecDeque, fmt};

use exonet_proto::MessageId;

use crate::state::StateError;
pub use claim::{Claim, Claimed};
pub(crate) use folder::Folder;
pub use letter::{DeadLetter, NotKept};

/// How many dead letters a node without a state directory keeps: the newest ones.
const KEPT: usize = 1_024;

/// How many bytes of bodies such a node keeps with them.
const KEPT_BYTES: usize = 64 << 20;

/// A handle on the dead letters of a node or of an identity: see the [module](self). It is cheap to clone.
///
/// A stored identity keeps up to 1 GiB of dead letters, for 30 days, and removes the oldest first. Methods that read
/// or change them work on files, and block for as long as the disk takes.
#[derive(Clone)]
pub struct DeadLetters {
    place: Place,
}

#[derive(Clone)]
enum Place {
    Memory(Arc<Mutex<Memory>>),
    Folder(Arc<Folder>),
}

/// The dead letters of a node without a state directory.
#[derive(Default)]
struct Memory {
    kept: VecDeque<DeadLetter>,
    /// The letters that tasks have claimed.
    claimed: Vec<MessageId>,
}

impl DeadLetters {
    pub(crate) fn in_memory() -> Self {
        Self { place: Place::Memory(Arc::default()) }
    }

    pub(crate) fn in_folder(folder: Folder) -> Self {
        Self { place: Place::Folder(Arc::new(folder)) }
    }

    /// Returns all dead letters, the oldest first. Those of a stored identity come without their bodies: see
    /// [`Self::get`].
    ///
    /// # Errors
    /// [`StateError`]: the folder cannot be read. If a file is damaged, this method skips it, and writes a log line.
    pub fn list(&self) -> Result<Vec<DeadLetter>, StateError> {
        match &self.place {
            Place::Memory(letters) => Ok(lock(letters).kept.iter().cloned().collect()),
            Place::Folder(folder) => folder.list(),
        }
    }

    /// Returns a dead letter with its body. None: there is no letter with this id.
    ///
    /// # Errors
    /// [`StateError`]: the file of the letter cannot be read, or is damaged.
    pub fn get(&self, id: &MessageId) -> Result<Option<DeadLetter>, StateError> {
        match &self.place {
            Place::Memory(letters) => Ok(lock(letters).kept.iter().find(|letter| letter.id == *id).cloned()),
            Place::Folder(folder) => folder.get(id),
        }
    }

    /// Removes a dead letter, and returns it with its body. If two callers take one letter at the same time, one of
    /// them gets it.
    ///
    /// # Errors
    /// [`StateError`]: the file of the letter cannot be read or removed, or is damaged.
    pub fn take(&self, id: &MessageId) -> Result<Option<DeadLetter>, StateError> {
        match &self.place {
            Place::Memory(letters) => {
                let letters = &mut lock(letters).kept;
                let at = letters.iter().position(|letter| letter.id == *id);
                Ok(at.and_then(|at| letters.remove(at)))
            }
            Place::Folder(folder) => folder.take(id),
        }
    }

    /// Keeps a letter. If it is kept on disk, it is durable when this returns.
    fn put(&self, letter: &DeadLetter) -> Result<(), StateError> {
        let letters = match &self.place {
            Place::Folder(folder) => return folder.put(letter),
            Place::Memory(letters) => letters,
        };
        let letters = &mut lock(letters).kept;
        letters.retain(|other| other.id != letter.id);
        letters.push_back(letter.clone());
        let size = |letters: &VecDeque<DeadLetter>| letters.iter().map(DeadLetter::size).sum::<usize>();
        while letters.len() > KEPT || (letters.len() > 1 && size(letters) > KEPT_BYTES) {
            letters.pop_front();
        }
        Ok(())
    }

    /// Whether letters are kept in memory alone.
    const fn is_immediate(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }
}

fn lock(letters: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    letters.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("on_disk", &!self.is_immediate()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use bytes::Bytes;
    use exonet_proto::{Incarnation, NodeId, Slot};

    use super::*;

    pub(super) fn letter(s: u64, body: usize) -> DeadLetter {
        let from = NodeId([s.to_le_bytes()[0]; 32]);
        DeadLetter {
            id: MessageId { sender: from, r: Incarnation(7), s: Slot(s) },
            from,
            tag: Bytes::from_static(b"order"),
            status: 3,
            attempts: 2,
            reason: "no".into(),
            at: SystemTime::UNIX_EPOCH,
            len: Some(body as u64),
            body: Some(Bytes::from(vec![7; body])),
            not_kept: None,
            traceparent: None,
        }
    }

    #[test]
    fn memory_keeps_the_newest_within_its_bounds() {
        let dead = DeadLetters::in_memory();
        (0..=KEPT as u64).for_each(|s| dead.put(&letter(s, 1)).unwrap());
        let kept = dead.list().unwrap();
        assert_eq!((kept.len(), kept[0].id.s), (KEPT, Slot(1)));
        dead.put(&letter(5_000, KEPT_BYTES)).unwrap();
        assert_eq!(dead.list().unwrap().len(), 1, "one is always kept");
        assert!(dead.take(&letter(5_000, 0).id).unwrap().is_some());
        assert_eq!(dead.take(&letter(5_000, 0).id).unwrap(), None);
    }
}
