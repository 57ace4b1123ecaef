//! The next deadline, and the node that it belongs to.

use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::Mono;

/// The next deadline of each of many nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    due: BTreeMap<usize, Mono>,
    order: BTreeSet<(Mono, usize)>,
}

impl Agenda {
    /// Sets the deadline of `node` to `at`; None: it has none.
    pub(crate) fn set(&mut self, node: usize, at: Option<Mono>) {
        let old = match at {
            Some(at) => self.due.insert(node, at),
            None => self.due.remove(&node),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.order.remove(&(old, node));
        }
        if let Some(at) = at {
            self.order.insert((at, node));
        }
    }

    /// The earliest deadline, and its node.
    pub(crate) fn first(&self) -> Option<(Mono, usize)> {
        self.order.first().copied()
    }
}
