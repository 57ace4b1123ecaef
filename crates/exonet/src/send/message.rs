//! A message as the application makes it.

use core::time::Duration;

use bytes::Bytes;
use exonet_proto::node::{Alike, Confirm, Early, Outgoing, Priority};
use exonet_proto::{Mono, Traceparent};

/// This many bytes (as a power of two) count as one unit of tokio's cooperative budget. A task has 128 units per
/// turn.
const UNIT_SHIFT: u32 = 12;

/// After this many units, the task yields in any case.
const TURN: usize = 127;

/// If a sender of `bytes` has used up its turn, lets other tasks run: above all the driver, which may run on the same
/// thread. Bytes that are queued beyond that would leave no sooner, and would have left the processor's cache by
/// then.
pub(crate) async fn take_turns(bytes: usize) {
    for _ in 0..(bytes >> UNIT_SHIFT).clamp(1, TURN) {
        tokio::task::coop::consume_budget().await;
    }
}

/// How much of its sender's turn a message uses up, in bytes, roughly.
pub(crate) const fn weight(body: usize) -> usize {
    body + 64
}

/// Drops an empty [`Bytes`] at once. It may still have an owner, whose destructor is code of the application and must
/// not run later, under the node's lock.
pub(crate) fn drop_empty(bytes: Bytes) -> Bytes {
    if bytes.is_empty() { Bytes::new() } else { bytes }
}

/// A message to send: a body, and how the node should treat it.
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

/// The trace that a message continues if the application gives it none.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) const fn current_trace() -> Option<Traceparent> {
    None
}
#[cfg(feature = "opentelemetry")]
pub(crate) use crate::otel::current as current_trace;

impl Message {
    /// Makes a message with this body, an empty tag, normal priority and no deadline.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { body: drop_empty(body.into()), ..Self::default() }
    }

    /// The tag, by which the receiver can dispatch the message: at most 255 bytes.
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

    /// How long after the call of `send` the message is still wanted. If the message has not left by then, it ends
    /// Expired. If it has left, the node withdraws it at its receiver: it ends Expired, and is certainly never
    /// delivered, or Delivered if the receiver had already taken it; its receipt is then marked late. An expired
    /// message of a stream leaves no gap.
    #[must_use]
    pub fn deadline(mut self, from_now: Duration) -> Self {
        self.deadline = Some(from_now);
        self
    }

    /// Whether the message may leave together with the opening of a channel, before the channel has keys of its own:
    /// see [`Builder::early`](crate::Builder::early).
    #[must_use]
    pub fn early(mut self, early: bool) -> Self {
        self.early = if early { Early::Yes } else { Early::No };
        self
    }

    /// What the receiver should confirm: that its application has the message, which is the default, or that the
    /// application has [processed](Confirm::Processed) it. A sender that needs neither drops the receipt.
    #[must_use]
    pub fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = confirm;
        self
    }

    /// The trace that the message belongs to, as in W3C Trace Context. The receiver finds it in
    /// [`Delivery::traceparent`](crate::Delivery::traceparent). With the feature `opentelemetry`, the default is the
    /// trace of the current span.
    #[must_use]
    pub fn traceparent(mut self, parent: Traceparent) -> Self {
        self.traceparent = Some(Box::new(parent));
        self
    }

    /// Whether the message belongs to a trace.
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

    /// What the receiver should confirm.
    pub(crate) const fn confirm_is(&self) -> Confirm {
        self.confirm
    }

    /// Makes the message wait for a channel, unless the application has set [`Self::early`]: until it leaves, the
    /// node can certainly withdraw it.
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

    /// The properties that the message can share with others. None: it has a deadline, belongs to a trace, or sets
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

    /// Whether the message has these properties and no others.
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
