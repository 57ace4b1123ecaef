//! The reasons that receiving applications gave when they rejected or processed messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use exonet_proto::MessageId;

/// How many reasons are kept: the newest.
const MOST: usize = 1_024;

#[derive(Default)]
pub(crate) struct Reasons {
    of: BTreeMap<MessageId, Arc<str>>,
    order: VecDeque<MessageId>,
}

impl Reasons {
    pub(crate) fn keep(&mut self, id: MessageId, reason: Box<str>) {
        if self.of.insert(id, reason.into()).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
    }

    pub(crate) fn of(&self, id: &MessageId) -> Option<Arc<str>> {
        self.of.get(id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use exonet_proto::{Incarnation, NodeId, Slot};

    use super::*;

    #[test]
    fn the_newest_reasons_are_kept() {
        let id = |s| MessageId { sender: NodeId([1; 32]), r: Incarnation(2), s: Slot(s) };
        let mut reasons = Reasons::default();
        (0..=MOST as u64).for_each(|s| reasons.keep(id(s), s.to_string().into()));
        assert_eq!(reasons.of(&id(0)), None);
        assert_eq!(reasons.of(&id(1)).as_deref(), Some("1"));
        assert_eq!((reasons.of.len(), reasons.order.len()), (MOST, MOST));
    }
}
