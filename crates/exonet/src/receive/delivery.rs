//! A received message, under its guard or taken.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{DeliveryKey, Incoming, Priority, View};
use exonet_proto::{MessageId, NodeId};

use crate::error::NotDelivered;
use crate::receive::body::Body;
use crate::shared::Shared;

/// A message that was taken as it was received: delivered, unless its body is still coming. [`AtMostOnce`] gives these.
///
/// [`AtMostOnce`]: crate::receive::AtMostOnce
#[derive(Debug)]
#[non_exhaustive]
pub struct Received {
    /// Who sent it.
    pub from: NodeId,
    /// Its name at both ends, for ever: the key under which an effect outside is made only once.
    pub id: MessageId,
    /// For dispatch.
    pub tag: Bytes,
    /// As the sender set it.
    pub priority: Priority,
    /// The content.
    pub body: Body,
}

impl Received {
    /// With `takes`, the end of a streamed body takes the message.
    #[inline]
    pub(crate) fn new(shared: &Arc<Shared>, incoming: Incoming, takes: bool) -> Self {
        let body = Body::new(shared, incoming.key, incoming.body, takes);
        Self {
            from: incoming.id.sender,
            id: incoming.id,
            tag: incoming.tag,
            priority: incoming.priority,
            body,
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        let body = self.body.as_whole().map(|body| &body[..]);
        View { id: self.id, tag: &self.tag, priority: self.priority, body }
    }

    /// The message, and in its place one without content.
    fn take(&mut self) -> Self {
        let (tag, body) = (core::mem::take(&mut self.tag), self.body.take());
        Self { from: self.from, id: self.id, tag, priority: self.priority, body }
    }
}

/// A message that is delivered only when [`Self::ack`] says so. Dropped before, it is handed out again.
#[must_use = "a delivery that is dropped without `ack` is handed out again"]
pub struct Delivery {
    shared: Arc<Shared>,
    key: DeliveryKey,
    open: bool,
    message: Received,
}

impl Delivery {
    pub(crate) fn new(shared: &Arc<Shared>, incoming: Incoming) -> Self {
        let key = incoming.key;
        let message = Received::new(shared, incoming, false);
        Self { shared: Arc::clone(shared), key, open: true, message }
    }

    /// Who sent it: a proven id, to be given to [`Node::peer`](crate::Node::peer) for an answer.
    pub const fn from(&self) -> NodeId {
        self.message.from
    }

    /// Its name at both ends, for ever: the key under which an effect outside is made only once.
    pub const fn id(&self) -> MessageId {
        self.message.id
    }

    /// For dispatch.
    pub const fn tag(&self) -> &Bytes {
        &self.message.tag
    }

    /// As the sender set it.
    pub const fn priority(&self) -> Priority {
        self.message.priority
    }

    /// The content.
    pub const fn body(&self) -> &Body {
        &self.message.body
    }

    /// The content, for reading.
    pub const fn body_mut(&mut self) -> &mut Body {
        &mut self.message.body
    }

    /// A span for what is done with the message, with its id and its sender: what is logged within it can be found by them at
    /// both ends. A [call](crate::call::Request) is served within one like it.
    pub fn span(&self) -> tracing::Span {
        tracing::info_span!("message", id = %self.message.id, from = %self.message.from.short())
    }

    /// Acknowledges the message: from here on it is delivered. The sender will be told, unless one of the two nodes
    /// dies first. A streamed body must have been read to its end.
    ///
    /// # Errors
    /// [`NotDelivered`]: the record of the message died meanwhile, or its body has not been read. It must
    /// not be acted on.
    pub fn ack(self) -> Result<(), NotDelivered> {
        self.take().map(drop)
    }

    /// Acknowledges the message as [`Self::ack`] does, and gives its parts.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub fn take(mut self) -> Result<Received, NotDelivered> {
        self.open = false;
        let taken = self.shared.step_calmly(|engine, now| engine.done(now, self.key));
        taken.then(|| self.message.take()).ok_or(NotDelivered)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.open {
            let waker = self.shared.step_calmly(|engine, now| engine.release(now, self.key));
            drop(waker);
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("message", &self.message).finish_non_exhaustive()
    }
}
