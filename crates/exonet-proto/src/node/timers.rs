//! Which peer has to be looked at when.

use std::collections::BTreeSet;

use crate::time::Mono;

/// One deadline per peer, ordered: O(log) to change, O(1) to look.
#[derive(Debug)]
pub(super) struct Timers {
    /// Never empty: an empty set gives its memory back, and one peer that comes and goes would allocate each time.
    due: BTreeSet<(Mono, u32)>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { due: BTreeSet::from([(Mono::NEVER, u32::MAX)]) }
    }
}

impl Timers {
    /// Moves a peer's deadline from `old` to `new`; [`Mono::NEVER`] is none.
    pub(super) fn set(&mut self, peer: u32, old: Mono, new: Mono) {
        if old != Mono::NEVER {
            self.due.remove(&(old, peer));
        }
        if new != Mono::NEVER {
            self.due.insert((new, peer));
        }
    }

    pub(super) fn next(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at).filter(|at| *at != Mono::NEVER)
    }

    /// A peer whose deadline has come; it has none afterwards.
    pub(super) fn pop(&mut self, now: Mono) -> Option<u32> {
        let (at, peer) = *self.due.first()?;
        (at <= now).then(|| {
            self.due.pop_first();
            peer
        })
    }
}
