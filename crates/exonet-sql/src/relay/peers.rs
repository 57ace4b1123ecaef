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
    window: Window,
    pause: Pause,
}

/// How many rows to a receiver may be under way. A full window takes rows again once half of it is free: a read for
/// each place that becomes free would find the same rows many times.
struct Window {
    most: usize,
    open: usize,
    full: bool,
}

impl Window {
    fn room(&self) -> usize {
        if self.full { 0 } else { self.most - self.open }
    }

    fn begin(&mut self) {
        self.open += 1;
        self.full |= self.open >= self.most;
    }

    /// Returns true if the window takes rows again from now on.
    fn end(&mut self) -> bool {
        self.open = self.open.saturating_sub(1);
        let reopens = self.full && self.open <= self.most / 2;
        self.full &= !reopens;
        reopens
    }
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

    /// Whether it takes no row now: it pauses, or its window is full.
    pub(crate) fn takes_none(&self, now: Instant) -> bool {
        self.room() == 0 || self.pause.until.is_some_and(|until| until > now)
    }

    /// How many rows may be under way to it beside those that are.
    fn room(&self) -> usize {
        self.window.room()
    }

    /// A row to it is under way.
    pub(crate) fn begin(&mut self) {
        self.window.begin();
    }

    /// A row to it is no longer under way. Returns true if it takes rows again from now on.
    pub(crate) fn end(&mut self) -> bool {
        self.window.end()
    }
}

pub(crate) struct Receivers {
    all: HashMap<NodeId, Receiver>,
    /// How many rows to one receiver may be under way.
    in_flight: usize,
}

impl Receivers {
    pub(crate) fn new(in_flight: usize) -> Self {
        Self { all: HashMap::new(), in_flight }
    }

    pub(crate) fn get(&mut self, node: &Node, id: NodeId, addr: Option<&str>) -> &mut Receiver {
        self.all.entry(id).or_insert_with(|| Receiver {
            peer: node.peer(address(id, addr)),
            window: Window { most: self.in_flight, open: 0, full: false },
            pause: Pause::NONE,
        })
    }

    pub(crate) fn known(&mut self, id: &NodeId) -> Option<&mut Receiver> {
        self.all.get_mut(id)
    }

    /// The receivers that take no row now.
    pub(crate) fn shut(&self) -> impl Iterator<Item = NodeId> {
        let now = Instant::now();
        self.all.iter().filter(move |(_, receiver)| receiver.takes_none(now)).map(|(id, _)| *id)
    }

    /// How many rows the receivers take now that are known and take any. None: no known one takes any.
    pub(crate) fn room(&self) -> Option<usize> {
        let now = Instant::now();
        let open = self.all.values().filter(|receiver| !receiver.takes_none(now));
        open.map(Receiver::room).reduce(|sum, room| sum.saturating_add(room))
    }

    /// Whether there are receivers, and none takes a row now.
    pub(crate) fn all_shut(&self) -> bool {
        !self.all.is_empty() && self.room().is_none()
    }

    /// When the next pause ends.
    pub(crate) fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        self.all.values().filter_map(|receiver| receiver.pause.until).filter(|until| *until > now).min()
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
    fn a_full_window_takes_rows_again_once_half_of_it_is_free() {
        let mut window = Window { most: 8, open: 0, full: false };
        (0..7).for_each(|_| window.begin());
        assert_eq!(window.room(), 1);
        window.begin();
        assert!((0..3).all(|_| !window.end() && window.room() == 0));
        assert!(window.end());
        assert_eq!(window.room(), 4);
        assert!(!window.end());
        // The smallest window takes a row after each.
        let mut window = Window { most: 1, open: 0, full: false };
        window.begin();
        assert_eq!(window.room(), 0);
        assert!(window.end() && window.room() == 1);
    }

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
