//! A message as the application builds it.

use core::time::Duration;

use bytes::Bytes;
use exonet_proto::node::{Alike, Confirm, Early, Outgoing, Priority};
use exonet_proto::{Mono, Traceparent};

/// The number of bytes (as a power of two) that count as one unit of tokio's cooperative budget. A task has 128 units a
/// turn.
const UNIT_SHIFT: u32 = 12;

/// The number of units after which a turn is over, whatever is left of the budget.
const TURN: usize = 127;

/// Lets other tasks run when a sender of `bytes` has used up its turn: above all the driver, which may share its
/// thread. Bytes that are queued beyond that leave no sooner, and have left the processor's cache by then.
pub(crate) async fn take_turns(bytes: usize) {
    for _ in 0..(bytes >> UNIT_SHIFT).clamp(1, TURN) {
        tokio::task::coop::consume_budget().await;
    }
}

/// The share of its sender's turn that a message takes, in bytes, roughly.
pub(crate) const fn weight(body: usize) -> usize {
    body + 64
}

/// Drops an empty [`Bytes`] at once. It may still have an owner, whose destructor is the application's code: it runs
/// here and not later under the node's lock.
pub(crate) fn drop_empty(bytes: Bytes) -> Bytes {
    if bytes.is_empty() { Bytes::new() } else { bytes }
}

/// A message to send: a body, and how the node treats it.
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

/// The trace that messages continue if the application names none.
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

    /// A tag for dispatch at the receiver: at most 255 bytes.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Bytes>) -> Self {
        self.tag = drop_empty(tag.into());
        self
    }

    /// The priority: which message goes first when several wait.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How long after the call of `send` the message is still wanted. A message that has not left by then ends Expired.
    /// A message that has left is withdrawn at its receiver: it ends Expired, certainly never delivered, or Delivered
    /// if it was taken, and its receipt is marked late. An expired message of a stream leaves no gap.
    #[must_use]
    pub fn deadline(mut self, from_now: Duration) -> Self {
        self.deadline = Some(from_now);
        self
    }

    /// Whether the message may leave beside the opening of a channel, before the channel has its own keys: see
    /// [`Builder::early`](crate::Builder::early).
    #[must_use]
    pub fn early(mut self, early: bool) -> Self {
        self.early = if early { Early::Yes } else { Early::No };
        self
    }

    /// The confirmation that the sender gets in the end: that the receiving application has the message, which is the
    /// default, or that it has [processed](Confirm::Processed) it. A sender that needs neither drops the receipt.
    #[must_use]
    pub fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = confirm;
        self
    }

    /// The trace that the message is part of, as in W3C Trace Context. The receiver finds it in
    /// [`Delivery::traceparent`](crate::Delivery::traceparent). With the feature `opentelemetry`, the default is the
    /// trace of the current span.
    #[must_use]
    pub fn traceparent(mut self, parent: Traceparent) -> Self {
        self.traceparent = Some(Box::new(parent));
        self
    }

    /// Whether the message is part of a trace.
    fn is_traced(&self) -> bool {
        self.traceparent.is_some() || current_trace().is_some()
    }

    pub(crate) fn has_tag(&self) -> bool {
        !self.tag.is_empty()
    }

    pub(crate) const fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// How long after the call of `send` the message is wanted.
    pub(crate) const fn deadline_is(&self) -> Option<Duration> {
        self.deadline
    }

    /// The confirmation that the sender gets in the end.
    pub(crate) const fn confirm_is(&self) -> Confirm {
        self.confirm
    }

    /// Makes the message wait for the channel, unless the application has said otherwise. Until it leaves, it can
    /// certainly be withdrawn.
    pub(crate) fn or_late(mut self) -> Self {
        if self.early == Early::AsNode {
            self.early = Early::No;
        }
        self
    }

    /// The body, and the message without it.
    pub(crate) fn split(mut self) -> (Bytes, Self) {
        (core::mem::take(&mut self.body), self)
    }

    pub(crate) fn with_body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// The properties that the message may share with others. None: it has a deadline, is part of a trace, or sets
    /// `early` itself.
    pub(crate) fn alike(&self, in_stream: bool) -> Option<Alike> {
        let Self { tag, priority, early, confirm, .. } = self;
        let usual = self.deadline.is_none() && *early == Early::default() && !self.is_traced();
        // A copy of the tag, since the destructor of its owner would run under the lock. The name of a stream is
        // already a copy.
        let tag = || if in_stream { tag.clone() } else { Bytes::copy_from_slice(tag) };
        let (priority, confirm) = (*priority, *confirm);
        usual.then(|| Alike { tag: tag(), priority, deadline: None, confirm, in_stream })
    }

    /// Whether the message has these properties, and nothing of its own but its body.
    #[inline]
    pub(crate) fn is(&self, alike: &Alike) -> bool {
        let Self { tag, priority, deadline, early, confirm, .. } = self;
        let usual = deadline.is_none() && *early == Early::default() && !self.is_traced();
        usual && *priority == alike.priority && *confirm == alike.confirm && *tag == alike.tag
    }

    /// The body.
    pub(crate) const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The length of the body, in bytes.
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
