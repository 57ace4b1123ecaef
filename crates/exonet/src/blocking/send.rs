//! Sending by threads that block, and the outcomes.

use core::time::Duration;
use std::sync::Arc;

use super::Delivery;
use super::runtime::Runtime;
use crate::error::SendError;
use crate::receive::AnswerError;
use crate::send::message::Message;
use crate::send::{Settled, Tally};

/// The handle that [`Peer::send`](super::Peer::send) returns: see [`crate::Receipt`].
#[must_use = "a receipt says what became of the message; drop it only if that does not matter"]
pub struct Receipt {
    receipt: crate::Receipt,
    runtime: Arc<Runtime>,
}

impl Receipt {
    pub(super) fn new(receipt: crate::Receipt, runtime: &Arc<Runtime>) -> Self {
        Self { receipt, runtime: Arc::clone(runtime) }
    }

    /// The async receipt, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::Receipt {
        &self.receipt
    }

    /// Waits for the outcome of the message.
    pub fn wait(self) -> Settled {
        self.runtime.wait(self.receipt)
    }

    /// Waits for the outcome of the message, for `timeout` at most. None: it is not known yet.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Settled> {
        self.runtime.wait_for(timeout, self.receipt.outcome())
    }
}

/// The handle that [`Peer::send_batch`](super::Peer::send_batch) returns: see [`crate::send::BatchReceipt`].
#[must_use = "it says what became of the messages; drop it only if that does not matter"]
pub struct BatchReceipt {
    receipt: crate::send::BatchReceipt,
    runtime: Arc<Runtime>,
}

impl BatchReceipt {
    pub(super) fn new(receipt: crate::send::BatchReceipt, runtime: &Arc<Runtime>) -> Self {
        Self { receipt, runtime: Arc::clone(runtime) }
    }

    /// The async receipt, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::send::BatchReceipt {
        &self.receipt
    }

    /// Waits until every message is settled.
    pub fn wait(self) -> Tally {
        self.runtime.wait(self.receipt)
    }

    /// Waits until every message is settled, for `timeout` at most. None: some messages are still open.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Tally> {
        self.runtime.wait_for(timeout, self.receipt.outcomes())
    }
}

/// A place in a peer's queue: see [`crate::send::Permit`].
#[must_use = "a permit holds a place in the queue until it is used or dropped"]
pub struct Permit {
    permit: crate::send::Permit,
    runtime: Arc<Runtime>,
}

impl Permit {
    pub(super) fn new(permit: crate::send::Permit, runtime: &Arc<Runtime>) -> Self {
        Self { permit, runtime: Arc::clone(runtime) }
    }

    /// Queues the message at once, without waiting.
    ///
    /// # Errors
    /// The errors of [`crate::send::Permit::send`].
    pub fn send(self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.permit.send(message).map(|receipt| Receipt::new(receipt, &self.runtime))
    }

    /// Acknowledges a message and sends another, in one step: see [`crate::send::Permit::ack_and_send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn ack_and_send(
        self,
        delivery: Delivery,
        message: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<SendError, Delivery>> {
        let answered = self.runtime.wait(self.permit.ack_and_send(delivery.into_inner(), message));
        Delivery::answered(answered, &self.runtime)
    }
}

/// Sends many messages to one peer, and counts their outcomes: see [`crate::send::MessageSink`].
#[must_use = "what is fed to a sink is sent by `flush`"]
pub struct MessageSink {
    sink: crate::send::MessageSink,
    runtime: Arc<Runtime>,
}

impl MessageSink {
    pub(super) fn new(sink: crate::send::MessageSink, runtime: &Arc<Runtime>) -> Self {
        Self { sink, runtime: Arc::clone(runtime) }
    }

    /// The async sink, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::send::MessageSink {
        &self.sink
    }

    /// Adds a message. If the sink has collected enough, it first waits for room in the peer's queue, and queues
    /// them.
    ///
    /// # Errors
    /// The errors of [`crate::send::MessageSink::feed`].
    pub fn feed(&mut self, message: impl Into<Message>) -> Result<(), SendError> {
        self.runtime.wait(self.sink.feed(message))
    }

    /// Waits for room in the peer's queue, and queues the messages that were fed.
    ///
    /// # Errors
    /// The errors of [`crate::send::MessageSink::flush`].
    pub fn flush(&mut self) -> Result<(), SendError> {
        self.runtime.wait(self.sink.flush())
    }

    /// Flushes, and waits until every message is settled. Counts all messages since the sink was made.
    ///
    /// # Errors
    /// The errors of [`Self::flush`].
    pub fn settled(&mut self) -> Result<Tally, SendError> {
        self.runtime.wait(self.sink.settled())
    }
}

debugs!(Receipt.receipt, BatchReceipt.receipt, Permit.permit, MessageSink.sink);
