//! Routes messages to receivers: queues between the core and the receivers that have a filter.
//!
//! Without such receivers, the node takes messages from the core's own queue. As soon as there is one, the core hands
//! out every waiting message, and each goes into the queue of the first receiver whose filter selects it, or into the
//! queue for all others. This does not take the message: it still occupies its slot and its bytes, so its sender is
//! held back as before.

use std::collections::VecDeque;
use std::sync::Arc;

use exonet_proto::Now;
use exonet_proto::node::{Incoming, IncomingBody, Node as Core};
use tokio::sync::Notify;

use crate::after::{After, Chore};
use crate::receive::filter::Filter;

/// Messages that their sender has given up are swept out once the queues hold at least this many messages.
const SWEEP_FROM: usize = 1_024;

/// What the handles on one receiver share.
pub(crate) struct Route {
    pub(crate) filter: Filter,
    /// Wakes one task when a message waits.
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
    /// The messages that no filter selects.
    others: VecDeque<Incoming>,
    /// How many messages all queues held after the last sweep.
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

    /// Removes a receiver, and moves its messages to others. Returns whether some go to the receivers without a
    /// filter.
    pub(crate) fn remove(&mut self, route: &Arc<Route>, after: &mut After) -> bool {
        let place = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.route, route));
        let waiting = place.map(|place| self.lanes.remove(place).waiting).unwrap_or_default();
        self.spread(waiting, after)
    }

    /// Hands out the messages that wait in the core. Returns whether some wait for the receivers without a filter.
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

    /// Puts a message into its queue. Returns whom to wake; None: the receivers without a filter.
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

    /// Sweeps out messages that their sender has given up. It gives all messages in the queues back to the core,
    /// which has no other messages that wait; the core then does not hand those out again. Bodies that still arrive
    /// stay here, since they would begin anew.
    fn sweep(&mut self, core: &mut Core, now: Now) {
        if self.len() < SWEEP_FROM.max(self.swept.saturating_mul(2)) {
            return;
        }
        for queue in self.lanes.iter_mut().map(|lane| &mut lane.waiting).chain([&mut self.others]) {
            let (streamed, whole): (VecDeque<_>, VecDeque<_>) =
                queue.drain(..).partition(|incoming| matches!(incoming.body, IncomingBody::Stream { .. }));
            *queue = streamed;
            // The core puts each message that it gets back before the others.
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

    /// Takes the next message of a receiver; None: of those without a filter. Also returns whether more messages
    /// wait.
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

    /// Wakes every receiver that waits, so that it looks again.
    pub(crate) fn wake_all(&self, after: &mut After) {
        let lanes = self.lanes.iter().map(|lane| Chore::All(Arc::clone(&lane.route.readable)));
        after.chores.extend(lanes);
    }
}
