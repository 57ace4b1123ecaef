//! The sending direction of a stream.

use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{Priority, StreamEnd};

use super::Handle;
use super::lane::Lane;
use crate::error::{BatchError, Closed, SendError};
use crate::peer::Peer;
use crate::receive::delivery::Delivery;
use crate::receive::{AnswerError, NotAnswered};
use crate::send::message::{Message, take_turns};
use crate::send::receipt::{BatchReceipt, Receipt};

/// Why the node does not accept a message of a stream. It has not queued the message, unless it stopped while it waited for
/// the disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamSendError {
    /// A reason that applies to any message. In a stream, a message may have
    /// [`MAX_STREAM_BODY`](super::MAX_STREAM_BODY) bytes.
    #[error(transparent)]
    Send(#[from] SendError),
    /// This handle has closed or reset the stream.
    #[error("the stream has been closed at this end")]
    Ended,
    /// The message has a tag. In a stream, the tag of each message is the name of the stream.
    #[error("a message of a stream has no tag of its own")]
    Tagged,
}

/// Sends the messages of this end in a stream.
///
/// The peer's application takes the messages in the order in which they were sent here. A message that ends Cancelled
/// or Expired leaves no gap, whether it has left or not. A message that is given up in doubt leaves a gap, and the
/// reader learns of it.
///
/// Dropping the sender does not end the stream: [`Self::close`] does.
#[derive(Debug)]
pub struct StreamSender {
    handle: Arc<Handle>,
    lane: Lane,
}

impl StreamSender {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        let lane = Lane::new(Arc::clone(&handle.claim), Priority::Normal);
        Self { handle, lane }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) const fn lane(&self) -> &Lane {
        &self.lane
    }

    /// The peer at the other end.
    pub fn peer(&self) -> &Peer {
        &self.handle.peer
    }

    /// The name of the stream.
    pub fn name(&self) -> &Bytes {
        self.lane.name()
    }

    /// The priority of all messages of this stream, in place of their own. Set it before the first message.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.lane.priority = priority;
        self
    }

    /// Sends a message, after all that were sent before it in this stream: waits for room in the queue to the peer,
    /// then queues the message.
    ///
    /// A [deadline](Message::deadline) and [`Message::confirm`] work as usual. Cancel-safe like [`Peer::send`].
    ///
    /// # Errors
    /// [`StreamSendError`]; nothing has been queued, except if the error is [`SendError::InDoubt`].
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, StreamSendError> {
        let message = message.into();
        if self.is_ended() {
            return Err(StreamSendError::Ended);
        }
        self.queue(message, StreamEnd::Open).await
    }

    /// Sends several messages in this order, after all that were sent before them in this stream, with one receipt, and
    /// waits for room as often as needed. For small messages that are available at once, this is faster than
    /// [`Self::send`], most of all if the node keeps a journal.
    ///
    /// Not cancel-safe, like [`Peer::send_batch`].
    ///
    /// ```
    /// # use exonet::{Allow, Node};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// # let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
    /// let (mut lines, _) = alice.peer(bob.peer_addr()).stream("lines")?.split();
    /// let mut sent = lines.send_batch(["one", "two", "three"]).await?;
    ///
    /// let (_, mut lines) = bob.accept_stream().await?.split();
    /// for _ in 0..3 {
    ///     lines.recv().await?.ok_or("the stream has ended")?.ack()?;
    /// }
    /// assert_eq!(sent.outcomes().await.delivered, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the first message that was not queued. The messages before it have been queued, and the error holds
    /// their receipt.
    pub async fn send_batch<M: Into<Message>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<BatchReceipt, BatchError<StreamSendError>> {
        let peer = &self.handle.peer;
        if self.is_ended() {
            let sent = BatchReceipt::new(Arc::clone(peer.shared()));
            return Err(BatchError { sent, source: StreamSendError::Ended });
        }
        let (lane, mut unfit) = (&self.lane, None);
        let checked = |message: M| match checked(message.into()) {
            Ok(message) => Some(lane.named(message)),
            Err(error) => {
                unfit = Some(error);
                None
            }
        };
        let sent = peer.queue_each(&mut messages.into_iter().map_while(checked).fuse(), true).await;
        match (sent, unfit) {
            (Ok(sent), None) => Ok(sent),
            (Ok(sent), Some(source)) => Err(BatchError { sent, source }),
            (Err(BatchError { sent, source }), _) => Err(BatchError { sent, source: source.into() }),
        }
    }

    /// Acknowledges `taken`, and sends a message like [`Self::send`], in one step: see
    /// [`Delivery::ack_and_send`].
    ///
    /// # Errors
    /// [`AnswerError`], which gives the message back if it can still be acknowledged. Nothing has been queued, unless the reason is
    /// [`NotAnswered::InDoubt`].
    pub async fn ack_and_send(
        &mut self,
        taken: Delivery,
        message: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<StreamSendError>> {
        if self.is_ended() {
            return Err(AnswerError::giving_back(taken, NotAnswered::Send(StreamSendError::Ended)));
        }
        let message = match checked(message.into()) {
            Ok(message) => message,
            Err(error) => return Err(AnswerError::giving_back(taken, NotAnswered::Send(error))),
        };
        self.lane.answer(taken, message).await.map_err(|error| error.map(StreamSendError::Send))
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room, and the other errors of [`StreamSendError`].
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, StreamSendError> {
        let message = message.into();
        if self.is_ended() {
            return Err(StreamSendError::Ended);
        }
        Ok(self.lane.try_queue(checked(message)?, StreamEnd::Open)?)
    }

    /// Ends this direction of the stream, after everything that was sent in it. The receipt says when the peer's
    /// application has got the end.
    ///
    /// # Errors
    /// [`StreamSendError`]; [`Ended`](StreamSendError::Ended) if this handle has already ended the stream.
    pub async fn close(&mut self) -> Result<Receipt, StreamSendError> {
        self.end(Message::default(), StreamEnd::Last).await
    }

    /// Ends this direction, and cancels the messages that have not left. The peer's application learns of the reset
    /// after the messages that have left. It does not cancel messages that an earlier handle of this name sent before
    /// it closed its stream.
    ///
    /// # Errors
    /// The errors of [`Self::close`].
    pub async fn reset(&mut self) -> Result<Receipt, StreamSendError> {
        if !self.is_ended() {
            self.lane.cancel();
        }
        self.end(Message::default(), StreamEnd::Reset).await
    }

    /// Like [`Self::close`], with a last message.
    pub(crate) async fn close_with(&mut self, last: Message) -> Result<Receipt, StreamSendError> {
        self.end(last, StreamEnd::Last).await
    }

    async fn end(&mut self, message: Message, end: StreamEnd) -> Result<Receipt, StreamSendError> {
        if self.is_ended() {
            return Err(StreamSendError::Ended);
        }
        self.queue(message, end).await
    }

    /// Like [`Self::reset`], if there is room to tell the peer. If there is none, the peer is not told.
    pub(crate) fn reset_at_once(&mut self) {
        self.lane.reset_at_once();
    }

    /// Ends this direction with a last message, if there is room for it. If there is none, the peer is not told. The
    /// outcome of the message is ignored.
    pub(crate) fn end_at_once(&mut self, last: Message, end: StreamEnd) {
        if let Ok(last) = checked(last) {
            self.lane.end_at_once(last, end);
        }
    }

    /// Whether [`Self::close`] or [`Self::reset`] has ended the stream.
    pub fn is_ended(&self) -> bool {
        self.lane.is_ended()
    }

    async fn queue(&self, message: Message, end: StreamEnd) -> Result<Receipt, StreamSendError> {
        let message = checked(message)?;
        take_turns(message.weight()).await;
        let (receipt, at) = self.lane.queue(message, end).await?;
        self.lane.claim.shared.until_safe(at).await.map_err(|Closed| SendError::InDoubt)?;
        Ok(receipt)
    }
}

/// Checks that a message can be sent in a stream.
fn checked(message: Message) -> Result<Message, StreamSendError> {
    if message.has_tag() { Err(StreamSendError::Tagged) } else { Ok(message) }
}
