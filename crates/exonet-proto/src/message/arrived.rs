//! A message that has arrived and that the application has not taken: its slot is still free.

use core::ops::Range;

use bytes::Bytes;

use super::Priority;
use super::lane::Lane;
use crate::id::{Incarnation, MessageId, NodeId};
use crate::wire::Role;
use crate::wire::Traceparent;

/// The memory that a message in the receive queue takes beside its bytes.
pub(crate) const ARRIVED: u64 = 160;

/// A message that could be delivered. Its slot is still free: for the algorithm the message is still in the network.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The sender's place. The id in `id` tells whether the place still belongs to the sender.
    pub(crate) peer: u32,
    pub(crate) id: MessageId,
    pub(crate) tag: Bytes,
    pub(crate) role: Role,
    pub(crate) priority: Priority,
    /// The sender wants to be told that the message was processed.
    pub(crate) confirm: bool,
    pub(crate) trace: Option<Box<Traceparent>>,
    pub(crate) body: ArrivedBody,
    /// The length of the wire form, head included; if it is not known, more than any length.
    pub(crate) wire_len: u64,
}

impl Arrived {
    /// Bytes of memory that a body in one piece holds.
    pub(crate) fn held(&self) -> u64 {
        match &self.body {
            ArrivedBody::Whole(_) => self.wire_len + ARRIVED,
            ArrivedBody::Stream { .. } => 0,
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        Lane::of(self.role, &self.tag)
    }

    pub(crate) fn front(&self) -> Front {
        let MessageId { sender, r, s } = self.id;
        let whole = matches!(self.body, ArrivedBody::Whole(_));
        Front { peer: self.peer, sender, r, slots: s.0..s.0 + 1, whole }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ArrivedBody {
    Whole(Bytes),
    Stream { len: Option<u64> },
}

/// The entry at the head of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) peer: u32,
    pub(crate) sender: NodeId,
    pub(crate) r: Incarnation,
    pub(crate) slots: Range<u64>,
    /// The message is in one piece.
    pub(crate) whole: bool,
}
