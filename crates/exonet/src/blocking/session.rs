//! Sessions for threads that block.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;

use super::runtime::Runtime;
use super::{Peer, Receipt};
use crate::error::Closed;
use crate::receive::AnswerError;
use crate::send::message::Message;
use crate::session::{self, SessionError, SessionEvent, SessionId, SessionMessage, SessionSendError};

/// One end of a session: see [`crate::Session`].
///
/// A program can also poll it: [`Self::try_send`], [`Self::try_recv`] and [`SessionEvents::try_next`] do not wait.
///
/// ```
/// use std::time::Duration;
/// use exonet::{Allow, Outcome, blocking, session::SessionEvent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let alice = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
/// let bob = blocking::Node::build(exonet::Node::builder(Allow::anyone()).bind("127.0.0.1:0"))?;
///
/// let mut order = alice.peer(bob.get_ref().peer_addr()).session("orders", |session| session)?;
/// let mut message = order.begin("")?;
/// message.write(b"two teas")?;
/// message.write(b" and a coffee")?;
/// let receipt = message.finish()?;
///
/// let mut served = bob.accept_session()?;
/// let mut events = served.events();
/// // Another thread may wait for what happens beside messages.
/// let watching = std::thread::spawn(move || {
///     while !matches!(events.next(), Ok(SessionEvent::Closing) | Err(_)) {}
/// });
/// let message = served.recv()?.ok_or("the client has closed")?;
/// assert_eq!(message.take()?, "two teas and a coffee");
/// assert_eq!(receipt.wait().outcome, Outcome::Delivered);
///
/// let closing = std::thread::spawn(move || order.close(Duration::from_secs(5)));
/// assert!(served.recv()?.is_none());
/// closing.join().unwrap()?;
/// watching.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct Session {
    session: crate::Session,
    runtime: Arc<Runtime>,
}

impl Session {
    pub(super) fn new(session: crate::Session, runtime: &Arc<Runtime>) -> Self {
        Self { session, runtime: Arc::clone(runtime) }
    }

    /// The async session, for its methods that only look at it, such as [`crate::Session::id`] and
    /// [`crate::Session::ended`].
    pub const fn get_ref(&self) -> &crate::Session {
        &self.session
    }

    /// The peer at the other end.
    pub fn peer(&self) -> Peer {
        Peer::new(self.session.peer().clone(), &self.runtime)
    }

    /// Sets the longest message that this end receives from now on, in bytes: see [`crate::Session::longest`].
    #[must_use]
    pub fn longest(self, bytes: usize) -> Self {
        Self { session: self.session.longest(bytes), runtime: self.runtime }
    }

    /// The events of the session.
    pub fn events(&self) -> SessionEvents {
        SessionEvents { events: self.session.events(), runtime: Arc::clone(&self.runtime) }
    }

    /// Waits for room, and sends a message: see [`session::SessionSender::send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.session.send(message))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Sends a message that fits into one part, if there is room, without waiting: see
    /// [`session::SessionSender::try_send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.session.try_send(message).map(|receipt| Receipt::new(receipt, &self.runtime))
    }

    /// Waits for room, and sends an object as JSON: see [`session::SessionSender::send_object`].
    ///
    /// # Errors
    /// The errors of that method.
    #[cfg(feature = "serde")]
    pub fn send_object<T: serde::Serialize + ?Sized + Sync>(
        &mut self,
        object: &T,
    ) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.session.both().0.send_object(object))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Begins a message that the caller writes in pieces: see [`session::SessionSender::begin`].
    ///
    /// # Errors
    /// The errors of that method; nothing has been queued.
    pub fn begin(&mut self, head: impl Into<Message>) -> Result<SessionWriter<'_>, SessionSendError> {
        let writer = self.session.both().0.begin(head)?;
        Ok(SessionWriter { writer, runtime: &self.runtime })
    }

    /// Acknowledges a message and sends another, in one step: see [`session::SessionSender::answer`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn answer(
        &mut self,
        taken: SessionMessage,
        answer: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<SessionSendError, SessionMessage>> {
        let receipt = self.runtime.wait(self.session.answer(taken, answer))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Waits for the next message, under a guard: see [`session::SessionReceiver::recv`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn recv(&mut self) -> Result<Option<SessionMessage>, SessionError> {
        self.runtime.wait(self.session.recv())
    }

    /// Waits for the next message, for `timeout` at most. None: no message came; `Some(None)`: the peer has closed
    /// the session.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Option<SessionMessage>>, SessionError> {
        self.runtime.wait_for(timeout, self.session.recv()).transpose()
    }

    /// Returns the next message, if it is there, without waiting: see [`session::SessionReceiver::try_recv`]. None: no
    /// message has come yet; `Some(None)`: the peer has closed the session.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn try_recv(&mut self) -> Result<Option<Option<SessionMessage>>, SessionError> {
        self.session.try_recv()
    }

    /// Splits the session into its two directions. If both are dropped before the session has ended, it is aborted.
    pub fn split(self) -> (SessionSender, SessionReceiver) {
        let (sender, receiver) = self.session.split();
        let runtime = Arc::clone(&self.runtime);
        (SessionSender { sender, runtime: self.runtime }, SessionReceiver { receiver, runtime })
    }

    /// Joins the two directions again: the inverse of [`Self::split`].
    ///
    /// # Errors
    /// Returns both unchanged if they do not belong to the same handle.
    #[allow(clippy::result_large_err)] // both halves come back, and this is rare
    pub fn unsplit(
        sender: SessionSender,
        receiver: SessionReceiver,
    ) -> Result<Self, (SessionSender, SessionReceiver)> {
        let (of_sender, of_receiver) = (sender.runtime, receiver.runtime);
        match crate::Session::unsplit(sender.sender, receiver.receiver) {
            Ok(session) => Ok(Self { session, runtime: of_sender }),
            Err((sender, receiver)) => Err((
                SessionSender { sender, runtime: of_sender },
                SessionReceiver { receiver, runtime: of_receiver },
            )),
        }
    }

    /// Ends the session, and waits for `timeout` at most until everything that was sent is settled: see
    /// [`crate::Session::close`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn close(self, timeout: Duration) -> Result<(), SessionError> {
        self.runtime.wait(self.session.close(timeout))
    }

    /// Ends the session now: see [`crate::Session::abort`].
    pub fn abort(self) {
        self.session.abort();
    }

    /// Refuses the session: see [`crate::Session::refuse`].
    pub fn refuse(self, reason: impl AsRef<str>) {
        self.session.refuse(reason);
    }

    /// Drops the handle, and leaves the session as it is: see [`crate::Session::detach`].
    pub fn detach(self) -> SessionId {
        self.session.detach()
    }
}

/// Sends in a session: see [`session::SessionSender`].
pub struct SessionSender {
    sender: session::SessionSender,
    runtime: Arc<Runtime>,
}

impl SessionSender {
    /// Waits for room, and sends a message: see [`session::SessionSender::send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.sender.send(message))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Sends a message that fits into one part, if there is room, without waiting: see
    /// [`session::SessionSender::try_send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.sender.try_send(message).map(|receipt| Receipt::new(receipt, &self.runtime))
    }

    /// Waits for room, and sends an object as JSON: see [`session::SessionSender::send_object`].
    ///
    /// # Errors
    /// The errors of that method.
    #[cfg(feature = "serde")]
    pub fn send_object<T: serde::Serialize + ?Sized + Sync>(
        &mut self,
        object: &T,
    ) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.sender.send_object(object))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Begins a message that the caller writes in pieces: see [`session::SessionSender::begin`].
    ///
    /// # Errors
    /// The errors of that method; nothing has been queued.
    pub fn begin(&mut self, head: impl Into<Message>) -> Result<SessionWriter<'_>, SessionSendError> {
        let writer = self.sender.begin(head)?;
        Ok(SessionWriter { writer, runtime: &self.runtime })
    }

    /// Acknowledges a message and sends another, in one step: see [`session::SessionSender::answer`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn answer(
        &mut self,
        taken: SessionMessage,
        answer: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<SessionSendError, SessionMessage>> {
        let receipt = self.runtime.wait(self.sender.answer(taken, answer))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Closes this direction: see [`session::SessionSender::close`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn close(&mut self) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.sender.close())?;
        Ok(Receipt::new(receipt, &self.runtime))
    }

    /// Ends the session for a reason, after everything that was sent: see [`session::SessionSender::refuse`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn refuse(&mut self, reason: impl AsRef<str>) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.sender.refuse(reason))?;
        Ok(Receipt::new(receipt, &self.runtime))
    }
}

/// A message of a session that is sent while the caller writes it: see [`session::SessionWriter`]. If the writer is
/// dropped before [`Self::finish`], the peer's application gets nothing of the message.
#[must_use = "a message is sent by `finish`"]
pub struct SessionWriter<'a> {
    writer: session::SessionWriter<'a>,
    runtime: &'a Arc<Runtime>,
}

impl SessionWriter<'_> {
    /// Adds bytes to the message, sends each part that is full, and waits for room as needed: see
    /// [`session::SessionWriter::write`].
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub fn write(&mut self, data: &[u8]) -> Result<(), SessionSendError> {
        self.runtime.wait(self.writer.write(data))
    }

    /// Sends the bytes that were written so far.
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub fn flush(&mut self) -> Result<(), SessionSendError> {
        self.runtime.wait(self.writer.flush())
    }

    /// Ends the message, and returns its receipt.
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub fn finish(self) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.writer.finish())?;
        Ok(Receipt::new(receipt, self.runtime))
    }
}

impl fmt::Debug for SessionWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionWriter").field(&self.writer).finish()
    }
}

/// Receives in a session: see [`session::SessionReceiver`].
pub struct SessionReceiver {
    receiver: session::SessionReceiver,
    runtime: Arc<Runtime>,
}

impl SessionReceiver {
    /// Waits for the next message, under a guard: see [`session::SessionReceiver::recv`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn recv(&mut self) -> Result<Option<SessionMessage>, SessionError> {
        self.runtime.wait(self.receiver.recv())
    }

    /// Waits for the next message, for `timeout` at most. None: no message came; `Some(None)`: the peer has closed
    /// the session.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Option<SessionMessage>>, SessionError> {
        self.runtime.wait_for(timeout, self.receiver.recv()).transpose()
    }

    /// Returns the next message, if it is there, without waiting: see [`session::SessionReceiver::try_recv`]. None: no
    /// message has come yet; `Some(None)`: the peer has closed the session.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn try_recv(&mut self) -> Result<Option<Option<SessionMessage>>, SessionError> {
        self.receiver.try_recv()
    }
}

/// The events of a session: see [`session::SessionEvents`].
///
/// An event that the peer sends is noticed only while the application receives in the session: while a thread waits in
/// [`SessionReceiver::recv`], or with each call of [`SessionReceiver::try_recv`].
pub struct SessionEvents {
    events: session::SessionEvents,
    runtime: Arc<Runtime>,
}

impl SessionEvents {
    /// The time since this node last heard from the peer; None if the peer is not away.
    pub fn away(&self) -> Option<Duration> {
        self.events.away()
    }

    /// Returns the next event, if there is one, without waiting.
    pub fn try_next(&mut self) -> Option<SessionEvent> {
        self.events.try_next()
    }

    /// Waits for the next event: see [`session::SessionEvents::next`].
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    #[allow(clippy::should_implement_trait)] // its error says why there are no more events
    pub fn next(&mut self) -> Result<SessionEvent, Closed> {
        self.runtime.wait(self.events.next())
    }

    /// Waits for the next event, for `timeout` at most. None: none came.
    ///
    /// # Errors
    /// The errors of [`Self::next`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<SessionEvent>, Closed> {
        self.runtime.wait_for(timeout, self.events.next()).transpose()
    }
}

/// Accepts the sessions of one name: see [`session::SessionListener`].
pub struct SessionListener {
    listener: session::SessionListener,
    runtime: Arc<Runtime>,
}

impl SessionListener {
    pub(super) fn new(listener: session::SessionListener, runtime: &Arc<Runtime>) -> Self {
        Self { listener, runtime: Arc::clone(runtime) }
    }

    /// The name of the sessions.
    pub const fn name(&self) -> &Bytes {
        self.listener.name()
    }

    /// Waits for the next session of this name.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub fn accept(&self) -> Result<Session, Closed> {
        self.runtime.wait(self.listener.accept()).map(|session| Session::new(session, &self.runtime))
    }
}

debugs!(
    Session.session,
    SessionSender.sender,
    SessionReceiver.receiver,
    SessionEvents.events,
    SessionListener.listener
);
