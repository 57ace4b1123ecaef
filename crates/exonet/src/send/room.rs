//! Room in the queues: the places that permits reserve, and the tasks that wait for a place.

use std::collections::BTreeMap;
use std::sync::Arc;

use exonet_proto::NodeId;
use exonet_proto::node::Node as Core;
use tokio::sync::Notify;

use crate::after::{After, Chore};

/// The tasks that wait for room in the queue to one peer. The first one to come is the first one served.
#[derive(Default)]
struct Line {
    notify: Arc<Notify>,
    waiting: usize,
}

/// The lines of waiting tasks. A wake-up wakes one task of a line. A task that has got its place, or leaves the line,
/// wakes the next.
pub(crate) struct Room {
    lines: BTreeMap<NodeId, Line>,
    /// How many places permits have reserved. A peer without any is absent.
    promised: BTreeMap<NodeId, usize>,
    /// How many messages the queue to one peer holds.
    limit: usize,
}

impl Room {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: BTreeMap::new(), promised: BTreeMap::new(), limit }
    }

    /// Whether the queue to `peer` has room for a message now, apart from the places that permits have reserved.
    pub(crate) fn has(&self, core: &mut Core, peer: &NodeId) -> bool {
        if self.promised.is_empty() {
            core.has_room(peer)
        } else {
            self.left(core, peer) > 0 && core.has_room(peer)
        }
    }

    /// How many messages to `peer` a caller may try to queue now.
    pub(crate) fn left(&self, core: &mut Core, peer: &NodeId) -> usize {
        let Some(promised) = self.promised.get(peer) else { return usize::MAX };
        let held = core.peer_stats(peer).map_or(0, |stats| stats.queued + stats.in_doubt);
        if core.has_room(peer) { self.limit.saturating_sub(held.saturating_add(*promised)) } else { 0 }
    }

    pub(crate) fn promise(&mut self, peer: NodeId) {
        *self.promised.entry(peer).or_insert(0) += 1;
    }

    pub(crate) fn end_promise(&mut self, peer: &NodeId) {
        if let Some(count) = self.promised.get_mut(peer) {
            *count -= 1;
            if *count == 0 {
                self.promised.remove(peer);
            }
        }
    }

    /// Whether there are reserved places. They change the room, and the core does not know of them.
    pub(crate) fn has_promises(&self) -> bool {
        !self.promised.is_empty()
    }

    /// Wakes the first task in line for `peer`, if there is room.
    pub(crate) fn serve(&self, core: &mut Core, peer: &NodeId, after: &mut After) {
        if let Some(line) = self.lines.get(peer)
            && self.has(core, peer)
        {
            after.chores.push(Chore::Next(Arc::clone(&line.notify)));
        }
    }

    /// Like [`Self::serve`], for every line.
    pub(crate) fn serve_all(&self, core: &mut Core, after: &mut After) {
        for peer in self.lines.keys() {
            self.serve(core, peer, after);
        }
    }

    pub(crate) fn join(&mut self, peer: NodeId) -> Arc<Notify> {
        let line = self.lines.entry(peer).or_default();
        line.waiting += 1;
        Arc::clone(&line.notify)
    }

    pub(crate) fn leave(&mut self, peer: &NodeId) {
        if let Some(line) = self.lines.get_mut(peer) {
            line.waiting -= 1;
            if line.waiting == 0 {
                self.lines.remove(peer);
            }
        }
    }

    /// Wakes every waiting task, since there will be no room.
    pub(crate) fn turn_away(&self, after: &mut After) {
        after.chores.extend(self.lines.values().map(|line| Chore::All(Arc::clone(&line.notify))));
    }
}
