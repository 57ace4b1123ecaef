//! The policy of stamps: which stamps to choose, which to accept, how long to remember a sender's bound. This affects only speed:
//! whatever is decided here, nothing is delivered twice.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::event::Arrival;
use crate::half::{Bound, Far, Stamps, Taken};
use crate::id::{MAX_NUMBER, NodeId, Stamp};
use crate::time::{Mono, Now, Wall};

/// The most openings that wait until their stamp may be accepted.
const MAX_DEFERRED: usize = 256;
/// How far ahead of the clock `latest` is written. For this long, the next life may refuse stamps that are right.
const STEP: Duration = Duration::from_millis(500);
/// A clock that is further ahead of this node's than this does not raise `latest`.
const CAP: Duration = Duration::from_secs(10);
/// A clock that shows the same for no longer than this is coarse; a clock that is further behind has been set back.
const COARSE: Duration = Duration::from_secs(1);
/// How long the bounds of forgotten peers are kept.
const REMEMBER: Duration = Duration::from_secs(300);
/// The most bounds that are kept; beyond that the oldest is dropped.
const MAX_BOUNDS: usize = 16_384;
/// The most peers whose records were lost though something was taken early; beyond that the oldest goes into the hull.
const MAX_LOST: usize = 65_536;
/// How many notes are written before all are written anew.
const MAX_NOTES: usize = 4_096;
/// The most peers for which it is kept for longer that they have forgotten present stamps.
const MAX_WARNINGS: usize = 1_024;
/// For this long nothing is sent early to a peer that has forgotten present stamps: its clock was ahead in a former life, and it
/// does not say how far.
const WARY: Duration = Duration::from_secs(3_600);

/// The year 2020: no right clock shows less. A clock that does was never set.
const SET: Wall = Wall(1_577_836_800_000_000_000);

/// What a peer has said about its clock and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// How far this node's clock is ahead of the peer's, in nanoseconds.
    pub(crate) ahead: Option<i64>,
    /// What the peer takes under stamps up to this may end Unknown.
    pub(crate) wary: Stamp,
    /// The peer has ended, and has granted nothing since: its next life would not accept present stamps.
    pub(crate) ended: bool,
}

impl Told {
    /// What the peer's clock shows, as far as this node knows.
    fn shows(self, now: Wall) -> Stamp {
        Stamp(now.0.saturating_add_signed(self.ahead.unwrap_or(0).saturating_neg()).max(1))
    }

    /// The peer has forgotten what it took under `ts`. If `ts` is a present stamp, it may have forgotten the next ones too.
    pub(crate) fn forgot(&mut self, now: Wall, ts: Stamp) {
        let Stamp(shown) = self.shows(now);
        if ts.0.saturating_add(nanos(CAP)) >= shown {
            self.wary = self.wary.max(Stamp(shown.saturating_add(nanos(WARY))));
        }
    }

    /// Whether the clocks are further apart than the distance up to which either may raise `latest`.
    pub(crate) fn is_apart(self) -> bool {
        self.ahead.is_some_and(|ahead| ahead.unsigned_abs() > nanos(CAP))
    }
}

/// What is remembered of a peer that is otherwise forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memo {
    pub(crate) bound: Bound,
    pub(crate) told: Told,
}

/// The state of the policy: see the module.
#[derive(Debug, Default)]
pub(crate) struct Stamping {
    /// The last stamp that was chosen here.
    last: Stamp,
    /// The value that `latest` should get.
    wanted: Stamp,
    /// The strays that the disk has, or is about to have.
    strays: BTreeMap<NodeId, Far>,
    /// The most strays that are accepted.
    max_strays: usize,
    strays_changed: bool,
    /// Nothing is written: wanted values count as durable at once.
    ephemeral: bool,
    /// The memos, each with its time.
    memos: BTreeMap<NodeId, (Mono, Memo)>,
    /// The order in which they were entered, so that the oldest goes first.
    ages: VecDeque<(Mono, NodeId)>,
    /// The memos that stay because of what was taken early, with their times: the oldest first.
    lost: BTreeSet<(Mono, NodeId)>,
    /// What was taken early is written down for the next life.
    takes_notes: bool,
    /// The notes to write, and how many were written since all were written.
    notes: Vec<(NodeId, Taken)>,
    noted: usize,
    /// All notes have to be written anew.
    anew: bool,
    /// What peers said whose memo has gone, if this node is still wary of it. Nothing removes these in time: they are checked
    /// when the peer is known again.
    warnings: BTreeMap<NodeId, Told>,
    deferred: VecDeque<(Arrival, Box<[u8]>)>,
}

/// All strays, for the disk.
type StrayList = Box<[(NodeId, Far)]>;

/// Whether a stamp can be judged now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The algorithm decides now.
    Now,
    /// The stamp can be judged as soon as a write is on the disk.
    Later,
}

impl Stamping {
    /// `strays` are those on the disk: no cap makes the node forget one of them. `taken` is what former lives have noted, if this
    /// life takes notes.
    pub(crate) fn new(
        ephemeral: bool,
        max_strays: usize,
        strays: impl IntoIterator<Item = (NodeId, Far)>,
        taken: Option<Vec<(NodeId, Taken)>>,
    ) -> Self {
        let strays: BTreeMap<_, _> = strays.into_iter().collect();
        let (max_strays, takes_notes) = (max_strays.max(strays.len()), taken.is_some());
        let mut this = Self { max_strays, ephemeral, takes_notes, anew: takes_notes, ..Self::default() };
        for (id, far) in &strays {
            this.memo_mut(*id).bound.refuse(*far);
        }
        for (id, taken) in taken.into_iter().flatten() {
            let bound = &mut this.memo_mut(id).bound;
            bound.lose(taken);
            this.lost.insert((Mono(0), id));
        }
        Self { strays, ..this }
    }

    // --- as a sender ---

    /// Chooses a stamp for a new sender record: the time that the receiver's clock should show, and ascending even if the clock
    /// is coarse.
    ///
    /// None if what is sent under it would end Unknown, or might, since the receiver has forgotten what it took under such
    /// stamps. None also if it would take the slow way in any case, since this clock is far behind. Following a clock that is far
    /// ahead would make this worse: `latest` would follow too, and a node that starts with a `latest` in the future refuses
    /// present stamps.
    pub(crate) fn choose(&mut self, now: Wall, told: Told) -> Option<Stamp> {
        let is_behind = told.ahead.is_some_and(i64::is_negative);
        if (now < SET && told.ahead.is_none()) || (is_behind && told.is_apart()) {
            return None;
        }
        let Stamp(shown) = told.shows(now);
        let coarse = shown <= self.last.0 && self.last.0 - shown < nanos(COARSE);
        let chosen = Stamp(if coarse { self.last.0 + 1 } else { shown }.min(MAX_NUMBER));
        (chosen > told.wary).then(|| {
            self.last = chosen;
            chosen
        })
    }

    // --- as a receiver ---

    /// Makes sure that the stamp `ts` of `sender` can be judged, whose bound is `bound`.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        stamps: &mut Stamps,
        sender: NodeId,
        bound: &mut Bound,
        ts: Stamp,
    ) -> Admission {
        stamps.catch_up(bound);
        if !stamps.is_new(bound, ts) {
            return Admission::Now;
        }
        let ahead = |span: Duration| now.wall.0.saturating_add(nanos(span)).min(MAX_NUMBER);
        let near = ts.0 <= ahead(CAP);
        // `latest` is raised ahead of need, so that the next first message does not wait for the disk. It is raised ahead of the
        // stamps, not of a clock that may be years ahead of all of them.
        let beyond = |span: Duration| ts.0.max(ts.0.saturating_add(nanos(span)).min(ahead(span)));
        if near && stamps.latest().0 < beyond(STEP / 2) {
            self.wanted = self.wanted.max(Stamp(beyond(STEP)));
        }
        if self.ephemeral {
            stamps.persisted(self.wanted);
        }
        // This includes a stamp that is far ahead because the clock was set back: a write would add nothing.
        if ts <= stamps.latest() {
            return Admission::Now;
        }
        if near {
            return Admission::Later;
        }
        if !self.strays.contains_key(&sender) && self.strays.len() >= self.max_strays {
            return Admission::Now;
        }
        // An old copy must not replace what the disk has, or is about to have.
        let line = self.strays.entry(sender).or_insert(Far::one(ts));
        *line = line.join(Far::one(ts));
        self.strays_changed = true;
        if self.ephemeral {
            bound.refuse(Far::one(ts));
            return Admission::Now;
        }
        Admission::Later
    }

    /// Whether a stamp is no further ahead than `latest` is written.
    pub(crate) fn is_near(&self, now: Now, ts: Stamp) -> bool {
        ts.0 <= now.wall.0.saturating_add(nanos(STEP)).min(MAX_NUMBER)
    }

    /// Keeps an opening until the disk has what it waits for.
    pub(crate) fn defer(&mut self, arrival: Arrival, datagram: Box<[u8]>) {
        if self.deferred.len() < MAX_DEFERRED {
            self.deferred.push_back((arrival, datagram));
        }
    }

    pub(crate) fn take_deferred(&mut self) -> VecDeque<(Arrival, Box<[u8]>)> {
        std::mem::take(&mut self.deferred)
    }

    /// Reports what is held with its bounds.
    pub(crate) fn audit(&self, say: &mut impl FnMut(&'static str, u64, u64, bool)) {
        let (all, lost) = (self.memos.len() as u64, self.lost.len() as u64);
        say("bounds remembered", all - lost.min(all), (MAX_BOUNDS + self.max_strays) as u64, false);
        say("bounds of lost records", lost, MAX_LOST as u64, false);
        say("bounds to forget", self.ages.len() as u64, MAX_BOUNDS as u64, false);
        say("warnings of forgotten stamps", self.warnings.len() as u64, MAX_WARNINGS as u64, false);
        say("strays", self.strays.len() as u64, self.max_strays as u64, false);
        say("openings that wait for the disk", self.deferred.len() as u64, MAX_DEFERRED as u64, false);
    }

    // --- the disk ---

    pub(crate) fn wants_write(&self, stamps: &Stamps) -> bool {
        !self.ephemeral && (self.strays_changed || self.wanted > stamps.latest())
    }

    /// The values to write: `latest`, and all strays if they have changed.
    pub(crate) fn write(&mut self, stamps: &Stamps) -> (Stamp, Option<StrayList>) {
        let latest = self.wanted.max(stamps.latest());
        let changed = std::mem::take(&mut self.strays_changed);
        (latest, changed.then(|| self.strays.iter().map(|(id, far)| (*id, *far)).collect()))
    }

    /// Takes the strays that `latest` has caught up with. The disk need not keep them any more, once the caller has updated their
    /// bounds.
    pub(crate) fn take_caught_up(&mut self, latest: Stamp) -> Vec<NodeId> {
        let mut passed = Vec::new();
        self.strays.retain(|id, far| {
            let ahead = far.hi > latest;
            passed.extend((!ahead).then_some(*id));
            ahead
        });
        passed
    }

    // --- notes ---

    /// A record of this sender has taken something early.
    pub(crate) fn note(&mut self, id: NodeId, taken: Taken) {
        if self.takes_notes {
            self.notes.push((id, taken));
        }
    }

    /// Whether there is something to write.
    pub(crate) fn has_notes(&self) -> bool {
        self.takes_notes && (self.anew || !self.notes.is_empty())
    }

    /// The notes to append to those written before. None: everything has to be written anew, with [`Stamping::all_notes`].
    pub(crate) fn take_notes(&mut self) -> Option<Vec<(NodeId, Taken)>> {
        self.noted += self.notes.len();
        if self.anew || self.noted > MAX_NOTES {
            return None;
        }
        Some(std::mem::take(&mut self.notes))
    }

    /// All notes to write, except those of peers that are known now.
    pub(crate) fn all_notes(&mut self) -> impl Iterator<Item = (NodeId, Taken)> {
        (self.noted, self.anew) = (0, false);
        self.notes.clear();
        self.memos.iter().filter_map(|(id, (_, memo))| Some((*id, memo.bound.taken()?)))
    }

    // --- what is remembered ---

    /// Takes what was remembered of a peer that is known again.
    pub(crate) fn recall(&mut self, id: &NodeId) -> Memo {
        let (since, mut memo) = self.memos.remove(id).unwrap_or_default();
        self.lost.remove(&(since, *id));
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

    /// The memo of a peer that is not known now.
    pub(crate) fn memo_mut(&mut self, id: NodeId) -> &mut Memo {
        &mut self.memos.entry(id).or_default().1
    }

    /// A peer is forgotten, except for this memo.
    pub(crate) fn remember(&mut self, now: Now, stamps: &mut Stamps, id: NodeId, mut memo: Memo) {
        stamps.catch_up(&mut memo.bound);
        if memo.bound.is_empty() && memo.told == Told::default() {
            return;
        }
        if let Some((since, _)) = self.memos.insert(id, (now.mono, memo)) {
            self.lost.remove(&(since, id));
        }
        self.ages.push_back((now.mono, id));
        while self.ages.len() > MAX_BOUNDS {
            self.forget_oldest(now.wall, stamps);
        }
    }

    /// When to forget the oldest memo.
    pub(crate) fn forget_at(&self) -> Option<Mono> {
        self.ages.front().map(|(since, _)| *since + REMEMBER)
    }

    pub(crate) fn forget(&mut self, now: Now, stamps: &mut Stamps) {
        while self.forget_at().is_some_and(|at| at <= now.mono) {
            self.forget_oldest(now.wall, stamps);
        }
        if self.ages.is_empty() && self.memos.len() <= self.max_strays + self.lost.len() {
            self.ages.shrink_to(64);
        }
    }

    fn forget_oldest(&mut self, now: Wall, stamps: &mut Stamps) {
        let Some((since, id)) = self.ages.pop_front() else { return };
        // The peer may have been known again since, and forgotten again: then its memo is younger.
        if let Some((_, memo)) = self.memos.get_mut(&id).filter(|(put, _)| *put == since) {
            stamps.forget(&mut memo.bound);
            let told = std::mem::take(&mut memo.told);
            let (taken, is_over) = (memo.bound.taken().is_some(), memo.bound.is_empty());
            if is_over {
                self.memos.remove(&id);
            }
            if told.wary >= told.shows(now) {
                self.warn(now, id, told);
            }
            if taken {
                self.lose(stamps, since, id);
            }
        }
    }

    /// Keeps the memo of this peer, because of what was taken early.
    fn lose(&mut self, stamps: &mut Stamps, since: Mono, id: NodeId) {
        self.lost.insert((since, id));
        self.fold_oldest(stamps);
    }

    /// Moves the oldest lost records into the hull if there are more than there is room for.
    pub(crate) fn fold_oldest(&mut self, stamps: &mut Stamps) {
        while self.lost.len() > MAX_LOST
            && let Some((_, oldest)) = self.lost.pop_first()
            && let Some((_, memo)) = self.memos.get_mut(&oldest)
        {
            stamps.fold(&mut memo.bound);
            self.anew = true;
            if memo.bound.is_empty() {
                self.memos.remove(&oldest);
            }
        }
    }

    fn warn(&mut self, now: Wall, id: NodeId, told: Told) {
        if self.warnings.len() >= MAX_WARNINGS {
            self.warnings.retain(|_, told| told.wary >= told.shows(now));
        }
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.insert(id, told);
        }
    }
}

/// How far `a` is ahead of `b`.
pub(crate) fn ahead(a: Wall, b: Wall) -> i64 {
    let apart = i128::from(a.0) - i128::from(b.0);
    i64::try_from(apart).unwrap_or(if apart > 0 { i64::MAX } else { i64::MIN })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
