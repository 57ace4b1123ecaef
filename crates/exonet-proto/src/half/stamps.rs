//! What a node knows of stamps: `latest`, `upper`, the hull, and `T`, `X` and `A` of every sender.

use crate::id::{MAX_NUMBER, Slot, Stamp};

/// The stamps of a node, as a receiver (PROTOCOL.md "Early messages").
///
/// Two questions are kept apart. Is a stamp *refused*? Then it is not taken for new, and what bears it goes the slow way.
/// Was something taken under it that is *forgotten*? Only then an outcome is Unknown. Clocks choose the stamps, so clocks
/// decide how often the fast way is open; they never decide what is delivered.
///
/// Invariant: `upper <= latest`, every `T` is at most the durable `latest`, and every `X` is durable itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamps {
    /// No stamp above was ever granted or accepted under; durable with `D`.
    latest: Stamp,
    /// The refusal bound of every sender without `T`.
    upper: Stamp,
    /// Of these stamps it is forgotten what was taken under them.
    hull: Hull,
}

/// Stamps from one to another, both included: `X[i]`, those of a sender that are refused though `T` is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Far {
    /// The lowest.
    pub lo: Stamp,
    /// The highest.
    pub hi: Stamp,
}

/// Stamps above one, up to another: the amnesia hull. The default is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hull {
    /// The highest below it.
    pub above: Stamp,
    /// The highest of it.
    pub upto: Stamp,
}

/// Slots below `end` were taken early under exactly the stamp `ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    /// The stamp.
    pub ts: Stamp,
    /// One past the highest such slot.
    pub end: Slot,
}

/// The end that says: every slot may have been taken.
pub const EVERY: Slot = Slot(MAX_NUMBER);

/// `T[i]`, `X[i]` and `A[i]`: what is known of the stamps of one sender. The default is: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bound {
    /// `T`: no stamp above was accepted from it. May be forgotten at any time; without it, `upper` is its bound.
    known: Option<Stamp>,
    /// `X`: it came with stamps too far ahead of this node's clock to let `latest` follow. Durable until `latest` has
    /// reached them.
    far: Option<Far>,
    /// `A`: what a record took early that is lost since.
    taken: Option<Taken>,
}

impl Far {
    /// The interval of one stamp.
    pub const fn one(ts: Stamp) -> Self {
        Self { lo: ts, hi: ts }
    }

    /// Whether `ts` is refused by it.
    pub fn contains(self, ts: Stamp) -> bool {
        self.lo <= ts && ts <= self.hi
    }

    /// The smallest that has all of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

impl Hull {
    /// All stamps up to `upto`.
    pub const fn up_to(upto: Stamp) -> Self {
        Self { above: Stamp::NONE, upto }
    }

    /// Whether nothing was forgotten.
    pub fn is_empty(self) -> bool {
        self.upto <= self.above
    }

    /// Whether it is forgotten what was taken under `ts`.
    pub fn contains(self, ts: Stamp) -> bool {
        self.above < ts && ts <= self.upto
    }

    /// The smallest that has all of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if self.is_empty() {
            other
        } else if other.is_empty() {
            self
        } else {
            Self { above: self.above.min(other.above), upto: self.upto.max(other.upto) }
        }
    }
}

impl Taken {
    /// Of two lost records, what counts: the higher slots are of a later record of the sender, which opens none before
    /// the earlier has nothing open.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.end > self.end { other } else { self }
    }
}

impl Bound {
    /// What is left after a crash of the receiver: what was written, or forced.
    pub const fn found(far: Option<Far>, taken: Option<Taken>) -> Self {
        Self { known: None, far, taken }
    }

    /// `T`, and nothing else.
    pub const fn up_to(known: Stamp) -> Self {
        Self { known: Some(known), far: None, taken: None }
    }

    /// `T`.
    pub const fn known(&self) -> Option<Stamp> {
        self.known
    }

    /// `X`.
    pub const fn far(&self) -> Option<Far> {
        self.far
    }

    /// `A`.
    pub const fn taken(&self) -> Option<Taken> {
        self.taken
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Stamps that are refused from now on, and durably so.
    pub fn refuse(&mut self, far: Far) {
        self.far = Some(self.far.map_or(far, |known| known.join(far)));
    }

    /// A record is lost that took slots early.
    pub fn lose(&mut self, taken: Taken) {
        self.taken = Some(self.taken.map_or(taken, |known| known.later(taken)));
    }

    /// The sender has nothing open below `l`: nobody asks for what lies there.
    pub(super) fn pass(&mut self, l: Slot) {
        self.taken = self.taken.filter(|taken| taken.end > l);
    }
}

impl Stamps {
    /// A node whose identity dies with it.
    pub const fn ephemeral() -> Self {
        let nothing = Stamp::NONE;
        Self { latest: nothing, upper: nothing, hull: Hull::up_to(nothing) }
    }

    /// Boots a node that has forgotten whatever it took under stamps up to the durable `latest`.
    pub fn boot(latest: Stamp) -> Self {
        Self::recover(latest, Hull::up_to(latest))
    }

    /// Boots a node that has found its hull, and `A` of every record that it lost: it has forgotten nothing but `T`.
    pub fn recover(latest: Stamp, hull: Hull) -> Self {
        Self { latest, upper: latest, hull }
    }

    /// `latest`: no stamp above it can be accepted now.
    pub const fn latest(&self) -> Stamp {
        self.latest
    }

    /// `latest` is on the disk. It never falls.
    pub fn persisted(&mut self, latest: Stamp) {
        self.latest = self.latest.max(latest);
    }

    /// `upper`: the refusal bound of a sender of which nothing is known.
    pub const fn upper(&self) -> Stamp {
        self.upper
    }

    /// The amnesia hull.
    pub const fn hull(&self) -> Hull {
        self.hull
    }

    /// The refusal bound of a sender, `X` aside.
    pub fn bound(&self, of: &Bound) -> Stamp {
        of.known.unwrap_or(self.upper)
    }

    /// Whether no datagram that bears `ts` was ever accepted from this sender.
    pub fn is_new(&self, of: &Bound, ts: Stamp) -> bool {
        ts > self.bound(of) && !of.far.is_some_and(|far| far.contains(ts))
    }

    /// Slots below it may have been taken under `ts`, which is not new, by records that are lost.
    pub fn forgotten(&self, of: &Bound, ts: Stamp) -> Slot {
        match of.taken {
            Some(taken) if taken.ts == ts => taken.end,
            _ if self.hull.contains(ts) => EVERY,
            _ => Slot(0),
        }
    }

    /// `T[i] = max(bound(i), ts)`, for a stamp that `latest` covers, or that `X` refuses.
    pub(super) fn raise(&mut self, of: &mut Bound, ts: Stamp) {
        self.catch_up(of);
        if !of.far.is_some_and(|far| far.contains(ts)) {
            of.known = Some(self.bound(of).max(ts));
        }
    }

    /// Forgets `T`: costs speed, never correctness. `X` and `A` stay.
    pub fn forget(&mut self, of: &mut Bound) {
        self.catch_up(of);
        if let Some(ts) = of.known.take() {
            self.upper = self.upper.max(ts);
        }
    }

    /// There is no place for `A`: the hull holds its stamp from now on.
    pub fn fold(&mut self, of: &mut Bound) {
        if let Some(Taken { ts, .. }) = of.taken.take() {
            let one = Hull { above: Stamp(ts.0.saturating_sub(1)), upto: ts };
            self.hull = self.hull.join(one);
        }
    }

    /// `X` becomes `T` once `latest` has reached it: it need not be kept apart any more.
    pub fn catch_up(&mut self, of: &mut Bound) {
        if let Some(far) = of.far.take_if(|far| far.hi <= self.latest) {
            of.known = Some(self.bound(of).max(far.hi));
        }
    }
}
