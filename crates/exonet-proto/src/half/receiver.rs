//! `R[i]`: the receiver record of a half-connection.

use core::ops::Range;
use std::collections::BTreeMap;

use super::{Ask, Bound, Claim, Clock, IntervalSet, Mark, State, Taken};
use crate::id::{Incarnation, Slot, Stamp};

/// What one node holds to receive from one peer: which slots are free, under which incarnation.
///
/// A message is delivered by taking its slot out of `free`: that happens once. Memory is bounded by what the
/// node is willing to grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receiver {
    r: Incarnation,
    hi: Slot,
    free: IntervalSet,
    /// The highest `l` heard: the sender has nothing open below.
    l: Slot,
    /// It consumes no slot and grants none, for good. It goes once the sender has passed it.
    closed: bool,
    /// The furthest ASK that was not met in full.
    unmet: Option<Ask>,
    /// The stamp under which messages are accepted: a second name of `r`.
    ets: Stamp,
    /// What was taken early here, and is not passed.
    taking: Taking,
    /// Free slots whose messages the application has judged.
    marks: BTreeMap<Slot, Mark>,
    /// Free slots without a mark whose messages their sender has withdrawn: never handed out.
    withdrawn: IntervalSet,
}

/// Runs of withdrawn slots up to which they do not count among those that are free: beyond, the sender has to let its
/// frontier pass some before it gets others. So their memory is bounded.
const MAX_WITHDRAWN_RUNS: usize = 4_096;

/// The slots of a record that have met early messages. Its stamp may differ from `ets`: an old ASK of a former life of
/// the sender can bring another, and its slots lie lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Taking {
    /// `kts`: the stamp they came under.
    ts: Stamp,
    /// One past the highest slot whose message has got the name of the record.
    named: Slot,
    /// One past the highest of them that was taken; none is below.
    keep: Slot,
}

impl Taking {
    fn name(&mut self, s: Slot, ts: Stamp) {
        let end = Slot(s.0.saturating_add(1));
        if end > self.named {
            if self.ts != ts {
                self.keep = Slot(0);
            }
            (self.ts, self.named) = (ts, end);
        }
    }

    /// `s` was taken, early perhaps: then `keep` covers it.
    fn take(&mut self, s: u64) {
        if s < self.named.0 {
            self.keep = self.keep.max(Slot(s + 1));
        }
    }

    fn pass(&mut self, l: Slot) {
        if l >= self.keep {
            self.keep = Slot(0);
        }
        if l >= self.named {
            self.named = Slot(0);
        }
    }

    fn taken(self) -> Option<Taken> {
        (self.keep > Slot(0)).then_some(Taken { ts: self.ts, end: self.keep })
    }
}

/// What has to answer an ASK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// Nothing: it wanted nothing, or made no sense.
    Nothing,
    /// A STATE.
    State,
    /// A STAMP_REJECTED: its stamp is above everything that this node may accept, and nothing was granted.
    StampRejected,
}

impl Receiver {
    /// *on ASK*. `grant` is how many slots the node is willing to have free for this peer **beyond** those that
    /// are; creates the record when there is none and some are granted. `bound` is what is known of the sender's
    /// stamps. An ASK with overflowing numbers is ignored.
    pub fn on_ask(
        record: &mut Option<Self>,
        bound: &mut Bound,
        clock: &mut Clock,
        ask: Ask,
        grant: u64,
    ) -> Answer {
        let Some(end) = ask.end() else { return Answer::Nothing };
        bound.pass(ask.l);
        if let Some(this) = record {
            this.pass(ask.l);
        }
        record.take_if(|this| this.closed && this.l >= this.hi);
        if ask.n == 0 {
            return Answer::Nothing;
        }
        if record.as_ref().is_some_and(|this| this.closed) {
            return Answer::State;
        }
        let is_new = clock.stamps().is_new(bound, ask.ts);
        if is_new && ask.ts > clock.stamps().latest() {
            return Answer::StampRejected;
        }
        if record.is_none() && grant > 0 {
            *record = clock.incarnate().map(|r| Self::new(r, ask));
        }
        let Some(this) = record else { return Answer::State };
        this.grow(ask, end, grant);
        clock.stamps_mut().raise(bound, ask.ts);
        if is_new {
            this.ets = ask.ts;
        }
        Answer::State
    }

    /// *refuse*: the opening of a sender whose early messages are open under `ts` is not taken. True: it may be told that
    /// nothing was accepted under `ts`, and that nothing ever will be. False: nothing is said of `ts`.
    pub fn refuse(bound: &mut Bound, clock: &mut Clock, ts: Stamp) -> bool {
        let is_new = clock.stamps().is_new(bound, ts);
        // What is not durable might be new again in the next life.
        let is_durable = ts <= clock.stamps().latest();
        if is_new && is_durable {
            clock.stamps_mut().raise(bound, ts);
        }
        is_new && is_durable
    }

    /// A record as the journal has it, with the stamp that names it and what it took early. It grows again: that it went, or was closed, is in the journal before a STATE says
    /// so. It waits for nothing that was asked before.
    pub fn recover(
        r: Incarnation,
        hi: Slot,
        l: Slot,
        free: IntervalSet,
        (ets, taken): (Stamp, Option<Taken>),
        closed: bool,
        (marks, withdrawn): (BTreeMap<Slot, Mark>, IntervalSet),
    ) -> Self {
        let Taken { ts, end } = taken.unwrap_or(Taken { ts: ets, end: Slot(0) });
        // Which messages had the name is not written: any that comes may have.
        let named = if ets.is_some() && ts == ets { hi.max(end) } else { end };
        let taking = Taking { ts, named, keep: end };
        Self { r, hi, free, l, closed, unmet: None, ets, taking, marks, withdrawn }
    }

    /// Starts at `s`, never below: what lies below belongs to an earlier incarnation.
    fn new(r: Incarnation, ask: Ask) -> Self {
        let (hi, free, withdrawn) = (ask.s, IntervalSet::new(), IntervalSet::new());
        let (marks, taking, ets) = (BTreeMap::new(), Taking::default(), Stamp::NONE);
        Self { r, hi, free, l: ask.l, closed: false, unmet: None, ets, taking, marks, withdrawn }
    }

    /// *close*: from here on no slot is consumed and none is granted. What was not taken is certainly not delivered
    /// under this record, and its STATEs say so, until the sender has passed all of its slots.
    ///
    /// A message that the application is done with has been taken: its slot is not free any more.
    pub fn close(&mut self) {
        self.closed = true;
        self.unmet = None;
        let Self { marks, free, .. } = self;
        marks.retain(|s, mark| *mark != Mark::Done || !free.remove(s.0));
    }

    /// Whether the record was closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether tokens of `r` may consume slots here.
    fn consumes(&self, r: Incarnation) -> bool {
        self.r == r && !self.closed
    }

    /// The sender has nothing open below `l`: those slots serve nobody, and nobody waits for them.
    fn pass(&mut self, l: Slot) {
        self.free.remove_below(l.0);
        self.withdrawn.remove_below(l.0);
        if !self.marks.is_empty() {
            self.marks = self.marks.split_off(&l);
        }
        self.l = self.l.max(l);
        self.unmet = self.unmet.filter(|unmet| unmet.end() > Some(l));
        self.taking.pass(l);
        if l >= self.hi {
            self.ets = Stamp::NONE;
        }
    }

    fn grow(&mut self, ask: Ask, end: Slot, grant: u64) {
        if grant > 0 {
            self.hi = self.hi.max(ask.s);
            let upper = end.0.min(self.hi.0.saturating_add(grant));
            if upper > self.hi.0 {
                self.free.insert(self.hi.0..upper);
                self.hi = Slot(upper);
            }
        }
        // The furthest, not the last: an old copy of an ASK met long ago must not displace a later one.
        let furthest = self.unmet.filter(|unmet| unmet.end() > Some(end)).unwrap_or(ask);
        self.unmet = (furthest.end() > Some(self.hi.max(self.l))).then_some(furthest);
    }

    /// Room has appeared: the unmet ASK arrives again, as the network could have it. True when slots were
    /// granted, and a STATE should tell.
    pub fn retry(record: &mut Option<Self>, bound: &mut Bound, clock: &mut Clock, grant: u64) -> bool {
        let Some(this) = record else { return false };
        let (Some(ask), before) = (this.unmet, this.hi) else {
            return false;
        };
        let _: Answer = Self::on_ask(record, bound, clock, ask, grant);
        record.as_ref().is_some_and(|this| this.hi > before)
    }

    /// Whether an ASK waits for room.
    pub fn wants_room(&self) -> bool {
        self.unmet.is_some()
    }

    /// This record's incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.r
    }

    /// *on EARLY*: the name under which the message that was sent early to `s` under `ts` may be delivered. From
    /// here on it is a token like any other: its slot decides.
    pub fn name(&mut self, s: Slot, ts: Stamp) -> Option<Incarnation> {
        let named = ts.is_some() && self.ets == ts && self.accepts(s, self.r);
        named.then(|| {
            self.taking.name(s, ts);
            self.r
        })
    }

    /// What was taken early here and is not passed: `(kts, keep)`. If the record is lost, that is `A` of the sender.
    pub fn taken(&self) -> Option<Taken> {
        self.taking.taken()
    }

    /// Whether the record knows which of its slots were taken under `ts`.
    fn knows(&self, ts: Stamp) -> bool {
        self.ets == ts || self.taken().is_some_and(|taken| taken.ts == ts)
    }

    /// The stamp under which messages are accepted, for the journal.
    pub fn stamp(&self) -> Stamp {
        self.ets
    }

    /// True when the token `(s, r)` may be delivered: its slot is free, under this very incarnation.
    pub fn accepts(&self, s: Slot, r: Incarnation) -> bool {
        self.consumes(r) && self.holds(s)
    }

    /// True while the message of `s` may still be delivered, whatever it is: one that names `s` as the one before it waits.
    pub fn is_open(&self, s: Slot) -> bool {
        !self.closed && self.holds(s)
    }

    /// The slot is free, and its message neither judged nor withdrawn.
    fn holds(&self, s: Slot) -> bool {
        self.free.contains(s.0) && !self.marks.contains_key(&s) && !self.withdrawn.contains(s.0)
    }

    /// *on TOKEN*: consumes the slot. True at most once for any `s`: then, and only then, the message is
    /// delivered.
    pub fn take(&mut self, s: Slot, r: Incarnation) -> bool {
        let taken = self.accepts(s, r) && self.free.remove(s.0);
        if taken {
            self.taking.take(s.0);
        }
        taken
    }

    /// *mark*: the application has judged the message `(s, r)`, and its sender will be told by a VERDICT. The slot stays free,
    /// and the message is never handed out again. Slot and mark go together, once the sender has passed them. False when the
    /// message may not be delivered.
    pub fn mark(&mut self, s: Slot, r: Incarnation, mark: Mark) -> bool {
        let open = self.accepts(s, r);
        if open {
            self.marks.insert(s, mark);
            self.taking.take(s.0);
        }
        open
    }

    /// The mark of `s`, if it bears one.
    pub fn marked(&self, s: Slot) -> Option<Mark> {
        self.marks.get(&s).copied()
    }

    /// The slots that bear marks, in rising order.
    pub fn marks(&self) -> &BTreeMap<Slot, Mark> {
        &self.marks
    }

    /// *on REVOKE*: the sender withdraws its messages of `run` under `r`. Those that may be delivered never are from here on, and
    /// the sender is told so: certainly not delivered. Their slots stay free, and go once the sender has passed them. Gives
    /// these, in rising order.
    pub fn withdraw(&mut self, run: Range<u64>, r: Incarnation) -> Vec<Range<u64>> {
        if !self.consumes(r) {
            return Vec::new();
        }
        let mut open = IntervalSet::new();
        self.free.overlaps(run.clone()).for_each(|free| open.insert(free));
        self.withdrawn.overlaps(run.clone()).for_each(|before| open.remove_range(before));
        let marked = self.marks.range(Slot(run.start)..Slot(run.end.max(run.start)));
        marked.for_each(|(s, _)| open.remove_range(s.0..s.0.saturating_add(1)));
        open.iter().for_each(|run| self.withdrawn.insert(run));
        open.iter().collect()
    }

    /// The slots whose messages their sender has withdrawn, and has not passed.
    pub fn withdrawn(&self) -> &IntervalSet {
        &self.withdrawn
    }

    /// As [`Receiver::accepts`], of every number of `run`.
    pub fn accepts_run(&self, run: Range<u64>, r: Incarnation) -> bool {
        let marked = || self.marks.range(Slot(run.start)..Slot(run.end)).next().is_some();
        self.consumes(r)
            && self.free.covers(run.clone())
            && (self.marks.is_empty() || !marked())
            && (self.withdrawn.is_empty() || self.withdrawn.first_in(run).is_none())
    }

    /// As [`Receiver::take`], of every number of `run`, or of none.
    pub fn take_run(&mut self, run: Range<u64>, r: Incarnation) -> bool {
        let free = self.accepts_run(run.clone(), r);
        if free {
            // Of the numbers below `named`, the highest counts.
            let last = run.end.min(self.taking.named.0);
            if run.start < last {
                self.taking.take(last - 1);
            }
            self.free.remove_range(run);
        }
        free
    }

    /// How many slots are free, those that are withdrawn aside as long as these lie in few runs: O(1).
    pub fn free(&self) -> u64 {
        let few = self.withdrawn.intervals() <= MAX_WITHDRAWN_RUNS;
        self.free.count() - if few { self.withdrawn.count() } else { 0 }
    }

    /// True when no slot is free, and none that was taken early is open at the sender: then it may be dropped at any time.
    pub fn is_drained(&self) -> bool {
        self.free.is_empty() && self.taken().is_none()
    }

    /// True when the sender has nothing open below the grant frontier and waits for nothing above it: the record
    /// has done its work.
    pub fn is_passed(&self) -> bool {
        self.is_drained() && self.l >= self.hi && self.unmet.is_none()
    }

    /// *evict*: forgets the record though slots are free. What was bound to them is unknown from now on; of what was sent
    /// early, the slots that may have been taken under their very stamp.
    pub fn evict(self, bound: &mut Bound, clock: &mut Clock) {
        clock.forget(self.r);
        if let Some(taken) = self.taken() {
            bound.lose(taken);
        }
    }

    /// The claim of this record about every slot from `l` on.
    pub fn claim(&self) -> Claim {
        let (lo, closed) = (self.l.min(self.hi), self.closed);
        Claim { hi: self.hi, lo, up: self.up(), free: self.free.clone(), closed, part: false }
    }

    /// The end of a claim: the grant frontier. The claim of a final STATE ends before the first slot whose message was rejected or
    /// withdrawn, because the sender learns of such a message by VERDICT or WITHDRAWN. If the STATE gave the message back, the sender
    /// would bind it again, behind the messages that follow it in its stream.
    pub fn up(&self) -> Slot {
        let rejected = self.marks.iter().find(|(_, mark)| **mark == Mark::Rejected).map(|(s, _)| *s);
        let withdrawn = self.withdrawn.first().map(Slot);
        let first = rejected.into_iter().chain(withdrawn).min().filter(|_| self.closed);
        first.unwrap_or(self.hi)
    }

    /// As [`Receiver::claim`], without a copy: `(hi, lo, free slots)`.
    pub fn parts(&self) -> (Slot, Slot, &IntervalSet) {
        (self.hi, self.l.min(self.hi), &self.free)
    }
}

impl State {
    /// The STATE that answers for `record`, live or not, to the sender of this `bound`. Of stamps it speaks of `ts`, which
    /// the sender has asked under, if it can.
    pub fn of(record: Option<&Receiver>, bound: &Bound, clock: &Clock, ts: Stamp) -> Self {
        let (b, taken) = (clock.b(), Taken::of(record, bound, clock, ts));
        match record {
            Some(this) => Self { b, r: this.r, live: Some(this.claim()), taken },
            None => Self { b, r: Incarnation(clock.ck()), live: None, taken },
        }
    }
}

impl Taken {
    /// What a STATE may say of `ts`: slots below the end may have been taken under it by a record that is lost since, and
    /// whatever was or will be taken beside them is the record's of the STATE. None while that is not so: `ts` is new yet.
    pub fn of(record: Option<&Receiver>, bound: &Bound, clock: &Clock, ts: Stamp) -> Option<Self> {
        if !ts.is_some() {
            return None;
        }
        // It was new to the record, so nothing was taken under it before.
        if record.is_some_and(|record| record.knows(ts)) {
            return Some(Self { ts, end: Slot(0) });
        }
        let stamps = clock.stamps();
        (!stamps.is_new(bound, ts)).then(|| Self { ts, end: stamps.forgotten(bound, ts) })
    }
}
