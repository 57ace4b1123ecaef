//! A stream that is read and written as bytes.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use bytes::Bytes;
use exonet_proto::node::Outcome;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::lane::Lane;
use super::{Stream, StreamError, StreamReceiver, StreamSendError, StreamSender};
use crate::error::SendError;
use crate::peer::Peer;
use crate::send::receipt::Receipt;
use crate::send::receipts::Settled;

/// How many bytes go into one message: enough that the cost of a message does not matter, and few enough that a
/// stream makes progress while its window is small.
const PART: usize = 16 << 10;

/// The future of a reader that waits for bytes.
pub(super) type Waiting = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The future of a writer that waits for room. It returns the sender.
type Sending = Pin<Box<dyn Future<Output = (StreamSender, Result<Receipt, StreamSendError>)> + Send + Sync>>;

/// A stream that is read and written as bytes, like a TCP connection: any protocol for TCP can use it.
/// [`Stream::into_bytes`] makes it, at both ends.
///
/// * Bytes leave as soon as they are written. A flush waits until all of them are in the queue to the peer.
/// * A shutdown ends this direction, after everything that was written; the other direction goes on. The reader gets
///   the end of file only after a shutdown.
/// * If a handle is dropped without a shutdown, its direction is reset, and the reader gets
///   [`io::ErrorKind::ConnectionReset`]. The reader also gets this error if bytes are missing, or the process at the
///   other end has been started again.
/// * If a handle is dropped before it has read the end, it stops reading: the node rejects the rest, and a later write at
///   the other end fails with [`io::ErrorKind::BrokenPipe`].
/// * If an application does not read a stream, only this stream stands still.
///
/// Reading bytes takes them: if a process dies before it has acted on bytes that it has read, they are lost. An
/// application that must act on each exactly once uses messages and [`StreamReceiver::recv`].
pub struct ByteStream {
    peer: Peer,
    /// None while `sending` has it.
    sender: Option<StreamSender>,
    receiver: StreamReceiver,
    unread: Bytes,
    waiting: Option<Waiting>,
    sending: Option<Sending>,
    /// The lane of the sender, to end this direction while `sending` has the sender.
    lane: Lane,
    /// The receipt of the bytes that were written last.
    last: Option<Receipt>,
    /// The receipt of an earlier write. The next write looks at its outcome.
    watched: Option<Receipt>,
    /// Why the other end takes nothing more.
    stopped: Option<&'static str>,
    /// Whether there is nothing more to read.
    over: bool,
}

impl ByteStream {
    pub(super) fn new(stream: Stream) -> Self {
        let peer = stream.peer().clone();
        let (sender, receiver) = stream.split();
        Self {
            peer,
            lane: sender.lane().clone(),
            sender: Some(sender),
            receiver,
            unread: Bytes::new(),
            waiting: None,
            sending: None,
            last: None,
            watched: None,
            stopped: None,
            over: false,
        }
    }

    /// The peer at the other end.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The name of the stream.
    pub fn name(&self) -> &Bytes {
        self.receiver.name()
    }

    /// Waits for the outcome of the bytes that were written last. [`Outcome::Delivered`](crate::Outcome::Delivered)
    /// means that the reader has these bytes and all bytes before them. None: nothing was written since the last
    /// call.
    pub async fn settled(&mut self) -> Option<Settled> {
        let settled = self.last.take()?.await;
        self.note(settled.outcome);
        Some(settled)
    }

    /// Waits until the bytes that were written last are queued.
    fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(sending) = &mut self.sending {
            let (sender, sent) = ready!(sending.as_mut().poll(cx));
            (self.sender, self.sending) = (Some(sender), None);
            self.has_queued(sent.map_err(failed)?);
        }
        Poll::Ready(Ok(()))
    }

    fn has_queued(&mut self, receipt: Receipt) {
        let before = self.last.replace(receipt);
        self.watched = self.watched.take().or(before);
    }

    /// Notes the outcome of bytes that were written.
    fn note(&mut self, outcome: Outcome) {
        self.stopped = self.stopped.or(match outcome {
            Outcome::Rejected { .. } => Some("the reader has stopped"),
            Outcome::Refused(_) => Some("the peer takes no messages from this node"),
            _ => None,
        });
    }

    /// Fails if the other end does not take what was written. This looks at one receipt for each write, so a writer that never
    /// waits for outcomes also gets the error.
    fn look_at_reader(&mut self) -> io::Result<()> {
        let receipt = self.watched.as_ref().or(self.last.as_ref());
        if let Some(settled) = receipt.and_then(Receipt::settled) {
            self.watched = None;
            self.note(settled.outcome);
        }
        self.stopped.map_or(Ok(()), |why| Err(io::Error::new(io::ErrorKind::BrokenPipe, why)))
    }

    /// Starts a send, which takes the sender and returns it.
    fn begin<F, S>(&mut self, send: F) -> io::Result<()>
    where
        F: FnOnce(StreamSender) -> S,
        S: Future<Output = (StreamSender, Result<Receipt, StreamSendError>)> + Send + Sync + 'static,
    {
        let sender = self.sender.take().ok_or(io::ErrorKind::BrokenPipe)?;
        self.sending = Some(Box::pin(send(sender)));
        Ok(())
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.unread.is_empty() && !this.over {
            match ready!(this.receiver.poll_recv(cx, &mut this.waiting)) {
                Ok(None) => this.over = true,
                Ok(Some(delivery)) => {
                    // If the record of the message is gone, the message was not delivered, and is handed out again.
                    if let Ok(received) = delivery.take() {
                        this.unread = received.body.as_whole().cloned().unwrap_or_default();
                    }
                }
                Err(error) => return Poll::Ready(Err(broken(error))),
            }
        }
        let len = this.unread.len().min(buf.remaining());
        buf.put_slice(&this.unread.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_queued(cx))?;
        this.look_at_reader()?;
        let len = data.len().min(PART);
        let Some(part) = data.get(..len).filter(|part| !part.is_empty()) else { return Poll::Ready(Ok(0)) };
        let part = Bytes::copy_from_slice(part);
        let sender = this.sender.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        match sender.try_send(part.clone()) {
            Ok(receipt) => this.has_queued(receipt),
            Err(StreamSendError::Send(SendError::Full | SendError::NoAddress(_))) => {
                this.begin(|sender| async move {
                    let mut sender = sender;
                    let sent = sender.send(part).await;
                    (sender, sent)
                })?;
            }
            Err(error) => return Poll::Ready(Err(failed(error))),
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_queued(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_queued(cx))?;
        if this.sender.as_ref().is_some_and(|sender| !sender.is_ended()) {
            this.begin(|sender| async move {
                let mut sender = sender;
                let sent = sender.close().await;
                (sender, sent)
            })?;
        }
        this.poll_queued(cx)
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        self.receiver.stop_at_once("the reader has gone");
        // Cancels a write that still waits for room.
        self.sending = None;
        if !self.lane.is_ended() {
            self.lane.reset_at_once();
        }
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteStream").field("peer", &self.peer.id()).field("name", self.name()).finish()
    }
}

fn failed(error: StreamSendError) -> io::Error {
    let kind = match error {
        StreamSendError::Ended | StreamSendError::Send(SendError::Closed) => io::ErrorKind::BrokenPipe,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

fn broken(error: StreamError) -> io::Error {
    let kind = match error {
        StreamError::Closed => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::ConnectionReset,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests {
    use exonet_proto::node::Priority;
    use exonet_proto::{Mono, NodeId};

    use super::*;
    use crate::{Allow, Message, Node};

    #[tokio::test]
    async fn the_priority_of_a_stream_is_that_of_its_messages() {
        let node = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await.unwrap();
        let stream = node.peer(NodeId([2; 32])).stream("urgent").unwrap().priority(Priority::Urgent);
        let of = |lane: &Lane| {
            lane.named(Message::new("x").priority(Priority::Bulk)).into_outgoing(Mono(0)).priority
        };
        assert_eq!(of(stream.sender.lane()), Priority::Urgent);
        assert_eq!(of(&stream.into_bytes().lane), Priority::Urgent);
    }
}
