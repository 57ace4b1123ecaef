//! Streams: messages in order, each stream independent of all others.
//!
//! [`Peer::stream`] gives a [`Stream`]: two directions under one name, each a sequence of messages. [`Node::accept_stream`] gives
//! those that peers begin. A stream is opened by its first message and ended by [`StreamSender::close`]. It outlives channels, changes
//! of address and long silence, and crashes of either process where its node is durable. Nothing is sent to open one, and an idle
//! stream costs an entry at each end, and nothing on the wire.
//!
//! What is missing is told, never passed over: see [`StreamError`]. `docs/streams.md` has the rules.
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

use std::sync::Arc;

use ::bytes::Bytes;

pub use self::bytes::ByteStream;
pub use listener::StreamListener;
pub use receiver::{StreamError, StreamReceiver};
pub use sender::{StreamSendError, StreamSender};

pub use exonet_proto::node::MAX_STREAM_BODY;

use crate::error::Closed;
use crate::node::Node;
use crate::peer::Peer;
use desk::{Entrance, SESSION};
use lane::Claim;

/// Longest name of a stream, in bytes.
pub const MAX_NAME: usize = 255;

/// Why there is no handle on a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is empty, or has more than 255 bytes.
    #[error("the name of a stream has 1 to 255 bytes, this has {0}")]
    Name(usize),
    /// The name begins with a zero byte: such names carry [sessions](crate::session).
    #[error("a name that begins with a zero byte is for sessions")]
    Reserved,
    /// This process has a handle on it. There is one at a time: two could not agree on an order.
    #[error("a handle on this stream is in use: drop it first, or choose another name")]
    InUse,
    /// This process has a listener of the name.
    #[error("a listener of this name is in use: share it, or drop it first")]
    Listened,
}

/// Both directions of a stream: what this node sends to the peer under a name, and what the peer sends to this node under it.
///
/// Each direction begins with its first message and ends by itself. Dropping the handle ends neither: another handle, of this
/// process or of the next of a durable node, goes on where this one was.
#[derive(Debug)]
pub struct Stream {
    sender: StreamSender,
    receiver: StreamReceiver,
}

/// What the halves of a stream share: the hold on its name.
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
    /// A handle on the stream of this name with the peer, of 1 to 255 bytes. Nothing is sent before there is something to say.
    ///
    /// A short name is a good one: each message bears it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn stream(&self, name: impl Into<Bytes>) -> Result<Stream, OpenError> {
        self.stream_named(checked(name.into())?)
    }

    /// A handle on the stream of a name that has been checked.
    pub(crate) fn stream_named(&self, name: Bytes) -> Result<Stream, OpenError> {
        let claim = Claim::take(self.shared(), &self.to, name).ok_or(OpenError::InUse)?;
        Ok(Stream::new(self.clone(), claim))
    }
}

impl Node {
    /// The next stream that a peer has begun, or goes on with, and that no handle of this process is on; not of a name that has a
    /// [listener](Self::stream_listener).
    ///
    /// Until they are accepted, streams wait: their messages hold back their own senders only. Cancel-safe, and may be called by
    /// many tasks: each stream goes to one.
    ///
    /// # Errors
    /// [`Closed`], when the node is closed.
    pub async fn accept_stream(&self) -> Result<Stream, Closed> {
        accept(self, &Entrance::Streams).await
    }

    /// Accepts the streams of one name, of 1 to 255 bytes, from all peers: from now on they wait for this listener, and
    /// [`Self::accept_stream`] does not give them. When the listener is dropped, it does again.
    ///
    /// # Errors
    /// [`OpenError::Name`] and [`OpenError::Listened`].
    pub fn stream_listener(&self, name: impl Into<Bytes>) -> Result<StreamListener, OpenError> {
        StreamListener::open(self.clone(), checked(name.into())?)
    }
}

/// The direction from a peer, of a stream whose name is held.
pub(crate) fn receiver(peer: Peer, claim: Arc<Claim>) -> StreamReceiver {
    StreamReceiver::new(Arc::new(Handle { peer, claim }))
}

/// A name that a stream may have. It is a copy: its owner's destructor does not run under the lock.
pub(crate) fn checked(name: Bytes) -> Result<Bytes, OpenError> {
    match name.len() {
        1..=MAX_NAME if name.first() == Some(&SESSION) => Err(OpenError::Reserved),
        1..=MAX_NAME => Ok(Bytes::copy_from_slice(&name)),
        len => Err(OpenError::Name(len)),
    }
}

/// The next stream at an entrance.
pub(crate) async fn accept(node: &Node, entrance: &Entrance) -> Result<Stream, Closed> {
    let shared = node.shared();
    let accepted = shared.amend(|engine| engine.streams.accepted(entrance));
    loop {
        // Made before the look, so that no wake-up is missed between the look and the wait.
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

    /// The name.
    pub fn name(&self) -> &Bytes {
        self.receiver.name()
    }

    /// What is sent, and what is received.
    pub const fn both(&mut self) -> (&mut StreamSender, &mut StreamReceiver) {
        (&mut self.sender, &mut self.receiver)
    }

    /// The two directions by themselves. The name is free again when both are dropped.
    pub fn split(self) -> (StreamSender, StreamReceiver) {
        (self.sender, self.receiver)
    }

    /// The stream as bytes, read and written as a TCP connection is.
    pub fn into_bytes(self) -> ByteStream {
        ByteStream::new(self)
    }
}
