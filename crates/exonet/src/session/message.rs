//! A message of a session, under its guard.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use exonet_proto::{MessageId, Traceparent};

use crate::error::NotDelivered;
use crate::receive::delivery::Delivery;

/// A message of a session that is delivered only when the application calls [`Self::ack`]. If the application drops
/// it before, the node hands it out again, before any other message of the session.
///
/// Its methods correspond to those of [`Delivery`].
#[must_use = "a message that is dropped without `ack` is handed out again"]
pub struct SessionMessage {
    delivery: Delivery,
    body: Bytes,
}

impl SessionMessage {
    pub(super) const fn new(delivery: Delivery, body: Bytes) -> Self {
        Self { delivery, body }
    }

    pub(super) fn into_parts(self) -> (Delivery, Bytes) {
        (self.delivery, self.body)
    }

    /// The content of the message.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The content as an object, if the peer sent it with
    /// [`SessionSender::send_object`](super::SessionSender::send_object).
    ///
    /// # Errors
    /// The content is not such an object. The application can [reject](Self::reject) the message.
    #[cfg(feature = "serde")]
    pub fn object<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The id of the message at both ends. No other message ever has it. An application can use it as a key, so that
    /// an effect outside of the node happens only once. A message that was sent in parts has the id of its last part.
    pub const fn id(&self) -> MessageId {
        self.delivery.id()
    }

    /// See [`Delivery::traceparent`]. A message that was sent in parts has the trace of its last part.
    pub const fn traceparent(&self) -> Option<Traceparent> {
        self.delivery.traceparent()
    }

    /// See [`Delivery::attempt`].
    pub const fn attempt(&self) -> u32 {
        self.delivery.attempt()
    }

    /// See [`Delivery::is_redelivered`].
    pub const fn is_redelivered(&self) -> bool {
        self.delivery.is_redelivered()
    }

    /// See [`Delivery::ack`].
    ///
    /// # Errors
    /// The errors of [`Delivery::ack`].
    pub fn ack(self) -> Result<(), NotDelivered> {
        self.delivery.ack()
    }

    /// See [`Delivery::ack_with`].
    ///
    /// # Errors
    /// The errors of [`Delivery::ack_with`].
    pub fn ack_with(self, status: u32) -> Result<(), NotDelivered> {
        self.delivery.ack_with(status)
    }

    /// Acknowledges the message like [`Self::ack`], and returns its content.
    ///
    /// # Errors
    /// The errors of [`Self::ack`].
    pub fn take(self) -> Result<Bytes, NotDelivered> {
        self.delivery.ack().map(|()| self.body)
    }

    /// See [`Delivery::reject`].
    pub fn reject(self, reason: impl AsRef<str>) {
        self.delivery.reject(reason);
    }

    /// See [`Delivery::reject_with`].
    pub fn reject_with(self, status: u32, reason: impl AsRef<str>) {
        self.delivery.reject_with(status, reason);
    }

    /// See [`Delivery::retry_after`]. The whole session waits, since no message overtakes another.
    pub fn retry_after(self, wait: Duration) {
        self.delivery.retry_after(wait);
    }
}

impl fmt::Debug for SessionMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionMessage").field("id", &self.id()).field("len", &self.body.len()).finish()
    }
}
