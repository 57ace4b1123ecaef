//! A received message, under its guard or taken.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use exonet_proto::node::{DeliveryKey, Incoming, Priority, Verdict, View, Word};
use exonet_proto::{MessageId, NodeId, Traceparent};

use crate::dead::DeadLetter;
use crate::dead::keeper::Job;
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
    /// The trace that it is part of, as its sender says.
    pub traceparent: Option<Traceparent>,
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
            traceparent: incoming.trace.as_deref().copied(),
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
        let Self { from, id, priority, traceparent, .. } = *self;
        Self { from, id, tag, priority, traceparent, body }
    }
}

/// Why a message is rejected that was handed out as often as it may be.
const LAST: &str = "it was handed out as often as it may be, and never acknowledged";

/// A message that is delivered only when [`Self::ack`] says so. Dropped before, it is handed out again.
#[must_use = "a delivery that is dropped without `ack` is handed out again"]
pub struct Delivery {
    shared: Arc<Shared>,
    key: DeliveryKey,
    open: bool,
    attempt: u32,
    message: Received,
}

impl Delivery {
    pub(crate) fn new(shared: &Arc<Shared>, incoming: Incoming) -> Self {
        let (key, attempt) = (incoming.key, incoming.attempt);
        let message = Received::new(shared, incoming, false);
        Self { shared: Arc::clone(shared), key, open: true, attempt, message }
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

    /// The trace that it is part of, as its sender says: see [`Message::traceparent`](crate::Message::traceparent).
    pub const fn traceparent(&self) -> Option<Traceparent> {
        self.message.traceparent
    }

    /// Which time it is that the message is handed out under a guard: the first is 1. After a crash of this node it may have been
    /// handed out before, and counts as if it was.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the message may have been handed out before: what was done with it then may have to be found out, by its
    /// [id](Self::id).
    pub const fn is_redelivered(&self) -> bool {
        self.attempt > 1
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

    /// Acknowledges the message as [`Self::ack`] does, and says with which `status`: a sender that asked to be told so
    /// ([`Confirm::Processed`](crate::Confirm)) gets [`Outcome::Processed`](crate::Outcome::Processed) with it. Of a streamed body
    /// nothing more is wanted.
    ///
    /// # Errors
    /// [`NotDelivered`]: the record of the message died meanwhile. It must not be acted on.
    pub fn ack_with(mut self, status: u32) -> Result<(), NotDelivered> {
        if status == 0 {
            return self.ack();
        }
        self.open = false;
        let verdict = Verdict::new(Word::Processed, status, "");
        let judged = self.shared.step_calmly(|engine, now| engine.judge(now, self.key, verdict));
        if judged { Ok(()) } else { Err(NotDelivered) }
    }

    /// Does not take the message, and will not have it again: its sender is told
    /// [`Outcome::Rejected`](crate::Outcome::Rejected), and `reason`, of which the first 200 bytes count. The node keeps it as a
    /// [dead letter](crate::dead), which is written first, by another thread where it goes to a disk. If that fails the message is
    /// handed out again.
    pub fn reject(self, reason: impl AsRef<str>) {
        self.reject_with(0, reason);
    }

    /// As [`Self::reject`], with a number that the two applications agree on.
    pub fn reject_with(mut self, status: u32, reason: impl AsRef<str>) {
        self.give_up(status, reason.as_ref());
    }

    /// Hands the message out again after `wait`, and not before. It counts as an attempt.
    pub fn retry_after(mut self, wait: Duration) {
        if self.is_last_attempt() {
            return self.give_up(0, LAST);
        }
        self.open = false;
        let waker = self.shared.step_calmly(|engine, now| engine.release_at(self.key, now.mono + wait));
        drop(waker);
    }

    fn is_last_attempt(&self) -> bool {
        self.shared.attempts.is_some_and(|most| self.attempt >= most.get())
    }

    fn give_up(&mut self, status: u32, reason: &str) {
        self.open = false;
        let verdict = Verdict::new(Word::Rejected, status, reason);
        let (body, not_kept) = match self.message.body.left(&self.shared, self.key) {
            Ok(body) => (Some(body), None),
            Err(why) => (None, Some(why)),
        };
        let letter = DeadLetter {
            id: self.message.id,
            from: self.message.from,
            tag: self.message.tag.clone(),
            status,
            attempts: self.attempt,
            reason: verdict.reason.clone(),
            at: SystemTime::now(),
            len: self.message.body.len(),
            body,
            not_kept,
        };
        let job = Job { key: self.key, verdict, letter };
        self.shared.dead.reject(&self.shared, job);
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
        if self.open && self.is_last_attempt() {
            self.give_up(0, LAST);
        } else if self.open {
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
