//! What happens to a message that is followed.

use core::net::SocketAddr;
use core::ops::Range;

use bytes::Bytes;

use crate::id::{LetterId, MessageId, NodeId};
use crate::message::{Outcome, Word};
use crate::time::Mono;

/// One thing that happened to a message that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which message: the follower counts those that it follows from 1 on.
    pub message: u32,
    /// When.
    pub at: Mono,
    /// What.
    pub what: What,
    /// Nothing more will happen to the message.
    pub last: bool,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message that is no call and of no stream.
    Message,
    /// A call: its tag is the method.
    Call,
    /// A message of a stream: its tag is the stream's name.
    Stream,
}

/// By what packets go.
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
    /// Its number under its keys; None: it is an opening, which has none.
    pub number: Option<u64>,
    /// Where it goes.
    pub to: SocketAddr,
    /// By what.
    pub by: Carrier,
}

/// Why bytes of a message leave again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// The packet that carried them counts as lost.
    Lost,
    /// The channel ended before an acknowledgement came.
    ChannelEnded,
    /// Nothing was acknowledged for a probe timeout.
    Probe,
    /// Nothing followed the packet that would show its loss: it is copied before it is missed.
    Copy,
    /// The receiver has not got them, or has given them back.
    Missing,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The node took the message from its application.
    Queued {
        /// To whom.
        peer: NodeId,
        /// Bytes of its body; zero where it is written later.
        size: u64,
        /// Its tag.
        tag: Bytes,
        /// What it is.
        kind: Kind,
        /// It was there before it was followed.
        open: bool,
    },
    /// The journal has it. Nothing of it leaves before the journal is as safe as the node's durability asks.
    Journaled {
        /// The journal's name of it.
        number: LetterId,
    },
    /// It was bound to a slot: from now on it may have left.
    Bound {
        /// Its name, without an incarnation while it is early.
        id: MessageId,
    },
    /// It was bound without an incarnation, which is known now.
    Named {
        /// Its name at both ends.
        id: MessageId,
    },
    /// A packet with it left.
    Left {
        /// The packet.
        packet: Packet,
        /// Which bytes of head and body; None: all.
        bytes: Option<Range<u64>>,
        /// Why, if some of these had left before.
        again: Option<Again>,
    },
    /// A packet with it counts as lost.
    Lost,
    /// Its channel ended before a packet with it was acknowledged.
    ChannelEnded,
    /// A packet with it was acknowledged: its bytes are at the peer's node.
    Acknowledged,
    /// It certainly was not taken, and is to be sent again.
    Returned,
    /// It has its outcome.
    Settled {
        /// The outcome.
        outcome: Outcome,
        /// After its deadline.
        late: bool,
        /// Its name at both ends; None: it never left.
        id: Option<MessageId>,
    },
    /// A call was delivered. Its reply is waited for.
    Delivered,
    /// A call has its reply.
    Replied {
        /// Zero is success.
        status: u32,
    },
    /// One that is to come is waited for.
    Awaited {
        /// Its name.
        id: MessageId,
    },
    /// It has come, and waits for the application.
    Arrived {
        /// Its name at both ends.
        id: MessageId,
        /// Bytes of its body; None: its sender has not said.
        size: Option<u64>,
        /// Its tag.
        tag: Bytes,
        /// What it is.
        kind: Kind,
    },
    /// A copy of it came, and was dropped.
    Duplicate,
    /// It was dropped for lack of room, and comes again.
    NoRoom,
    /// The application has it, and has not said that it takes it.
    HandedOut {
        /// Which time.
        attempt: u32,
    },
    /// The application gave it back, to be handed out again.
    GivenBack,
    /// The application took it: its slot is used up. This is the delivery.
    Taken,
    /// The application has said what became of it.
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
    /// Its sender withdrew it.
    Withdrawn,
    /// The record that it came under is gone: it can be delivered here no more.
    Dropped,
}
