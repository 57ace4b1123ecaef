//! Streams: messages in order, each stream independent of all others.
//!
//! [`Peer::stream`] returns a [`Stream`]: two directions under one name, each a sequence of messages.
//! [`Node::accept_stream`] returns the streams that peers begin. The first message opens a stream, and
//! [`StreamSender::close`] ends it. A stream outlives channels, changes of address and long silence. If the node of a
//! process is durable, the stream also outlives a crash of that process. Opening a stream sends nothing besides its
//! first message. An idle stream costs an entry at each end, and nothing on the wire.
//!
//! If messages are missing, the reader learns that: no message is skipped silently. See [`StreamError`].
//! `docs/streams.md` has the rules.
//!
//! ```
//! use exonet::{Allow, Node};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let alice = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//! let bob = Node::builder(Allow::anyone()).bind("127.0.0.1:0").build().await?;
//!
//! let (mut log, _) = alice.peer(bob.peer_addr()).stream("log")?.split();
//! log.send("first").await?;
//! log.send("second").await?;
//! log.close().await?;
//!
//! let (_, mut lines) = bob.accept_stream().await?.split();
//! assert_eq!(lines.name(), "log");
//! while let Some(line) = lines.recv().await? {
//!     println!("{:?}", line.body());
//!     line.ack()?;
//! }
//! # Ok(())
//! # }
//! ```

mod bytes;
pub(crate) mod desk;
pub(crate) mod lane;
pub(crate) mod listener;
mod receiver;
mod sender;
mod stops;

use std::sync::Arc;

use ::bytes::Bytes;

pub use self::bytes::ByteStream;
pub use listener::StreamListener;
pub use receiver::{StreamError, StreamReceiver};
pub use sender::{StreamSendError, StreamSender};

pub use exonet_proto::node::MAX_STREAM_BODY;

use exonet_proto::node::Priority;

use crate::error::Closed;
use crate::node::Node;
use crate::peer::Peer;
use desk::{Entrance, SESSION};
use lane::Claim;

/// The longest name of a stream, in bytes.
pub const MAX_NAME: usize = 255;

/// Why a stream cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is empty, or has more than 255 bytes; the value is its length in bytes.
    #[error("the name of a stream has 1 to 255 bytes, this has {0}")]
    Name(usize),
    /// The name begins with a zero byte, as the names of streams do that carry [sessions](crate::session).
    #[error("a name that begins with a zero byte is for sessions")]
    Reserved,
    /// This process already has a handle on the stream. There is only one at a time, since two could not agree on an
    /// order.
    #[error("a handle on this stream is in use: drop it first, or choose another name")]
    InUse,
    /// This process already has a listener for the name.
    #[error("a listener of this name is in use: share it, or drop it first")]
    Listened,
}

/// Both directions of a stream: the messages that this node sends to the peer under a name, and those that the peer
/// sends to this node under that name.
///
/// Each direction begins with its first message, and ends independently of the other. Dropping the handle ends
/// neither direction: another handle, of this process or of the next process of a durable node, continues where this
/// one stopped.
#[derive(Debug)]
pub struct Stream {
    sender: StreamSender,
    receiver: StreamReceiver,
}

/// What the two directions of a stream share. It reserves the name of the stream.
struct Handle {
    peer: Peer,
    claim: Arc<Claim>,
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stream").field("peer", &self.claim.id.0).field("name", &self.claim.id.1).finish()
    }
}

impl Peer {
    /// Returns a handle on the stream of this name with the peer. The name has 1 to 255 bytes. Nothing is sent before
    /// the first message.
    ///
    /// A short name is better, since every message carries it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn stream(&self, name: impl Into<Bytes>) -> Result<Stream, OpenError> {
        self.stream_named(checked(name.into())?)
    }

    /// A handle on the stream of a name that was checked.
    pub(crate) fn stream_named(&self, name: Bytes) -> Result<Stream, OpenError> {
        let claim = Claim::take(self.shared(), &self.to, name).ok_or(OpenError::InUse)?;
        Ok(Stream::new(self.clone(), claim))
    }
}

impl Node {
    /// Waits for the next stream that a peer has begun or continues, and that has no handle in this process. Streams
    /// whose name has a [listener](Self::stream_listener) are not included.
    ///
    /// Until a stream is accepted, it waits, and holds back only its own sender. Cancel-safe. Many tasks may call it:
    /// each stream goes to one of them.
    ///
    /// # Errors
    /// [`Closed`] when the node is closed.
    pub async fn accept_stream(&self) -> Result<Stream, Closed> {
        accept(self, &Entrance::Streams).await
    }

    /// Accepts the streams of one name, of 1 to 255 bytes, from all peers. As long as this listener exists, they wait
    /// for it, and [`Self::accept_stream`] does not return them.
    ///
    /// # Errors
    /// [`OpenError::Name`] and [`OpenError::Listened`].
    pub fn stream_listener(&self, name: impl Into<Bytes>) -> Result<StreamListener, OpenError> {
        StreamListener::open(self.clone(), checked(name.into())?)
    }
}

/// The receiving direction of a stream whose name is reserved.
pub(crate) fn receiver(peer: Peer, claim: Arc<Claim>) -> StreamReceiver {
    StreamReceiver::new(Arc::new(Handle { peer, claim }))
}

/// Checks the name of a stream, and copies it, so that the destructor of its owner does not run under the lock.
pub(crate) fn checked(name: Bytes) -> Result<Bytes, OpenError> {
    match name.len() {
        1..=MAX_NAME if name.first() == Some(&SESSION) => Err(OpenError::Reserved),
        1..=MAX_NAME => Ok(Bytes::copy_from_slice(&name)),
        len => Err(OpenError::Name(len)),
    }
}

/// Waits for the next stream at an entrance.
pub(crate) async fn accept(node: &Node, entrance: &Entrance) -> Result<Stream, Closed> {
    let shared = node.shared();
    let accepted = shared.amend(|engine| engine.streams.accepted(entrance));
    loop {
        // Created before the look at the table, so that no wake-up between the look and the wait is missed.
        let waiting = accepted.notified();
        if let Some((id, readable)) = shared.amend(|engine| engine.accept_stream(entrance))? {
            let peer = node.peer(id.0);
            let claim = Claim { shared: Arc::clone(shared), to: Arc::clone(&peer.to), id, readable };
            return Ok(Stream::new(peer, claim));
        }
        waiting.await;
    }
}

impl Stream {
    fn new(peer: Peer, claim: Claim) -> Self {
        let handle = Arc::new(Handle { peer, claim: Arc::new(claim) });
        Self { sender: StreamSender::new(Arc::clone(&handle)), receiver: StreamReceiver::new(handle) }
    }

    /// The peer at the other end.
    pub fn peer(&self) -> &Peer {
        &self.sender.handle().peer
    }

    /// The name of the stream.
    pub fn name(&self) -> &Bytes {
        self.receiver.name()
    }

    /// The sending and the receiving direction.
    pub const fn both(&mut self) -> (&mut StreamSender, &mut StreamReceiver) {
        (&mut self.sender, &mut self.receiver)
    }

    /// Splits the stream into its two directions. When both are dropped, the name can have a new handle.
    pub fn split(self) -> (StreamSender, StreamReceiver) {
        (self.sender, self.receiver)
    }

    /// Sets the priority of what this end sends: see [`StreamSender::priority`].
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.sender = self.sender.priority(priority);
        self
    }

    /// Makes the stream one of bytes, which is read and written like a TCP connection.
    pub fn into_bytes(self) -> ByteStream {
        ByteStream::new(self)
    }
}
