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
    /// Its name at both ends.
    pub id: MessageId,
    /// The call that it is, once taken to be answered by [`crate::node::Node::reply`] or [`crate::node::Node::drop_call`]; None:
    /// it is none, or this node does not serve.
    pub call: Option<CallId>,
    /// For dispatch.
    pub tag: Bytes,
    /// As the sender set it.
    pub priority: Priority,
    /// Which time it is that the message is handed out, as far as this node knows: the first is 1. After a crash it may have been
    /// handed out before, and counts as if it was.
    pub attempt: u32,
    /// The trace that it is part of, as its sender says.
    pub trace: Option<Box<Traceparent>>,
    /// The content, or its length, if that is known, where it is read as it comes.
    pub body: IncomingBody,
}

/// A message of a stream that is handed to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InStream {
    /// The message. Its tag is the name of the stream.
    pub message: Incoming,
    /// How many messages of the stream were sent before it.
    pub n: u64,
    /// What lies between it and the message that was taken before it.
    pub gap: Gap,
    /// Whether the stream goes on behind it.
    pub end: StreamEnd,
    /// The next message goes on with this one: they are parts of one.
    pub more: bool,
}

/// The content of an [`Incoming`] message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingBody {
    /// All of it.
    Whole(Bytes),
    /// To be read by [`crate::node::Node::body_read`].
    Stream {
        /// Bytes in all; None: its sender did not know when it began.
        len: Option<u64>,
    },
}
