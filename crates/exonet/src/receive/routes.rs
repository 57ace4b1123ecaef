//! Routes messages to receivers: queues between the core and the receivers that have a filter.
//!
//! Without such receivers, the node takes messages from the core's own queue. As soon as there is one, the core hands
//! out every message that waits, and each goes into the queue of the first receiver whose filter takes it, or into the
//! queue for all others. This does not take the message: slots and bytes stay occupied, so that senders are held back
//! as before.

use std::collections::VecDeque;
use std::sync::Arc;

use exonet_proto::Now;
use exonet_proto::node::{Incoming, IncomingBody, Node as Core};
use tokio::sync::Notify;

use crate::after::{After, Chore};
use crate::receive::filter::Filter;

/// The least number of messages in the queues at which messages that no peer waits for any more are swept out.
const SWEEP_FROM: usize = 1_024;

/// The state that the handles on one receiver share.
pub(crate) struct Route {
    pub(crate) filter: Filter,
    /// Notified when a message waits: wakes one task.
    pub(crate) readable: Arc<Notify>,
}

impl Route {
    pub(crate) fn new(filter: Filter) -> Self {
        Self { filter, readable: Arc::default() }
    }
}

struct Lane {
    route: Arc<Route>,
    waiting: VecDeque<Incoming>,
}

#[derive(Default)]
pub(crate) struct Routes {
    lanes: Vec<Lane>,
    /// The messages that no lane takes.
    others: VecDeque<Incoming>,
    /// The number of messages in all queues after the last sweep.
    swept: usize,
}

impl Routes {
    /// Whether no receiver has a filter.
    pub(crate) fn are_none(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether no receiver has a filter and no message of former ones is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.others.is_empty()
    }

    pub(crate) fn add(&mut self, route: Arc<Route>) {
        self.lanes.push(Lane { route, waiting: VecDeque::new() });
        let others = core::mem::take(&mut self.others);
        others.into_iter().for_each(|incoming| drop(self.put(incoming)));
    }

    /// Removes a receiver and moves its messages to others. True: some go to the receivers without a filter.
    pub(crate) fn remove(&mut self, route: &Arc<Route>, after: &mut After) -> bool {
        let place = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.route, route));
        let waiting = place.map(|place| self.lanes.remove(place).waiting).unwrap_or_default();
        self.spread(waiting, after)
    }

    /// Hands out the messages that wait in the core. True: some wait for the receivers without a filter.
    pub(crate) fn sort(&mut self, core: &mut Core, now: Now, after: &mut After) -> bool {
        if self.lanes.is_empty() {
            return false;
        }
        let come = core::iter::from_fn(|| core.accept(now)).collect::<Vec<_>>();
        let for_all = self.spread(come, after);
        self.sweep(core, now);
        for_all
    }

    fn spread(&mut self, come: impl IntoIterator<Item = Incoming>, after: &mut After) -> bool {
        let mut for_all = false;
        for incoming in come {
            match self.put(incoming) {
                Some(readable) => after.chores.push(Chore::Next(readable)),
                None => for_all = true,
            }
        }
        for_all
    }

    /// Puts a message into its queue. Returns the task to wake; None: a receiver without a filter.
    fn put(&mut self, incoming: Incoming) -> Option<Arc<Notify>> {
        match self.lanes.iter_mut().find(|lane| lane.route.filter.takes(&incoming)) {
            Some(lane) => {
                lane.waiting.push_back(incoming);
                Some(Arc::clone(&lane.route.readable))
            }
            None => {
                self.others.push_back(incoming);
                None
            }
        }
    }

    /// Sweeps out messages that no peer waits for any more: the queues give all messages back to the core, which drops
    /// those when they are accepted again. The core has no other messages that wait. Bodies that are still coming stay:
    /// they would start again.
    fn sweep(&mut self, core: &mut Core, now: Now) {
        if self.len() < SWEEP_FROM.max(self.swept.saturating_mul(2)) {
            return;
        }
        for queue in self.lanes.iter_mut().map(|lane| &mut lane.waiting).chain([&mut self.others]) {
            let (streamed, whole): (VecDeque<_>, VecDeque<_>) =
                queue.drain(..).partition(|incoming| matches!(incoming.body, IncomingBody::Stream { .. }));
            *queue = streamed;
            // The core puts each released message before the others.
            whole.into_iter().rev().for_each(|incoming| core.release(now, incoming.key));
            while let Some(incoming) = core.accept(now) {
                queue.push_back(incoming);
            }
        }
        self.swept = self.len();
    }

    /// The messages in the queues.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Incoming> {
        self.lanes.iter().flat_map(|lane| &lane.waiting).chain(&self.others)
    }

    fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum::<usize>() + self.others.len()
    }

    /// The next message of a receiver; None: one without a filter. Also says whether more messages wait.
    pub(crate) fn next(&mut self, route: Option<&Arc<Route>>) -> (Option<Incoming>, bool) {
        let lane = route.and_then(|route| self.lanes.iter_mut().find(|lane| Arc::ptr_eq(&lane.route, route)));
        let queue = match (route, lane) {
            (None, _) => &mut self.others,
            (Some(_), Some(lane)) => &mut lane.waiting,
            (Some(_), None) => return (None, false),
        };
        let next = queue.pop_front();
        (next, !queue.is_empty())
    }

    /// Wakes every waiting receiver, to look again.
    pub(crate) fn wake_all(&self, after: &mut After) {
        let lanes = self.lanes.iter().map(|lane| Chore::All(Arc::clone(&lane.route.readable)));
        after.chores.extend(lanes);
    }
}
