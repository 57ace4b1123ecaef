//! A member of a stream: what it is to be sent, in order.

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

/// Why a member is not in a stream any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It had as many messages open as it may have, and the stream does not wait for it: see [`WhenFull::FallOut`](super::WhenFull).
    Full,
    /// It was removed from the stream, or from the group.
    Removed(Remove),
    /// A message of the stream could not be queued for it.
    Failed(SendError),
}

/// A member has left a stream: later messages are not for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// Who.
    pub id: NodeId,
    /// Why.
    pub cause: Cause,
}

/// What waits until it can be queued.
pub(super) type Entering = Pin<Box<dyn Future<Output = Result<Receipt, SendError>> + Send>>;

/// A word of the stream to one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// The copy of a message; None: it says only that the stream ends.
    pub(super) copy: Option<usize>,
    pub(super) end: StreamEnd,
}

/// One that waits for room in the node's queue to the member, or for its address.
pub(super) struct Entry {
    pub(super) next: Next,
    pub(super) entering: Entering,
    pub(super) bell: Arc<Bell>,
}

pub(super) struct Member {
    /// Its number in the stream.
    pub(super) key: usize,
    pub(super) lane: Lane,
    /// Later messages are for it.
    pub(super) active: bool,
    /// What is said in the other direction has been given to the application.
    pub(super) heard: bool,
    /// Copies that have not ended.
    pub(super) open: usize,
    /// Behind `entry`, in order.
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

    /// Whether something waits to be queued.
    pub(super) fn has_backlog(&self) -> bool {
        self.entry.is_some() || !self.waiting.is_empty()
    }

    /// The copies that wait to be queued, the first first. They do so no more.
    pub(super) fn drop_backlog(&mut self) -> Vec<usize> {
        let entry = self.entry.take().map(|entry| entry.next);
        entry.into_iter().chain(self.waiting.drain(..)).filter_map(|next| next.copy).collect()
    }

    /// A copy that waits to be queued does so no more.
    pub(super) fn drop_waiting(&mut self, copy: usize) {
        if self.entry.as_ref().is_some_and(|entry| entry.next.copy == Some(copy)) {
            self.entry = None;
        }
        self.waiting.retain(|next| next.copy != Some(copy));
    }
}
