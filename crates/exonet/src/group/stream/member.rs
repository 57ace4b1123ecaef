//! A member of a stream, and the messages for it, in order.

use core::future::Future;
use core::pin::Pin;
use std::collections::VecDeque;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::StreamEnd;

use crate::error::SendError;
use crate::group::Remove;
use crate::group::ready::Bell;
use crate::send::receipt::Receipt;
use crate::stream::lane::Lane;

/// Why a member is no longer in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The member had reached its limit of open messages, and the stream does not wait for it: see
    /// [`WhenFull::FallOut`](super::WhenFull).
    Full,
    /// The application removed the member from the stream, or from the group.
    Removed(Remove),
    /// The node could not queue a message of the stream for the member.
    Failed(SendError),
}

/// A member that has left a stream, and gets no later messages of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// The member.
    pub id: NodeId,
    /// Why it has left.
    pub cause: Cause,
}

/// A future that waits until a message can be queued.
pub(super) type Entering = Pin<Box<dyn Future<Output = Result<Receipt, SendError>> + Send>>;

/// An item of the stream for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// The copy of a message; None: the item only says that the stream ends.
    pub(super) copy: Option<usize>,
    pub(super) end: StreamEnd,
}

/// An item that waits for room in the node's queue to the member, or for the member's address.
pub(super) struct Entry {
    pub(super) next: Next,
    pub(super) entering: Entering,
    pub(super) bell: Arc<Bell>,
}

pub(super) struct Member {
    /// The member's number in the stream.
    pub(super) key: usize,
    pub(super) lane: Lane,
    /// Whether the member gets later messages.
    pub(super) active: bool,
    /// Whether the application has taken the receiving direction.
    pub(super) heard: bool,
    /// The number of copies that have not ended.
    pub(super) open: usize,
    /// The items after `entry`, in order.
    pub(super) waiting: VecDeque<Next>,
    pub(super) entry: Option<Entry>,
}

impl Member {
    pub(super) fn new(key: usize, lane: Lane) -> Self {
        let (waiting, entry) = (VecDeque::new(), None);
        Self { key, lane, active: true, heard: false, open: 0, waiting, entry }
    }

    pub(super) fn id(&self) -> NodeId {
        self.lane.claim.id.0
    }

    /// Whether an item waits to be queued.
    pub(super) fn has_backlog(&self) -> bool {
        self.entry.is_some() || !self.waiting.is_empty()
    }

    /// Drops all items that wait to be queued, and returns their copies in order.
    pub(super) fn drop_backlog(&mut self) -> Vec<usize> {
        let entry = self.entry.take().map(|entry| entry.next);
        entry.into_iter().chain(self.waiting.drain(..)).filter_map(|next| next.copy).collect()
    }

    /// Drops a copy that waits to be queued.
    pub(super) fn drop_waiting(&mut self, copy: usize) {
        if self.entry.as_ref().is_some_and(|entry| entry.next.copy == Some(copy)) {
            self.entry = None;
        }
        self.waiting.retain(|next| next.copy != Some(copy));
    }
}
