//! The sending direction of a session.

use bytes::{Bytes, BytesMut};
use exonet_proto::node::StreamEnd;

use super::SessionError;
use super::message::SessionMessage;
use super::state::{SessionEnd, State};
use super::wire::{Code, Said, TAIL_HEAD};
use crate::error::SendError;
use crate::receive::{AnswerError, NotAnswered};
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::stream::{MAX_STREAM_BODY, StreamSendError, StreamSender};

/// How many bytes of a message go into one part: what a message of a stream may have, less the longest head of a
/// part.
const PART: usize = MAX_STREAM_BODY - TAIL_HEAD;

/// Why the node does not accept a message of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionSendError {
    /// A reason that applies to any message.
    #[error(transparent)]
    Send(#[from] SendError),
    /// This end has closed the session.
    #[error("the session has been closed at this end")]
    Closing,
    /// The session has ended.
    #[error("the session has ended: {0}")]
    Ended(SessionEnd),
    /// The message has a tag. A message of a session cannot have one.
    #[error("a message of a session has no tag of its own")]
    Tagged,
    /// The object cannot be written as JSON; the value says why.
    #[error("the object cannot be written as JSON: {0}")]
    Object(String),
}

impl From<StreamSendError> for SessionSendError {
    fn from(error: StreamSendError) -> Self {
        match error {
            StreamSendError::Send(error) => Self::Send(error),
            StreamSendError::Ended => Self::Closing,
            StreamSendError::Tagged => Self::Tagged,
        }
    }
}

impl From<SessionSendError> for SessionError {
    fn from(error: SessionSendError) -> Self {
        match error {
            SessionSendError::Send(SendError::Closed) => Self::Closed,
            SessionSendError::Ended(end) => Self::Ended(end),
            error => Self::Send(error),
        }
    }
}

/// Sends the messages of this end in a session.
#[derive(Debug)]
pub struct SessionSender {
    stream: StreamSender,
    state: State,
    /// Whether the server has accepted the session and had no room yet to tell the client.
    owes: bool,
}

impl SessionSender {
    pub(super) const fn new(stream: StreamSender, state: State) -> Self {
        Self { stream, state, owes: false }
    }

    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Sends a message, after all that were sent before it in this session: waits for room in the queue to the peer,
    /// then queues the message. If a message is longer than a message of a stream may be, it is sent in parts, and
    /// its receipt is that of the last part. The peer's application gets the whole message, or nothing of it.
    ///
    /// [`Message::confirm`] works as usual. A [deadline](Message::deadline) applies to the last part. Cancel-safe
    /// like [`Peer::send`](crate::Peer::send): without the last part, the parts that were already queued have no
    /// effect.
    ///
    /// # Errors
    /// [`SessionSendError`]; the peer's application gets nothing of the message, except after [`SendError::InDoubt`]: then
    /// the next process of the identity may send it.
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        let last = self.all_but_last(message.into()).await?;
        Ok(self.stream.send(last).await?)
    }

    /// Acknowledges `taken`, and sends a message like [`Self::send`], in one step: see
    /// [`Delivery::answer`](crate::Delivery::answer). If the message is sent in parts, that step sends the last one.
    ///
    /// # Errors
    /// [`AnswerError`], which gives the message back if it can still be acknowledged. The peer's application gets nothing of the answer, unless the reason is
    /// [`NotAnswered::InDoubt`].
    pub async fn answer(
        &mut self,
        taken: SessionMessage,
        answer: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<SessionSendError, SessionMessage>> {
        let (taken, body) = taken.into_parts();
        let answered = match self.all_but_last(answer.into()).await {
            Ok(last) => self.stream.ack_and_send(taken, last).await.map_err(|error| error.map(Into::into)),
            Err(error) => Err(AnswerError::giving_back(taken, NotAnswered::Send(error))),
        };
        answered.map_err(|error| error.map_delivery(|delivery| SessionMessage::new(delivery, body)))
    }

    /// Sends all parts of a message except the last, and returns the last.
    async fn all_but_last(&mut self, message: Message) -> Result<Message, SessionSendError> {
        self.settle_debt().await?;
        let (mut rest, message) = message.split();
        let total = Some(rest.len() as u64);
        let mut first = true;
        while rest.len() > PART {
            let part = Said::Part { first, last: false, total: None, data: rest.split_to(PART) };
            drop(self.stream.send(Message::new(part.write())).await?);
            first = false;
        }
        let last = Said::Part { first, last: true, total, data: rest };
        Ok(message.with_body(last.write()))
    }

    /// Sends a message that fits into one part, if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room, [`SendError::TooLarge`] for a message that would need several parts,
    /// and the other errors of [`SessionSendError`].
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.check()?;
        let (body, message) = message.into().split();
        if body.len() > PART {
            let (size, limit) = (body.len() as u64, PART as u64);
            return Err(SendError::TooLarge { size, limit }.into());
        }
        self.pay()?;
        let whole = Said::Part { first: true, last: true, total: None, data: body };
        Ok(self.stream.try_send(message.with_body(whole.write()))?)
    }

    /// Sends an object as JSON.
    ///
    /// # Errors
    /// The errors of [`Self::send`], and [`SessionSendError::Object`].
    #[cfg(feature = "serde")]
    pub async fn send_object<T: serde::Serialize + ?Sized + Sync>(
        &mut self,
        object: &T,
    ) -> Result<Receipt, SessionSendError> {
        let json = serde_json::to_vec(object).map_err(|error| SessionSendError::Object(error.to_string()))?;
        self.send(json).await
    }

    /// Begins a message that the caller writes in pieces and ends with [`SessionWriter::finish`]. The body of `head`
    /// is ignored.
    ///
    /// # Errors
    /// The errors of [`Self::send`]; nothing has been queued.
    pub fn begin(&mut self, head: impl Into<Message>) -> Result<SessionWriter<'_>, SessionSendError> {
        self.check()?;
        let (_, head) = head.into().split();
        Ok(SessionWriter { sender: self, head, chunk: BytesMut::new(), total: 0, first: true })
    }

    /// Closes this direction: the peer's application sees the end, after everything that was sent. The receipt says
    /// when it has seen the end.
    ///
    /// # Errors
    /// The errors of [`Self::send`].
    pub async fn close(&mut self) -> Result<Receipt, SessionSendError> {
        let receipt = self.bye(Code::Closed, "").await?;
        self.state.close();
        Ok(receipt)
    }

    /// Ends the session for a reason, after everything that was sent: the peer's application receives that, and then
    /// [`SessionEnd::Refused`] with the first 200 bytes of the reason. At this end the session has ended at once. The
    /// receipt says when the peer's application has seen the end.
    ///
    /// # Errors
    /// The errors of [`Self::send`].
    pub async fn refuse(&mut self, reason: impl AsRef<str>) -> Result<Receipt, SessionSendError> {
        let receipt = self.bye(Code::Refused, reason.as_ref()).await?;
        self.state.end(SessionEnd::Refused(reason.as_ref().into()));
        Ok(receipt)
    }

    /// Tells the peer why this end sends nothing more, after everything that was sent.
    async fn bye(&mut self, code: Code, reason: &str) -> Result<Receipt, SessionSendError> {
        self.settle_debt().await?;
        let bye = Said::bye(code, reason);
        Ok(self.stream.close_with(Message::new(bye.write())).await?)
    }

    /// Sends something that is not a message of the application.
    pub(super) async fn say(&mut self, said: &Said) -> Result<Receipt, SessionSendError> {
        Ok(self.stream.send(Message::new(said.write())).await?)
    }

    /// Tells the client that the session is accepted, as soon as there is room.
    pub(super) fn owe_acceptance(&mut self) {
        self.owes = true;
        // If there is no room now, the acceptance is sent before the first message.
        let _ = self.pay();
    }

    fn pay(&mut self) -> Result<(), SessionSendError> {
        if self.owes {
            drop(self.stream.try_send(Message::new(Said::Accept.write()))?);
            self.owes = false;
        }
        Ok(())
    }

    async fn settle_debt(&mut self) -> Result<(), SessionSendError> {
        self.check()?;
        if self.owes {
            drop(self.say(&Said::Accept).await?);
            self.owes = false;
        }
        Ok(())
    }

    /// Whether this end may send.
    fn check(&self) -> Result<(), SessionSendError> {
        self.state.begin_to_say().map_err(SessionSendError::Ended)
    }

    /// If there is room, tells the peer why this end sends nothing more.
    pub(super) fn bye_at_once(&mut self, code: Code, reason: &str) {
        let bye = Said::bye(code, reason);
        self.stream.end_at_once(Message::new(bye.write()), StreamEnd::Last);
    }
}

impl Drop for SessionSender {
    fn drop(&mut self) {
        if self.stream.is_ended() || self.state.is_left() {
            return;
        }
        match self.state.ended() {
            None if self.state.is_closing() => self.bye_at_once(Code::Closed, ""),
            Some(SessionEnd::Expired) => {
                self.bye_at_once(Code::Expired, "it was silent, or has lasted, for as long as it may");
            }
            Some(SessionEnd::Forgotten) => self.bye_at_once(Code::Forgotten, "it is not known here"),
            _ => self.stream.reset_at_once(),
        }
    }
}

/// A message of a session that is sent while the caller writes it: see [`SessionSender::begin`]. If the writer is
/// dropped before [`Self::finish`], the peer's application gets nothing of the message.
#[derive(Debug)]
#[must_use = "a message is sent by `finish`"]
pub struct SessionWriter<'a> {
    sender: &'a mut SessionSender,
    head: Message,
    chunk: BytesMut,
    total: u64,
    first: bool,
}

impl SessionWriter<'_> {
    /// Adds bytes to the message, and sends each part that is full.
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub async fn write(&mut self, mut data: &[u8]) -> Result<(), SessionSendError> {
        while !data.is_empty() {
            if self.chunk.len() == PART {
                self.flush().await?;
            }
            let (now, later) = data.split_at(data.len().min(PART - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            data = later;
        }
        Ok(())
    }

    /// Sends the bytes that were written so far.
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub async fn flush(&mut self) -> Result<(), SessionSendError> {
        if !self.chunk.is_empty() {
            let data = self.chunk.split().freeze();
            let len = data.len() as u64;
            self.sender.settle_debt().await?;
            let part = Said::Part { first: self.first, last: false, total: None, data };
            drop(self.sender.stream.send(Message::new(part.write())).await?);
            (self.first, self.total) = (false, self.total + len);
        }
        Ok(())
    }

    /// Ends the message, and returns its receipt.
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub async fn finish(mut self) -> Result<Receipt, SessionSendError> {
        self.sender.settle_debt().await?;
        let data: Bytes = self.chunk.split().freeze();
        let total = Some(self.total + data.len() as u64);
        let last = Said::Part { first: self.first, last: true, total, data };
        let message = core::mem::take(&mut self.head).with_body(last.write());
        Ok(self.sender.stream.send(message).await?)
    }
}
