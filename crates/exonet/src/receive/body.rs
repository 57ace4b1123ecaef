//! The body of a received message, which is there as a whole or still arrives.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use exonet_proto::node::{BodyRead, DeliveryKey, IncomingBody, ReplyBody};
use tokio::io::{AsyncRead, ReadBuf};

use crate::dead::NotKept;
use crate::engine::Phase;
use crate::error::BodyError;
use crate::shared::Shared;

/// The body of a received message.
///
/// A small body is there as a whole. A large one ([`Self::is_stream`]) arrives while the application reads it, with
/// [`AsyncRead`], [`Self::chunk`] or [`Self::bytes`]. The application must not act on any part before it has read the
/// end without an error.
pub struct Body {
    len: Option<u64>,
    ready: Bytes,
    stream: Option<Box<Stream>>,
}

/// The rest of a body that still arrives.
struct Stream {
    shared: Arc<Shared>,
    key: DeliveryKey,
    whose: Whose,
    state: StreamState,
    /// Whether the application has read a part, which is no longer here.
    is_read: bool,
}

/// Who takes the message of a body, and what happens to the rest of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The message is taken when the application has read the end. If the body is dropped before, the message is
    /// handed out again.
    Reader,
    /// The [`crate::Delivery`] takes the message.
    Guard,
    /// The call or reply is taken when the application has read the end, or drops the body before. In the latter case
    /// the rest does not come.
    Call,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Coming,
    Ended,
    Failed(BodyError),
}

impl Body {
    #[inline]
    pub(crate) fn new(shared: &Arc<Shared>, key: DeliveryKey, body: IncomingBody, takes: bool) -> Self {
        match body {
            IncomingBody::Whole(ready) => Self { len: Some(ready.len() as u64), ready, stream: None },
            IncomingBody::Stream { len } => {
                Self::stream(shared, key, len, if takes { Whose::Reader } else { Whose::Guard })
            }
        }
    }

    /// The body of a call, or of the reply to one.
    pub(crate) fn of_call(shared: &Arc<Shared>, body: ReplyBody) -> Self {
        match body {
            ReplyBody::Whole(ready) => Self { len: Some(ready.len() as u64), ready, stream: None },
            ReplyBody::Stream { delivery, len } => Self::stream(shared, delivery, len, Whose::Call),
        }
    }

    #[cold]
    fn stream(shared: &Arc<Shared>, key: DeliveryKey, len: Option<u64>, whose: Whose) -> Self {
        let stream =
            Stream { shared: Arc::clone(shared), key, whose, state: StreamState::Coming, is_read: false };
        Self { len, ready: Bytes::new(), stream: Some(Box::new(stream)) }
    }

    /// Takes the body, and leaves an empty one.
    pub(crate) const fn take(&mut self) -> Self {
        core::mem::replace(self, Self { len: Some(0), ready: Bytes::new(), stream: None })
    }

    /// The length in bytes, including what the application has read. None: the sender did not announce it; then read
    /// to the end.
    pub const fn len(&self) -> Option<u64> {
        self.len
    }

    /// Whether the body is known to be empty.
    pub const fn is_empty(&self) -> bool {
        matches!(self.len, Some(0))
    }

    /// Whether the body arrives while the application reads it. Then the message is delivered once the application
    /// has read the end. If it drops the body before, the node hands the message out again later, and the body begins
    /// anew. If it drops the body of a [call](crate::call::Request) or a [reply](crate::call::Reply) before the end,
    /// the rest does not come.
    pub const fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// The unread part of a body that is there as a whole; None for a streamed body.
    pub const fn as_whole(&self) -> Option<&Bytes> {
        match &self.stream {
            None => Some(&self.ready),
            Some(_) => None,
        }
    }

    /// The whole body of a message that was handed out, for its dead letter, if all of the body is still here.
    pub(crate) fn left(&self, shared: &Shared, key: DeliveryKey) -> Result<Bytes, NotKept> {
        match &self.stream {
            // The node may still have the part that the application has read.
            None => shared
                .look(|engine| engine.core.handed_body(key))
                .or_else(|| Some(self.ready.clone()).filter(|ready| self.len == Some(ready.len() as u64)))
                .ok_or(NotKept::Incomplete),
            Some(stream) if stream.is_read => Err(NotKept::Read),
            Some(_) => shared.step_calmly(|engine, now| {
                let mut all = BytesMut::new();
                loop {
                    match engine.read(now, key, &mut None) {
                        BodyRead::Data(data) => all.extend_from_slice(&data),
                        BodyRead::End => return Ok(all.freeze()),
                        BodyRead::Pending | BodyRead::Aborted => return Err(NotKept::Incomplete),
                    }
                }
            }),
        }
    }

    /// Reads the whole body, or what the application has not read yet. The body may have `limit` bytes at most.
    ///
    /// # Errors
    /// [`BodyError`]. Later reads then fail too, except after a `TooLarge` by the announced length.
    pub async fn bytes(&mut self, limit: u64) -> Result<Bytes, BodyError> {
        if let Some(len) = self.len.filter(|len| *len > limit) {
            return Err(BodyError::TooLarge { len, limit });
        }
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        self.within(first.len(), limit)?;
        let Some(second) = self.chunk().await? else {
            return Ok(first);
        };
        let mut all =
            BytesMut::with_capacity(self.len.and_then(|len| usize::try_from(len).ok()).unwrap_or(0));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(chunk) = self.chunk().await? {
            self.within(all.len().saturating_add(chunk.len()), limit)?;
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// Checks a body of unknown length, of which `len` bytes have come. If that is too much, the body fails, since a
    /// part of it was read.
    fn within(&mut self, len: usize, limit: u64) -> Result<(), BodyError> {
        let len = len as u64;
        if len <= limit {
            return Ok(());
        }
        let error = BodyError::TooLarge { len, limit };
        if let Some(stream) = &mut self.stream {
            stream.let_go();
            stream.state = StreamState::Failed(error);
        }
        Err(error)
    }

    /// Returns the next bytes without copying them; None at the end. Cancel-safe.
    ///
    /// # Errors
    /// [`BodyError::NotDelivered`] or [`BodyError::Closed`]; every later call returns the same error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        core::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        if !self.ready.is_empty() {
            return Poll::Ready(Ok(Some(core::mem::take(&mut self.ready))));
        }
        match &mut self.stream {
            None => Poll::Ready(Ok(None)),
            Some(stream) => stream.poll_chunk(cx),
        }
    }
}

impl Stream {
    fn poll_chunk(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        match self.state {
            StreamState::Coming => {}
            StreamState::Ended => return Poll::Ready(Ok(None)),
            StreamState::Failed(error) => return Poll::Ready(Err(error)),
        }
        let (key, takes) = (self.key, self.whose != Whose::Guard);
        // Cloned without the lock, since the waker is code of the application.
        let mut waker = Some(cx.waker().clone());
        let read = self.shared.step_calmly(|engine, now| {
            if engine.phase >= Phase::Stopped {
                return Err(BodyError::Closed);
            }
            match engine.read(now, key, &mut waker) {
                BodyRead::Aborted => Err(BodyError::NotDelivered),
                BodyRead::End if takes && !engine.taken(now, key) => Err(BodyError::NotDelivered),
                read => Ok(read),
            }
        });
        match read {
            Ok(BodyRead::Data(data)) => {
                self.is_read = true;
                Poll::Ready(Ok(Some(data)))
            }
            Ok(BodyRead::Pending) => Poll::Pending,
            Ok(BodyRead::End | BodyRead::Aborted) => {
                self.state = StreamState::Ended;
                Poll::Ready(Ok(None))
            }
            Err(error) => {
                self.state = StreamState::Failed(error);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl Stream {
    /// Gives up the part that was not read.
    fn let_go(&self) {
        if self.whose == Whose::Guard || self.state != StreamState::Coming {
            return;
        }
        let waker = self.shared.step_calmly(|engine, now| match self.whose {
            Whose::Call => engine.cut(now, self.key),
            _ => engine.release(now, self.key),
        });
        drop(waker);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl AsyncRead for Body {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let body = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if body.ready.is_empty() {
            match body.poll_chunk(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(Some(chunk))) => body.ready = chunk,
            }
        }
        let some = body.ready.split_to(body.ready.len().min(buf.remaining()));
        buf.put_slice(some.chunk());
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("len", &self.len)
            .field("stream", &self.is_stream())
            .finish_non_exhaustive()
    }
}
