//! A node whose methods block.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;

use super::runtime::Runtime;
use super::{
    AtMostOnce, Delivery, Group, Outcomes, Peer, Receiver, Request, Session, SessionListener, Stream,
    StreamListener,
};
use crate::Builder;
#[cfg(feature = "serde")]
use crate::call::typed;
use crate::call::{Answer, Failure, ReplyStatus, Serving};
use crate::error::{BuildError, Closed, GroupError, ServeError};
use crate::group::GroupBuilder;
use crate::peer_addr::PeerAddr;
use crate::receive::Filter;
use crate::send::OpenMessage;
use crate::session::SessionOpenError;
use crate::stream::OpenError;

/// A node whose methods block: see [`crate::Node`]. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    node: crate::Node,
    runtime: Arc<Runtime>,
}

impl Node {
    /// Makes the node, and the thread that runs it.
    ///
    /// # Errors
    /// The errors of [`Builder::build`], and [`BuildError::Runtime`].
    pub fn build(builder: Builder) -> Result<Self, BuildError> {
        let runtime = Runtime::start()?;
        let node = runtime.wait(builder.build())?;
        Ok(Self { node, runtime })
    }

    /// The async node, for its methods that do not wait.
    pub const fn get_ref(&self) -> &crate::Node {
        &self.node
    }

    /// A handle on a peer: see [`crate::Node::peer`].
    pub fn peer(&self, to: impl Into<PeerAddr>) -> Peer {
        Peer::new(self.node.peer(to), &self.runtime)
    }

    /// Makes a group from a builder. [`crate::Node::group`] of [`Self::get_ref`] gives the builder.
    ///
    /// # Errors
    /// The errors of [`GroupBuilder::build`].
    pub fn group(&self, builder: GroupBuilder) -> Result<Group, GroupError> {
        builder.build().map(|group| Group::new(group, &self.runtime))
    }

    /// Waits for the next message, under a guard.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed and no message waits.
    pub fn recv(&self) -> Result<Delivery, Closed> {
        self.runtime.wait(self.node.recv()).map(|delivery| self.guard(delivery))
    }

    /// Waits for the next message, for `timeout` at most. None: no message came.
    ///
    /// # Errors
    /// The errors of [`Self::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Delivery>, Closed> {
        let next = self.runtime.wait_for(timeout, self.node.recv());
        next.transpose().map(|delivery| delivery.map(|delivery| self.guard(delivery)))
    }

    /// Receives the messages that `filter` selects, from now on: see [`crate::Node::receiver`].
    pub fn receiver(&self, filter: Filter) -> Receiver {
        Receiver::new(self.node.receiver(filter), &self.runtime)
    }

    /// Waits until a peer begins a stream: see [`crate::Node::accept_stream`].
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub fn accept_stream(&self) -> Result<Stream, Closed> {
        self.runtime.wait(self.node.accept_stream()).map(|stream| Stream::new(stream, &self.runtime))
    }

    /// Accepts the streams of one name: see [`crate::Node::stream_listener`].
    ///
    /// # Errors
    /// The errors of [`crate::Node::stream_listener`].
    pub fn stream_listener(&self, name: impl Into<Bytes>) -> Result<StreamListener, OpenError> {
        self.node.stream_listener(name).map(|listener| StreamListener::new(listener, &self.runtime))
    }

    /// Waits until a peer opens a session: see [`crate::Node::accept_session`].
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub fn accept_session(&self) -> Result<Session, Closed> {
        self.runtime.wait(self.node.accept_session()).map(|session| Session::new(session, &self.runtime))
    }

    /// Accepts the sessions of one name: see [`crate::Node::session_listener`].
    ///
    /// # Errors
    /// The errors of [`crate::Node::session_listener`].
    pub fn session_listener(&self, name: impl Into<Bytes>) -> Result<SessionListener, SessionOpenError> {
        self.node.session_listener(name).map(|listener| SessionListener::new(listener, &self.runtime))
    }

    /// The outcomes of all messages that this node sends: see [`crate::Node::outcomes`].
    pub fn outcomes(&self) -> Outcomes {
        Outcomes::new(self.node.outcomes(), &self.runtime)
    }

    /// Receives messages without a guard: see [`crate::Node::at_most_once`].
    pub fn at_most_once(&self) -> AtMostOnce {
        AtMostOnce::new(self.node.at_most_once(), &self.runtime)
    }

    fn guard(&self, delivery: crate::Delivery) -> Delivery {
        Delivery::new(delivery, &self.runtime)
    }

    /// Serves a method with a function. A thread that may block runs the function for each call: see
    /// [`crate::Node::serve`].
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn serve<A: Answer>(
        &self,
        method: impl Into<Bytes>,
        handler: impl Fn(Request) -> A + Send + Sync + 'static,
    ) -> Result<Serving, ServeError> {
        let (handler, runtime) = (Arc::new(handler), self.runtime.handle.clone());
        let _context = self.runtime.handle.enter();
        let serve = move |request: crate::call::Request| {
            let (handler, runtime) = (Arc::clone(&handler), runtime.clone());
            async move {
                let answer = move || handler(Request::new(request, runtime)).answer();
                let ran = tokio::task::spawn_blocking(answer).await;
                ran.unwrap_or_else(|_| Err(Failure::from(ReplyStatus::PANICKED)))
            }
        };
        self.node.serve(method, serve).start()
    }

    /// Serves a method with a function of typed requests, replies and errors. A thread that may block runs the
    /// function for each call: see [`crate::Node::serve_typed`].
    ///
    /// # Errors
    /// [`ServeError`].
    #[cfg(feature = "serde")]
    pub fn serve_typed<Req, Resp, E>(
        &self,
        method: impl Into<Bytes>,
        handler: impl Fn(Req) -> Result<Resp, E> + Send + Sync + 'static,
    ) -> Result<Serving, ServeError>
    where
        Req: serde::de::DeserializeOwned,
        Resp: serde::Serialize,
        E: serde::Serialize,
    {
        self.serve(method, move |mut request: Request| {
            typed::answer(&request.bytes(typed::LONGEST)?, &handler)
        })
    }

    /// Waits until every message sent so far is settled, for `timeout` at most: see [`crate::Node::flush`].
    pub fn flush(&self, timeout: Option<Duration>) -> Vec<OpenMessage> {
        self.runtime.wait(self.node.flush(timeout))
    }

    /// Waits until the journal keeps every message accepted so far: see [`crate::Node::journaled`].
    ///
    /// # Errors
    /// [`Closed`] if the node ended before.
    pub fn journaled(&self) -> Result<(), Closed> {
        self.runtime.wait(self.node.journaled())
    }

    /// Ends the node: see [`crate::Node::close`].
    pub fn close(&self, timeout: Duration) -> Vec<OpenMessage> {
        self.runtime.wait(self.node.close(timeout))
    }
}

debugs!(Node.node);
