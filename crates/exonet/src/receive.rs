//! Received messages, taken at once or under a guard.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{DeliveryKey, Incoming, IncomingRun, Priority, View};
use exonet_proto::{MessageId, NodeId};

use crate::body::Body;
use crate::error::NotDelivered;
use crate::shared::Shared;

/// A message that was received: delivered by this, unless its body is still coming.
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
}

/// Messages that were received together, in the order of each sender: all are delivered, unless a body is still
/// coming.
///
/// An iterator: each message is made as it is asked for. A streamed message that is still in it when it is dropped is
/// handed out again.
#[must_use = "these messages have been delivered"]
pub struct Batch {
    shared: Arc<Shared>,
    runs: std::vec::IntoIter<IncomingRun>,
    current: Option<IncomingRun>,
    left: usize,
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>, runs: Vec<IncomingRun>) -> Self {
        let left = runs.iter().map(ExactSizeIterator::len).sum();
        Self { shared, runs: runs.into_iter(), current: None, left }
    }

    /// A look at the messages that are left, where they lie: nothing is made for each, which is the fastest way to read
    /// many small ones. A streamed message has no body to look at: it is read, and delivered, by way of the iterator.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.current.iter().chain(self.runs.as_slice()).flat_map(IncomingRun::views)
    }
}

impl Iterator for Batch {
    type Item = Received;

    fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(incoming) = self.current.as_mut().and_then(Iterator::next) {
                self.left -= 1;
                return Some(Received::new(&self.shared, incoming, true));
            }
            self.current = Some(self.runs.next()?);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Batch {}

impl Drop for Batch {
    fn drop(&mut self) {
        let left = self.current.iter().chain(self.runs.as_slice());
        let streamed: Vec<_> = left.filter_map(IncomingRun::handed_out).collect();
        if !streamed.is_empty() {
            self.shared.step_calmly(|engine, now| {
                // Nobody has read of them, so nobody waits.
                streamed.into_iter().for_each(|key| drop(engine.release(now, key)));
            });
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("left", &self.left).finish_non_exhaustive()
    }
}

/// A message that is delivered only when [`Self::done`] says so. Dropped before, it is handed out again.
#[must_use = "a delivery that is dropped without `done` is handed out again"]
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

    /// Who sent it.
    pub const fn from(&self) -> NodeId {
        self.message.from
    }

    /// Its name at both ends.
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

    /// Takes the message: from here on it is delivered. The sender will be told, unless one of the two nodes
    /// dies first. A streamed body must have been read to its end.
    ///
    /// # Errors
    /// [`NotDelivered`]: the record of the message died meanwhile, or its body has not been read. It must
    /// not be acted on.
    pub fn done(mut self) -> Result<(), NotDelivered> {
        self.open = false;
        if self.shared.step_calmly(|engine, now| engine.done(now, self.key)) {
            Ok(())
        } else {
            Err(NotDelivered)
        }
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
