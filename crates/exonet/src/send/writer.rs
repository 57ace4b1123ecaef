//! The body of a message that the application writes in pieces.

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

/// The body of a message that the node sends while the application writes it, with [`AsyncWrite`] or
/// [`Self::write_chunk`].
///
/// The application must write exactly the announced number of bytes. If it announced none, [`Self::finish`] or
/// [`AsyncWrite::poll_shutdown`] ends the body. If the writer is dropped before the end, the node withdraws the
/// message: it ends Cancelled if nothing of it has left, and Unknown otherwise. A part of a message is never
/// delivered.
#[must_use = "a body that is dropped before its end withdraws the message"]
pub struct BodyWriter {
    shared: Arc<Shared>,
    key: MessageKey,
    /// The number of bytes that are still to be written. None: the length was not announced.
    left: Option<u64>,
    gone: bool,
}

/// How many bytes one call of [`AsyncWrite::poll_write`] copies at most.
const COPY: usize = 64 << 10;

impl BodyWriter {
    pub(crate) fn new(shared: Arc<Shared>, key: MessageKey, len: Option<u64>) -> Self {
        Self { shared, key, left: len, gone: false }
    }

    /// The number of bytes that are still to be written. None: the length was not announced.
    pub const fn remaining(&self) -> Option<u64> {
        self.left
    }

    /// Ends the body.
    ///
    /// # Errors
    /// `UnexpectedEof`: bytes of the announced body are missing, and the node has withdrawn the message.
    /// `BrokenPipe`: the message is already settled; its receipt has the outcome.
    pub fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if self.gone {
            return Err(gone());
        }
        match self.left {
            None => {
                self.gone = !self.shared.step(|engine, now| engine.end_body(now, self.key));
                self.left = Some(0);
                if self.gone { Err(gone()) } else { Ok(()) }
            }
            Some(0) => Ok(()),
            Some(left) => {
                let message = format!("{left} bytes of the announced body are missing");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
            }
        }
    }

    /// Writes all of `chunk` without copying it. Not cancel-safe: if the caller drops the future early, a part of
    /// `chunk` may be written; [`Self::remaining`] then says how much is still missing.
    ///
    /// # Errors
    /// `InvalidInput`: `chunk` is longer than the rest of the body; nothing has been written. `FileTooLarge`: the
    /// length was not announced, and the body is longer than a message may be. `BrokenPipe`: the message is already
    /// settled; its receipt has the outcome.
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> io::Result<()> {
        self.check(chunk.len())?;
        while !chunk.is_empty() {
            core::future::poll_fn(|cx| self.poll_bytes(cx, &mut chunk)).await?;
        }
        Ok(())
    }

    /// Writes the rest of the body from `reader`, and ends it. It is no error if the message is settled meanwhile:
    /// its receipt has the outcome.
    pub(crate) async fn copy(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> Result<(), SendFromError> {
        const CHUNK: u64 = 256 << 10;
        let len = self.left;
        let mut buffer = BytesMut::new();
        while self.left != Some(0) {
            let most = self.left.unwrap_or(CHUNK).min(CHUNK);
            buffer.reserve(usize::try_from(most).unwrap_or(usize::MAX));
            let read = (&mut *reader).take(most).read_buf(&mut buffer).await.map_err(SendFromError::Read)?;
            match (read, self.left.zip(len)) {
                (0, Some((left, len))) => return Err(SendFromError::Short { read: len - left, len }),
                (0, None) => break,
                _ => {}
            }
            match self.write_chunk(buffer.split().freeze()).await {
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return Err(SendFromError::TooLarge(error));
                }
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
        }
        // It is no error if the message was settled meanwhile: its receipt has the outcome.
        let _ = self.end();
        Ok(())
    }

    fn check(&self, len: usize) -> io::Result<()> {
        if let Some(left) = self.left.filter(|left| len as u64 > *left) {
            let message = format!("{len} bytes are more than the {left} left of the announced body");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }

    fn poll_bytes(&mut self, cx: &Context<'_>, data: &mut Bytes) -> Poll<io::Result<usize>> {
        let key = self.key;
        // Cloned without the lock, since the waker is code of the application.
        let waker = cx.waker().clone();
        let write = self.shared.step(|engine, now| engine.write(now, key, data, waker));
        match write {
            BodyWrite::Taken(0) => Poll::Pending,
            BodyWrite::Taken(taken) => {
                self.left = self.left.map(|left| left.saturating_sub(taken as u64));
                Poll::Ready(Ok(taken))
            }
            BodyWrite::TooLarge { limit } => {
                let message = format!("the body is longer than a message may be, {limit} bytes");
                Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, message)))
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
        // While the body is full, this avoids a useless copy.
        let key = writer.key;
        if writer.shared.look(|engine| engine.is_blocked(key, cx.waker())) {
            return Poll::Pending;
        }
        let left = writer.left.and_then(|left| usize::try_from(left).ok());
        let most = left.unwrap_or(COPY).min(COPY).min(buf.len());
        let mut data = Bytes::copy_from_slice(buf.get(..most).unwrap_or(buf));
        writer.poll_bytes(cx, &mut data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // There is no buffer to flush.
        Poll::Ready(if self.gone { Err(gone()) } else { Ok(()) })
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().end())
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        let (key, short) = (self.key, self.left != Some(0) && !self.gone);
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
