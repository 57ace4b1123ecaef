//! Messages that were bound when their sender record was made, and are sent before anything is granted.

use std::collections::VecDeque;

use super::{Claim, Proof, State};
use crate::id::{Incarnation, Slot, Stamp};

/// `tok: s -> (EARLY, m)`: open messages whose incarnation is known so far only by the stamp `ts`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Early<T> {
    ts: Stamp,
    /// In ascending order of slots.
    tokens: VecDeque<(Slot, T)>,
}

impl<T> Early<T> {
    pub(super) const fn none() -> Self {
        Self { ts: Stamp::NONE, tokens: VecDeque::new() }
    }

    pub(super) fn new(ts: Stamp, first: Slot, messages: impl IntoIterator<Item = T>) -> Self {
        Self::recover(ts, (first.0..).map(Slot).zip(messages))
    }

    pub(super) fn recover(ts: Stamp, tokens: impl IntoIterator<Item = (Slot, T)>) -> Self {
        Self { ts, tokens: tokens.into_iter().collect() }
    }

    /// The stamp, while a message is open under it.
    pub(super) fn stamp(&self) -> Stamp {
        if self.tokens.is_empty() { Stamp::NONE } else { self.ts }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn first(&self) -> Option<Slot> {
        self.tokens.front().map(|(s, _)| *s)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.tokens.iter().map(|(s, message)| (*s, message))
    }

    pub(super) fn take(&mut self, s: Slot) -> Option<T> {
        let at = self.tokens.iter().position(|(open, _)| *open == s)?;
        self.tokens.remove(at).map(|(_, message)| message)
    }

    /// Takes out all remaining messages.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Slot, T)> {
        self.tokens.drain(..)
    }

    /// Applies what a STATE proves. `settle` gets the messages that end. `convert` gets the messages that have met a live
    /// incarnation and continue under its name; it may give a message back. No message meets an incarnation below `dead`: it
    /// would end Unknown under it.
    ///
    /// A STATE that does not mention this very stamp can prove only that a slot was used, or that the sender has passed it.
    pub(super) fn judge(
        &mut self,
        state: &State,
        dead: Incarnation,
        mut settle: impl FnMut(Slot, T, Proof),
        mut convert: impl FnMut(Slot, T) -> Result<(), T>,
    ) {
        let passed = state.live.as_ref().map_or(Slot(0), Claim::passed);
        let forgotten = state.taken.filter(|taken| taken.ts == self.ts).map(|taken| taken.end);
        for (s, message) in std::mem::take(&mut self.tokens) {
            let claim = state.live.as_ref().filter(|claim| claim.covers(s));
            if claim.is_some_and(|claim| !claim.free.contains(s.0)) {
                settle(s, message, Proof::Delivered);
            } else if s < passed || forgotten.is_some_and(|end| s < end) {
                settle(s, message, Proof::Unknown);
            } else if claim.is_some_and(|claim| claim.closed) && forgotten.is_some() {
                settle(s, message, Proof::NotTaken);
            } else if claim.is_some() && forgotten.is_some() && state.r >= dead {
                let kept = convert(s, message).err();
                self.tokens.extend(kept.map(|message| (s, message)));
            } else {
                self.tokens.push_back((s, message));
            }
        }
    }
}
