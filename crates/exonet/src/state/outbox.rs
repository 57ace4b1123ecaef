//! The messages that a stored identity still has to send, read while no node runs it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use exonet_proto::crypto::SecretKey;
use exonet_proto::node::{OpenLetter, Priority, Recovered, Shelf};
use exonet_proto::{MessageId, NodeId};
use exonet_store::{Level, Options, Trust};

use super::{StateDir, StateError};
use crate::send::PastOutcomes;

/// The messages of a former life that have no outcome yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outbox {
    /// The messages, in the order in which the node accepted them.
    pub messages: Vec<KeptMessage>,
    /// Why the journal is not trusted. Then the next life does not continue with it, and there are no messages here.
    pub forgotten: Option<String>,
    /// How the newest messages have ended that are not open any more.
    pub past: PastOutcomes,
}

/// A message of an [`Outbox`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptMessage {
    /// The number of the message. It stays the same as long as the journal has the message.
    pub number: u64,
    /// The peer to which the message goes.
    pub peer: NodeId,
    /// The addresses at which the peer was; the newest is the last.
    pub addresses: Vec<SocketAddr>,
    /// The id of the message at both ends. None: the message has certainly not left.
    pub id: Option<MessageId>,
    /// Its priority.
    pub priority: Priority,
    /// When the message expires if it has not left.
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

/// A message that has arrived and is not acknowledged, as far as is known while no node runs: see
/// [`StateDir::inbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptDelivery {
    /// The node that sent it.
    pub from: NodeId,
    /// The id of the message: the same at both ends.
    pub id: MessageId,
    /// How many times it was handed out.
    pub attempts: u32,
}

impl StateDir {
    /// Returns the messages that the former life of this identity handed out more than once and did not acknowledge,
    /// according to its journal: the next life continues with these counts. Changes nothing. Empty without a journal.
    ///
    /// The journal has neither the bodies nor the tags of messages that arrive: a message that is not acknowledged
    /// stays with its sender, which sends it again. The journal does not record that a message has arrived, or that
    /// it was handed out for the first time.
    ///
    /// # Errors
    /// [`StateError`]: the journal cannot be read.
    pub fn inbox(&self) -> Result<Vec<KeptDelivery>, StateError> {
        let found = self.recovered()?.unwrap_or_default();
        let kept = |(id, attempts): (MessageId, u32)| KeptDelivery { from: id.sender, id, attempts };
        Ok(found.unacked().map(kept).collect())
    }

    /// Reads the journal. The inner error says why it is not trusted.
    pub(super) fn recovered(&self) -> Result<Result<Recovered, String>, StateError> {
        let options = Options::new(self.journal_tag(), Level::Sync);
        let Some((trust, mut groups)) = exonet_store::read(&self.journal(), options)? else {
            return Ok(Ok(Recovered::default()));
        };
        if let Trust::Untrusted(why) = trust {
            return Ok(Err(why.to_string()));
        }
        Ok(Ok(crate::journal::read(&mut groups, Shelf::default())?.finish(0)?))
    }

    /// Returns the messages with which the next life of this identity continues, and its newest outcomes. Changes
    /// nothing. Empty without a journal.
    ///
    /// # Errors
    /// [`StateError`]: the journal cannot be read.
    pub fn outbox(&self) -> Result<Outbox, StateError> {
        let found = match self.recovered()? {
            Ok(found) => found,
            Err(why) => return Ok(Outbox { forgotten: Some(why), ..Outbox::default() }),
        };
        let sender = SecretKey::from_bytes(**self.secret()).node_id();
        let messages = found.open_letters().map(|open| KeptMessage::new(sender, &open)).collect();
        let past = PastOutcomes::new(sender, found.past_outcomes());
        Ok(Outbox { messages, forgotten: None, past })
    }
}
