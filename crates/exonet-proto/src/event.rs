//! What the core says, and what it is told.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;

use crate::channel::path::{PathAddr, Pipe};
use crate::half::{Far, Hull, Taken};
use crate::id::{MessageId, NodeId, Stamp};
use crate::message::{DeliveryKey, MessageKey, Notice, Outcome, Refusal};
use crate::time::Mono;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It has not left.
    Queued,
    /// It has left, and nothing is proven yet.
    InDoubt {
        /// Its name at both ends.
        id: MessageId,
        /// Its deadline has passed.
        late: bool,
        /// It is being withdrawn: see [`crate::node::Node::cancel`].
        withdrawing: bool,
    },
    /// It is settled, or was never known.
    Settled,
}

/// What the core wants its caller to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message is settled, or several that were queued together; the key is free for reuse. `id` is None if it never
    /// left.
    Outcome {
        /// Which message.
        key: MessageKey,
        /// To whom: `id` names one of the messages between the two nodes only.
        peer: NodeId,
        /// How many: this message and those behind it, [`MessageKey::nth`] by `nth`, slot by slot.
        count: u32,
        /// What became of it.
        outcome: Outcome,
        /// Its name at both ends.
        id: Option<MessageId>,
        /// Its deadline passed before.
        late: bool,
    },
    /// Why the receiving application said what the outcome of this message says, which comes after this.
    Reason {
        /// Its name at both ends.
        id: MessageId,
        /// As text for a person.
        reason: Box<str>,
    },
    /// A call has its reply; the key is free for reuse.
    Reply {
        /// Which call.
        key: MessageKey,
        /// Its name at both ends.
        id: MessageId,
        /// Zero is success; [`crate::pattern::call::FAILED`], [`crate::pattern::call::TOO_LARGE`] and [`crate::pattern::call::NO_SUCH_METHOD`] are said by the
        /// server's node, the rest by its application.
        status: u32,
        /// What it was answered with.
        body: ReplyBody,
    },
    /// Messages wait for [`crate::node::Node::recv`]; said once until they have all been asked for.
    Readable,
    /// A call waits for [`crate::node::Node::take_call`], the first of its method that does.
    Called {
        /// The tag of the message that is the call.
        method: Bytes,
    },
    /// A message of a stream waits for [`crate::node::Node::take_stream`], or for [`crate::node::Node::recv_stream`]; said once until
    /// they find none.
    Stream {
        /// Its sender.
        peer: NodeId,
        /// The name of the stream.
        name: Bytes,
    },
    /// A peer's queue that refused a message has room again.
    Sendable {
        /// Whose queue.
        peer: NodeId,
    },
    /// A streamed message that was full takes bytes again.
    BodyWritable {
        /// Which message.
        key: MessageKey,
    },
    /// More of a large message has come, or it has ended or failed.
    BodyReadable {
        /// Which delivery.
        key: DeliveryKey,
    },
    /// Someone proved to be `id` and wants to talk: answer with [`crate::node::Node::admit`].
    Authorize {
        /// The node.
        id: NodeId,
        /// Where from.
        remote: SocketAddr,
    },
    /// Policy has refused a node that proved to be `peer`. Said once a minute of each, and of 1,024 at most.
    Refused {
        /// The node.
        peer: NodeId,
        /// Where from.
        remote: SocketAddr,
    },
    /// A channel to a peer stands (again).
    Connected {
        /// The peer.
        peer: NodeId,
        /// Where it is now.
        remote: SocketAddr,
        /// It is another process than before.
        restarted: bool,
    },
    /// A peer answers nothing of what is under way to it, for longer than its answers take. Said once, until it is back.
    Away {
        /// The peer.
        peer: NodeId,
        /// When it was heard last.
        since: Mono,
    },
    /// A peer that was away has been heard.
    Back {
        /// The peer.
        peer: NodeId,
    },
    /// A peer's channel ended and nothing is left to tell it.
    Forgotten {
        /// The peer.
        peer: NodeId,
    },
    /// An answer to [`crate::node::Node::ping`].
    Pong {
        /// The peer that was pinged.
        peer: NodeId,
        /// As given to `ping`.
        cookie: u64,
        /// The round-trip time of this ping; None: it was lost.
        rtt: Option<Duration>,
        /// Why the peer answers no ping of this node, if it refuses them.
        refused: Option<Refusal>,
    },
    /// Two nodes use one identity at once. Nothing is delivered between this node and the peer any more, in this life: what has
    /// left ends [`Outcome::Unknown`], what has not [`Outcome::Cancelled`]. Said once of a peer.
    IdentityConflict {
        /// The peer that found out, or whose identity it is.
        peer: NodeId,
        /// Whose identity it is.
        whose: Conflict,
    },
    /// A write failed: the node has stopped, since it cannot keep its promise any more.
    Stopped,
}

impl From<Notice> for Event {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Readable => Self::Readable,
            Notice::Called { method } => Self::Called { method },
        }
    }
}

/// Whose identity two nodes use at once, a state directory having been copied or rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The peer's: this node has talked with both.
    Theirs,
    /// This node's own: the peer says that it has talked with both.
    Ours,
    /// This node's own: the peer says that it has talked with a later [generation](crate::Generation) of it, which lives elsewhere.
    Moved,
}

/// A write that must be on the disk before anything that depends on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Names the write in [`crate::node::Node::handle_persisted`].
    pub lsn: Lsn,
    /// `D`.
    pub clock: u64,
    /// Which life of the identity writes: one more with every start.
    pub life: u64,
    /// `latest`.
    pub latest: Stamp,
    /// The senders whose clocks are too far ahead to let `latest` follow, with their stamps that are refused, if the list has
    /// changed: it replaces the one that the disk has.
    pub strays: Option<Box<[(NodeId, Far)]>>,
}

/// What a node without a journal writes of early messages. It survives the process, not the machine: a boot that may have lost
/// some of it has lost all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// What follows is all there is, in place of what was written before, and this is the hull. None: it is written behind that.
    pub hull: Option<Hull>,
    /// Senders, and what was taken of them early.
    pub taken: Vec<(NodeId, Taken)>,
}

/// Position in the sequence of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Where a datagram came from and came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The source address.
    pub remote: SocketAddr,
    /// The destination address, where the system tells.
    pub local_ip: Option<IpAddr>,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// The connection that it came by; None: it came as a datagram.
    pub pipe: Option<Pipe>,
}

impl Arrival {
    /// The path that it came by.
    pub(crate) const fn path(&self) -> PathAddr {
        PathAddr { remote: self.remote, local: self.local_ip, pipe: self.pipe }
    }
}

/// A connection that the driver is to open for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// The peer.
    pub peer: NodeId,
    /// Where it may be: the likeliest first.
    pub addresses: Vec<SocketAddr>,
}

/// Datagrams to send: `len` bytes at the front of the buffer, in segments of `segment` bytes, the last may be
/// shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub remote: SocketAddr,
    /// The source address to use, where the system allows to choose.
    pub src_ip: Option<IpAddr>,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// Size of each datagram but the last.
    pub segment: usize,
    /// Total bytes.
    pub len: usize,
    /// The connection that takes the datagrams, each whole and in this order; None: the socket does.
    pub pipe: Option<Pipe>,
}

/// Why a message is not accepted. Nothing has been queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Larger than this node or the peer takes.
    #[error("the message has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// The bytes of the message.
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
    /// The peer's queue is full: try again after [`Event::Sendable`].
    #[error("the queue to this peer is full")]
    Full,
    /// No address is known for the peer, and it has not been heard of.
    #[error("no address is known for node {0:?}")]
    NoAddress(NodeId),
    /// The cap on peers is reached.
    #[error("this node already knows {0} peers, which is its limit")]
    TooManyPeers(usize),
    /// A node does not send to itself.
    #[error("a node cannot send to itself")]
    Myself,
    /// There is no room for it in the journal. Only a driver says this.
    #[error("the disk of the journal is full")]
    NoSpace,
    /// The node is closing or has stopped.
    #[error("the node is closed")]
    Closed,
}

/// The content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// All of it.
    Whole(Bytes),
    /// To be read by [`crate::node::Node::body_read`] to its end, and then [`crate::node::Node::done`], or to be
    /// [`cut`](crate::node::Node::cut) short. If it ends otherwise, the call has run and its reply is lost.
    Stream {
        /// What it is read by.
        delivery: DeliveryKey,
        /// Bytes in all; None: its sender did not know when it began.
        len: Option<u64>,
    },
}

/// An answer of [`crate::node::Node::body_read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyRead {
    /// The next bytes.
    Data(Bytes),
    /// Nothing yet: wait for [`Event::BodyReadable`].
    Pending,
    /// All has been read; the message waits for [`crate::node::Node::done`].
    End,
    /// The message will never be complete here; it has not been delivered.
    Aborted,
}

/// An answer of [`crate::node::Node::body_write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyWrite {
    /// How many bytes were taken: all, or fewer; then wait for [`Event::BodyWritable`].
    Taken(usize),
    /// None were taken: with them a message whose length was not known would be longer than this node or the peer allows.
    TooLarge {
        /// The longest body.
        limit: u64,
    },
    /// The message is settled or unknown: nothing more is wanted.
    Gone,
}

/// What came of [`crate::node::Node::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// It had not left: it ends Cancelled, certainly never delivered.
    Done,
    /// It has left, and its receiver is asked for it: its outcome will tell whether it was delivered.
    Asked,
}

/// Why a message could not be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// It has left, and such a message is not withdrawn: only its outcome will tell.
    #[error("the message has left already")]
    InDoubt,
    /// It is settled.
    #[error("the message is settled already")]
    Settled,
}

/// A message that is not settled, for the report of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenMessage {
    /// Which.
    pub key: MessageKey,
    /// To whom.
    pub peer: NodeId,
    /// Where it stands.
    pub status: Status,
    /// Bytes of body.
    pub size: u64,
}
