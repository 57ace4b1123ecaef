//! Sessions: conversations that outlive connections.
//!
//! A session has two directions. It keeps messages of any size in order, and has a beginning and an end that both
//! sides know. It continues after loss, silence and a change of address; if both nodes keep a journal, it also
//! continues after either process has crashed. [`Peer::session`] opens a session, and [`Node::accept_session`] accepts
//! those that peers open. `docs/sessions.md` has the rules.
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
use crate::receive::AnswerError;
use crate::send::message::Message;
use crate::send::receipt::Receipt;
use crate::stream::desk::SESSION;
use crate::stream::{OpenError, Stream};
use state::{Limits, State};
use wire::{Code, Said};

/// The longest name of a session, in bytes.
pub const MAX_NAME: usize = 200;

/// The silence after which a session ends, unless its client sets another.
pub const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest message in bytes that a session receives, unless the application sets another.
pub const LONGEST: usize = 16 << 20;

/// How many sessions a node may have with one peer.
pub const PER_PEER: usize = 64;

/// How many sessions a node may have with all peers together.
pub const PER_NODE: usize = 10_000;

/// Why a session cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionOpenError {
    /// The name is empty, or has more than 200 bytes; the value is its length in bytes.
    #[error("the name of a session has 1 to 200 bytes, this has {0}")]
    Name(usize),
    /// This process already has a handle on the session.
    #[error("a handle on this session is in use: drop or detach it first")]
    InUse,
    /// This process already has a listener for the name.
    #[error("a listener of this name is in use: share it, or drop it first")]
    Listened,
    /// This node has reached its limit of sessions, with the peer or with all peers; the value is that limit.
    #[error("this node has {0} sessions open, which is its limit: close some first")]
    TooMany(usize),
    /// The system gave no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// The node did not accept the first message of the session.
    #[error(transparent)]
    Send(#[from] SessionSendError),
}

/// Identifies a session among all sessions of a client with a server. Use it for [`SessionBuilder::attach`], and in
/// logs.
///
/// The client chooses it at random. It is valid only together with the client's key: a node with another key that
/// guesses it gets a session of its own, which does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:016x}", self.0))
    }
}

/// The text is not the id of a session.
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
    /// Chooses an id for a new session of a client at random. The lowest bit says which of the two nodes is the
    /// client, so that both ends agree.
    fn draw(client: &NodeId, server: &NodeId) -> Result<Self, getrandom::Error> {
        let number = getrandom::u64()?;
        Ok(Self(number & !1 | u64::from(client > server)))
    }

    /// Whether `one` is the client of the session that it has with `other`.
    pub(crate) fn is_of(self, one: &NodeId, other: &NodeId) -> bool {
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

    /// The id and the name of the session that a stream carries. None: the stream carries no session.
    pub(crate) fn of_stream(stream: &Bytes) -> Option<(Self, Bytes)> {
        let (number, name) = stream.strip_prefix(&[SESSION])?.split_first_chunk::<8>()?;
        (1..=MAX_NAME)
            .contains(&name.len())
            .then(|| (Self(u64::from_be_bytes(*number)), stream.slice_ref(name)))
    }
}

/// A session that is not yet open. [`Peer::session`] creates it; [`Self::open`] or [`Self::attach`] completes it.
#[derive(Clone, Debug)]
#[must_use = "a session is made by `open` or `attach`"]
pub struct SessionBuilder {
    peer: Peer,
    name: Bytes,
    limits: Limits,
    longest: usize,
}

impl Peer {
    /// Begins to build a session of this name with the peer. The name has 1 to 200 bytes. A short name is better,
    /// since many messages carry it.
    ///
    /// # Errors
    /// [`SessionOpenError::Name`].
    pub fn session(&self, name: impl Into<Bytes>) -> Result<SessionBuilder, SessionOpenError> {
        let name = checked(name.into())?;
        let limits = Limits { idle: IDLE, life: Duration::ZERO };
        Ok(SessionBuilder { peer: self.clone(), name, limits, longest: LONGEST })
    }
}

/// Checks the name of a session, and copies it.
fn checked(name: Bytes) -> Result<Bytes, SessionOpenError> {
    match name.len() {
        1..=MAX_NAME => Ok(Bytes::copy_from_slice(&name)),
        len => Err(SessionOpenError::Name(len)),
    }
}

impl SessionBuilder {
    /// After this time without a message in either direction, the session ends [`Expired`](SessionEnd::Expired). Zero
    /// means never. Default: 24 h.
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.limits.idle = idle;
        self
    }

    /// After this time in total, the session ends [`Expired`](SessionEnd::Expired). Zero means never, and is the
    /// default. A process that continues the session counts from its own beginning.
    pub const fn life(mut self, life: Duration) -> Self {
        self.limits.life = life;
        self
    }

    /// The longest message that this end receives, in bytes. It rejects longer ones: see [`Session::longest`].
    /// Default: 16 MiB.
    pub const fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Opens the session. This method does not wait for the server: messages may follow at once, and leave together
    /// with the opening. If the server does not accept the session, it rejects them, and [`Session::recv`] returns
    /// the reason.
    ///
    /// # Errors
    /// [`SessionOpenError`]; nothing has been sent.
    pub async fn open(self) -> Result<Session, SessionOpenError> {
        self.peer.shared().amend(|engine| limit(engine.streams.sessions(&self.peer.id())))?;
        let id =
            SessionId::draw(&self.peer.node().id(), &self.peer.id()).map_err(SessionOpenError::Random)?;
        let mut session = self.hold(id)?;
        let Limits { idle, life } = session.sender.state().limits();
        session.receiver.opening = Some(session.sender.say(&Said::Open { idle, life }).await?);
        Ok(session)
    }

    /// Makes a handle on a session that this identity already has, from this process or a former one. Messages that
    /// have come meanwhile wait.
    ///
    /// This method sends nothing. If the peer does not know the session, that shows only later: the session then ends
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

/// Checks that the node may have one more session, given how many it has with the peer and with all peers.
const fn limit((with_peer, with_all): (usize, usize)) -> Result<(), SessionOpenError> {
    match (with_peer >= PER_PEER, with_all >= PER_NODE) {
        (true, _) => Err(SessionOpenError::TooMany(PER_PEER)),
        (_, true) => Err(SessionOpenError::TooMany(PER_NODE)),
        _ => Ok(()),
    }
}

impl Node {
    /// Waits for the next session that a peer opens under a name without a [listener](Self::session_listener), or
    /// that this identity accepted in a former process and that continues.
    ///
    /// Cancel-safe. Many tasks may call it: each session goes to one of them.
    ///
    /// # Errors
    /// [`Closed`] when the node is closed.
    pub async fn accept_session(&self) -> Result<Session, Closed> {
        listener::accept(self, &crate::stream::desk::Entrance::Sessions).await
    }

    /// The sessions in which this node has sent something and that have not ended: the peer, the id and the name of
    /// each. Those of former processes of this identity are included.
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

    /// Accepts the sessions of one name, of 1 to 200 bytes, from all peers. As long as this listener exists, they
    /// wait for it, and [`Self::accept_session`] does not return them.
    ///
    /// # Errors
    /// [`SessionOpenError::Name`] and [`SessionOpenError::Listened`].
    pub fn session_listener(&self, name: impl Into<Bytes>) -> Result<SessionListener, SessionOpenError> {
        SessionListener::open(self.clone(), checked(name.into())?)
    }
}

/// One end of a session.
///
/// Dropping it [aborts](Self::abort) the session, unless the session has ended or its node was closed before. In the
/// latter case the next process of this identity can continue the session, as after a crash. [`Self::detach`] keeps
/// the session for another handle.
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

    /// Sets the longest message that this end receives from now on, in bytes. Default: 16 MiB ([`LONGEST`]).
    ///
    /// This end holds no more than that of a message. It rejects a longer one when its last part has come: the
    /// sender's receipt ends [`Rejected`](crate::Outcome::Rejected), with both sizes in its reason, and the session
    /// continues. The limit concerns this end alone. A server sets it when it has accepted the session.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
        self.receiver.longest = bytes;
        self
    }

    fn state(&self) -> &State {
        self.sender.state()
    }

    /// The id of the session.
    pub fn id(&self) -> SessionId {
        self.state().id()
    }

    /// The name of the session.
    pub fn name(&self) -> &Bytes {
        self.state().name()
    }

    /// The peer at the other end.
    pub fn peer(&self) -> &Peer {
        self.state().peer()
    }

    /// Whether this end opened the session.
    pub fn is_client(&self) -> bool {
        let peer = self.peer();
        self.id().is_of(&peer.node().id(), &peer.id())
    }

    /// Whether this node has sent something in the session, in this process or in a former one whose journal it has.
    fn has_begun(&self) -> bool {
        let (peer, name) = (self.peer(), self.id().stream(self.name()));
        peer.shared().look(|engine| engine.core.has_begun_stream(&peer.id(), &name))
    }

    /// How the session has ended; None if it has not.
    pub fn ended(&self) -> Option<SessionEnd> {
        self.state().ended()
    }

    /// The events of the session.
    pub fn events(&self) -> SessionEvents {
        SessionEvents::new(self.state().clone())
    }

    /// See [`SessionSender::send`].
    ///
    /// # Errors
    /// The errors of [`SessionSender::send`].
    pub async fn send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.sender.send(message).await
    }

    /// See [`SessionSender::try_send`].
    ///
    /// # Errors
    /// The errors of [`SessionSender::try_send`].
    pub fn try_send(&mut self, message: impl Into<Message>) -> Result<Receipt, SessionSendError> {
        self.sender.try_send(message)
    }

    /// See [`SessionSender::answer`].
    ///
    /// # Errors
    /// The errors of [`SessionSender::answer`].
    pub async fn answer(
        &mut self,
        taken: SessionMessage,
        answer: impl Into<Message>,
    ) -> Result<Receipt, AnswerError<SessionSendError, SessionMessage>> {
        self.sender.answer(taken, answer).await
    }

    /// See [`SessionReceiver::recv`].
    ///
    /// # Errors
    /// The errors of [`SessionReceiver::recv`].
    pub async fn recv(&mut self) -> Result<Option<SessionMessage>, SessionError> {
        self.receiver.recv().await
    }

    /// See [`SessionReceiver::try_recv`].
    ///
    /// # Errors
    /// The errors of [`SessionReceiver::try_recv`].
    pub fn try_recv(&mut self) -> Result<Option<Option<SessionMessage>>, SessionError> {
        self.receiver.try_recv()
    }

    /// The sending and the receiving direction.
    pub const fn both(&mut self) -> (&mut SessionSender, &mut SessionReceiver) {
        (&mut self.sender, &mut self.receiver)
    }

    /// Splits the session into its two directions. If both are dropped before the session has ended, it is aborted.
    pub fn split(self) -> (SessionSender, SessionReceiver) {
        (self.sender, self.receiver)
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
        if sender.state().is_same(receiver.state()) {
            Ok(Self { sender, receiver })
        } else {
            Err((sender, receiver))
        }
    }

    /// Ends the session. This end sends nothing more, and waits until everything that it sent is settled, for
    /// `timeout` at most. It rejects messages that the peer sends from now on. To receive until the peer closes too,
    /// use [`SessionSender::close`].
    ///
    /// # Errors
    /// [`SessionError::Away`]: not everything was settled in time; delivery goes on as long as the node runs.
    /// [`SessionError::Send`]: this end had already closed the session.
    pub async fn close(self, timeout: Duration) -> Result<(), SessionError> {
        let (mut sender, mut receiver) = self.split();
        let closed = tokio::time::timeout(timeout, async {
            let end = sender.close().await?;
            receiver.end_reading("the session is closed");
            end.await;
            Ok(())
        });
        let closed = closed.await.unwrap_or(Err(SessionError::Away));
        // If there was no room for the closing message in time, there may be now.
        sender.bye_at_once(Code::Closed, "");
        receiver.end_reading("the session is closed");
        sender.state().let_go();
        closed
    }

    /// Ends the session now. Messages that have not left are cancelled, those that have left go on to their outcomes,
    /// and messages that the peer sends are rejected. At the peer, the session ends [`Aborted`](SessionEnd::Aborted).
    pub fn abort(self) {
        drop(self);
    }

    /// Refuses the session, and tells its client the reason, without a wait for room in the queue. If the client itself
    /// calls this method, it does what [`Self::abort`] does. To end a session for a reason after all that was sent, use
    /// [`SessionSender::refuse`].
    pub fn refuse(self, reason: impl AsRef<str>) {
        if !self.is_client() {
            self.turn_away(Code::Refused, reason.as_ref());
        }
    }

    /// Ends both directions, and gives the peer a reason.
    fn turn_away(mut self, code: Code, reason: &str) {
        self.sender.bye_at_once(code, reason);
        self.receiver.end_reading(reason);
    }

    /// Drops the handle, and leaves the session as it is. [`SessionBuilder::attach`] makes a new handle; so does
    /// [`Node::accept_session`] when the peer sends something.
    pub fn detach(self) -> SessionId {
        self.state().let_go();
        self.id()
    }
}
