//! The messages that a stored identity still has to send, read while no node runs it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{OpenLetter, Priority, Recovered, Shelf};
use exonet_proto::{MessageId, NodeId};
use exonet_store::{Level, Options, Trust};

use super::{StateDir, StateError};

/// The messages of a former life that have no outcome yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outbox {
    /// In the order in which the application gave them.
    pub messages: Vec<KeptMessage>,
    /// The reason for which the journal is not trusted: the next life does not go on with it, and there are no messages
    /// here.
    pub forgotten: Option<String>,
}

/// A message of an [`Outbox`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptMessage {
    /// Its number, the same for as long as the journal has it.
    pub number: u64,
    /// The peer that it goes to.
    pub peer: NodeId,
    /// The addresses at which the peer was, the latest last.
    pub addresses: Vec<SocketAddr>,
    /// The message's id at both ends; None: it has certainly not left.
    pub id: Option<MessageId>,
    /// Its priority.
    pub priority: Priority,
    /// The time at which it expires if it has not left.
    pub expires: Option<SystemTime>,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// Its body.
    pub body: Bytes,
}

impl KeptMessage {
    fn new(sender: NodeId, open: &OpenLetter<'_>) -> Self {
        Self {
            number: open.letter.get(),
            peer: open.peer,
            addresses: open.hints.to_vec(),
            id: open.bound.map(|(s, r)| MessageId { sender, r, s }),
            priority: open.priority,
            expires: open.expires.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_nanos(at.0))),
            tag: open.tag.clone(),
            body: open.body.clone(),
        }
    }
}

/// A message that has arrived and is not acknowledged, as known while no node runs: see [`StateDir::inbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptDelivery {
    /// The node that sent it.
    pub from: NodeId,
    /// Its id at both ends.
    pub id: MessageId,
    /// The number of times that it was handed out.
    pub attempts: u32,
}

impl StateDir {
    /// The messages that the former life of this identity handed out more than once and did not acknowledge, according
    /// to its journal: the next life goes on with these counts. Changes nothing. Empty without a journal.
    ///
    /// A journal has neither the bodies nor the tags of messages that arrive: a message that is not acknowledged stays
    /// with its sender, which sends it again. A journal does not record that a message has come, or that it was handed
    /// out for the first time.
    ///
    /// # Errors
    /// [`StateError`]: the journal cannot be read.
    pub fn inbox(&self) -> Result<Vec<KeptDelivery>, StateError> {
        let found = self.recovered()?.unwrap_or_default();
        let kept = |(id, attempts): (MessageId, u32)| KeptDelivery { from: id.sender, id, attempts };
        Ok(found.unacked().map(kept).collect())
    }

    /// Reads the journal. The inner error is the reason for which it is not trusted.
    fn recovered(&self) -> Result<Result<Recovered, String>, StateError> {
        let options = Options::new(self.journal_tag(), Level::Sync);
        let Some((trust, mut groups)) = exonet_store::read(&self.journal(), options)? else {
            return Ok(Ok(Recovered::default()));
        };
        if let Trust::Untrusted(why) = trust {
            return Ok(Err(why.to_string()));
        }
        Ok(Ok(crate::journal::read(&mut groups, Shelf::default())?.finish(0)?))
    }

    /// The messages that the next life of this identity goes on with. Changes nothing. Empty without a journal.
    ///
    /// # Errors
    /// [`StateError`]: the journal cannot be read.
    pub fn outbox(&self) -> Result<Outbox, StateError> {
        let found = match self.recovered()? {
            Ok(found) => found,
            Err(why) => return Ok(Outbox { messages: Vec::new(), forgotten: Some(why) }),
        };
        let sender = SecretKey::from_bytes(**self.secret()).node_id();
        let messages = found.open_letters().map(|open| KeptMessage::new(sender, &open)).collect();
        Ok(Outbox { messages, forgotten: None })
    }
}
