//! A stream as bytes.

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

/// Bytes that go in one message, at most: large enough that a message costs little, and small enough that a stream moves on
/// while its window is small.
const PART: usize = 16 << 10;

/// Of a reader that has found nothing.
pub(super) type Waiting = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Of a writer that waits for room: the sender comes back.
type Sending = Pin<Box<dyn Future<Output = (StreamSender, Result<Receipt, StreamSendError>)> + Send + Sync>>;

/// A stream that is read and written as bytes, as a TCP connection is: any protocol over one runs over it. Made by
/// [`Stream::into_bytes`] at both ends.
///
/// * What is written leaves at once. A flush waits until all of it is in the peer's queue.
/// * A shutdown ends this direction behind all that was written; the other goes on. The reader gets the end of file by that only.
/// * A handle that is dropped without a shutdown resets its direction: the reader gets [`io::ErrorKind::ConnectionReset`], as it does
///   where bytes are missing, or where the process at the other end has begun anew.
/// * A reader that does not read holds back this stream only.
///
/// Bytes are taken as they are read: those that a process has read and not acted on when it dies are lost to it. An application
/// that has to act on each exactly once uses messages, and [`StreamReceiver::recv`].
pub struct ByteStream {
    peer: Peer,
    /// None while it is with `sending`.
    sender: Option<StreamSender>,
    receiver: StreamReceiver,
    unread: Bytes,
    waiting: Option<Waiting>,
    sending: Option<Sending>,
    /// Of what was written last.
    last: Option<Receipt>,
    /// Nothing more can be read.
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

    /// What became of the last bytes that were written, once that is known: if it is
    /// [`Outcome::Delivered`](crate::Outcome::Delivered), the reader has them, and all before them. None: nothing was written since
    /// this was last asked.
    pub async fn settled(&mut self) -> Option<Settled> {
        let last = self.last.take()?;
        Some(last.await)
    }

    /// Waits until what was written last is queued.
    fn poll_queued(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(sending) = &mut self.sending {
            let (sender, sent) = ready!(sending.as_mut().poll(cx));
            (self.sender, self.sending) = (Some(sender), None);
            self.last = Some(sent.map_err(failed)?);
        }
        Poll::Ready(Ok(()))
    }

    /// Gives the sender to what takes it, and brings it back.
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
                    // One whose record has died meanwhile was not delivered: it comes again.
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
