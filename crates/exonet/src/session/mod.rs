//! Sessions: conversations that outlive connections.
//!
//! A session is two-way and ordered, keeps the boundaries of messages of any size, and has a beginning and an end that both sides
//! know. It goes on through loss, silence, a change of address, and crashes of either process where both nodes keep a journal.
//! [`Peer::session`] opens one, [`Node::accept_session`] takes those that peers open. `docs/sessions.md` has the rules.
//!
//! ```
//! use std::time::Duration;
//! use exonet::{Allow, Confirm, Message, Node, Outcome};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//!
//! let mut chat = alice.peer(bob.peer_addr()).session("chat")?.open().await?;
//! let receipt = chat.send(Message::new("hello").confirm(Confirm::Processed)).await?;
//!
//! let mut served = bob.accept_session().await?;
//! assert_eq!(served.name(), "chat");
//! let message = served.recv().await?.ok_or("it has ended")?;
//! assert_eq!(message.body(), "hello");
//! message.ack_with(7)?;
//! served.send("hello yourself").await?;
//!
//! assert!(matches!(receipt.await.outcome, Outcome::Processed { status: 7, .. }));
//! assert_eq!(chat.recv().await?.ok_or("it has ended")?.take()?, "hello yourself");
//!
//! let (closed, left) = tokio::join!(chat.close(Duration::from_secs(5)), served.recv());
//! closed?;
//! assert!(left?.is_none());
//! # Ok(())
//! # }
//! ```

mod events;
mod listener;
mod message;
mod receiver;
mod sender;
mod state;
mod wire;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use exonet_proto::NodeId;

pub use events::{SessionEvent, SessionEvents};
pub use listener::SessionListener;
pub use message::SessionMessage;
pub use receiver::{SessionError, SessionReceiver};
pub use sender::{SessionSendError, SessionSender, SessionWriter};
pub use state::SessionEnd;

use crate::error::Closed;
use crate::node::Node;
use crate::peer::Peer;
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::stream::desk::SESSION;
use crate::stream::{OpenError, Stream};
use state::{Limits, State};
use wire::{Code, Said};

/// Longest name of a session, in bytes.
pub const MAX_NAME: usize = 200;

/// After how much silence a session ends, unless its client has said otherwise.
pub const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest message that a session receives, in bytes, unless the application has said otherwise.
pub const LONGEST: usize = 16 << 20;

/// Sessions that a node takes part in with one peer.
pub const PER_PEER: usize = 64;

/// Sessions that a node takes part in.
pub const PER_NODE: usize = 10_000;

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionOpenError {
    /// The name is empty, or has more than 200 bytes.
    #[error("the name of a session has 1 to 200 bytes, this has {0}")]
    Name(usize),
    /// This process has a handle on the session.
    #[error("a handle on this session is in use: drop or detach it first")]
    InUse,
    /// This process has a listener of the name.
    #[error("a listener of this name is in use: share it, or drop it first")]
    Listened,
    /// This node has as many sessions, with the peer or with all, as it takes.
    #[error("this node has {0} sessions open, which is its limit: close some first")]
    TooMany(usize),
    /// The system gives no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// The first message was not accepted.
    #[error(transparent)]
    Send(#[from] SessionSendError),
}

/// Which session, among all of a client with a server: for [`SessionBuilder::attach`], and for logs.
///
/// It is drawn by the client, and means something under the client's key alone: whoever guesses it with another key names another
/// session, which does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:016x}", self.0))
    }
}

/// A text is no id of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a session: 16 hexadecimal digits are wanted")]
pub struct ParseSessionIdError(String);

impl FromStr for SessionId {
    type Err = ParseSessionIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number =
            Some(text).filter(|text| text.len() == 16 && text.bytes().all(|c| c.is_ascii_hexdigit()));
        let number = number.and_then(|text| u64::from_str_radix(text, 16).ok());
        number.map(Self).ok_or_else(|| ParseSessionIdError(text.to_owned()))
    }
}

impl SessionId {
    /// A new one of a client. The lowest bit says which of the two nodes that is, so that both ends agree.
    fn draw(client: &NodeId, server: &NodeId) -> Result<Self, getrandom::Error> {
        let number = getrandom::u64()?;
        Ok(Self(number & !1 | u64::from(client > server)))
    }

    /// Whether the node `one` has begun the session with the `other`.
    fn is_of(self, one: &NodeId, other: &NodeId) -> bool {
        (self.0 & 1 == 1) == (one > other)
    }

    /// The name of the streams of this session.
    fn stream(self, name: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(9 + name.len());
        out.put_u8(SESSION);
        out.put_u64(self.0);
        out.put_slice(name);
        out.freeze()
    }

    /// Which session a stream carries, and its name. None: none has such a name.
    fn of_stream(stream: &Bytes) -> Option<(Self, Bytes)> {
        let (number, name) = stream.strip_prefix(&[SESSION])?.split_first_chunk::<8>()?;
        (1..=MAX_NAME)
            .contains(&name.len())
            .then(|| (Self(u64::from_be_bytes(*number)), stream.slice_ref(name)))
    }
}

/// A session to be: begun by [`Peer::session`], made by [`Self::open`] or [`Self::attach`].
#[derive(Clone, Debug)]
#[must_use = "a session is made by `open` or `attach`"]
pub struct SessionBuilder {
    peer: Peer,
    name: Bytes,
    limits: Limits,
    longest: usize,
}

impl Peer {
    /// Begins to build a session of this name with the peer, of 1 to 200 bytes. A short name is a good one: many messages bear it.
    ///
    /// # Errors
    /// [`SessionOpenError::Name`].
    pub fn session(&self, name: impl Into<Bytes>) -> Result<SessionBuilder, SessionOpenError> {
        let name = checked(name.into())?;
        let limits = Limits { idle: IDLE, life: Duration::ZERO };
        Ok(SessionBuilder { peer: self.clone(), name, limits, longest: LONGEST })
    }
}

/// A name that a session may have, copied.
fn checked(name: Bytes) -> Result<Bytes, SessionOpenError> {
    match name.len() {
        1..=MAX_NAME => Ok(Bytes::copy_from_slice(&name)),
        len => Err(SessionOpenError::Name(len)),
    }
}

impl SessionBuilder {
    /// After how much silence the session ends [`Expired`](SessionEnd::Expired): without a message either way. Zero: never. The
    /// default is 24 h.
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.limits.idle = idle;
        self
    }

    /// After how long in all the session ends [`Expired`](SessionEnd::Expired). Zero, the default: never. Each process that goes on
    /// with the session counts from its own beginning.
    pub const fn life(mut self, life: Duration) -> Self {
        self.limits.life = life;
        self
    }

    /// The longest message that this end receives, in bytes; a longer one is rejected. The default is 16 MiB.
    pub const fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Opens the session. It does not wait for the server: messages may follow at once, and go out with the opening. If the server
    /// does not take the session, they are rejected, and [`Session::recv`] says why.
    ///
    /// # Errors
    /// [`SessionOpenError`]; nothing has been sent.
    pub async fn open(self) -> Result<Session, SessionOpenError> {
        self.peer.shared().amend(|engine| limit(engine.streams.sessions(&self.peer.id())))?;
        let id =
            SessionId::draw(&self.peer.node().id(), &self.peer.id()).map_err(SessionOpenError::Random)?;
        let mut session = self.hold(id)?;
        let Limits { idle, life } = session.sender.state().limits();
        session.sender.say(&Said::Open { idle, life }).await?;
        Ok(session)
    }

    /// Takes a handle on a session that this node, in this process or in a former one of its identity, takes part in already. What
    /// came meanwhile waits.
    ///
    /// Nothing is sent, so that it is only seen later if the peer knows nothing of it: then it ends
    /// [`Forgotten`](SessionEnd::Forgotten).
    ///
    /// # Errors
    /// [`SessionOpenError::InUse`] and [`SessionOpenError::TooMany`].
    pub fn attach(self, id: SessionId) -> Result<Session, SessionOpenError> {
        self.peer.shared().amend(|engine| limit(engine.streams.sessions(&self.peer.id())))?;
        self.hold(id)
    }

    fn hold(self, id: SessionId) -> Result<Session, SessionOpenError> {
        let stream = self.peer.stream_named(id.stream(&self.name));
        let stream = stream.map_err(|_: OpenError| SessionOpenError::InUse)?;
        let session = Session::new(stream, id, self.name, self.limits);
        Ok(session.longest(self.longest))
    }
}

/// Whether one more session is taken beside so many with the peer, and with all.
const fn limit((with_peer, with_all): (usize, usize)) -> Result<(), SessionOpenError> {
    match (with_peer >= PER_PEER, with_all >= PER_NODE) {
        (true, _) => Err(SessionOpenError::TooMany(PER_PEER)),
        (_, true) => Err(SessionOpenError::TooMany(PER_NODE)),
        _ => Ok(()),
    }
}

impl Node {
    /// The next session that a peer opens, of a name that has no [listener](Self::session_listener); or one that this identity had
    /// accepted in a former process, and that goes on.
    ///
    /// Cancel-safe, and may be called by many tasks: each session goes to one.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub async fn accept_session(&self) -> Result<Session, Closed> {
        listener::accept(self, &crate::stream::desk::Entrance::Sessions).await
    }

    /// The sessions that this node has said something in and that have not ended, those of former processes of this identity
    /// included: with which peer, which session, and its name.
    pub fn sessions(&self) -> Vec<(NodeId, SessionId, Bytes)> {
        self.shared().look(|engine| {
            let peers = engine.core.peers();
            let streams = peers.iter().flat_map(|peer| {
                engine.core.begun_streams(peer).into_iter().map(move |stream| (*peer, stream))
            });
            let session = |(peer, stream)| SessionId::of_stream(&stream).map(|(id, name)| (peer, id, name));
            streams.filter_map(session).collect()
        })
    }

    /// Accepts the sessions of one name, of 1 to 200 bytes, from all peers: from now on they wait for this listener, and
    /// [`Self::accept_session`] does not give them. When the listener is dropped, it does again.
    ///
    /// # Errors
    /// [`SessionOpenError::Name`] and [`SessionOpenError::Listened`].
    pub fn session_listener(&self, name: impl Into<Bytes>) -> Result<SessionListener, SessionOpenError> {
        SessionListener::open(self.clone(), checked(name.into())?)
    }
}

/// One end of a session.
///
/// Dropped, it is [aborted](Self::abort), unless it has ended, or its node is closed first: then the next process of this identity
/// goes on with it, as after a crash. [`Self::detach`] keeps it for another handle.
#[derive(Debug)]
pub struct Session {
    sender: SessionSender,
    receiver: SessionReceiver,
}

impl Session {
    fn new(stream: Stream, id: SessionId, name: Bytes, limits: Limits) -> Self {
        let peer = stream.peer().clone();
        let state = State::new(peer, id, name, limits);
        let (sender, receiver) = stream.split();
        let sender = SessionSender::new(sender, state.clone());
        Self { sender, receiver: SessionReceiver::new(receiver, state) }
    }

    /// The longest message that this end receives from now on, in bytes; a longer one is rejected.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
        self.receiver.longest = bytes;
        self
    }

    fn state(&self) -> &State {
        self.sender.state()
    }

    /// Which session it is.
    pub fn id(&self) -> SessionId {
        self.state().id()
    }

    /// Its name.
    pub fn name(&self) -> &Bytes {
        self.state().name()
    }

    /// The peer at the other end.
    pub fn peer(&self) -> &Peer {
        self.state().peer()
    }

    /// Whether this end has opened it.
    pub fn is_client(&self) -> bool {
        let peer = self.peer();
        self.id().is_of(&peer.node().id(), &peer.id())
    }

    /// Whether this node has said something in it, in this process or in a former one whose journal it has.
    fn has_begun(&self) -> bool {
        let (peer, name) = (self.peer(), self.id().stream(self.name()));
        peer.shared().look(|engine| engine.core.has_begun_stream(&peer.id(), &name))
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<SessionEnd> {
        self.state().ended()
    }

    /// What happens to the session besides messages.
    pub fn events(&self) -> SessionEvents {
        SessionEvents::new(self.state().clone())
    }

    /// See [`SessionSender::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.sender.send(message).await
    }

    /// See [`SessionSender::try_send`].
    ///
    /// # Errors
    /// As there.
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.sender.try_send(message)
    }

    /// See [`SessionReceiver::recv`].
    ///
    /// # Errors
    /// As there.
    pub async fn recv(&mut self) -> Result<Option<SessionMessage>, SessionError> {
        self.receiver.recv().await
    }

    /// What is sent, and what is received.
    pub const fn both(&mut self) -> (&mut SessionSender, &mut SessionReceiver) {
        (&mut self.sender, &mut self.receiver)
    }

    /// The two directions by themselves. The session is aborted when both are dropped and it has not ended.
    pub fn split(self) -> (SessionSender, SessionReceiver) {
        (self.sender, self.receiver)
    }

    /// The two directions together again: the inverse of [`Self::split`].
    ///
    /// # Errors
    /// Both, as they are, if they are not of one split.
    #[allow(clippy::result_large_err)] // both halves come back, and this is rare
    pub fn unsplit(
        sender: SessionSender,
        receiver: SessionReceiver,
    ) -> Result<Self, (SessionSender, SessionReceiver)> {
        if sender.state().is_same(receiver.state()) {
            Ok(Self { sender, receiver })
        } else {
            Err((sender, receiver))
        }
    }

    /// Ends the session: nothing more is sent, and what was sent is waited for, for `timeout` at most. What the peer sends from
    /// now on is rejected. To go on receiving until the peer closes too, use [`SessionSender::close`].
    ///
    /// # Errors
    /// [`SessionError::Away`]: not all was settled in time; it goes on, if the node does. [`SessionError::Send`]: this end had closed
    /// the session before.
    pub async fn close(self, timeout: Duration) -> Result<(), SessionError> {
        let (mut sender, mut receiver) = self.split();
        let closed = tokio::time::timeout(timeout, async {
            let end = sender.close().await?;
            receiver.end_reading("the session is closed");
            end.await;
            Ok(())
        });
        let closed = closed.await.unwrap_or(Err(SessionError::Away));
        // Where there was no room to say it in time, there may be now.
        sender.bye_at_once(Code::Closed, "");
        receiver.end_reading("the session is closed");
        sender.state().let_go();
        closed
    }

    /// Ends the session now: what has not left is cancelled, what has left and is not settled goes on to its outcome, and what
    /// the peer sends is rejected. The peer's end is [`Aborted`](SessionEnd::Aborted).
    pub fn abort(self) {
        drop(self);
    }

    /// Refuses the session, and tells its client why. Called by the client itself, this is [`Self::abort`].
    pub fn refuse(self, reason: impl AsRef<str>) {
        if !self.is_client() {
            self.turn_away(Code::Refused, reason.as_ref());
        }
    }

    /// Wants nothing of the session, and says why.
    fn turn_away(mut self, code: Code, reason: &str) {
        self.sender.bye_at_once(code, reason);
        self.receiver.end_reading(reason);
    }

    /// Gives the handle up, and leaves the session as it is: for [`SessionBuilder::attach`], or for [`Node::accept_session`], which
    /// gives it again when the peer has something to say.
    pub fn detach(self) -> SessionId {
        self.state().let_go();
        self.id()
    }
}
