//! A peer to which blocking threads send messages.

use core::future::IntoFuture;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;

use super::runtime::Runtime;
use super::{BatchReceipt, MessageSink, Permit, Receipt, Receiver, Reply, Session, Stream};
use crate::error::{BatchError, CallError, PingError, SendError, SendFromError};
use crate::send::OpenMessage;
use crate::send::message::Message;
use crate::session::{SessionBuilder, SessionId, SessionOpenError};
use crate::stream::OpenError;

/// A peer of a [`crate::blocking::Node`]: see [`crate::Peer`].
#[derive(Clone)]
pub struct Peer {
    peer: crate::Peer,
    runtime: Arc<Runtime>,
}

impl Peer {
    pub(super) fn new(peer: crate::Peer, runtime: &Arc<Runtime>) -> Self {
        Self { peer, runtime: Arc::clone(runtime) }
    }

    /// The async peer, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::Peer {
        &self.peer
    }

    /// Waits for room in the peer's queue, and sends a message: see [`crate::Peer::send`].
    ///
    /// # Errors
    /// [`SendError`]; nothing has been queued.
    pub fn send(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        let receipt = self.runtime.wait(self.peer.send(message))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Sends a message if there is room, without waiting: see [`crate::Peer::try_send`].
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room, and the other errors of [`SendError`].
    pub fn try_send(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.peer.try_send(message).map(|receipt| Receipt::new(receipt, &self.runtime))
    }

    /// Sends several messages, and waits for room in the peer's queue as needed: see [`crate::Peer::send_batch`].
    ///
    /// # Errors
    /// [`BatchError`]: the error of the first message that was not sent, and the receipt of those before it.
    pub fn send_batch<M: Into<Message>>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<BatchReceipt, BatchError> {
        let sent = self.runtime.wait(self.peer.send_batch(messages))?;
        Ok(BatchReceipt::new(sent, &self.runtime))
    }

    /// Sends several messages that have a body and nothing else, and waits for room in the peer's queue as needed.
    /// This method borrows the bodies: see [`crate::Peer::send_bodies`].
    ///
    /// # Errors
    /// The errors of [`Self::send_batch`].
    pub fn send_bodies<B: AsRef<[u8]>>(
        &self,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<BatchReceipt, BatchError> {
        let sent = self.runtime.wait(self.peer.send_bodies(bodies))?;
        Ok(BatchReceipt::new(sent, &self.runtime))
    }

    /// Collects messages and sends them together: see [`crate::Peer::sink`].
    pub fn sink(&self) -> MessageSink {
        MessageSink::new(self.peer.sink(), &self.runtime)
    }

    /// Waits for a place in the peer's queue: see [`crate::Peer::reserve`].
    ///
    /// # Errors
    /// [`SendError`].
    pub fn reserve(&self) -> Result<Permit, SendError> {
        self.runtime.wait(self.peer.reserve()).map(|permit| Permit::new(permit, &self.runtime))
    }

    /// A handle on the stream of this name with the peer: see [`crate::Peer::stream`].
    ///
    /// # Errors
    /// The errors of [`crate::Peer::stream`].
    pub fn stream(&self, name: impl Into<Bytes>) -> Result<Stream, OpenError> {
        self.peer.stream(name).map(|stream| Stream::new(stream, &self.runtime))
    }

    /// Opens a session with the peer: see [`crate::Peer::session`]. `build` sets its options, for example `|session|
    /// session.idle(HOUR)`.
    ///
    /// # Errors
    /// [`SessionOpenError`].
    pub fn session(
        &self,
        name: impl Into<Bytes>,
        build: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> Result<Session, SessionOpenError> {
        let session = self.runtime.wait(build(self.peer.session(name)?).open())?;
        Ok(Session::new(session, &self.runtime))
    }

    /// Continues a session: see [`SessionBuilder::attach`].
    ///
    /// # Errors
    /// [`SessionOpenError`].
    pub fn attach(&self, name: impl Into<Bytes>, id: SessionId) -> Result<Session, SessionOpenError> {
        self.peer.session(name)?.attach(id).map(|session| Session::new(session, &self.runtime))
    }

    /// Sends a message of `len` bytes whose body this method reads from `reader`; if `len` is None, it reads
    /// everything. See [`crate::Peer::send_from`].
    ///
    /// # Errors
    /// [`SendFromError`]; the node has withdrawn the message.
    pub fn send_from(
        &self,
        head: impl Into<Message>,
        len: impl Into<Option<u64>>,
        mut reader: impl std::io::Read,
    ) -> Result<Receipt, SendFromError> {
        const CHUNK: u64 = 64 << 10;
        let len = len.into();
        let (receipt, mut writer) = self.runtime.wait(self.peer.send_stream(head, len))?;
        let mut chunk = Vec::new();
        while writer.remaining() != Some(0) {
            chunk.clear();
            let most = writer.remaining().unwrap_or(CHUNK).min(CHUNK);
            let read = std::io::Read::read_to_end(&mut std::io::Read::take(&mut reader, most), &mut chunk);
            match (read.map_err(SendFromError::Read)?, writer.remaining().zip(len)) {
                (0, Some((left, len))) => return Err(SendFromError::Short { read: len - left, len }),
                (0, None) => break,
                _ => {}
            }
            // If the message is settled before the end of its body, that is no error: its receipt has the outcome.
            match self.runtime.wait(writer.write_chunk(Bytes::copy_from_slice(&chunk))) {
                Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                    return Err(SendFromError::TooLarge(error));
                }
                Err(_) => break,
                Ok(()) => {}
            }
        }
        let _ = writer.finish();
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Calls a method of the peer, and waits for the reply: see [`crate::Peer::call`]. If `deadline` is None, it
    /// waits without a limit.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(
        &self,
        method: impl Into<Bytes>,
        body: impl Into<Bytes>,
        deadline: Option<Duration>,
    ) -> Result<Reply, CallError> {
        let call = self.peer.call(method, body);
        let call = deadline.into_iter().fold(call, crate::call::Call::deadline);
        self.runtime.wait(call.into_future()).map(|reply| Reply::new(reply, &self.runtime))
    }

    /// Calls a method whose request, reply and error are typed, and waits for the reply: see
    /// [`crate::Peer::call_typed`]. If `deadline` is None, it waits without a limit.
    ///
    /// ```
    /// # use exonet::{Allow, blocking, error::TypedError};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alice = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
    /// # let bob = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
    /// let _serving = bob.serve_typed("half", |n: u32| if n % 2 == 0 { Ok(n / 2) } else { Err("odd") })?;
    ///
    /// let to_bob = alice.peer(bob.get_ref().peer_addr());
    /// assert_eq!(to_bob.call_typed::<_, u32, String>("half", &42, None)?, 21);
    /// let odd = to_bob.call_typed::<_, u32, String>("half", &43, None);
    /// assert!(matches!(odd, Err(TypedError::Application(why)) if why == "odd"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TypedError`](crate::error::TypedError).
    #[cfg(feature = "serde")]
    pub fn call_typed<Req, Resp, E>(
        &self,
        method: impl Into<Bytes>,
        request: &Req,
        deadline: Option<Duration>,
    ) -> Result<Resp, crate::error::TypedError<E>>
    where
        Req: serde::Serialize + ?Sized,
        Resp: serde::de::DeserializeOwned + 'static,
        E: serde::de::DeserializeOwned + 'static,
    {
        let call = self.peer.call_typed(method, request);
        let call = deadline.into_iter().fold(call, crate::call::TypedCall::deadline);
        self.runtime.wait(call.into_future())
    }

    /// Receives the messages of this peer: see [`crate::Peer::receiver`].
    pub fn receiver(&self) -> Receiver {
        Receiver::new(self.peer.receiver(), &self.runtime)
    }

    /// Waits until every message sent to the peer is settled, for `timeout` at most, and then gives up the rest: see
    /// [`crate::Peer::close`].
    pub fn close(&self, timeout: Duration) -> Vec<OpenMessage> {
        self.runtime.wait(self.peer.close(timeout))
    }

    /// Measures the round-trip time to the peer, for `timeout` at most: see [`crate::Peer::ping`].
    ///
    /// # Errors
    /// [`PingError`].
    pub fn ping(&self, timeout: Duration) -> Result<Option<Duration>, PingError> {
        self.runtime.wait(self.peer.ping(timeout))
    }
}

debugs!(Peer.peer);
