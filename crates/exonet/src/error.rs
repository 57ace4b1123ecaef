//! The errors of this crate.
//!
//! For a call that has failed, [`CallError::has_not_run`] says whether the caller may safely repeat it.

use std::io;

pub use exonet_proto::ParseNodeIdError;

use exonet_proto::NodeId;
use exonet_proto::node::{CallId, Refusal, SendError as CoreError};

use crate::call::status::ReplyStatus;
#[cfg(feature = "serde")]
pub use crate::call::typed::TypedError;
pub use crate::group::GroupError;
pub use crate::group::call::GatherError;
pub use crate::naming::{NameError, NamingError};
pub use crate::peer_addr::PeerAddrError;
use crate::receive::body::Body;
use crate::send::receipt::BatchReceipt;
pub use crate::state::StateError;

/// The reason for which a node could not be built.
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
    /// The socket could not be made.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The address.
        address: core::net::SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The name service does not let the identity live here: it has moved, or the service does not know.
    #[error("the name service does not confirm that this identity lives here: {0}")]
    Naming(#[from] NamingError),
    /// The system returns no random numbers.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// Not called within a tokio runtime.
    #[error("a node must be built within a tokio runtime that has I/O and time enabled")]
    NoRuntime,
    /// The thread that forces the journal to disk could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The durability requires a [state directory](crate::Builder::state_dir), and the node has none.
    #[error("durability beyond `Memory` needs an identity that is stored: name a directory by `state_dir`")]
    NotStored,
    /// The runtime of a [blocking](crate::blocking) node could not be made.
    #[error("cannot start the runtime of a blocking node: {0}")]
    Runtime(io::Error),
    /// The system's timer could not be made.
    #[error("cannot create a timer: {0}")]
    Timer(io::Error),
}

/// The reason for which a message is not accepted. Nothing has been queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message is larger than this node or the peer accepts.
    #[error("the message has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// The length of the message in bytes.
        size: u64,
        /// The limit in force.
        limit: u64,
    },
    /// The name of a stream is empty.
    #[error("the name of a stream has at least one byte")]
    NoName,
    /// The tag is longer than 255 bytes.
    #[error("a tag has at most 255 bytes, this has {0}")]
    TagTooLong(usize),
    /// The peer's queue is full. Only calls that do not wait return this.
    #[error("the queue to this peer is full")]
    Full,
    /// No address is known for the peer, and it has not been heard of.
    #[error("no address is known for node {0}: give one as id@host:port")]
    NoAddress(NodeId),
    /// None of the peer's host names could be looked up, now or less than two seconds ago, and no other address of it
    /// is known.
    #[error("cannot look up {hint:?}: {reason}")]
    Lookup {
        /// The hint in question.
        hint: String,
        /// The error of the resolver.
        reason: String,
    },
    /// The cap on peers is reached.
    #[error("this node already knows {0} peers, which is its limit")]
    TooManyPeers(usize),
    /// A node does not send to itself.
    #[error("a node cannot send to itself")]
    Myself,
    /// The disk of this node's journal is full. Messages that were accepted before go on; new messages are accepted
    /// again once there is room.
    #[error("the disk of this node's journal is full: free some space there")]
    NoSpace,
    /// The node is closing or has stopped.
    #[error("the node is closed")]
    Closed,
}

/// The reason for which a batch was not queued to its end.
#[derive(Debug, thiserror::Error)]
#[error("the batch ended after {} messages: {source}", sent.len())]
#[non_exhaustive]
pub struct BatchError {
    /// The receipt of the messages that have been queued.
    pub sent: BatchReceipt,
    /// The error of the next message.
    pub source: SendError,
}

/// The reason for which there is no answer to a ping, if known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PingError {
    /// It was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The peer says that it answers no pings of this node.
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
        }
    }
}

/// The reason for which [`crate::Peer::send_from`] ended without a complete message. The message has been withdrawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendFromError {
    /// The message was not accepted.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The source could not be read.
    #[error("cannot read the body: {0}")]
    Read(#[source] io::Error),
    /// The source ended early.
    #[error("the body ended after {read} of {len} bytes")]
    Short {
        /// The number of bytes that came.
        read: u64,
        /// The number of bytes that were announced.
        len: u64,
    },
    /// The source, whose length was not announced, has more bytes than a message may have.
    #[error("{0}")]
    TooLarge(#[source] io::Error),
}

/// The error of a call that has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call was not accepted, and certainly does not run.
    #[error(transparent)]
    Refused(#[from] SendError),
    /// The call was answered with a failure, by its server or in place of it.
    #[error("the call {id} failed: {status}")]
    Failed {
        /// The id of the call.
        id: CallId,
        /// Not zero; see [`ReplyStatus::has_not_run`].
        status: ReplyStatus,
        /// The details.
        body: Body,
    },
    /// Its deadline came before it left: it certainly does not run.
    #[error("the call expired before it left")]
    Expired,
    /// It was withdrawn before it left, or is larger than the peer accepts: it certainly does not run.
    #[error("the call was cancelled before it left")]
    Cancelled,
    /// The peer does not take it: it certainly does not run.
    #[error("the call was not taken: {0}")]
    NotTaken(Refusal),
    /// The call runs once or not at all, and this node will not know which.
    #[error("the call{} has no known end: {why}", Named(id.as_ref()))]
    Unknown {
        /// Its id at the server, with which to find out; None: the node broke down before the call ended.
        id: Option<CallId>,
        /// The reason for which that is not known.
        why: Why,
    },
    /// The reader of the body failed or ended early. The call has been withdrawn: it has not run, unless its handler
    /// acts before it has read the whole body.
    #[error("the call has no body: {0}")]
    Body(#[source] SendFromError),
}

impl CallError {
    /// Whether the call has certainly not run, so that it may be made again.
    pub const fn has_not_run(&self) -> bool {
        match self {
            Self::Refused(_) | Self::NotTaken(_) | Self::Expired | Self::Cancelled => true,
            Self::Failed { status, .. } => status.has_not_run(),
            Self::Unknown { .. } | Self::Body(_) => false,
        }
    }
}

/// The reason for which the outcome of a call is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Its deadline came after it had left.
    #[error("its deadline has passed")]
    Deadline,
    /// It was given up here, after it had left.
    #[error("it was given up")]
    GivenUp,
    /// This node was closed.
    #[error("this node is closed")]
    Closed,
    /// Two nodes have the identity of one of the two sides: [`crate::Peer::conflict`] says which side.
    #[error("two nodes have the identity of one of the two sides")]
    Conflict,
    /// One of the two sides no longer knows: the server has crashed or has forgotten the reply, the peer was abandoned,
    /// or this node's `doubt_timeout` has passed.
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

/// The reason for which a method is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// This node already serves it.
    #[error("the method {0:?} is served already")]
    Served(String),
    /// The name is longer than 255 bytes.
    #[error("a method has at most 255 bytes, this has {0}")]
    MethodTooLong(usize),
    /// Not called within a tokio runtime.
    #[error("a method must be served within a tokio runtime")]
    NoRuntime,
    /// The node is closing or has stopped.
    #[error("the node is closed")]
    Closed,
}

/// The node is closed and no message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is closed")]
pub struct Closed;

/// The message was not delivered, and the application must not act on it: the receiver's record of it is gone. Its
/// sender is told so, or is left in doubt, but is never told "delivered".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message was not delivered: its record is gone")]
pub struct NotDelivered;

/// The reason for which a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than the caller accepts. Nothing has been read.
    #[error("the body has {len} bytes, the limit is {limit}")]
    TooLarge {
        /// The length of the body in bytes.
        len: u64,
        /// The limit of the caller.
        limit: u64,
    },
    /// The sender gave the message up, or its record is gone: it has not been delivered, and the application must
    /// discard the part that it has read.
    #[error("the body will never be complete: the message was not delivered")]
    NotDelivered,
    /// The node stopped before the body ended.
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
