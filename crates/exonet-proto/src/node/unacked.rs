//! The received messages that are not acknowledged, for an observer.

use bytes::Bytes;

use super::Node;
use crate::id::MessageId;
use crate::message::arrived::ArrivedBody;
use crate::message::inbox::{Place, Seen};
use crate::message::{DeliveryKey, Priority};
use crate::time::Mono;
use crate::wire::Role;

/// A message that has arrived and is not acknowledged: see [`Node::unacked`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unacked {
    /// The name of the message at both ends; it includes the sender.
    pub id: MessageId,
    /// For dispatch.
    pub tag: Bytes,
    /// As the sender set it.
    pub priority: Priority,
    /// It is a call that waits for its server.
    pub is_call: bool,
    /// The number of bytes of its body. None: the application reads the body as it comes, and the sender has not said how long it
    /// is.
    pub size: Option<u64>,
    /// How many times the message was handed out, as far as the node knows.
    pub attempts: u32,
    /// Where it is.
    pub stand: Stand,
    /// The beginning of the body, up to the number of bytes that was asked for. None: the body is read as it comes.
    pub body: Option<Bytes>,
}

/// Where an [`Unacked`] message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// In the receive queue.
    Waiting,
    /// At the application.
    HandedOut {
        /// The delivery that it was handed out by.
        key: DeliveryKey,
        /// When it was handed out.
        since: Mono,
    },
    /// The application has put it off.
    PutOff {
        /// When it is handed out again.
        until: Mono,
    },
}

impl Node {
    /// The received messages that are not acknowledged: first those that were handed out, in the order in which they were, then
    /// those that wait. The first `glance` bytes of each body are copied. This takes time and memory for each message.
    pub fn unacked(&self, glance: usize) -> Vec<Unacked> {
        let mut all = Vec::new();
        self.cx.inbox.look(|seen| all.extend(self.as_unacked(&seen, glance)));
        all
    }

    /// The body of a message that has arrived and is not acknowledged. None: there is no such message, or its body is read as it
    /// comes.
    pub fn unacked_body(&self, id: &MessageId) -> Option<Bytes> {
        let mut found = None;
        self.cx.inbox.look(|seen| {
            if seen.view.id == *id && found.is_none() {
                found = self.as_unacked(&seen, usize::MAX).and_then(|unacked| unacked.body);
            }
        });
        found
    }

    /// The whole body of a message that is handed out, however much of it was read. None: the body is read as it comes, or the
    /// message is not handed out any more.
    pub fn handed_body(&self, key: DeliveryKey) -> Option<Bytes> {
        match &self.cx.inbox.handed(key)?.body {
            ArrivedBody::Whole(body) => Some(body.clone()),
            ArrivedBody::Stream { .. } => None,
        }
    }

    /// None: the message is not wanted any more, or it is a reply, which its call waits for.
    fn as_unacked(&self, seen: &Seen<'_>, glance: usize) -> Option<Unacked> {
        let MessageId { sender, r, s } = seen.view.id;
        let inbound = &self.peers.get(seen.peer).filter(|peer| peer.id == sender)?.inbound;
        let is_open = inbound.receiver.as_ref().is_some_and(|record| record.accepts(s, r));
        if !is_open || matches!(seen.role, Role::Reply { .. }) {
            return None;
        }
        let next = inbound.verdicts.next_attempt(s);
        let (stand, attempts) = match seen.place {
            Place::Waits => (Stand::Waiting, next.saturating_sub(1)),
            Place::Handed { again: Some(until), .. } => (Stand::PutOff { until }, next),
            Place::Handed { key, since, again: None } => (Stand::HandedOut { key, since }, next),
        };
        let body = seen.view.body;
        Some(Unacked {
            id: seen.view.id,
            tag: Bytes::copy_from_slice(seen.view.tag),
            priority: seen.view.priority,
            is_call: seen.role == Role::Call,
            size: body.map_or(seen.len, |body| Some(body.len() as u64)),
            attempts,
            stand,
            body: body.map(|body| Bytes::copy_from_slice(body.get(..glance).unwrap_or(body))),
        })
    }
}
