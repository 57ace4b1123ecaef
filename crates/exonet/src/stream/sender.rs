//! What is sent in a stream.

use std::sync::Arc;

use bytes::Bytes;
use exonet_proto::node::{Priority, StreamEnd};

use super::Handle;
use super::lane::Lane;
use crate::error::{Closed, SendError};
use crate::peer::Peer;
use crate::send::message::{Message, take_turns};
use crate::send::receipt::Receipt;

/// Why a message of a stream is not accepted. Nothing has been queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamSendError {
    /// As of any other message. A message of a stream has at most [`MAX_STREAM_BODY`](super::MAX_STREAM_BODY) bytes.
    #[error(transparent)]
    Send(#[from] SendError),
    /// It has been closed or reset by this handle.
    #[error("the stream has been closed at this end")]
    Ended,
    /// The tag of a message of a stream is the name of the stream.
    #[error("a message of a stream has no tag of its own")]
    Tagged,
}

/// Sends in a stream.
///
/// The peer's application takes the messages in the order in which they were sent here. One that ends Cancelled or Expired leaves no
/// gap, whether it has left or not. One that is given up in doubt leaves one, of which the reader hears.
///
/// Dropping it ends nothing: [`Self::close`] does.
#[derive(Debug)]
pub struct StreamSender {
    handle: Arc<Handle>,
    lane: Lane,
    ended: bool,
}

impl StreamSender {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        let lane = Lane { claim: Arc::clone(&handle.claim), priority: Priority::Normal };
        Self { handle, lane, ended: false }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The peer at the other end.
    pub fn peer(&self) -> &Peer {
        &self.handle.peer
    }

    /// The name of the stream.
    pub fn name(&self) -> &Bytes {
        self.lane.name()
    }

    /// The class of the messages of this stream, in place of their own: all of one stream have one. To be set before the first is
    /// sent.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.lane.priority = priority;
        self
    }

    /// Sends a message behind all that were sent before it in this stream: waits for room in the peer's queue, then queues it.
    ///
    /// A [deadline](Message::deadline) and [`Message::confirm`] mean what they do elsewhere. Cancel-safe as
    /// [`Peer::send`] is.
    ///
    /// # Errors
    /// [`StreamSendError`]; nothing has been queued.
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, StreamSendError> {
        let message = message.into();
        if self.ended {
            return Err(StreamSendError::Ended);
        }
        self.queue(message, StreamEnd::Open).await
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] instead of waiting, and the others of [`StreamSendError`].
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, StreamSendError> {
        let message = message.into();
        if self.ended {
            return Err(StreamSendError::Ended);
        }
        Ok(self.lane.try_queue(checked(message)?, StreamEnd::Open)?)
    }

    /// Ends this direction of the stream behind all that was sent in it. The receipt says when the peer's application has had
    /// the end.
    ///
    /// # Errors
    /// [`StreamSendError`]; a stream that was ended before has been [`Ended`](StreamSendError::Ended).
    pub async fn close(&mut self) -> Result<Receipt, StreamSendError> {
        self.end(Message::default(), StreamEnd::Last).await
    }

    /// Gives up what has not left of this direction, and ends it: that is Cancelled, and the peer's application hears of the reset
    /// behind what has left. What was sent by an earlier handle of this name before it closed its stream is not given up.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub async fn reset(&mut self) -> Result<Receipt, StreamSendError> {
        if !self.ended {
            self.lane.cancel();
        }
        self.end(Message::default(), StreamEnd::Reset).await
    }

    /// As [`Self::close`], with a last message.
    pub(crate) async fn close_with(&mut self, last: Message) -> Result<Receipt, StreamSendError> {
        self.end(last, StreamEnd::Last).await
    }

    async fn end(&mut self, message: Message, end: StreamEnd) -> Result<Receipt, StreamSendError> {
        if self.ended {
            return Err(StreamSendError::Ended);
        }
        let receipt = self.queue(message, end).await?;
        self.ended = true;
        Ok(receipt)
    }

    /// As [`Self::reset`], if there is room for the word; nothing is said where there is none.
    pub(crate) fn reset_at_once(&mut self) {
        self.lane.cancel();
        self.end_at_once(Message::default(), StreamEnd::Reset);
    }

    /// Ends this direction with a last message if there is room for it; nothing is said where there is none. Nobody waits to hear
    /// what becomes of it.
    pub(crate) fn end_at_once(&mut self, last: Message, end: StreamEnd) {
        if !self.ended {
            drop(checked(last).map(|last| self.lane.try_queue(last, end)));
            self.ended = true;
        }
    }

    /// Whether [`Self::close`] or [`Self::reset`] has ended it.
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    async fn queue(&self, message: Message, end: StreamEnd) -> Result<Receipt, StreamSendError> {
        let message = checked(message)?;
        take_turns(message.weight()).await;
        let (receipt, at) = self.lane.queue(message, end).await?;
        self.lane.claim.shared.until_safe(at).await.map_err(|Closed| SendError::Closed)?;
        Ok(receipt)
    }
}

/// A message that may be one of a stream.
fn checked(message: Message) -> Result<Message, StreamSendError> {
    if message.has_tag() { Err(StreamSendError::Tagged) } else { Ok(message) }
}
