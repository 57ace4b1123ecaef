//! Policy of stamps: which to choose, which to let in, how long to remember a sender's bound. Speed only: whatever is
//! decided here, nothing is delivered twice.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::event::Arrival;
use crate::half::{Bound, Stamps};
use crate::id::{MAX_NUMBER, NodeId, Stamp};
use crate::time::{Mono, Now, Wall};

/// Openings that wait until their stamp may be accepted.
const MAX_DEFERRED: usize = 256;
/// `latest` is written this far ahead of the clock: as much, a crash may cost in needless Unknown.
const STEP: Duration = Duration::from_millis(500);
/// A clock that is further ahead of this node's than this does not drag `latest` along.
const CAP: Duration = Duration::from_secs(10);
/// A clock that shows the same for no longer than this is coarse; one that is further back has been set.
const COARSE: Duration = Duration::from_secs(1);
/// Bounds of forgotten peers are kept for this.
const REMEMBER: Duration = Duration::from_secs(300);
/// Bounds kept at most; the oldest goes first.
const MAX_BOUNDS: usize = 16_384;
/// Peers of which it is kept for longer that they have forgotten stamps which are still to come.
const MAX_WARNINGS: usize = 1_024;

/// No clock that is right shows less: 2020. One that does was never set.
const SET: Wall = Wall(1_577_836_800_000_000_000);

/// What a peer has said of its clock and of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// How far this node's clock is ahead of the peer's, in nanoseconds.
    pub(crate) ahead: Option<i64>,
    /// Its `tb`.
    pub(crate) tb: Stamp,
    /// It has ended, and has granted nothing since: its next life would not accept the stamps of now.
    pub(crate) ended: bool,
}

impl Told {
    /// What the peer's clock shows, as far as is known.
    fn shows(self, now: Wall) -> Stamp {
        Stamp(now.0.saturating_add_signed(self.ahead.unwrap_or(0).saturating_neg()).max(1))
    }

    /// The clocks are further apart than either of them may drag `latest`.
    pub(crate) fn is_apart(self) -> bool {
        self.ahead.is_some_and(|ahead| ahead.unsigned_abs() > nanos(CAP))
    }
}

/// What is remembered of a peer that is forgotten otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memo {
    pub(crate) bound: Bound,
    pub(crate) told: Told,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Stamping {
    /// The last stamp chosen here.
    last: Stamp,
    /// `latest` is to become this.
    wanted: Stamp,
    /// What the disk has, or is to have, of strays.
    strays: BTreeMap<NodeId, Stamp>,
    /// No more of them are let in.
    max_strays: usize,
    strays_changed: bool,
    /// Nothing is written: what is wanted is as good as durable.
    ephemeral: bool,
    /// With the time since when.
    memos: BTreeMap<NodeId, (Mono, Memo)>,
    /// The order in which they were put, for the oldest to go first.
    ages: VecDeque<(Mono, NodeId)>,
    /// What peers said whose memo has gone, and whose `tb` was still to come. Nothing waits for them to be passed: they
    /// are looked at when the peer is known again.
    warnings: BTreeMap<NodeId, Told>,
    deferred: VecDeque<(Arrival, Box<[u8]>)>,
}

/// All strays, for the disk.
type StrayList = Box<[(NodeId, Stamp)]>;

/// Whether a stamp can be judged now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The algorithm decides.
    Now,
    /// As soon as something is on the disk.
    Later,
}

impl Stamping {
    /// `strays` are those of the disk: no cap forgets one of them.
    pub(crate) fn new(
        ephemeral: bool,
        max_strays: usize,
        strays: impl IntoIterator<Item = (NodeId, Stamp)>,
    ) -> Self {
        let strays: BTreeMap<_, _> = strays.into_iter().collect();
        // A node that boots has forgotten whatever it accepted.
        let memo = |ts| Memo { bound: Bound::Stray { ts, tb: ts }, told: Told::default() };
        let memos = strays.iter().map(|(id, ts)| (*id, (Mono(0), memo(*ts)))).collect();
        Self { max_strays: max_strays.max(strays.len()), strays, memos, ephemeral, ..Self::default() }
    }

    // --- as a sender ---

    /// A stamp for a new sender record: what the receiver's clock should show, and rising though the clock be coarse.
    ///
    /// None where what is sent under it would end Unknown, or might: the receiver has forgotten what it took under
    /// such stamps, or this clock is far behind. To follow a clock that is far ahead would make it worse: `latest`
    /// would follow too, and a node that starts with a `latest` of the future has forgotten the present.
    pub(crate) fn choose(&mut self, now: Wall, told: Told) -> Option<Stamp> {
        let is_behind = told.ahead.is_some_and(i64::is_negative);
        if (now < SET && told.ahead.is_none()) || (is_behind && told.is_apart()) {
            return None;
        }
        let Stamp(shown) = told.shows(now);
        let coarse = shown <= self.last.0 && self.last.0 - shown < nanos(COARSE);
        let chosen = Stamp(if coarse { self.last.0 + 1 } else { shown }.min(MAX_NUMBER));
        (chosen > told.tb).then(|| {
            self.last = chosen;
            chosen
        })
    }

    // --- as a receiver ---

    /// Sees to it that the stamp `ts` of `sender` can be judged, whose bound is `bound`.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        stamps: &mut Stamps,
        sender: NodeId,
        bound: &mut Bound,
        ts: Stamp,
    ) -> Admission {
        stamps.catch_up(bound);
        if ts <= stamps.bound(*bound) {
            return Admission::Now;
        }
        let ahead = |span: Duration| now.wall.0.saturating_add(nanos(span)).min(MAX_NUMBER);
        let near = ts.0 <= ahead(CAP);
        // Ahead of need: the next first message should not wait for the disk. Ahead of the stamps, not of a clock that
        // may be years ahead of all of them.
        let beyond = |span: Duration| ts.0.max(ts.0.saturating_add(nanos(span)).min(ahead(span)));
        if near && stamps.latest().0 < beyond(STEP / 2) {
            self.wanted = self.wanted.max(Stamp(beyond(STEP)));
        }
        if self.ephemeral {
            stamps.persisted(self.wanted);
        }
        // Also where the clock was set back, so that the stamp is far ahead of it: no write would add anything.
        if ts <= stamps.latest() {
            return Admission::Now;
        }
        if near {
            return Admission::Later;
        }
        if !self.strays.contains_key(&sender) && self.strays.len() >= self.max_strays {
            return Admission::Now;
        }
        // An old copy must not take the place of what the disk has, or is about to have.
        let line = self.strays.entry(sender).or_default();
        *line = ts.max(*line);
        self.strays_changed = true;
        if self.ephemeral {
            *bound = astray(*bound, ts);
            return Admission::Now;
        }
        Admission::Later
    }

    /// Whether a stamp is no further ahead than `latest` is written.
    pub(crate) fn is_near(&self, now: Now, ts: Stamp) -> bool {
        ts.0 <= now.wall.0.saturating_add(nanos(STEP)).min(MAX_NUMBER)
    }

    /// An opening comes again when the disk has what it waits for.
    pub(crate) fn defer(&mut self, arrival: Arrival, datagram: Box<[u8]>) {
        if self.deferred.len() < MAX_DEFERRED {
            self.deferred.push_back((arrival, datagram));
        }
    }

    pub(crate) fn take_deferred(&mut self) -> VecDeque<(Arrival, Box<[u8]>)> {
        std::mem::take(&mut self.deferred)
    }

    /// What is held against what may be.
    pub(crate) fn audit(&self, say: &mut impl FnMut(&'static str, u64, u64, bool)) {
        say("bounds remembered", self.memos.len() as u64, (MAX_BOUNDS + self.max_strays) as u64, false);
        say("bounds to forget", self.ages.len() as u64, MAX_BOUNDS as u64, false);
        say("warnings of forgotten stamps", self.warnings.len() as u64, MAX_WARNINGS as u64, false);
        say("strays", self.strays.len() as u64, self.max_strays as u64, false);
        say("openings that wait for the disk", self.deferred.len() as u64, MAX_DEFERRED as u64, false);
    }

    // --- the disk ---

    pub(crate) fn wants_write(&self, stamps: &Stamps) -> bool {
        !self.ephemeral && (self.strays_changed || self.wanted > stamps.latest())
    }

    /// What to write: `latest`, and all strays if they have changed.
    pub(crate) fn write(&mut self, stamps: &Stamps) -> (Stamp, Option<StrayList>) {
        let latest = self.wanted.max(stamps.latest());
        let changed = std::mem::take(&mut self.strays_changed);
        (latest, changed.then(|| self.strays.iter().map(|(id, ts)| (*id, *ts)).collect()))
    }

    /// The strays that `latest` has caught up with: the disk need not know of them any more, once the caller has seen
    /// to their bounds.
    pub(crate) fn take_caught_up(&mut self, latest: Stamp) -> Vec<NodeId> {
        let mut passed = Vec::new();
        self.strays.retain(|id, ts| {
            let ahead = *ts > latest;
            passed.extend((!ahead).then_some(*id));
            ahead
        });
        passed
    }

    // --- what is remembered ---

    /// What was remembered of a peer that is known again.
    pub(crate) fn recall(&mut self, id: &NodeId) -> Memo {
        let mut memo = self.memos.remove(id).unwrap_or_default().1;
        let warning = self.warnings.remove(id).unwrap_or_default();
        if memo.told == Told::default() {
            memo.told = warning;
        }
        memo
    }

    pub(crate) fn memo_of(&self, id: &NodeId) -> Bound {
        self.memos.get(id).map(|(_, memo)| memo.bound).unwrap_or_default()
    }

    /// What a peer that is not known now has said.
    pub(crate) fn told_of(&self, id: &NodeId) -> Told {
        self.memos.get(id).map(|(_, memo)| memo.told).unwrap_or_default()
    }

    /// Of a peer that is not known now.
    pub(crate) fn memo_mut(&mut self, id: NodeId) -> &mut Memo {
        &mut self.memos.entry(id).or_default().1
    }

    /// A peer is forgotten, but for this.
    pub(crate) fn remember(&mut self, now: Now, stamps: &mut Stamps, id: NodeId, mut memo: Memo) {
        stamps.catch_up(&mut memo.bound);
        if memo.bound == Bound::Unknown && memo.told == Told::default() {
            return;
        }
        self.memos.insert(id, (now.mono, memo));
        self.ages.push_back((now.mono, id));
        while self.ages.len() > MAX_BOUNDS {
            self.forget_oldest(now.wall, stamps);
        }
    }

    /// When the oldest is to be forgotten.
    pub(crate) fn forget_at(&self) -> Option<Mono> {
        self.ages.front().map(|(since, _)| *since + REMEMBER)
    }

    pub(crate) fn forget(&mut self, now: Now, stamps: &mut Stamps) {
        while self.forget_at().is_some_and(|at| at <= now.mono) {
            self.forget_oldest(now.wall, stamps);
        }
        if self.ages.is_empty() && self.memos.len() <= self.max_strays {
            self.ages.shrink_to(64);
        }
    }

    fn forget_oldest(&mut self, now: Wall, stamps: &mut Stamps) {
        let Some((since, id)) = self.ages.pop_front() else { return };
        // It may have been known again since, and forgotten again: then it is younger.
        if let Some((_, memo)) = self.memos.get_mut(&id).filter(|(put, _)| *put == since) {
            stamps.forget(&mut memo.bound);
            let told = std::mem::take(&mut memo.told);
            if memo.bound == Bound::Unknown {
                self.memos.remove(&id);
            }
            if told.tb >= told.shows(now) {
                self.warn(now, id, told);
            }
        }
    }

    fn warn(&mut self, now: Wall, id: NodeId, told: Told) {
        if self.warnings.len() >= MAX_WARNINGS {
            self.warnings.retain(|_, told| told.tb >= told.shows(now));
        }
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.insert(id, told);
        }
    }
}

/// The bound of a sender that is let in as a stray with `ts`, once that is durable.
pub(crate) fn astray(bound: Bound, ts: Stamp) -> Bound {
    let (before, tb) =
        if let Bound::Stray { ts, tb } = bound { (ts, tb) } else { (Stamp::NONE, Stamp::NONE) };
    Bound::Stray { ts: ts.max(before), tb }
}

/// How far `a` is ahead of `b`.
pub(crate) fn ahead(a: Wall, b: Wall) -> i64 {
    let apart = i128::from(a.0) - i128::from(b.0);
    i64::try_from(apart).unwrap_or(if apart > 0 { i64::MAX } else { i64::MIN })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
