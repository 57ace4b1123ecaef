//! A message as the application gives it.

use core::time::Duration;

use bytes::Bytes;
use exonet_proto::node::{Alike, Confirm, Early, Outgoing, Priority};
use exonet_proto::{Mono, Traceparent};

/// Bytes that are a unit of tokio's cooperative budget, of which a task has 128 a turn.
const UNIT_SHIFT: u32 = 12;

/// Units after which a turn is over, whatever is left of it.
const TURN: usize = 127;

/// A sender of `bytes` lets other tasks run when its turn is over: the driver above all, which may share its thread.
/// Bytes queued beyond that leave no sooner, and have left the processor's cache by then.
pub(crate) async fn take_turns(bytes: usize) {
    for _ in 0..(bytes >> UNIT_SHIFT).clamp(1, TURN) {
        tokio::task::coop::consume_budget().await;
    }
}

/// About what a message takes of its sender's turn, in bytes.
pub(crate) const fn weight(body: usize) -> usize {
    body + 64
}

/// Bytes without any may have an owner all the same, whose destructor is the application's: it runs here, not later under the
/// node's lock.
pub(crate) fn drop_empty(bytes: Bytes) -> Bytes {
    if bytes.is_empty() { Bytes::new() } else { bytes }
}

/// A message to send: a body, and how it is to be treated.
///
/// ```
/// use exonet::{Message, Priority};
/// let message = Message::new("42").tag("answer").priority(Priority::Urgent);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    tag: Bytes,
    body: Bytes,
    priority: Priority,
    deadline: Option<Duration>,
    early: Early,
    confirm: Confirm,
    traceparent: Option<Box<Traceparent>>,
}

/// The trace that is gone on with where the application says nothing.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) const fn current_trace() -> Option<Traceparent> {
    None
}
#[cfg(feature = "opentelemetry")]
pub(crate) use crate::otel::current as current_trace;

impl Message {
    /// A message with this body, an empty tag, normal priority and no deadline.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { body: drop_empty(body.into()), ..Self::default() }
    }

    /// For dispatch at the receiver: at most 255 bytes.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Bytes>) -> Self {
        self.tag = drop_empty(tag.into());
        self
    }

    /// Which goes first when several wait.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How long after the call of `send` it is still wanted. One that has not left by then ends Expired. One that has left is
    /// withdrawn at its receiver: it ends Expired, certainly never delivered, or Delivered if it was taken, and its receipt is
    /// marked late. Of a stream it leaves no gap.
    #[must_use]
    pub fn deadline(mut self, from_now: Duration) -> Self {
        self.deadline = Some(from_now);
        self
    }

    /// Whether it may leave beside the opening of a channel, before that has keys of its own: see
    /// [`Builder::early`](crate::Builder::early).
    #[must_use]
    pub fn early(mut self, early: bool) -> Self {
        self.early = if early { Early::Yes } else { Early::No };
        self
    }

    /// What the sender wants to be told in the end: that the receiving application has the message, which is the default, or that it
    /// has [processed](Confirm::Processed) it. A sender that wants to be told nothing drops the receipt.
    #[must_use]
    pub fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = confirm;
        self
    }

    /// The trace that it is part of, as W3C Trace Context has it: its receiver finds it in
    /// [`Delivery::traceparent`](crate::Delivery::traceparent). With the feature `opentelemetry` that of the current span is taken where none is
    /// given.
    #[must_use]
    pub fn traceparent(mut self, parent: Traceparent) -> Self {
        self.traceparent = Some(Box::new(parent));
        self
    }

    /// Whether it is part of a trace.
    fn is_traced(&self) -> bool {
        self.traceparent.is_some() || current_trace().is_some()
    }

    pub(crate) fn has_tag(&self) -> bool {
        !self.tag.is_empty()
    }

    pub(crate) const fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// How long after the call of `send` it may still leave.
    pub(crate) const fn deadline_is(&self) -> Option<Duration> {
        self.deadline
    }

    /// What the sender wants to be told.
    pub(crate) const fn confirm_is(&self) -> Confirm {
        self.confirm
    }

    /// Waits for the channel, unless the application has said otherwise: until then it can be withdrawn for certain.
    pub(crate) fn or_late(mut self) -> Self {
        if self.early == Early::AsNode {
            self.early = Early::No;
        }
        self
    }

    /// Its body, and the rest of it.
    pub(crate) fn split(mut self) -> (Bytes, Self) {
        (core::mem::take(&mut self.body), self)
    }

    pub(crate) fn with_body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// What it may have in common with others. None: it has a deadline, is part of a trace, or leaves beside an opening otherwise than the node is set.
    pub(crate) fn alike(&self, in_stream: bool) -> Option<Alike> {
        let Self { tag, priority, early, confirm, .. } = self;
        let usual = self.deadline.is_none() && *early == Early::default() && !self.is_traced();
        // A copy, or the name of a stream, which is one: its owner's destructor would run under the lock.
        let tag = || if in_stream { tag.clone() } else { Bytes::copy_from_slice(tag) };
        let (priority, confirm) = (*priority, *confirm);
        usual.then(|| Alike { tag: tag(), priority, deadline: None, confirm, in_stream })
    }

    /// Whether it has all this, and nothing of its own but its body.
    #[inline]
    pub(crate) fn is(&self, alike: &Alike) -> bool {
        let Self { tag, priority, deadline, early, confirm, .. } = self;
        let usual = deadline.is_none() && *early == Early::default() && !self.is_traced();
        usual && *priority == alike.priority && *confirm == alike.confirm && *tag == alike.tag
    }

    /// The content.
    pub(crate) const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// See [`weight`].
    pub(crate) const fn weight(&self) -> usize {
        weight(self.body.len())
    }

    pub(crate) fn into_outgoing(self, now: Mono) -> Outgoing {
        let deadline = self.deadline.map(|deadline| now + deadline);
        let Self { tag, body, priority, early, confirm, traceparent, .. } = self;
        let trace = traceparent.or_else(|| current_trace().map(Box::new));
        Outgoing { tag, body, priority, deadline, early, confirm, trace }
    }
}

impl From<Bytes> for Message {
    fn from(body: Bytes) -> Self {
        Self::new(body)
    }
}

impl From<Vec<u8>> for Message {
    fn from(body: Vec<u8>) -> Self {
        Self::new(body)
    }
}

impl From<String> for Message {
    fn from(body: String) -> Self {
        Self::new(body)
    }
}

impl From<&str> for Message {
    fn from(body: &str) -> Self {
        Self::new(Bytes::copy_from_slice(body.as_bytes()))
    }
}

impl From<&[u8]> for Message {
    fn from(body: &[u8]) -> Self {
        Self::new(Bytes::copy_from_slice(body))
    }
}

impl<const N: usize> From<&[u8; N]> for Message {
    fn from(body: &[u8; N]) -> Self {
        Self::new(Bytes::copy_from_slice(body))
    }
}
