//! The steps of a followed message.

use core::net::SocketAddr;
use core::ops::Range;

use bytes::Bytes;

use crate::id::{LetterId, MessageId, NodeId};
use crate::message::{Outcome, Word};
use crate::time::Mono;

/// One step of a followed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the message: the follower counts the messages that it follows from 1 on.
    pub message: u32,
    /// When it happened.
    pub at: Mono,
    /// What happened.
    pub what: What,
    /// Nothing more will happen to the message.
    pub last: bool,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message that is no call and of no stream.
    Message,
    /// A call: its tag is the method.
    Call,
    /// A message of a stream: its tag is the stream's name.
    Stream,
}

/// What carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Datagrams.
    Datagram,
    /// A connection.
    Pipe,
}

/// A packet that carries a message, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The number of the packet under its keys. None: it is an opening, which has none.
    pub number: Option<u64>,
    /// Where the packet goes.
    pub to: SocketAddr,
    /// What carries it.
    pub by: Carrier,
}

/// Why bytes of a message leave again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Again {
    /// The packet that carried them counts as lost.
    Lost,
    /// The channel ended before an acknowledgement came.
    ChannelEnded,
    /// Nothing was acknowledged for a probe timeout.
    Probe,
    /// Nothing followed the packet that would show its loss: it is copied before it is missed.
    Copy,
    /// The receiver does not have them, or has given them back.
    Missing,
    /// The peer has not answered the opening beside which they left.
    Unanswered,
    /// The message was under way before it was followed, and may have left before.
    Before,
}

/// The kinds of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The node took the message from its application.
    Queued {
        /// The node that it is for.
        peer: NodeId,
        /// The bytes of its body; zero if the body is written later.
        size: u64,
        /// Its tag.
        tag: Bytes,
        /// The kind of the message.
        kind: Kind,
        /// The message was there before it was followed.
        open: bool,
    },
    /// The journal has the message. No part of it leaves before the journal is as safe as the node's durability demands.
    Journaled {
        /// The journal's name of the message.
        number: LetterId,
    },
    /// The message was bound to a slot: from now on it may have left.
    Bound {
        /// Its name, without an incarnation while the message is early.
        id: MessageId,
    },
    /// The message was bound without an incarnation, which is known now.
    Named {
        /// Its name at both ends.
        id: MessageId,
    },
    /// A packet with the message left.
    Left {
        /// The packet.
        packet: Packet,
        /// Which bytes of head and body. None: all.
        bytes: Option<Range<u64>>,
        /// Why, if some of these bytes had left before.
        again: Option<Again>,
    },
    /// A packet with the message counts as lost.
    Lost,
    /// The channel ended before a packet with the message was acknowledged.
    ChannelEnded,
    /// A packet with the message was acknowledged: its bytes are at the peer's node.
    Acknowledged,
    /// The message was certainly not taken, and will be sent again.
    Returned,
    /// The message has its outcome.
    Settled {
        /// The outcome.
        outcome: Outcome,
        /// The deadline had passed.
        late: bool,
        /// Its name at both ends. None: the message never left.
        id: Option<MessageId>,
    },
    /// A call was delivered, and waits for its reply.
    Delivered,
    /// A call has its reply.
    Replied {
        /// Zero is success.
        status: u32,
    },
    /// The follower waits for a message that is to come.
    Awaited {
        /// Its name.
        id: MessageId,
    },
    /// The message has come, and waits for the application.
    Arrived {
        /// Its name at both ends.
        id: MessageId,
        /// The bytes of its body. None: the sender has not declared them.
        size: Option<u64>,
        /// Its tag.
        tag: Bytes,
        /// The kind of the message.
        kind: Kind,
    },
    /// A copy of the message came, and was dropped.
    Duplicate,
    /// The message was dropped for lack of room, and comes again.
    NoRoom,
    /// The application has the message, and has not taken it yet.
    HandedOut {
        /// The number of the attempt.
        attempt: u32,
    },
    /// The application gave the message back, to be handed out again.
    GivenBack,
    /// The application took the message: its slot is used up. This is the delivery.
    Taken,
    /// The application has given its verdict on the message.
    Judged {
        /// The verdict.
        word: Word,
        /// The application's own number.
        status: u32,
    },
    /// The application has answered the call.
    Answered {
        /// Zero is success.
        status: u32,
    },
    /// The sender withdrew the message.
    Withdrawn,
    /// The record under which the message came is gone: it cannot be delivered here any more.
    Dropped,
}
