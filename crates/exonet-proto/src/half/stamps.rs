//! What a node knows of stamps: `latest`, `upper`, the hull, and `T`, `X` and `A` of every sender.

use crate::id::{MAX_NUMBER, Slot, Stamp};

/// The stamps of a node, as a receiver (PROTOCOL.md "Early messages").
///
/// Two questions are separate. Is a stamp *refused*? Then it does not count as new, and what bears it takes the slow way. Was
/// something taken under it that is *forgotten*? Only then is an outcome Unknown. Clocks choose the stamps, so clocks decide how
/// often the fast way is open; they never decide what is delivered.
///
/// Invariant: `upper <= latest`, every `T` is at most the durable `latest`, and every `X` is durable itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamps {
    /// No stamp above this was ever granted or accepted under; durable with `D`.
    latest: Stamp,
    /// The refusal bound of every sender without `T`.
    upper: Stamp,
    /// The node has forgotten what was taken under these stamps.
    hull: Hull,
}

/// A range of stamps, both ends included: `X[i]`, the stamps of a sender that are refused though `T` is below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Far {
    /// The lowest.
    pub lo: Stamp,
    /// The highest.
    pub hi: Stamp,
}

/// The stamps above one stamp, up to another: the amnesia hull. The default is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hull {
    /// The highest stamp below the hull.
    pub above: Stamp,
    /// The highest stamp of the hull.
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

/// The end that means that every slot may have been taken.
pub const EVERY: Slot = Slot(MAX_NUMBER);

/// `T[i]`, `X[i]` and `A[i]`: what is known of the stamps of one sender. By default nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bound {
    /// `T`: no stamp above this was accepted from the sender. It may be forgotten at any time; without it, `upper` is the bound
    /// of the sender.
    known: Option<Stamp>,
    /// `X`: the sender came with stamps too far ahead of this node's clock to let `latest` follow. Durable until `latest` has
    /// reached them.
    far: Option<Far>,
    /// `A`: what was taken early by a record that is now lost.
    taken: Option<Taken>,
}

impl Far {
    /// The interval of one stamp.
    pub const fn one(ts: Stamp) -> Self {
        Self { lo: ts, hi: ts }
    }

    /// Whether this range refuses `ts`.
    pub fn contains(self, ts: Stamp) -> bool {
        self.lo <= ts && ts <= self.hi
    }

    /// The smallest range that contains both.
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

    /// Whether the node has forgotten what was taken under `ts`.
    pub fn contains(self, ts: Stamp) -> bool {
        self.above < ts && ts <= self.upto
    }

    /// The smallest hull that contains both.
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
    /// The one of two lost records that counts. The higher slots belong to a later record of the sender, which opens one only
    /// when the earlier has nothing open.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.end > self.end { other } else { self }
    }
}

impl Bound {
    /// What is left after a crash of the receiver: what was written, or forced to the disk.
    pub const fn found(far: Option<Far>, taken: Option<Taken>) -> Self {
        Self { known: None, far, taken }
    }

    /// A bound with only `T`.
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

    /// Refuses these stamps from now on. This is durable.
    pub fn refuse(&mut self, far: Far) {
        self.far = Some(self.far.map_or(far, |known| known.join(far)));
    }

    /// A record that took slots early is lost.
    pub fn lose(&mut self, taken: Taken) {
        self.taken = Some(self.taken.map_or(taken, |known| known.later(taken)));
    }

    /// The sender has nothing open below `l`: it does not ask about slots there.
    pub(super) fn pass(&mut self, l: Slot) {
        self.taken = self.taken.filter(|taken| taken.end > l);
    }
}

impl Stamps {
    /// The stamps of a node whose identity dies with it.
    pub const fn ephemeral() -> Self {
        let nothing = Stamp::NONE;
        Self { latest: nothing, upper: nothing, hull: Hull::up_to(nothing) }
    }

    /// Boots a node that has forgotten everything that it took under stamps up to the durable `latest`.
    pub fn boot(latest: Stamp) -> Self {
        Self::recover(latest, Hull::up_to(latest))
    }

    /// Boots a node that has found its hull, and `A` of every record that it lost: it has forgotten only `T`.
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

    /// `upper`: the refusal bound of an unknown sender.
    pub const fn upper(&self) -> Stamp {
        self.upper
    }

    /// The amnesia hull.
    pub const fn hull(&self) -> Hull {
        self.hull
    }

    /// The refusal bound of a sender, without `X`.
    pub fn bound(&self, of: &Bound) -> Stamp {
        of.known.unwrap_or(self.upper)
    }

    /// Whether no datagram that bears `ts` was ever accepted from this sender.
    pub fn is_new(&self, of: &Bound, ts: Stamp) -> bool {
        ts > self.bound(of) && !of.far.is_some_and(|far| far.contains(ts))
    }

    /// Slots below the result may have been taken under `ts`, which is not new, by records that are lost.
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

    /// Forgets `T`, which costs only speed. `X` and `A` stay.
    pub fn forget(&mut self, of: &mut Bound) {
        self.catch_up(of);
        if let Some(ts) = of.known.take() {
            self.upper = self.upper.max(ts);
        }
    }

    /// If there is no place for `A`, the hull takes its stamp.
    pub fn fold(&mut self, of: &mut Bound) {
        if let Some(Taken { ts, .. }) = of.taken.take() {
            let one = Hull { above: Stamp(ts.0.saturating_sub(1)), upto: ts };
            self.hull = self.hull.join(one);
        }
    }

    /// `X` becomes `T` once `latest` has reached it: it need not be kept separately any more.
    pub fn catch_up(&mut self, of: &mut Bound) {
        if let Some(far) = of.far.take_if(|far| far.hi <= self.latest) {
            of.known = Some(self.bound(of).max(far.hi));
        }
    }
}
