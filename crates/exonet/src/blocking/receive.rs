//! Receiving on threads that block.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;

use super::runtime::Runtime;
use super::{Peer, Receipt};
use crate::error::{BodyError, Closed, NotDelivered, SendError};
use crate::receive::{AnswerError, Batch};
use crate::{Message, MessageId, NodeId};

/// A received message under its guard: see [`crate::Delivery`].
#[must_use = "a delivery that is dropped without `ack` is handed out again"]
pub struct Delivery {
    delivery: crate::Delivery,
    runtime: Arc<Runtime>,
}

impl Delivery {
    pub(super) fn new(delivery: crate::Delivery, runtime: &Arc<Runtime>) -> Self {
        Self { delivery, runtime: Arc::clone(runtime) }
    }

    /// The async delivery, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::Delivery {
        &self.delivery
    }

    /// The delivery itself.
    pub fn into_inner(self) -> crate::Delivery {
        self.delivery
    }

    /// The node that sent it.
    pub const fn from(&self) -> NodeId {
        self.delivery.from()
    }

    /// The id of the message: the same at both ends.
    pub const fn id(&self) -> MessageId {
        self.delivery.id()
    }

    /// Waits for the whole body, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        self.runtime.wait(self.delivery.body_mut().bytes(limit))
    }

    /// The number of times that the message has been handed out: see [`crate::Delivery::attempt`].
    pub const fn attempt(&self) -> u32 {
        self.delivery.attempt()
    }

    /// Acknowledges the message with a status: see [`crate::Delivery::ack_with`].
    ///
    /// # Errors
    /// [`NotDelivered`].
    pub fn ack_with(self, status: u32) -> Result<(), NotDelivered> {
        self.delivery.ack_with(status)
    }

    /// Rejects the message, so that it is not handed out again: see [`crate::Delivery::reject`].
    pub fn reject(self, reason: impl AsRef<str>) {
        self.delivery.reject(reason);
    }

    /// Rejects the message with a status: see [`crate::Delivery::reject_with`].
    pub fn reject_with(self, status: u32, reason: impl AsRef<str>) {
        self.delivery.reject_with(status, reason);
    }

    /// Hands the message out again after `wait`: see [`crate::Delivery::retry_after`].
    pub fn retry_after(self, wait: Duration) {
        self.delivery.retry_after(wait);
    }

    /// Acknowledges the message: with this, it is delivered.
    ///
    /// # Errors
    /// [`NotDelivered`].
    pub fn ack(self) -> Result<(), NotDelivered> {
        self.delivery.ack()
    }

    /// Acknowledges the message and sends an answer to its sender, in one step: see [`crate::Delivery::answer`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn answer(self, answer: impl Into<Message>) -> Result<Receipt, AnswerError<SendError, Self>> {
        let answered = self.runtime.wait(self.delivery.answer(answer));
        Self::answered(answered, &self.runtime)
    }

    /// Acknowledges the message and sends another, in one step: see [`crate::Delivery::ack_and_send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn ack_and_send(
        self,
        to: &Peer,
        message: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<SendError, Self>> {
        let answered = self.runtime.wait(self.delivery.ack_and_send(to.get_ref(), message));
        Self::answered(answered, &self.runtime)
    }

    /// The receipt of an answer, or the error that gives the delivery back.
    pub(super) fn answered<E>(
        answered: Result<crate::Receipt, AnswerError<E>>,
        runtime: &Arc<Runtime>,
    ) -> Result<Receipt, AnswerError<E, Self>> {
        answered
            .map(|receipt| Receipt::new(receipt, runtime))
            .map_err(|error| error.map_delivery(|delivery| Self::new(delivery, runtime)))
    }

    /// Acknowledges the message, and returns its parts.
    ///
    /// # Errors
    /// The errors of [`Self::ack`].
    pub fn take(self) -> Result<crate::receive::Received, NotDelivered> {
        self.delivery.take()
    }
}

/// Receives the messages that its filter selects, each under a guard: see [`crate::receive::Receiver`].
///
/// It is an iterator that waits for each message, and ends when the node is closed.
#[derive(Clone)]
pub struct Receiver {
    receiver: crate::receive::Receiver,
    runtime: Arc<Runtime>,
}

impl Receiver {
    pub(super) fn new(receiver: crate::receive::Receiver, runtime: &Arc<Runtime>) -> Self {
        Self { receiver, runtime: Arc::clone(runtime) }
    }

    /// The async receiver, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::receive::Receiver {
        &self.receiver
    }

    /// Waits for the next message, under a guard.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub fn recv(&self) -> Result<Delivery, Closed> {
        self.runtime.wait(self.receiver.recv()).map(|delivery| Delivery::new(delivery, &self.runtime))
    }

    /// Waits for the next message, for `timeout` at most. None: no message came.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Delivery>, Closed> {
        let next = self.runtime.wait_for(timeout, self.receiver.recv()).transpose()?;
        Ok(next.map(|delivery| Delivery::new(delivery, &self.runtime)))
    }

    /// Receives the same messages without a guard: a message counts as delivered when it is returned.
    #[must_use]
    pub fn at_most_once(self) -> AtMostOnce {
        AtMostOnce { messages: self.receiver.at_most_once(), runtime: self.runtime }
    }
}

impl Iterator for Receiver {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        self.recv().ok()
    }
}

/// A message that this node took when it received it: see [`crate::receive::Received`].
pub struct Received {
    received: crate::receive::Received,
    runtime: Arc<Runtime>,
}

impl Received {
    pub(super) fn new(received: crate::receive::Received, runtime: &Arc<Runtime>) -> Self {
        Self { received, runtime: Arc::clone(runtime) }
    }

    /// The async message, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::receive::Received {
        &self.received
    }

    /// The node that sent it.
    pub const fn from(&self) -> NodeId {
        self.received.from
    }

    /// The id of the message: the same at both ends.
    pub const fn id(&self) -> MessageId {
        self.received.id
    }

    /// Waits for the whole body, if it has no more than `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        self.runtime.wait(self.received.body.bytes(limit))
    }

    /// The parts of the message.
    pub fn into_inner(self) -> crate::receive::Received {
        self.received
    }
}

/// Receives without a guard: a message counts as delivered when it is returned. See [`crate::receive::AtMostOnce`].
///
/// It is an iterator that waits for each message, and ends when the node is closed.
#[derive(Clone)]
pub struct AtMostOnce {
    messages: crate::receive::AtMostOnce,
    runtime: Arc<Runtime>,
}

impl AtMostOnce {
    pub(super) fn new(messages: crate::receive::AtMostOnce, runtime: &Arc<Runtime>) -> Self {
        Self { messages, runtime: Arc::clone(runtime) }
    }

    /// The async receiver, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::receive::AtMostOnce {
        &self.messages
    }

    fn taken(&self, received: crate::receive::Received) -> Received {
        Received::new(received, &self.runtime)
    }

    /// Waits for the next message, which is delivered when this method returns it.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub fn recv(&self) -> Result<Received, Closed> {
        self.runtime.wait(self.messages.recv()).map(|received| self.taken(received))
    }

    /// Waits for the next message, for `timeout` at most. None: no message came.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Received>, Closed> {
        let next = self.runtime.wait_for(timeout, self.messages.recv()).transpose()?;
        Ok(next.map(|received| self.taken(received)))
    }

    /// Waits for a message, then takes up to `most` messages that are there.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_batch(&self, most: usize) -> Result<Batch, Closed> {
        self.runtime.wait(self.messages.recv_batch(most))
    }
}

impl Iterator for AtMostOnce {
    type Item = Received;

    fn next(&mut self) -> Option<Received> {
        self.recv().ok()
    }
}

debugs!(Delivery.delivery, Receiver.receiver, Received.received, AtMostOnce.messages);
