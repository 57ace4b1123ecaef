//! A received message, under a guard or taken.

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

/// A message that was taken when it was received: delivered, unless its body is still coming. [`AtMostOnce`] returns
/// these.
///
/// [`AtMostOnce`]: crate::receive::AtMostOnce
#[derive(Debug)]
#[non_exhaustive]
pub struct Received {
    /// The node that sent it.
    pub from: NodeId,
    /// Its id at both ends, for ever. An application can use it as the key that lets an external effect happen only
    /// once.
    pub id: MessageId,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// The priority that the sender set.
    pub priority: Priority,
    /// The trace that it is part of, as given by its sender.
    pub traceparent: Option<Traceparent>,
    /// The body.
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

    /// Takes the message, and leaves one without content.
    fn take(&mut self) -> Self {
        let (tag, body) = (core::mem::take(&mut self.tag), self.body.take());
        let Self { from, id, priority, traceparent, .. } = *self;
        Self { from, id, tag, priority, traceparent, body }
    }
}

/// The reason with which a message is rejected after its last attempt.
const LAST: &str = "it was handed out as often as it may be, and never acknowledged";

/// A message that is delivered only when the application calls [`Self::ack`]. If it is dropped before, it is handed out
/// again.
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

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) const fn key(&self) -> DeliveryKey {
        self.key
    }

    /// Ends the guard of a message that has been taken.
    pub(crate) fn let_go(mut self) {
        self.open = false;
    }

    /// The node that sent it: a proven id. Pass it to [`Node::peer`](crate::Node::peer) to answer.
    pub const fn from(&self) -> NodeId {
        self.message.from
    }

    /// Its id at both ends, for ever. An application can use it as the key that lets an external effect happen only
    /// once.
    pub const fn id(&self) -> MessageId {
        self.message.id
    }

    /// The tag for dispatch.
    pub const fn tag(&self) -> &Bytes {
        &self.message.tag
    }

    /// The priority that the sender set.
    pub const fn priority(&self) -> Priority {
        self.message.priority
    }

    /// The trace that it is part of, as given by its sender: see [`Message::traceparent`](crate::Message::traceparent).
    pub const fn traceparent(&self) -> Option<Traceparent> {
        self.message.traceparent
    }

    /// The number of times that the message has been handed out under a guard, this time included: the first is 1. If
    /// this node has crashed, the message may have been handed out before the crash, and the count assumes that it was.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the message may have been handed out before. The application may then have to find out what it did with
    /// the message, by its [id](Self::id).
    pub const fn is_redelivered(&self) -> bool {
        self.attempt > 1
    }

    /// The body.
    pub const fn body(&self) -> &Body {
        &self.message.body
    }

    /// The body, for reading.
    pub const fn body_mut(&mut self) -> &mut Body {
        &mut self.message.body
    }

    /// A span for the handling of the message, with its id and its sender, by which the log lines within it can be
    /// found at both ends. A [call](crate::call::Request) is served within a similar span.
    pub fn span(&self) -> tracing::Span {
        tracing::info_span!("message", id = %self.message.id, from = %self.message.from.short())
    }

    /// Acknowledges the message: from here on it is delivered. The sender is told, unless one of the two nodes dies
    /// first. A streamed body must have been read to its end.
    ///
    /// # Errors
    /// [`NotDelivered`]: the record of the message died meanwhile, or its body has not been read. The application must
    /// not act on it.
    pub fn ack(self) -> Result<(), NotDelivered> {
        self.take().map(drop)
    }

    /// Acknowledges the message like [`Self::ack`], with a `status`. A sender that asked for it
    /// ([`Confirm::Processed`](crate::Confirm)) gets [`Outcome::Processed`](crate::Outcome::Processed) with this
    /// status. The rest of a streamed body is given up.
    ///
    /// # Errors
    /// [`NotDelivered`]: the record of the message died meanwhile. The application must not act on it.
    pub fn ack_with(mut self, status: u32) -> Result<(), NotDelivered> {
        if status == 0 {
            return self.ack();
        }
        self.open = false;
        let verdict = Verdict::new(Word::Processed, status, "");
        let judged = self.shared.step_calmly(|engine, now| engine.judge(now, self.key, verdict));
        if judged { Ok(()) } else { Err(NotDelivered) }
    }

    /// Rejects the message, which is not handed out again. Its sender is told
    /// [`Outcome::Rejected`](crate::Outcome::Rejected) and the first 200 bytes of `reason`. The node keeps the message
    /// as a [dead letter](crate::dead), which it writes first, on another thread if it goes to disk. If writing fails,
    /// the message is handed out again.
    pub fn reject(self, reason: impl AsRef<str>) {
        self.reject_with(0, reason);
    }

    /// Like [`Self::reject`], with a number whose meaning the two applications agree on.
    pub fn reject_with(mut self, status: u32, reason: impl AsRef<str>) {
        self.give_up(status, reason.as_ref());
    }

    /// Hands the message out again after `wait`, and not before. This counts as an attempt.
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
            traceparent: self.message.traceparent,
        };
        let job = Job { key: self.key, verdict, letter };
        self.shared.dead.reject(&self.shared, job);
    }

    /// Acknowledges the message like [`Self::ack`], and returns its parts.
    ///
    /// # Errors
    /// As for [`Self::ack`].
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
