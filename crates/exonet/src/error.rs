//! The errors of this crate.
//!
//! After a call has failed, [`CallError::has_not_run`] says whether the caller may safely repeat it.

use std::io;

pub use exonet_proto::{ParseMessageIdError, ParseNodeIdError};

use exonet_proto::NodeId;
use exonet_proto::node::{CallId, Refusal, SendError as CoreError};

use crate::call::status::ReplyStatus;
#[cfg(feature = "serde")]
pub use crate::call::typed::TypedError;
pub use crate::group::GroupError;
pub use crate::group::call::GatherError;
use crate::naming::Superseded;
pub use crate::naming::{NameError, NamingError};
pub use crate::peer_addr::PeerAddrError;
use crate::receive::body::Body;
use crate::send::receipt::BatchReceipt;
pub use crate::state::StateError;

/// Why a node could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The text given to [`crate::Builder::bind`] is not a socket address.
    #[error(
        "{0:?} is not a socket address: an IP address and a port are wanted, as in 0.0.0.0:4455 or [::]:4455"
    )]
    Address(String),
    /// Another socket has the address.
    #[error("{0} is in use by another socket: choose another port, or 0 for any")]
    AddressInUse(core::net::SocketAddr),
    /// The system could not make or bind the socket.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The address.
        address: core::net::SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The node cannot use the state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The name service says that the identity lives elsewhere.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The name service does not confirm that the identity lives here.
    #[error("the name service does not confirm that this identity lives here: {0}")]
    Naming(#[from] NamingError),
    /// The system gave no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// The caller is not within a tokio runtime.
    #[error("a node must be built within a tokio runtime that has I/O and time enabled")]
    NoRuntime,
    /// The node could not start the thread that forces the journal to disk.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The durability requires a [state directory](crate::Builder::state_dir), and the node has none.
    #[error(
        "this durability needs an identity that is stored: give the node a directory for its state, by `state_dir`"
    )]
    NotStored,
    /// The system could not make the runtime of a [blocking](crate::blocking) node.
    #[error("cannot start the runtime of a blocking node: {0}")]
    Runtime(io::Error),
    /// The system could not make a timer.
    #[error("cannot create a timer: {0}")]
    Timer(io::Error),
}

/// Why the node does not accept a message. The node has not queued it, except if the error is [`Self::InDoubt`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message is larger than this node or the peer accepts.
    #[error("the message has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// The length of the message in bytes.
        size: u64,
        /// The largest length that is allowed, in bytes.
        limit: u64,
    },
    /// The name of a stream is empty.
    #[error("the name of a stream has at least one byte")]
    NoName,
    /// The tag is longer than 255 bytes; the value is its length in bytes.
    #[error("a tag has at most 255 bytes, this has {0}")]
    TagTooLong(usize),
    /// The peer's queue is full. Only calls that do not wait return this.
    #[error("the queue to this peer is full")]
    Full,
    /// The node knows no address of the peer, and has never heard from it.
    #[error("no address is known for node {0}: give one as id@host:port")]
    NoAddress(NodeId),
    /// The node knows no address of the peer, and could look up none of its host names: the look-up failed now, or
    /// less than two seconds ago.
    #[error("cannot look up {hint:?}: {reason}")]
    Lookup {
        /// The hint that could not be looked up.
        hint: String,
        /// The error of the resolver.
        reason: String,
    },
    /// The node already knows as many peers as its limits allow; the value is that number.
    #[error("this node already knows {0} peers, which is its limit")]
    TooManyPeers(usize),
    /// The peer is this node: a node does not send to itself.
    #[error("a node cannot send to itself")]
    Myself,
    /// The disk of this node's journal is full. Messages that the node accepted before go on. The node accepts new
    /// ones as soon as there is room.
    #[error("the disk of this node's journal is full: free some space there")]
    NoSpace,
    /// The node is closing or has stopped.
    #[error("the node is closed")]
    Closed,
    /// The node queued the message, and stopped before the message was on the disk. The next process of the identity
    /// may send the message, or may not know it. A node that waits for the disk
    /// ([`Durability::Batched`](crate::Durability::Batched), [`Sync`](crate::Durability::Sync)) returns this when it
    /// stops meanwhile, and any node with a journal when the disk fails.
    #[error("{IN_DOUBT}")]
    InDoubt,
}

/// What [`SendError::InDoubt`] and its like say.
pub(crate) const IN_DOUBT: &str =
    "the node stopped before the message was on the disk: the next process of the identity may send it";

/// Why only a part of a batch was queued.
#[derive(Debug, thiserror::Error)]
#[error("the batch ended after {} messages: {source}", sent.len())]
#[non_exhaustive]
pub struct BatchError<E: std::error::Error + 'static = SendError> {
    /// The receipt of the messages that were queued.
    pub sent: BatchReceipt,
    /// Why the next message was not queued, or [`SendError::InDoubt`]: then all messages of `sent` are in doubt.
    pub source: E,
}

/// Why there is no answer to a ping, if that is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// The ping was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The peer refuses this node, and answers no pings of it.
    #[error("{0}")]
    Refused(Refusal),
}

impl From<CoreError> for SendError {
    fn from(error: CoreError) -> Self {
        match error {
            CoreError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            CoreError::NoName => Self::NoName,
            CoreError::TagTooLong(len) => Self::TagTooLong(len),
            CoreError::Full => Self::Full,
            CoreError::NoAddress(id) => Self::NoAddress(id),
            CoreError::TooManyPeers(limit) => Self::TooManyPeers(limit),
            CoreError::Myself => Self::Myself,
            CoreError::NoSpace => Self::NoSpace,
            CoreError::Closed => Self::Closed,
            CoreError::InDoubt => Self::InDoubt,
        }
    }
}

/// Why [`crate::Peer::send_from`] ended without a complete message. The node has withdrawn the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendFromError {
    /// The node did not accept the message.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Reading from the source failed.
    #[error("cannot read the body: {0}")]
    Read(#[source] io::Error),
    /// The source ended before the announced length.
    #[error("the body ended after {read} of {len} bytes")]
    Short {
        /// The number of bytes that were read.
        read: u64,
        /// The number of bytes that were announced.
        len: u64,
    },
    /// The source, whose length was not announced, has more bytes than a message may have.
    #[error("{0}")]
    TooLarge(#[source] io::Error),
}

/// Why a call has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// This node did not accept the call: it certainly does not run.
    #[error(transparent)]
    Refused(#[from] SendError),
    /// The server, or a node in its place, answered the call with a failure.
    #[error("the call {id} failed: {status}")]
    Failed {
        /// The id of the call.
        id: CallId,
        /// The status: not zero. See [`ReplyStatus::has_not_run`].
        status: ReplyStatus,
        /// What the server says about the failure.
        body: Body,
    },
    /// The deadline of the call passed before the call left: it certainly does not run.
    #[error("the call expired before it left")]
    Expired,
    /// The call was withdrawn before it left, or is larger than the peer accepts: it certainly does not run.
    #[error("the call was cancelled before it left")]
    Cancelled,
    /// The peer does not take the call: it certainly does not run.
    #[error("the call was not taken: {0}")]
    NotTaken(Refusal),
    /// The call runs once or not at all, and this node will not know which.
    #[error("the call{} has no known end: {why}", Named(id.as_ref()))]
    Unknown {
        /// The id of the call at its server, by which the application can find out what happened. None: the node
        /// broke down before the call ended.
        id: Option<CallId>,
        /// Why that is not known.
        why: Why,
    },
    /// Reading the body failed, or the body ended early. The node has withdrawn the call. It has not run, unless its
    /// handler acts before it has read the whole body.
    #[error("the call has no body: {0}")]
    Body(#[source] SendFromError),
}

impl CallError {
    /// Whether the call has certainly not run, so that the caller may repeat it.
    pub const fn has_not_run(&self) -> bool {
        match self {
            Self::Refused(_) | Self::NotTaken(_) | Self::Expired | Self::Cancelled => true,
            Self::Failed { status, .. } => status.has_not_run(),
            Self::Unknown { .. } | Self::Body(_) => false,
        }
    }
}

/// Why the outcome of a call is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The deadline of the call passed after the call had left.
    #[error("its deadline has passed")]
    Deadline,
    /// The caller gave the call up after it had left.
    #[error("it was given up")]
    GivenUp,
    /// The caller's node was closed.
    #[error("this node is closed")]
    Closed,
    /// Two nodes have the identity of one of the two sides: [`crate::Peer::conflict`] says which side.
    #[error("two nodes have the identity of one of the two sides")]
    Conflict,
    /// One of the two sides no longer knows: the server crashed or forgot the reply, the caller's node abandoned the
    /// peer, or its `doubt_timeout` passed.
    #[error("the server has restarted or forgotten it, or this side gave up waiting")]
    Lost,
}

/// Displays a call's id in a sentence, if it has one.
struct Named<'a>(Option<&'a CallId>);

impl core::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.map_or(Ok(()), |id| write!(f, " {id}"))
    }
}

/// Why a node does not serve a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// This node already serves the method of this name.
    #[error("the method {0:?} is served already")]
    Served(String),
    /// The name of the method is longer than 255 bytes; the value is its length in bytes.
    #[error("a method has at most 255 bytes, this has {0}")]
    MethodTooLong(usize),
    /// The caller is not within a tokio runtime.
    #[error("a method must be served within a tokio runtime")]
    NoRuntime,
    /// The node is closing or has stopped.
    #[error("the node is closed")]
    Closed,
}

/// The node is closed, and no message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is closed")]
pub struct Closed;

/// The message was not delivered, and the application must not act on it: the receiver has lost its record of the
/// message. The sender learns that, or stays in doubt, but never learns "delivered".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message was not delivered: its record is gone")]
pub struct NotDelivered;

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than the caller accepts. Nothing of it has been read.
    #[error("the body has {len} bytes, the limit is {limit}")]
    TooLarge {
        /// The length of the body in bytes.
        len: u64,
        /// The limit of the caller, in bytes.
        limit: u64,
    },
    /// The sender gave the message up, or the receiver has lost its record of it. The message is not delivered, and
    /// the application must discard the part that it has read.
    #[error("the body will never be complete: the message was not delivered")]
    NotDelivered,
    /// The node stopped before the end of the body.
    #[error("the node is closed")]
    Closed,
}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> Self {
        let kind = match error {
            BodyError::TooLarge { .. } => io::ErrorKind::InvalidData,
            BodyError::NotDelivered => io::ErrorKind::ConnectionAborted,
            BodyError::Closed => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
