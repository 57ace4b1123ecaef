//! The receivers of rows, as the relay knows them.

use core::time::Duration;
use std::collections::HashMap;

use exonet::{Node, NodeId, Peer, PeerAddr};
use tokio::time::Instant;

/// The first and the longest pause after a failure.
const REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(30);

pub(crate) struct Receiver {
    pub(crate) peer: Peer,
    /// How many rows to it are under way.
    pub(crate) open: usize,
    pause: Pause,
}

/// How long rows for a receiver wait after a failure.
struct Pause {
    next: Duration,
    until: Option<Instant>,
}

impl Pause {
    const NONE: Self = Self { next: REST, until: None };

    /// Notes a failure. All failures until the end of a pause count as one, since a receiver that is restarted fails
    /// many rows at once.
    fn begin(&mut self, now: Instant) {
        if self.until.is_none_or(|until| until <= now) {
            self.until = Some(now + self.next);
            self.next = (2 * self.next).min(LONGEST_REST);
        }
    }
}

impl Receiver {
    /// Notes a failure: rows for this receiver wait, longer each time.
    pub(crate) fn pause(&mut self) {
        self.pause.begin(Instant::now());
    }

    pub(crate) fn goes_well(&mut self) {
        self.pause = Pause::NONE;
    }
}

#[derive(Default)]
pub(crate) struct Receivers(HashMap<NodeId, Receiver>);

impl Receivers {
    pub(crate) fn get(&mut self, node: &Node, id: NodeId, addr: Option<&str>) -> &mut Receiver {
        self.0.entry(id).or_insert_with(|| Receiver {
            peer: node.peer(address(id, addr)),
            open: 0,
            pause: Pause::NONE,
        })
    }

    pub(crate) fn known(&mut self, id: &NodeId) -> Option<&mut Receiver> {
        self.0.get_mut(id)
    }

    /// The receivers that take no row now: they pause, or have reached their limit.
    pub(crate) fn shut(&self, most: usize) -> impl Iterator<Item = NodeId> {
        let now = Instant::now();
        let shut = move |receiver: &Receiver| {
            receiver.open >= most || receiver.pause.until.is_some_and(|until| until > now)
        };
        self.0.iter().filter(move |(_, receiver)| shut(receiver)).map(|(id, _)| *id)
    }

    /// When the next pause ends.
    pub(crate) fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        self.0.values().filter_map(|receiver| receiver.pause.until).filter(|until| *until > now).min()
    }
}

/// The address of a receiver, as stored in a row. A text that is not an address is ignored.
pub(crate) fn address(id: NodeId, addr: Option<&str>) -> PeerAddr {
    addr.and_then(|addr| PeerAddr::new(id, addr.split(',')).ok()).unwrap_or_else(|| PeerAddr::from(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_fail_together_are_one_failure() {
        let (mut pause, mut now) = (Pause::NONE, Instant::now());
        for rest in [REST, 2 * REST, 4 * REST] {
            (0..10).for_each(|_| pause.begin(now));
            assert_eq!(pause.until, Some(now + rest));
            now += rest;
        }
    }
}
