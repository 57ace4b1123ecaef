//! Messages that were taken, and that may be handed out only once a crash can no longer undo this.

use std::collections::VecDeque;
use std::sync::Arc;

use exonet_proto::node::{Incoming, Position};

use crate::call::desk::Line;
use crate::receive::routes::Route;

/// How many messages may wait for the disk at the same time, for all receivers together.
const MOST: usize = 1_024;

/// Who has taken a message or a call.
#[derive(Clone)]
pub(crate) enum Taker {
    /// A receiver: one with a filter, or, if None, any other.
    Receiver(Option<Arc<Route>>),
    /// The server of a method.
    Server(Arc<Line>),
}

impl PartialEq for Taker {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Receiver(None), Self::Receiver(None)) => true,
            (Self::Receiver(Some(one)), Self::Receiver(Some(other))) => Arc::ptr_eq(one, other),
            (Self::Server(one), Self::Server(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// The messages that were taken, in order. Each may be handed out once the journal is safe up to its position.
#[derive(Default)]
pub(crate) struct Held(VecDeque<(Position, Taker, Incoming)>);

impl Held {
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < MOST
    }

    pub(crate) fn put(&mut self, at: Position, taker: Taker, incoming: Incoming) {
        self.0.push_back((at, taker, incoming));
    }

    /// Takes the next message for this taker, if it may be handed out.
    pub(crate) fn take(&mut self, taker: &Taker, safe: impl Fn(Position) -> bool) -> Option<Incoming> {
        let place = self.0.iter().position(|(at, known, _)| known == taker && safe(*at))?;
        self.0.remove(place).map(|(_, _, incoming)| incoming)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any message waits for this taker, even one that may not be handed out yet.
    pub(crate) fn holds(&self, taker: &Taker) -> bool {
        self.0.iter().any(|(_, known, _)| known == taker)
    }

    /// Moves the messages of a receiver that was dropped to the receivers without a filter.
    pub(crate) fn leave(&mut self, route: &Arc<Route>) {
        let gone = Taker::Receiver(Some(Arc::clone(route)));
        for (_, taker, _) in self.0.iter_mut().filter(|(_, taker, _)| *taker == gone) {
            *taker = Taker::Receiver(None);
        }
    }

    /// The takers for which a message waits that may be handed out.
    pub(crate) fn ready(&self, safe: impl Fn(Position) -> bool) -> impl Iterator<Item = &Taker> {
        self.0.iter().filter(move |(at, ..)| safe(*at)).map(|(_, taker, _)| taker)
    }

    /// Whether a message waits for this taker that may be handed out.
    pub(crate) fn has(&self, taker: &Taker, safe: impl Fn(Position) -> bool) -> bool {
        self.ready(safe).any(|known| known == taker)
    }
}
