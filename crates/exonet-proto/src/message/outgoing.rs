//! A message as the application gives it, and the keys of messages within a node.

use bytes::Bytes;

use crate::message::Confirm;
use crate::time::Mono;
use crate::wire::Traceparent;
use crate::wire::{MAX_TAG, Role, StreamMark};

/// A message that this node was asked to send. The index is dense and reused; the generation is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// Which of the messages that were queued together.
    pub(crate) at: u32,
}

impl MessageKey {
    /// A small number, for a table of receipts. Two unsettled messages have the same number only if they were queued together.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The position of the message among those that were queued together, from zero on.
    pub const fn place(self) -> u32 {
        self.at
    }

    /// The message that comes `n` behind this one among those that were queued together: see [`crate::node::Node::send_each`].
    #[must_use]
    pub const fn nth(self, n: u32) -> Self {
        Self { at: self.at.wrapping_add(n), ..self }
    }

    /// The first of the messages that were queued together with this one: usually the message itself.
    #[must_use]
    pub const fn first(self) -> Self {
        Self { at: 0, ..self }
    }
}

/// A message that has been handed to the application and not yet been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryKey(pub(crate) u64);

impl DeliveryKey {
    /// The key of no delivery: the message has been taken already.
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// Which messages leave first. Within a class, messages leave in the order of sending; large bodies use what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Before everything else: four times the share of Normal.
    Urgent,
    /// The default: four times the share of Low.
    #[default]
    Normal,
    /// Four times the share of Bulk.
    Low,
    /// The lowest class, which still always gets a share.
    Bulk,
}

impl From<crate::wire::Priority> for Priority {
    fn from(class: crate::wire::Priority) -> Self {
        match class.get() {
            0 => Self::Urgent,
            1 => Self::Normal,
            2 => Self::Low,
            _ => Self::Bulk,
        }
    }
}

/// A message as the application gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// For dispatch at the receiver: at most 255 bytes.
    pub tag: Bytes,
    /// The content. Ignored by [`crate::node::Node::send_stream`].
    pub body: Bytes,
    /// The class of the message: which messages leave first.
    pub priority: Priority,
    /// When the message is not wanted any more. If it has left by then, it is withdrawn, and ends Expired or Delivered, marked
    /// late. A message of a stream is only marked late; a call that has left ends Unknown, marked late.
    pub deadline: Option<Mono>,
    /// Whether the message may leave beside the opening of a channel.
    pub early: Early,
    /// What its sender wants to be told in the end.
    pub confirm: Confirm,
    /// The trace that the message is part of, for its receiver. A message that has one is kept by itself.
    pub trace: Option<Box<Traceparent>>,
}

/// What messages that are kept together have in common beside the length of their bodies: the head before each of them, and the
/// deadline. Whether they leave beside an opening depends on the node's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// The [`Outgoing::tag`] of each.
    pub tag: Bytes,
    /// The [`Outgoing::priority`] of each.
    pub priority: Priority,
    /// The [`Outgoing::deadline`] of each.
    pub deadline: Option<Mono>,
    /// The [`Outgoing::confirm`] of each.
    pub confirm: Confirm,
    /// They are messages of the stream named by the tag, each behind the one before, and the stream goes on behind them.
    pub in_stream: bool,
}

impl Alike {
    /// What a message may have in common with others, in a stream or not. None: the message is kept by itself.
    pub fn of(message: &Outgoing, in_stream: bool) -> Option<Self> {
        let Outgoing { tag, priority, deadline, early, confirm, .. } = message;
        let (priority, deadline, confirm) = (*priority, *deadline, *confirm);
        let usual = (in_stream || *early == Early::AsNode) && message.trace.is_none();
        usual.then(|| Self { tag: tag.clone(), priority, deadline, confirm, in_stream })
    }

    /// Whether a message has all this. It belongs to a stream exactly if these do.
    #[inline]
    pub(crate) fn is_of(&self, message: &Outgoing) -> bool {
        let Outgoing { tag, priority, deadline, early, confirm, .. } = message;
        let usual = (self.in_stream || *early == Early::AsNode) && message.trace.is_none();
        let named = tag.len() == self.tag.len() && (tag.is_empty() || *tag == self.tag);
        let same = (*priority, *deadline, *confirm) == (self.priority, self.deadline, self.confirm);
        usual && same && named
    }

    /// Whether such messages are accepted.
    pub(crate) fn is_sound(&self) -> bool {
        self.tag.len() <= MAX_TAG && !(self.in_stream && self.tag.is_empty())
    }

    /// Whether a frame has only a body and a priority for such a message.
    pub(crate) fn is_plain(&self) -> bool {
        self.tag.is_empty() && self.confirm == Confirm::Delivered && !self.in_stream
    }

    /// A message like these, with this body.
    pub(crate) fn with(&self, body: Bytes) -> Outgoing {
        let Self { tag, priority, deadline, confirm, .. } = self.clone();
        Outgoing { tag, body, priority, deadline, confirm, ..Outgoing::default() }
    }

    /// The role of each of them until it is bound.
    pub(crate) const fn role(&self) -> Role {
        if self.in_stream { Role::Stream(StreamMark::OPEN) } else { Role::Plain }
    }
}

/// Whether a message may leave beside the opening of a channel: see [`crate::node::Config::early`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Early {
    /// As the node is configured, if the message has no deadline: a message that has left is in doubt and does not expire.
    #[default]
    AsNode,
    /// The message may leave early.
    Yes,
    /// The message waits for the channel, whose keys do not outlive it.
    No,
}
