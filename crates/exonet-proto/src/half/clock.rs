//! The one integer that survives a restart: `ck`, its durable bound `D`, and the amnesia frontier `b`.

use super::{Hull, Stamps};
use crate::id::{Incarnation, MAX_NUMBER, Slot, Stamp};

/// The clock of a node: the source of every slot number and incarnation that the node ever uses.
///
/// Invariant: every number asked for is at most `D`, and every incarnation handed out is below `D`, where `D`
/// is durable. So a node that boots with `ck = D` never uses a number twice (PROTOCOL.md "Node clock").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    ck: u64,
    /// The outcomes of messages under lower incarnations that are not live here are unknown.
    b: Incarnation,
    /// `D`: numbers up to this may be used.
    durable: u64,
    /// The highest number in use. It decides when the next block is wanted.
    used: u64,
    block: u64,
    stamps: Stamps,
}

/// The block of `D` unless configured otherwise: one forced write per boot in practice.
pub const DEFAULT_BLOCK: u64 = 1 << 32;

impl Clock {
    /// The clock of a node whose identity dies with it: nothing needs to be durable.
    pub const fn ephemeral() -> Self {
        let stamps = Stamps::ephemeral();
        Self { ck: 0, b: Incarnation(0), durable: MAX_NUMBER, used: 0, block: DEFAULT_BLOCK, stamps }
    }

    /// Boots a memory-only node from its durable `D` and `latest`. It has forgotten everything that it knew, hence `b = ck`, and
    /// the hull has every stamp up to `latest`.
    ///
    /// No number can be used before the first [`Clock::persisted`]. `block` is at least 1.
    pub fn boot(durable: u64, latest: Stamp, block: u64) -> Self {
        let durable = durable.min(MAX_NUMBER);
        Self::restart(durable, latest, Hull::up_to(latest), block)
    }

    /// Boots a memory-only node that has found its hull, and what its records had taken early: it has forgotten nothing else
    /// about stamps. Otherwise as [`Clock::boot`].
    pub fn restart(durable: u64, latest: Stamp, hull: Hull, block: u64) -> Self {
        let durable = durable.min(MAX_NUMBER);
        Self::recover(durable, Incarnation(durable), Stamps::recover(latest, hull), block)
    }

    /// Boots a journaled node: nothing is forgotten, so `b` is what it was. Otherwise as [`Clock::boot`].
    pub fn recover(durable: u64, b: Incarnation, stamps: Stamps, block: u64) -> Self {
        let durable = durable.min(MAX_NUMBER);
        Self { ck: durable, b, durable, used: durable, block: block.max(1), stamps }
    }

    /// The node's state of stamps.
    pub const fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// As [`Clock::stamps`], mutable: writes to the disk and forgetting change it.
    pub const fn stamps_mut(&mut self) -> &mut Stamps {
        &mut self.stamps
    }

    /// `ck`: where a new sender record starts; above every incarnation handed out.
    pub const fn ck(&self) -> u64 {
        self.ck
    }

    /// The amnesia frontier.
    pub const fn b(&self) -> Incarnation {
        self.b
    }

    /// `D`: the highest number that may be asked for now.
    pub const fn limit(&self) -> Slot {
        Slot(self.durable)
    }

    /// The `D` to make durable next, when what is left of the block has become less than half of it.
    pub fn wanted(&self) -> Option<u64> {
        let left = self.durable - self.used.min(self.durable);
        (left < self.block.div_ceil(2) && self.durable < MAX_NUMBER)
            .then(|| self.used.saturating_add(self.block).clamp(self.durable, MAX_NUMBER))
            .filter(|d| *d > self.durable)
    }

    /// `D = durable` is on the disk.
    pub fn persisted(&mut self, durable: u64) {
        self.durable = self.durable.max(durable.min(MAX_NUMBER));
    }

    /// A fresh incarnation: `ck++`. None while `D` does not allow one.
    pub(super) fn incarnate(&mut self) -> Option<Incarnation> {
        let r = self.ck;
        if r >= self.durable {
            return None;
        }
        self.ck = r + 1;
        self.used = self.used.max(self.ck);
        Some(Incarnation(r))
    }

    /// Numbers up to `hi` have been asked for.
    pub(super) fn asked(&mut self, hi: Slot) {
        self.used = self.used.max(hi.0);
    }

    /// A sender record that asked up to `hi` closes: `ck = max(ck, hi)`. This is the only jump of `ck`, and it depends only on
    /// this node's own number: a peer's number never moves `ck`.
    pub(super) fn pass(&mut self, hi: Slot) {
        debug_assert!(hi.0 <= self.used, "closed above what was asked for");
        self.ck = self.ck.max(hi.0);
    }

    /// A record of incarnation `r` is evicted: its knowledge is lost from now on.
    pub(super) fn forget(&mut self, r: Incarnation) {
        self.b = self.b.max(Incarnation(r.0 + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_booted_clock_hands_out_nothing_before_its_block_is_durable() {
        let mut clock = Clock::boot(7, Stamp::NONE, 4);
        assert_eq!((clock.ck(), clock.b(), clock.limit()), (7, Incarnation(7), Slot(7)));
        assert_eq!(clock.incarnate(), None);
        assert_eq!(clock.wanted(), Some(11));
        clock.persisted(11);
        assert_eq!(clock.incarnate(), Some(Incarnation(7)));
        assert_eq!(clock.wanted(), None);
    }

    #[test]
    fn the_next_block_is_wanted_ahead_of_need() {
        let mut clock = Clock::boot(0, Stamp::NONE, 8);
        clock.persisted(8);
        clock.asked(Slot(4));
        assert_eq!(clock.wanted(), None);
        clock.asked(Slot(5));
        assert_eq!(clock.wanted(), Some(13));
        clock.persisted(3);
        assert_eq!(clock.limit(), Slot(8), "D never falls");
    }

    #[test]
    fn the_end_of_the_numbers_is_an_end_and_no_overflow() {
        let mut clock = Clock::boot(MAX_NUMBER, Stamp::NONE, 8);
        assert_eq!(clock.wanted(), None);
        assert_eq!(clock.incarnate(), None);
        clock.persisted(u64::MAX);
        assert_eq!(clock.limit(), Slot(MAX_NUMBER));
    }

    #[test]
    fn forgetting_raises_the_frontier_and_never_lowers_it() {
        let mut clock = Clock::ephemeral();
        clock.forget(Incarnation(5));
        clock.forget(Incarnation(2));
        assert_eq!(clock.b(), Incarnation(6));
    }
}
