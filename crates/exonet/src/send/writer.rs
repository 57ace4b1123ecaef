//! The body of a message that is written as it goes.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use exonet_proto::node::{BodyWrite, MessageKey};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::error::SendFromError;
use crate::shared::Shared;

/// The body of a message that is sent as it is written, by [`AsyncWrite`] or [`Self::write_chunk`].
///
/// Exactly the announced number of bytes must be written. Dropped before, it withdraws the message: Cancelled if nothing
/// of it has left, Unknown otherwise, and never delivered in part.
#[must_use = "a body that is dropped before its end withdraws the message"]
pub struct BodyWriter {
    shared: Arc<Shared>,
    key: MessageKey,
    left: u64,
    gone: bool,
}

/// The most that one call of [`AsyncWrite::poll_write`] copies.
const COPY: usize = 64 << 10;

impl BodyWriter {
    pub(crate) fn new(shared: Arc<Shared>, key: MessageKey, len: u64) -> Self {
        Self { shared, key, left: len, gone: false }
    }

    /// Bytes still to be written.
    pub const fn remaining(&self) -> u64 {
        self.left
    }

    /// Writes all of `chunk` without copying it. Not cancel-safe: dropped early, a part may be written;
    /// [`Self::remaining`] tells how much.
    ///
    /// # Errors
    /// `InvalidInput`: longer than what is left; nothing has been written. `BrokenPipe`: the message is
    /// settled already, as its receipt tells.
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> io::Result<()> {
        self.check(chunk.len())?;
        while !chunk.is_empty() {
            core::future::poll_fn(|cx| self.poll_bytes(cx, &mut chunk)).await?;
        }
        Ok(())
    }

    /// Writes all that is left, from `reader`. A message that is settled meanwhile is no error: its receipt tells.
    pub(crate) async fn copy(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> Result<(), SendFromError> {
        const CHUNK: u64 = 256 << 10;
        let len = self.left;
        let mut buffer = BytesMut::new();
        while self.left > 0 {
            let most = usize::try_from(self.left.min(CHUNK)).unwrap_or(usize::MAX);
            buffer.reserve(most);
            let read =
                (&mut *reader).take(most as u64).read_buf(&mut buffer).await.map_err(SendFromError::Read)?;
            if read == 0 {
                return Err(SendFromError::Short { read: len - self.left, len });
            }
            if self.write_chunk(buffer.split().freeze()).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn check(&self, len: usize) -> io::Result<()> {
        if len as u64 > self.left {
            let message = format!("{len} bytes are more than the {} left of the announced body", self.left);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }

    fn poll_bytes(&mut self, cx: &Context<'_>, data: &mut Bytes) -> Poll<io::Result<usize>> {
        let key = self.key;
        // Cloned without the lock: that is the application's code.
        let waker = cx.waker().clone();
        let write = self.shared.step(|engine, now| engine.write(now, key, data, waker));
        match write {
            BodyWrite::Taken(0) => Poll::Pending,
            BodyWrite::Taken(taken) => {
                self.left = self.left.saturating_sub(taken as u64);
                Poll::Ready(Ok(taken))
            }
            BodyWrite::Gone => {
                self.gone = true;
                Poll::Ready(Err(gone()))
            }
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the message is settled already: see its receipt")
}

impl AsyncWrite for BodyWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let writer = self.get_mut();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        writer.check(buf.len().min(1))?;
        // While it is full, look before copying in vain.
        let key = writer.key;
        if writer.shared.look(|engine| engine.is_blocked(key, cx.waker())) {
            return Poll::Pending;
        }
        let most = usize::try_from(writer.left).unwrap_or(COPY).min(COPY).min(buf.len());
        let mut data = Bytes::copy_from_slice(buf.get(..most).unwrap_or(buf));
        writer.poll_bytes(cx, &mut data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back here.
        Poll::Ready(if self.gone { Err(gone()) } else { Ok(()) })
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let writer = self.get_mut();
        if writer.gone {
            return Poll::Ready(Err(gone()));
        }
        if writer.left > 0 {
            let message = format!("{} bytes of the announced body are missing", writer.left);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, message)));
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        let (key, short) = (self.key, self.left > 0 && !self.gone);
        let waker = self.shared.step(|engine, now| {
            if short {
                engine.withdraw(now, key);
            }
            engine.leave_writable(key)
        });
        drop(waker);
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter").field("remaining", &self.left).finish_non_exhaustive()
    }
}
