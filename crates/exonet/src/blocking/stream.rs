//! Streams for threads that block.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

use super::runtime::Runtime;
use super::{BatchReceipt, Delivery, Peer, Receipt, Received};
use crate::Priority;
use crate::error::{BatchError, Closed};
use crate::receive::{AnswerError, Batch};
use crate::send::message::Message;
use crate::stream::{self, StreamError, StreamSendError};

/// Both directions of a stream: see [`crate::Stream`].
pub struct Stream {
    stream: crate::Stream,
    runtime: Arc<Runtime>,
}

impl Stream {
    pub(super) fn new(stream: crate::Stream, runtime: &Arc<Runtime>) -> Self {
        Self { stream, runtime: Arc::clone(runtime) }
    }

    /// The async stream, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::Stream {
        &self.stream
    }

    /// The peer at the other end.
    pub fn peer(&self) -> Peer {
        Peer::new(self.stream.peer().clone(), &self.runtime)
    }

    /// The name of the stream.
    pub fn name(&self) -> &Bytes {
        self.stream.name()
    }

    /// Splits the stream into its two directions. When both are dropped, a new handle on the name can be made.
    pub fn split(self) -> (StreamSender, StreamReceiver) {
        let (sender, receiver) = self.stream.split();
        let runtime = Arc::clone(&self.runtime);
        (StreamSender { sender, runtime: self.runtime }, StreamReceiver { receiver, runtime })
    }

    /// The stream as bytes: see [`crate::Stream::into_bytes`].
    pub fn into_bytes(self) -> (ByteReader, ByteWriter) {
        let (reader, writer) = tokio::io::split(self.stream.into_bytes());
        let runtime = Arc::clone(&self.runtime);
        (ByteReader { reader, runtime: self.runtime }, ByteWriter { writer, runtime })
    }
}

/// Sends in a stream: see [`stream::StreamSender`].
pub struct StreamSender {
    sender: stream::StreamSender,
    runtime: Arc<Runtime>,
}

impl StreamSender {
    /// The async sender, for its methods that do not wait.
    pub const fn get_ref(&self) -> &stream::StreamSender {
        &self.sender
    }

    /// The priority of the messages of this stream: see [`stream::StreamSender::priority`].
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        Self { sender: self.sender.priority(priority), runtime: self.runtime }
    }

    /// Waits for room in the peer's queue, and sends a message. It follows all that were sent before it in this
    /// stream.
    ///
    /// # Errors
    /// [`StreamSendError`]; nothing has been queued.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, StreamSendError> {
        let receipt = self.runtime.wait(self.sender.send(message))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Sends several messages in this order, and waits for room in the peer's queue as needed: see
    /// [`stream::StreamSender::send_batch`].
    ///
    /// # Errors
    /// [`BatchError`]: the error of the first message that was not queued, and the receipt of those before it.
    pub fn send_batch<M: Into<Message>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<BatchReceipt, BatchError<StreamSendError>> {
        let sent = self.runtime.wait(self.sender.send_batch(messages))?;
        Ok(BatchReceipt::new(sent, &self.runtime))
    }

    /// Acknowledges a message and sends another in this stream, in one step: see [`stream::StreamSender::ack_and_send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn ack_and_send(
        &mut self,
        taken: Delivery,
        message: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<StreamSendError, Delivery>> {
        let answered = self.runtime.wait(self.sender.ack_and_send(taken.into_inner(), message));
        Delivery::answered(answered, &self.runtime)
    }

    /// Sends a message if there is room, without waiting.
    ///
    /// # Errors
    /// The errors of [`stream::StreamSender::try_send`].
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, StreamSendError> {
        self.sender.try_send(message).map(|receipt| Receipt::new(receipt, &self.runtime))
    }

    /// Ends this direction, after everything that was sent in it: see [`stream::StreamSender::close`].
    ///
    /// # Errors
    /// [`StreamSendError`].
    pub fn close(&mut self) -> Result<Receipt, StreamSendError> {
        let receipt = self.runtime.wait(self.sender.close())?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Gives up the messages that have not left, and ends this direction: see [`stream::StreamSender::reset`].
    ///
    /// # Errors
    /// [`StreamSendError`].
    pub fn reset(&mut self) -> Result<Receipt, StreamSendError> {
        let receipt = self.runtime.wait(self.sender.reset())?;
        Ok(Receipt::new(receipt, &self.runtime))
    }
}

/// Receives the messages of the peer in a stream, in order: see [`stream::StreamReceiver`].
pub struct StreamReceiver {
    receiver: stream::StreamReceiver,
    runtime: Arc<Runtime>,
}

impl StreamReceiver {
    pub(super) fn new(receiver: stream::StreamReceiver, runtime: &Arc<Runtime>) -> Self {
        Self { receiver, runtime: Arc::clone(runtime) }
    }

    /// The async receiver, for its methods that do not wait.
    pub const fn get_ref(&self) -> &stream::StreamReceiver {
        &self.receiver
    }

    /// Waits for the next message, under a guard. None: the stream has ended, and every message was received.
    ///
    /// # Errors
    /// The errors of [`stream::StreamReceiver::recv`].
    pub fn recv(&mut self) -> Result<Option<Delivery>, StreamError> {
        let next = self.runtime.wait(self.receiver.recv())?;
        Ok(next.map(|delivery| Delivery::new(delivery, &self.runtime)))
    }

    /// Waits for the next message, for `timeout` at most. None: no message came; `Some(None)`: the stream has ended.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Option<Delivery>>, StreamError> {
        let next = self.runtime.wait_for(timeout, self.receiver.recv()).transpose()?;
        Ok(next.map(|next| next.map(|delivery| Delivery::new(delivery, &self.runtime))))
    }

    /// Waits for the next message without a guard: see [`stream::StreamReceiver::recv_at_most_once`].
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_at_most_once(&mut self) -> Result<Option<Received>, StreamError> {
        let next = self.runtime.wait(self.receiver.recv_at_most_once())?;
        Ok(next.map(|received| Received::new(received, &self.runtime)))
    }

    /// Waits for a message, then takes up to `most` messages that are there: see
    /// [`stream::StreamReceiver::recv_batch`].
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_batch(&mut self, most: usize) -> Result<Option<Batch>, StreamError> {
        self.runtime.wait(self.receiver.recv_batch(most))
    }

    /// Stops reading: see [`stream::StreamReceiver::stop`].
    pub fn stop(self, reason: impl AsRef<str>) {
        self.receiver.stop(reason);
    }
}

/// Accepts the streams of one name: see [`stream::StreamListener`]. It is an iterator that waits for each stream, and
/// ends when the node is closed.
pub struct StreamListener {
    listener: stream::StreamListener,
    runtime: Arc<Runtime>,
}

impl StreamListener {
    pub(super) fn new(listener: stream::StreamListener, runtime: &Arc<Runtime>) -> Self {
        Self { listener, runtime: Arc::clone(runtime) }
    }

    /// The async listener, for its methods that do not wait.
    pub const fn get_ref(&self) -> &stream::StreamListener {
        &self.listener
    }

    /// Waits for the next stream of this name.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub fn accept(&self) -> Result<Stream, Closed> {
        self.runtime.wait(self.listener.accept()).map(|stream| Stream::new(stream, &self.runtime))
    }
}

impl Iterator for StreamListener {
    type Item = Stream;

    fn next(&mut self) -> Option<Stream> {
        self.accept().ok()
    }
}

/// Reads the bytes of a stream. Another thread may use its [`ByteWriter`].
pub struct ByteReader {
    reader: ReadHalf<stream::ByteStream>,
    runtime: Arc<Runtime>,
}

impl Read for ByteReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.runtime.wait(self.reader.read(buf))
    }
}

/// Writes the bytes of a stream. If the application drops it and its [`ByteReader`] before [`Self::shutdown`], this
/// direction ends with a reset.
pub struct ByteWriter {
    writer: WriteHalf<stream::ByteStream>,
    runtime: Arc<Runtime>,
}

impl ByteWriter {
    /// Ends this direction, after everything that was written: the reader gets the end of file.
    ///
    /// # Errors
    /// The errors of a write.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.runtime.wait(self.writer.shutdown())
    }
}

impl Write for ByteWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.runtime.wait(self.writer.write(buf))
    }

    /// Waits until everything that was written is in the peer's queue.
    fn flush(&mut self) -> io::Result<()> {
        self.runtime.wait(self.writer.flush())
    }
}

debugs!(
    Stream.stream,
    StreamSender.sender,
    StreamReceiver.receiver,
    StreamListener.listener,
    ByteReader.reader,
    ByteWriter.writer
);
