//! An entry of the receive queue: a message, or several that came together.

use bytes::Bytes;

use super::arrived::{Arrived, Front};
use super::run::Run;
use crate::id::Slot;
use crate::wire::{Role, StreamMark};

#[derive(Debug)]
pub(crate) enum Waiting {
    One(Arrived),
    Run(Run),
}

impl Waiting {
    pub(crate) fn first(&self) -> Front {
        match self {
            Self::One(one) => one.front(),
            Self::Run(run) => run.front(1),
        }
    }

    /// The stream of the first message, and its place in it.
    pub(crate) fn stream(&self) -> Option<(&Bytes, StreamMark)> {
        match self {
            Self::One(Arrived { role: Role::Stream(mark), tag, .. }) => Some((tag, *mark)),
            Self::One(_) => None,
            Self::Run(run) => run.stream(),
        }
    }

    /// The slot of the last message.
    pub(super) fn last(&self) -> Slot {
        match self {
            Self::One(one) => one.id.s,
            Self::Run(run) => Slot(run.slots().end.saturating_sub(1)),
        }
    }

    pub(super) fn messages(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Run(run) => run.len(),
        }
    }

    /// How many messages are in one piece, and the bytes of memory of all.
    pub(super) fn held(&self) -> (usize, u64) {
        match self {
            Self::One(one) => (usize::from(one.held() > 0), one.held()),
            Self::Run(run) => (run.len(), run.held()),
        }
    }

    /// Takes the first message out. Also returns the rest.
    pub(super) fn pop(self) -> (Option<Arrived>, Option<Self>) {
        match self {
            Self::One(one) => (Some(one), None),
            Self::Run(mut run) => {
                let first = run.pop();
                (first, (run.len() > 0).then_some(Self::Run(run)))
            }
        }
    }

    /// Takes the last `most` messages out, each by itself. Also returns the rest.
    pub(super) fn pop_last(self, most: usize) -> (Vec<Arrived>, Option<Self>) {
        match self {
            Self::One(one) => (vec![one], None),
            Self::Run(mut run) => {
                let kept = run.len().checked_sub(most).filter(|kept| *kept > 0);
                let kept = kept.and_then(|kept| run.split_to(kept)).map(Self::Run);
                (std::iter::from_fn(|| run.pop()).collect(), kept)
            }
        }
    }
}

impl From<Arrived> for Waiting {
    fn from(one: Arrived) -> Self {
        Self::One(one)
    }
}

impl From<Run> for Waiting {
    fn from(run: Run) -> Self {
        Self::Run(run)
    }
}
