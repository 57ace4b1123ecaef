//! Messages that were taken and may be handed out only once a crash would not undo that.

use std::collections::VecDeque;
use std::sync::Arc;

use exonet_proto::node::{Incoming, Position};

use crate::call::desk::Line;
use crate::receive::routes::Route;

/// The largest number of messages that wait for the disk at once, for all receivers together.
const MOST: usize = 1_024;

/// The taker of a message or a call.
#[derive(Clone)]
pub(crate) enum Taker {
    /// A receiver: with a route, or without a filter.
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

/// The messages that were taken, in order, each with the position at which it becomes safe to hand out.
#[derive(Default)]
pub(crate) struct Held(VecDeque<(Position, Taker, Incoming)>);

impl Held {
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < MOST
    }

    pub(crate) fn put(&mut self, at: Position, taker: Taker, incoming: Incoming) {
        self.0.push_back((at, taker, incoming));
    }

    /// The next message for this taker, if that is safe.
    pub(crate) fn take(&mut self, taker: &Taker, safe: impl Fn(Position) -> bool) -> Option<Incoming> {
        let place = self.0.iter().position(|(at, known, _)| known == taker && safe(*at))?;
        self.0.remove(place).map(|(_, _, incoming)| incoming)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a message waits for this taker, safe or not.
    pub(crate) fn holds(&self, taker: &Taker) -> bool {
        self.0.iter().any(|(_, known, _)| known == taker)
    }

    /// Moves the messages of a receiver that is gone to the receivers without a filter.
    pub(crate) fn leave(&mut self, route: &Arc<Route>) {
        let gone = Taker::Receiver(Some(Arc::clone(route)));
        for (_, taker, _) in self.0.iter_mut().filter(|(_, taker, _)| *taker == gone) {
            *taker = Taker::Receiver(None);
        }
    }

    /// The takers for which a safe message waits.
    pub(crate) fn ready(&self, safe: impl Fn(Position) -> bool) -> impl Iterator<Item = &Taker> {
        self.0.iter().filter(move |(at, ..)| safe(*at)).map(|(_, taker, _)| taker)
    }

    /// Whether a safe message waits for this taker.
    pub(crate) fn has(&self, taker: &Taker, safe: impl Fn(Position) -> bool) -> bool {
        self.ready(safe).any(|known| known == taker)
    }
}
