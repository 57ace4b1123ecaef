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

/// A message that the node took when it returned it. It is delivered, unless its body still arrives. [`AtMostOnce`]
/// returns such messages.
///
/// [`AtMostOnce`]: crate::receive::AtMostOnce
#[derive(Debug)]
#[non_exhaustive]
pub struct Received {
    /// The node that sent it.
    pub from: NodeId,
    /// The id of the message at both ends. No other message ever has it. An application can use it as a key, so that
    /// an effect outside of the node happens only once.
    pub id: MessageId,
    /// The tag for dispatch.
    pub tag: Bytes,
    /// The priority that the sender set.
    pub priority: Priority,
    /// The trace that the message belongs to, as its sender gave it.
    pub traceparent: Option<Traceparent>,
    /// The body.
    pub body: Body,
}

impl Received {
    /// Makes the message. With `takes`, the message is taken when the application has read the end of a streamed
    /// body.
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

/// The reason with which the node rejects a message after its last attempt.
const LAST: &str = "it was handed out as often as it may be, and never acknowledged";

/// A message that counts as delivered only when the application calls [`Self::ack`]. If the application drops it
/// before, the node hands it out again.
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

    /// Ends the guard of a message that was taken.
    pub(crate) fn let_go(mut self) {
        self.open = false;
    }

    /// The node that sent the message: a proven id. [`Node::peer`](crate::Node::peer) takes it, to answer.
    pub const fn from(&self) -> NodeId {
        self.message.from
    }

    /// The id of the message at both ends. No other message ever has it. An application can use it as a key, so that
    /// an effect outside of the node happens only once.
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

    /// The trace that the message belongs to, as its sender gave it: see
    /// [`Message::traceparent`](crate::Message::traceparent).
    pub const fn traceparent(&self) -> Option<Traceparent> {
        self.message.traceparent
    }

    /// How many times the node has handed the message out under a guard, including this time: 1 the first time. If the
    /// node has crashed, it may have handed the message out before the crash, and the count assumes that it did.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the node may have handed the message out before. Then the application may have to find out, by the
    /// [id](Self::id), what it did with the message.
    pub const fn is_redelivered(&self) -> bool {
        self.attempt > 1
    }

    /// The body.
    pub const fn body(&self) -> &Body {
        &self.message.body
    }

    /// The body, to read from.
    pub const fn body_mut(&mut self) -> &mut Body {
        &mut self.message.body
    }

    /// A span for handling the message. It has the id and the sender of the message, by which one can find the log
    /// lines of both ends. A [call](crate::call::Request) is handled within a similar span.
    pub fn span(&self) -> tracing::Span {
        tracing::info_span!("message", id = %self.message.id, from = %self.message.from.short())
    }

    /// Acknowledges the message: with this, it is delivered. Its sender learns that, unless one of the two nodes dies
    /// first. The application must have read a streamed body to its end before.
    ///
    /// # Errors
    /// [`NotDelivered`]: the node no longer has its record of the message, or the body was not read to its end. The
    /// application must not act on the message.
    pub fn ack(self) -> Result<(), NotDelivered> {
        self.take().map(drop)
    }

    /// Acknowledges the message like [`Self::ack`], with a `status`. If the sender asked for that
    /// ([`Confirm::Processed`](crate::Confirm)), its outcome is [`Outcome::Processed`](crate::Outcome::Processed)
    /// with this status. The rest of a streamed body is discarded.
    ///
    /// # Errors
    /// [`NotDelivered`]: the node no longer has its record of the message. The application must not act on the
    /// message.
    pub fn ack_with(mut self, status: u32) -> Result<(), NotDelivered> {
        if status == 0 {
            return self.ack();
        }
        self.open = false;
        let verdict = Verdict::new(Word::Processed, status, "");
        let judged = self.shared.step_calmly(|engine, now| engine.judge(now, self.key, verdict));
        if judged { Ok(()) } else { Err(NotDelivered) }
    }

    /// Rejects the message, so that the node does not hand it out again. Its sender's outcome is
    /// [`Outcome::Rejected`](crate::Outcome::Rejected), with the first 200 bytes of `reason`. Before that, the node
    /// keeps the message as a [dead letter](crate::dead). If the letter goes to the disk, another thread writes it;
    /// if that fails, the thread repeats it until it succeeds. If the node ends before, its next life hands the message
    /// out again.
    pub fn reject(self, reason: impl AsRef<str>) {
        self.reject_with(0, reason);
    }

    /// Like [`Self::reject`], with a number whose meaning the two applications have agreed on.
    pub fn reject_with(mut self, status: u32, reason: impl AsRef<str>) {
        self.give_up(status, reason.as_ref());
    }

    /// Hands the message out again after `wait`, and not earlier. This attempt counts.
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
    /// The errors of [`Self::ack`].
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
