//! A message as the application gets it.

use bytes::Bytes;

use super::{DeliveryKey, Priority};
use crate::half::Gap;
use crate::id::{CallId, MessageId};
use crate::wire::StreamEnd;
use crate::wire::Traceparent;

/// A message that is handed to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Names the delivery until it is taken or given back.
    pub key: DeliveryKey,
    /// The name of the message at both ends.
    pub id: MessageId,
    /// The call that the message is, once it is taken: [`crate::node::Node::reply`] or [`crate::node::Node::drop_call`] answers
    /// it. None: the message is not a call, or this node does not serve.
    pub call: Option<CallId>,
    /// For dispatch.
    pub tag: Bytes,
    /// As the sender set it.
    pub priority: Priority,
    /// The number of this attempt to hand out the message, as far as this node knows: the first is 1. After a crash, the message
    /// may have been handed out before, and counts as if it was.
    pub attempt: u32,
    /// The trace that the message is part of, as its sender reports.
    pub trace: Option<Box<Traceparent>>,
    /// The content; or its length, if known, if the body is read as it comes.
    pub body: IncomingBody,
}

/// A message of a stream that is handed to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InStream {
    /// The message. Its tag is the name of the stream.
    pub message: Incoming,
    /// How many messages of the stream were sent before this one.
    pub n: u64,
    /// What lies between this message and the one that was taken before it.
    pub gap: Gap,
    /// Whether the stream goes on behind this message.
    pub end: StreamEnd,
    /// The next message continues this one: they are parts of one.
    pub more: bool,
}

/// The content of an [`Incoming`] message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingBody {
    /// The whole content.
    Whole(Bytes),
    /// A content that [`crate::node::Node::body_read`] reads.
    Stream {
        /// The number of bytes. None: the sender did not know it when the message began.
        len: Option<u64>,
    },
}
