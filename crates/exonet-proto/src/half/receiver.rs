//! `R[i]`: the receiver record of a half-connection.

use core::ops::Range;
use std::collections::BTreeMap;

use super::{Ask, Bound, Claim, Clock, IntervalSet, Mark, State};
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
    /// Free slots whose messages the application has judged.
    marks: BTreeMap<Slot, Mark>,
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
        let is_new = ask.ts > clock.stamps().bound(*bound);
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
        let is_new = ts > clock.stamps().bound(*bound);
        // What is not durable might be new again in the next life.
        let is_durable = ts <= clock.stamps().latest();
        if is_new && is_durable {
            clock.stamps_mut().raise(bound, ts);
        }
        is_new && is_durable
    }

    /// A record as the journal has it. It grows again: that it went, or was closed, is in the journal before a STATE says
    /// so. It waits for nothing that was asked before.
    pub fn recover(
        r: Incarnation,
        hi: Slot,
        l: Slot,
        free: IntervalSet,
        ets: Stamp,
        closed: bool,
        marks: BTreeMap<Slot, Mark>,
    ) -> Self {
        Self { r, hi, free, l, closed, unmet: None, ets, marks }
    }

    /// Starts at `s`, never below: what lies below belongs to an earlier incarnation.
    fn new(r: Incarnation, ask: Ask) -> Self {
        let (hi, free) = (ask.s, IntervalSet::new());
        let marks = BTreeMap::new();
        Self { r, hi, free, l: ask.l, closed: false, unmet: None, ets: Stamp::NONE, marks }
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
        if !self.marks.is_empty() {
            self.marks = self.marks.split_off(&l);
        }
        self.l = self.l.max(l);
        self.unmet = self.unmet.filter(|unmet| unmet.end() > Some(l));
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
    pub fn name(&self, s: Slot, ts: Stamp) -> Option<Incarnation> {
        (ts.is_some() && self.ets == ts && self.accepts(s, self.r)).then_some(self.r)
    }

    /// The stamp under which messages are accepted, for the journal.
    pub fn stamp(&self) -> Stamp {
        self.ets
    }

    /// True when the token `(s, r)` may be delivered: its slot is free, under this very incarnation.
    pub fn accepts(&self, s: Slot, r: Incarnation) -> bool {
        self.consumes(r) && self.free.contains(s.0) && !self.marks.contains_key(&s)
    }

    /// True while the message of `s` may still be delivered, whatever it is: one that names `s` as the one before it waits.
    pub fn is_open(&self, s: Slot) -> bool {
        !self.closed && self.free.contains(s.0) && !self.marks.contains_key(&s)
    }

    /// *on TOKEN*: consumes the slot. True at most once for any `s`: then, and only then, the message is
    /// delivered.
    pub fn take(&mut self, s: Slot, r: Incarnation) -> bool {
        self.accepts(s, r) && self.free.remove(s.0)
    }

    /// *mark*: the application has judged the message `(s, r)`, and its sender will be told by a VERDICT. The slot stays free,
    /// and the message is never handed out again. Slot and mark go together, once the sender has passed them. False when the
    /// message may not be delivered.
    pub fn mark(&mut self, s: Slot, r: Incarnation, mark: Mark) -> bool {
        let open = self.accepts(s, r);
        if open {
            self.marks.insert(s, mark);
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

    /// As [`Receiver::accepts`], of every number of `run`.
    pub fn accepts_run(&self, run: Range<u64>, r: Incarnation) -> bool {
        let marked = || self.marks.range(Slot(run.start)..Slot(run.end)).next().is_some();
        self.consumes(r) && self.free.covers(run.clone()) && (self.marks.is_empty() || !marked())
    }

    /// As [`Receiver::take`], of every number of `run`, or of none.
    pub fn take_run(&mut self, run: Range<u64>, r: Incarnation) -> bool {
        let free = self.accepts_run(run.clone(), r);
        if free {
            self.free.remove_range(run);
        }
        free
    }

    /// How many slots are free: O(1).
    pub fn free(&self) -> u64 {
        self.free.count()
    }

    /// True when no slot is free and no stamp names the record: then it may be dropped at any time.
    pub fn is_drained(&self) -> bool {
        self.free.is_empty() && !self.ets.is_some()
    }

    /// True when the sender has nothing open below the grant frontier and waits for nothing above it: the record
    /// has done its work.
    pub fn is_passed(&self) -> bool {
        self.is_drained() && self.l >= self.hi && self.unmet.is_none()
    }

    /// *evict*: forgets the record though slots are free. What was bound to them is unknown from now on.
    pub fn evict(self, bound: &mut Bound, clock: &mut Clock) {
        clock.forget(self.r, bound);
    }

    /// The claim of this record about every slot from `l` to its grant frontier.
    pub fn claim(&self) -> Claim {
        let (lo, closed) = (self.l.min(self.hi), self.closed);
        Claim { hi: self.hi, lo, up: self.hi, free: self.free.clone(), closed }
    }

    /// As [`Receiver::claim`], without a copy: `(hi, lo, free slots)`; `up` is `hi`.
    pub fn parts(&self) -> (Slot, Slot, &IntervalSet) {
        (self.hi, self.l.min(self.hi), &self.free)
    }
}

impl State {
    /// The STATE that answers for `record`, live or not, to the sender of this `bound`.
    pub fn of(record: Option<&Receiver>, bound: Bound, clock: &Clock) -> Self {
        let (b, tb) = (clock.b(), Some(clock.stamps().amnesia(bound)));
        match record {
            Some(this) => Self { b, r: this.r, live: Some(this.claim()), tb },
            None => Self { b, r: Incarnation(clock.ck()), live: None, tb },
        }
    }
}
