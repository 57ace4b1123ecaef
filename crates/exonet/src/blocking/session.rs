//! Sessions for threads that block.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;

use super::runtime::Runtime;
use super::{Peer, Receipt};
use crate::error::Closed;
use crate::receive::AnswerError;
use crate::send::message::Message;
use crate::session::{self, SessionError, SessionId, SessionMessage, SessionSendError};

/// One end of a session: see [`crate::Session`].
pub struct Session {
    session: crate::Session,
    runtime: Arc<Runtime>,
}

impl Session {
    pub(super) fn new(session: crate::Session, runtime: &Arc<Runtime>) -> Self {
        Self { session, runtime: Arc::clone(runtime) }
    }

    /// The async session, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::Session {
        &self.session
    }

    /// The peer at the other end.
    pub fn peer(&self) -> Peer {
        Peer::new(self.session.peer().clone(), &self.runtime)
    }

    /// Waits for room, and sends a message: see [`session::SessionSender::send`].
    ///
    /// # Errors
    /// The errors of that method.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        let receipt = self.runtime.wait(self.session.send(message))?;
        Ok(Receipt::new(receipt, &self.runtime))
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

    /// Splits the session into its two directions.
    pub fn split(self) -> (SessionSender, SessionReceiver) {
        let (sender, receiver) = self.session.split();
        let runtime = Arc::clone(&self.runtime);
        (SessionSender { sender, runtime: self.runtime }, SessionReceiver { receiver, runtime })
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

debugs!(Session.session, SessionSender.sender, SessionReceiver.receiver, SessionListener.listener);
