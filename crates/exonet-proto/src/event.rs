//! The outputs of the core, and its inputs.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;

use crate::channel::path::{PathAddr, Pipe};
use crate::half::{Far, Hull, Taken};
use crate::id::{MessageId, NodeId, Stamp};
use crate::level::DurabilityLevel;
use crate::message::{DeliveryKey, MessageKey, Notice, Outcome, Refusal};
use crate::time::Mono;

/// The state of a message. The set is closed, so that an application can match all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The message has not left.
    Queued,
    /// The message has left, and nothing is proven yet.
    InDoubt {
        /// Its name at both ends.
        id: MessageId,
        /// Its deadline has passed.
        late: bool,
        /// The message is being withdrawn: see [`crate::node::Node::cancel`].
        withdrawing: bool,
    },
    /// The message is settled, or was never known.
    Settled,
}

/// Something that the core reports to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message is settled, or several that were queued together; the key may be reused. `id` is None if the message never left.
    Outcome {
        /// The message.
        key: MessageKey,
        /// The peer that it was for: `id` names one of the messages between these two nodes only.
        peer: NodeId,
        /// How many messages: this message and those behind it, [`MessageKey::nth`] by `nth`, slot by slot.
        count: u32,
        /// The outcome of the message.
        outcome: Outcome,
        /// Its name at both ends.
        id: Option<MessageId>,
        /// The deadline had passed before.
        late: bool,
        /// The level that the receiver has declared, if the receiver has taken or rejected the message. None: the outcome does not
        /// come from the receiver's record of the message.
        receiver_durability: Option<DurabilityLevel>,
    },
    /// The reason that the receiving application gave for the outcome of this message. The outcome comes after this.
    Reason {
        /// Its name at both ends.
        id: MessageId,
        /// The reason as text for a person.
        reason: Box<str>,
    },
    /// A call has its reply; the key may be reused.
    Reply {
        /// The call.
        key: MessageKey,
        /// Its name at both ends.
        id: MessageId,
        /// Zero is success. [`crate::pattern::call::FAILED`], [`crate::pattern::call::TOO_LARGE`] and
        /// [`crate::pattern::call::NO_SUCH_METHOD`] come from the server's node, other values from its application.
        status: u32,
        /// The body of the reply.
        body: ReplyBody,
    },
    /// Messages wait for [`crate::node::Node::recv`]. This is reported once until the application has asked for them all.
    Readable,
    /// A call waits for [`crate::node::Node::take_call`]; it is the first waiting call of its method.
    Called {
        /// The tag of the message that is the call.
        method: Bytes,
    },
    /// A message of a stream waits for [`crate::node::Node::take_stream`], or for [`crate::node::Node::recv_stream`]. This is
    /// reported once until they find none.
    Stream {
        /// Its sender.
        peer: NodeId,
        /// The name of the stream.
        name: Bytes,
    },
    /// The queue of a peer that refused a message has room again.
    Sendable {
        /// The peer.
        peer: NodeId,
    },
    /// A streamed message whose window was full takes bytes again.
    BodyWritable {
        /// The message.
        key: MessageKey,
    },
    /// More of a large message has come, or it has ended or failed.
    BodyReadable {
        /// The delivery.
        key: DeliveryKey,
    },
    /// A node proved that it is `id`, and wants to talk: answer with [`crate::node::Node::admit`].
    Authorize {
        /// The node.
        id: NodeId,
        /// Where it came from.
        remote: SocketAddr,
    },
    /// The policy has refused a node that proved that it is `peer`. This is reported once a minute for each such node, and for
    /// 1,024 nodes at most.
    Refused {
        /// The node.
        peer: NodeId,
        /// Where it came from.
        remote: SocketAddr,
    },
    /// There is a channel to a peer (again).
    Connected {
        /// The peer.
        peer: NodeId,
        /// Where it is now.
        remote: SocketAddr,
        /// The peer is another process than before.
        restarted: bool,
    },
    /// A peer leaves everything unanswered that is under way to it, for longer than its answers take. This is reported once,
    /// until it is back.
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
        /// The cookie given to `ping`.
        cookie: u64,
        /// The round-trip time of this ping; None: it was lost.
        rtt: Option<Duration>,
        /// Why the peer does not answer pings of this node, if it refuses them.
        refused: Option<Refusal>,
    },
    /// Two nodes use one identity at once. Nothing is delivered between this node and the peer any more in this life: messages
    /// that have left end [`Outcome::Unknown`], others [`Outcome::Cancelled`]. This is reported once for each peer.
    IdentityConflict {
        /// The peer that found out, or whose identity it is.
        peer: NodeId,
        /// Which identity it is.
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

/// The identity that two nodes use at once, because a state directory was copied or rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The peer's: this node has talked with both.
    Theirs,
    /// This node's own: the peer says that it has talked with both.
    Ours,
    /// This node's own: the peer says that it has talked with a later [generation](crate::Generation) of it, or with another
    /// place of this one: it lives elsewhere.
    Moved,
}

/// A write that must be on the disk before anything that depends on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Names the write in [`crate::node::Node::handle_persisted`].
    pub lsn: Lsn,
    /// `D`.
    pub clock: u64,
    /// The number of the life of the identity that writes: it grows by one with every start.
    pub life: u64,
    /// `latest`.
    pub latest: Stamp,
    /// The senders whose clocks are too far ahead to let `latest` follow, with their refused stamps, if the list has changed. It
    /// replaces the list on the disk.
    pub strays: Option<Box<[(NodeId, Far)]>>,
}

/// The notes on early messages that a node without a journal writes. They survive the process, but not the machine: a boot that
/// may have lost some of them must not use any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Some: these notes are complete and replace everything written before, and this is the hull. None: they are appended.
    pub hull: Option<Hull>,
    /// Senders, and what was taken from them early.
    pub taken: Vec<(NodeId, Taken)>,
}

/// Position in the sequence of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// The source and the destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The source address.
    pub remote: SocketAddr,
    /// The destination address, if the system reports it.
    pub local_ip: Option<IpAddr>,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// The connection that it came by. None: it came as a datagram.
    pub pipe: Option<Pipe>,
}

impl Arrival {
    /// The path that it came by.
    pub(crate) const fn path(&self) -> PathAddr {
        PathAddr { remote: self.remote, local: self.local_ip, pipe: self.pipe }
    }
}

/// A connection that the driver should open for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// The peer.
    pub peer: NodeId,
    /// Where the peer may be: the likeliest address first.
    pub addresses: Vec<SocketAddr>,
}

/// Datagrams to send: `len` bytes at the front of the buffer, in segments of `segment` bytes; the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub remote: SocketAddr,
    /// The source address to use, if the system allows a choice.
    pub src_ip: Option<IpAddr>,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// Size of each datagram but the last.
    pub segment: usize,
    /// Total bytes.
    pub len: usize,
    /// The connection that takes the datagrams, each whole and in this order. None: the socket takes them.
    pub pipe: Option<Pipe>,
}

/// Why a message is not accepted. Nothing has been queued, except if the error is [`Self::InDoubt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message is larger than this node or the peer takes.
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
    /// There is no room for the message in the journal. Only a driver reports this.
    #[error("the disk of the journal is full")]
    NoSpace,
    /// The node is closing or has stopped.
    #[error("the node is closed")]
    Closed,
    /// The journal failed while it wrote the message: the next process may find the message there. Only a driver reports this.
    #[error("the journal failed while it wrote the message")]
    InDoubt,
}

/// The content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// The whole content.
    Whole(Bytes),
    /// A content to be read by [`crate::node::Node::body_read`] to its end, followed by [`crate::node::Node::done`], or to be
    /// [`cut`](crate::node::Node::cut) short. If it ends otherwise, the call has run and its reply is lost.
    Stream {
        /// The delivery by which it is read.
        delivery: DeliveryKey,
        /// The number of bytes. None: the sender did not know it when the message began.
        len: Option<u64>,
    },
}

/// The result of [`crate::node::Node::body_read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyRead {
    /// The next bytes.
    Data(Bytes),
    /// No bytes yet: wait for [`Event::BodyReadable`].
    Pending,
    /// Everything has been read; the message waits for [`crate::node::Node::done`].
    End,
    /// The message will never be complete here; it has not been delivered.
    Aborted,
}

/// The result of [`crate::node::Node::body_write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyWrite {
    /// How many bytes were taken. If not all were, wait for [`Event::BodyWritable`].
    Taken(usize),
    /// No bytes were taken: with them, a message whose length was not known would be longer than this node or the peer allows.
    TooLarge {
        /// The longest body.
        limit: u64,
    },
    /// The message is settled or unknown: no more bytes are wanted.
    Gone,
}

/// The result of [`crate::node::Node::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// The message had not left: it ends Cancelled, certainly never delivered.
    Done,
    /// The message has left, and its receiver is asked for it: its outcome will tell whether it was delivered.
    Asked,
}

/// Why a message could not be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CancelError {
    /// The message has left, and such a message is not withdrawn: only its outcome will tell.
    #[error("the message has left already")]
    InDoubt,
    /// The message is settled.
    #[error("the message is settled already")]
    Settled,
}

/// An unsettled message, for the report of a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenMessage {
    /// The key of the message.
    pub key: MessageKey,
    /// The peer that it is for.
    pub peer: NodeId,
    /// The state of the message.
    pub status: Status,
    /// The bytes of its body.
    pub size: u64,
}
