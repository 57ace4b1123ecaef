//! Messages that are taken together.

use core::fmt;
use std::sync::Arc;

use exonet_proto::node::{Incoming, IncomingRun, View};

use crate::receive::delivery::Received;
use crate::shared::Shared;

/// Messages that were taken under one hold of the lock: runs from the core, or single messages.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) runs: Vec<IncomingRun>,
    pub(crate) singles: Vec<Incoming>,
}

impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.singles.is_empty()
    }
}

/// Messages that were received together, in the order of each sender. All are delivered, except those whose body
/// still arrives.
///
/// It is an iterator, which makes each message when it returns it. If the batch is dropped, the node hands out again
/// the messages in it whose body still arrives.
#[must_use = "these messages have been delivered"]
pub struct Batch {
    shared: Arc<Shared>,
    runs: std::vec::IntoIter<IncomingRun>,
    current: Option<IncomingRun>,
    /// Messages that came through a [`Filter`](crate::receive::Filter) or in a stream.
    singles: std::vec::IntoIter<Received>,
    left: usize,
}

impl Batch {
    pub(crate) fn new(shared: &Arc<Shared>, taken: Taken) -> Self {
        let Taken { runs, singles } = taken;
        let left = runs.iter().map(ExactSizeIterator::len).sum::<usize>() + singles.len();
        let singles = singles.into_iter().map(|incoming| Received::new(shared, incoming, true));
        let singles = singles.collect::<Vec<_>>().into_iter();
        Self { shared: Arc::clone(shared), runs: runs.into_iter(), current: None, singles, left }
    }

    pub(crate) fn of(shared: &Arc<Shared>, messages: Vec<Received>) -> Self {
        let (left, singles) = (messages.len(), messages.into_iter());
        Self { shared: Arc::clone(shared), runs: Vec::new().into_iter(), current: None, singles, left }
    }

    /// Views of the remaining messages, without copying. The batch creates no object for a message, so this is the
    /// fastest way to read many small messages. A message whose body still arrives has no view: take it from the
    /// iterator, and read its body to the end to deliver it.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        let runs = self.current.iter().chain(self.runs.as_slice()).flat_map(IncomingRun::views);
        runs.chain(self.singles.as_slice().iter().map(Received::view))
    }
}

impl Iterator for Batch {
    type Item = Received;

    fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(incoming) = self.current.as_mut().and_then(Iterator::next) {
                self.left -= 1;
                return Some(Received::new(&self.shared, incoming, true));
            }
            self.current = self.runs.next();
            if self.current.is_none() {
                let received = self.singles.next()?;
                self.left -= 1;
                return Some(received);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Batch {}

impl Drop for Batch {
    fn drop(&mut self) {
        let left = self.current.iter().chain(self.runs.as_slice());
        let streamed: Vec<_> = left.filter_map(IncomingRun::handed_out).collect();
        if !streamed.is_empty() {
            self.shared.step_calmly(|engine, now| {
                // No task has begun to read these bodies, so no waker is returned.
                streamed.into_iter().for_each(|key| drop(engine.release(now, key)));
            });
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("left", &self.left).finish_non_exhaustive()
    }
}
