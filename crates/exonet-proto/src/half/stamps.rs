//! What a node knows of stamps: `latest`, `upper`, `tb`, and the bound of every sender.

use crate::id::Stamp;

/// The stamps of a node, as a receiver (PROTOCOL.md "Early messages").
///
/// A stamp above the bound of its sender is new: no datagram that bears it was ever accepted. Clocks choose the
/// stamps, so clocks decide how often the fast way is open; they never decide what is delivered.
///
/// Invariant: `tb <= upper <= latest`, and every bound is at most the durable `latest`, or durable itself
/// ([`Bound::Stray`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamps {
    /// No stamp above was ever granted or accepted under; durable with `D`.
    latest: Stamp,
    /// The bound of every sender of which nothing is known.
    upper: Stamp,
    /// What was accepted under stamps up to this may have been forgotten.
    tb: Stamp,
}

/// `T[i]`: what is known of the stamps of one sender. The default is: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Nothing: `upper` is its bound.
    #[default]
    Unknown,
    /// No stamp above was accepted from it. May be forgotten at any time.
    Known(Stamp),
    /// It came with a stamp too far ahead of this node's clock to let `latest` follow. Durable, this very bound,
    /// until `latest` has caught up.
    Stray {
        /// No stamp above was accepted from it.
        ts: Stamp,
        /// Its own `tb`: above the node's once its record was evicted, or lost in a crash.
        tb: Stamp,
    },
}

impl Stamps {
    /// A node whose identity dies with it.
    pub const fn ephemeral() -> Self {
        Self { latest: Stamp::NONE, upper: Stamp::NONE, tb: Stamp::NONE }
    }

    /// Boots a memory-only node: whatever was accepted up to the durable `latest` is forgotten.
    pub fn boot(latest: Stamp) -> Self {
        Self::recover(latest, latest)
    }

    /// Boots a journaled node: nothing is forgotten but bounds, so `tb` is what it was.
    pub fn recover(latest: Stamp, tb: Stamp) -> Self {
        Self { latest, upper: latest, tb }
    }

    /// `latest`: no stamp above it can be accepted now.
    pub const fn latest(&self) -> Stamp {
        self.latest
    }

    /// `tb`: what was accepted under stamps up to this may have been forgotten.
    pub const fn tb(&self) -> Stamp {
        self.tb
    }

    /// `latest` is on the disk. It never falls.
    pub fn persisted(&mut self, latest: Stamp) {
        self.latest = self.latest.max(latest);
    }

    /// `upper`: the bound of a sender of which nothing is known.
    pub const fn upper(&self) -> Stamp {
        self.upper
    }

    /// `bound(i)`: a stamp of this sender is new when it is above.
    pub fn bound(&self, of: Bound) -> Stamp {
        match of {
            Bound::Unknown => self.upper,
            Bound::Known(ts) => ts,
            Bound::Stray { ts, .. } => ts.max(self.upper),
        }
    }

    /// `tb`, as a STATE to this sender has to say it.
    pub fn amnesia(&self, of: Bound) -> Stamp {
        match of {
            Bound::Stray { tb, .. } => tb.max(self.tb),
            _ => self.tb,
        }
    }

    /// `T[i] = max(bound(i), ts)`, for a stamp that `latest` or the stray's own bound covers.
    pub(super) fn raise(&mut self, of: &mut Bound, ts: Stamp) {
        self.catch_up(of);
        if !matches!(of, Bound::Stray { .. }) {
            *of = Bound::Known(self.bound(*of).max(ts));
        }
    }

    /// Forgets what is known of a sender: costs speed, never correctness. A stray stays.
    pub fn forget(&mut self, of: &mut Bound) {
        self.catch_up(of);
        if let Bound::Known(ts) = *of {
            self.upper = self.upper.max(ts);
            *of = Bound::Unknown;
        }
    }

    /// The record of a sender goes though it was not done: what it accepted under stamps is unknown from now on.
    pub(super) fn evict(&mut self, of: &mut Bound) {
        self.catch_up(of);
        if let Bound::Stray { ts, tb } = of {
            *tb = *ts;
            return;
        }
        let bound = self.bound(*of);
        self.tb = self.tb.max(bound);
        self.upper = self.upper.max(bound);
        *of = Bound::Unknown;
    }

    /// A stray that `latest` has caught up with is a sender like any other.
    pub fn catch_up(&mut self, of: &mut Bound) {
        if let Bound::Stray { ts, tb } = *of
            && ts <= self.latest
        {
            self.tb = self.tb.max(tb);
            self.upper = self.upper.max(tb);
            *of = Bound::Known(self.upper.max(ts));
        }
    }
}
