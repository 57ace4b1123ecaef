//! The streams whose readers have stopped.

use std::collections::BTreeMap;

use exonet_proto::MessageId;

use super::desk::StreamId;

/// The most streams that [`Stops`] holds, so that a peer that never ends its streams cannot take more memory.
const MOST: usize = 16_384;

/// A stream whose reader has stopped.
pub(super) struct Stopped {
    /// The reader's reason.
    pub(super) reason: Box<str>,
    /// The last message that was handed out. If a later message opens a stream of this name, it is another stream.
    pub(super) last: Option<MessageId>,
    at: u64,
}

/// The newest streams whose readers have stopped, until they end.
#[derive(Default)]
pub(super) struct Stops {
    streams: BTreeMap<StreamId, Stopped>,
    /// The same streams by their [`Stopped::at`].
    order: BTreeMap<u64, StreamId>,
    next: u64,
}

impl Stops {
    pub(super) fn contains(&self, id: &StreamId) -> bool {
        self.streams.contains_key(id)
    }

    pub(super) fn get_mut(&mut self, id: &StreamId) -> Option<&mut Stopped> {
        self.streams.get_mut(id)
    }

    /// Adds a stream, and forgets the oldest one if there are too many.
    pub(super) fn add(&mut self, id: StreamId, reason: &str, last: Option<MessageId>) {
        self.remove(&id);
        let at = self.next;
        self.next += 1;
        self.order.insert(at, id.clone());
        self.streams.insert(id, Stopped { reason: reason.into(), last, at });
        if self.streams.len() > MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.streams.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, id: &StreamId) {
        if let Some(stopped) = self.streams.remove(id) {
            self.order.remove(&stopped.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use exonet_proto::NodeId;

    use super::*;

    fn id(n: usize) -> StreamId {
        (NodeId([1; 32]), Bytes::from(n.to_string()))
    }

    #[test]
    fn the_oldest_are_forgotten_and_those_that_ended_do_not_count() {
        let mut stops = Stops::default();
        for n in 0..=MOST {
            stops.add(id(n), "enough", None);
        }
        assert!(!stops.contains(&id(0)) && stops.contains(&id(1)));
        stops.remove(&id(2));
        // The newest stop of a stream counts.
        stops.add(id(1), "again", None);
        stops.add(id(0), "again", None);
        assert!(stops.contains(&id(1)) && stops.contains(&id(3)) && stops.contains(&id(0)));
        stops.add(id(2), "again", None);
        assert!(!stops.contains(&id(3)) && stops.contains(&id(1)));
        assert_eq!((stops.streams.len(), stops.order.len()), (MOST, MOST));
    }
}
