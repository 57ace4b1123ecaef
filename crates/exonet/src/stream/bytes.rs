//! A stream that is read and written as bytes.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
    /// The receipt of the bytes that were written last.
    last: Option<Receipt>,
    /// Whether there is nothing more to read.
    over: bool,
}

impl ByteStream {
    pub(super) fn new(stream: Stream) -> Self {
        let peer = stream.peer().clone();
        let (sender, receiver) = stream.split();
        Self {
            peer,
            sender: Some(sender),
            receiver,
            unread: Bytes::new(),
            waiting: None,
            sending: None,
            last: None,
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
        let last = self.last.take()?;
        Some(last.await)
    }

    /// Waits until the bytes that were written last are queued.
    fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(sending) = &mut self.sending {
            let (sender, sent) = ready!(sending.as_mut().poll(cx));
            (self.sender, self.sending) = (Some(sender), None);
            self.last = Some(sent.map_err(failed)?);
        }
        Poll::Ready(Ok(()))
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
        let len = data.len().min(PART);
        let Some(part) = data.get(..len).filter(|part| !part.is_empty()) else { return Poll::Ready(Ok(0)) };
        let part = Bytes::copy_from_slice(part);
        let sender = this.sender.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        match sender.try_send(part.clone()) {
            Ok(receipt) => this.last = Some(receipt),
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
        if let Some(sender) = self.sender.as_mut().filter(|sender| !sender.is_ended()) {
            sender.reset_at_once();
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
