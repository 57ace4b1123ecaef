//! When the node has to look at each peer.

use std::collections::BTreeSet;

use crate::time::Mono;

/// One deadline per peer, ordered: O(log) to change, O(1) to look.
#[derive(Debug)]
pub(super) struct Timers {
    /// Never empty: an empty set frees its memory, and a single peer that comes and goes would make it allocate each time.
    due: BTreeSet<(Mono, u32)>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { due: BTreeSet::from([(Mono::NEVER, u32::MAX)]) }
    }
}

impl Timers {
    /// Moves a peer's deadline from `old` to `new`; [`Mono::NEVER`] means no deadline.
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

    /// Takes a peer whose deadline has come. The peer has no deadline afterwards.
    pub(super) fn pop(&mut self, now: Mono) -> Option<u32> {
        let (at, peer) = *self.due.first()?;
        (at <= now).then(|| {
            self.due.pop_first();
            peer
        })
    }
}
