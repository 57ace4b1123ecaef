//! Streams: messages in order.

use std::mem::MaybeUninit;
use std::sync::Arc;

use exo::Message;
use exo::stream::{OpenError, Stream, StreamError, StreamReceiver, StreamSendError, StreamSender};
use tokio::sync::{Mutex, MutexGuard};

use crate::border::{Out, border, free, given, look};
use crate::delivery::exonet_delivery;
use crate::fault::{Fault, exonet_code, exonet_error};
use crate::node::{Inner, exonet_node};
use crate::options::exonet_send_options;
use crate::raw::{self, exonet_bytes, exonet_str};
use crate::receipt::{exonet_receipt, hand_out};
use crate::text::Text;

/// A stream with a peer: messages in order, in both directions. Freeing it ends neither direction.
pub struct exonet_stream {
    inner: Arc<Inner>,
    sender: Mutex<StreamSender>,
    receiver: Mutex<StreamReceiver>,
    peer: Text,
    name: Text,
}

impl exonet_stream {
    fn new(inner: &Arc<Inner>, stream: Stream) -> Self {
        let peer = Text::new(stream.peer().id());
        let name = Text::new(String::from_utf8_lossy(stream.name()));
        let (sender, receiver) = stream.split();
        let (sender, receiver) = (Mutex::new(sender), Mutex::new(receiver));
        Self { inner: Arc::clone(inner), sender, receiver, peer, name }
    }

    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// The sending direction, when no other thread uses it.
    pub(crate) async fn sender(&self) -> MutexGuard<'_, StreamSender> {
        self.sender.lock().await
    }

    async fn next(&self) -> Result<exonet_delivery, Fault> {
        let delivery = self.receiver.lock().await.recv().await?;
        let mut delivery = delivery.ok_or_else(|| {
            Fault::new(exonet_code::EXONET_STREAM_ENDED, "the stream has ended, and all of it was received")
        })?;
        let whole = delivery.body().as_whole().cloned();
        let body = match whole {
            Some(body) => body,
            None => delivery.body_mut().bytes(u64::MAX).await?,
        };
        Ok(exonet_delivery::new(delivery, body))
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        Self::usage(error)
    }
}

impl From<StreamSendError> for Fault {
    fn from(error: StreamSendError) -> Self {
        match error {
            StreamSendError::Send(error) => Self::from(error),
            error => Self::new(exonet_code::EXONET_NOT_SENT, error),
        }
    }
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Self {
        let code = match error {
            StreamError::Missing(_) | StreamError::Continues(_) => exonet_code::EXONET_STREAM_GAP,
            StreamError::Closed => return Self::closed(),
            _ => exonet_code::EXONET_STREAM_BROKEN,
        };
        Self::new(code, error)
    }
}

/// A stream with a peer, under a name of 1 to 255 bytes. Nothing is sent yet. There can be one handle for a peer and a
/// name at a time.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_open(
    node: Option<&exonet_node>,
    peer: exonet_str,
    name: exonet_str,
    stream: Option<&mut MaybeUninit<*mut exonet_stream>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(stream, "stream")?;
        let inner = given(node, "node")?.inner();
        let name = name.copy("name")?;
        place.give(exonet_stream::new(inner, inner.peer(&peer)?.stream(name)?));
        Ok(())
    })
}

/// Waits for a stream that a peer has begun, for `timeout_ms` at most.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_accept(
    node: Option<&exonet_node>,
    timeout_ms: i64,
    stream: Option<&mut MaybeUninit<*mut exonet_stream>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(stream, "stream")?;
        let inner = given(node, "node")?.inner();
        let accepted = inner.wait(timeout_ms, inner.core().node.accept_stream())?;
        place.give(exonet_stream::new(inner, accepted.map_err(|_| Fault::closed())?));
        Ok(())
    })
}

/// The node at the other end.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_peer(stream: Option<&exonet_stream>) -> exonet_str {
    look(exonet_str::empty(), || Some(stream?.peer.lend()))
}

/// The name of the stream.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_name(stream: Option<&exonet_stream>) -> exonet_str {
    look(exonet_str::empty(), || Some(stream?.name.lend()))
}

/// Sends a message after all earlier ones of this stream, like exonet_send. It has no tag, and `options->priority`
/// does not apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn exonet_stream_send(
    stream: Option<&exonet_stream>,
    body: exonet_bytes,
    options: *const exonet_send_options,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let stream = given(stream, "stream")?;
        // SAFETY: the caller gives NULL, or options with their size.
        let options: exonet_send_options = unsafe { raw::options(options, "options") }?;
        let message: Message = options.message(&body, stream.inner.journal())?;
        let sent = stream.inner.block_on(async {
            let mut sender = stream.sender.lock().await;
            if options.no_wait() { sender.try_send(message) } else { sender.send(message).await }
        })?;
        hand_out(&stream.inner, &mut place, sent, options.token());
        Ok(())
    })
}

/// Ends this direction after all messages that were sent in it. The receipt, which may be NULL, tells when the peer's
/// application has received the end.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_close(
    stream: Option<&exonet_stream>,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let stream = given(stream, "stream")?;
        let sent = stream.inner.block_on(async { stream.sender.lock().await.close().await })?;
        hand_out(&stream.inner, &mut place, sent, None);
        Ok(())
    })
}

/// Ends this direction, and cancels the messages that have not left. After those that have left, exonet_stream_recv of
/// the peer returns EXONET_STREAM_BROKEN. The receipt, which may be NULL, tells when the peer's application has
/// received the end. It waits for a send of another thread in this stream, and for room.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_reset(
    stream: Option<&exonet_stream>,
    receipt: Option<&mut MaybeUninit<*mut exonet_receipt>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::optional(receipt);
        let stream = given(stream, "stream")?;
        let sent = stream.inner.block_on(async { stream.sender.lock().await.reset().await })?;
        hand_out(&stream.inner, &mut place, sent, None);
        Ok(())
    })
}

/// Waits for the next message of the stream, for `timeout_ms` at most. A message is handed out when the one before it
/// has been acknowledged, rejected or put off. EXONET_STREAM_ENDED: all was received. EXONET_STREAM_GAP: the message
/// of the error says what is missing; the next call continues after it. EXONET_STREAM_BROKEN: there is no more.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_recv(
    stream: Option<&exonet_stream>,
    timeout_ms: i64,
    delivery: Option<&mut MaybeUninit<*mut exonet_delivery>>,
    error: Option<&mut MaybeUninit<*mut exonet_error>>,
) -> exonet_code {
    border(error, || {
        let mut place = Out::handle(delivery, "delivery")?;
        let stream = given(stream, "stream")?;
        place.give(stream.inner.wait(timeout_ms, stream.next())??);
        Ok(())
    })
}

/// Frees a stream. It ends neither direction: another handle continues at the same place.
#[unsafe(no_mangle)]
pub extern "C" fn exonet_stream_free(stream: Option<Box<exonet_stream>>) {
    free(stream);
}
