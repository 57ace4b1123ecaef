//! `S[j]`: the sender record of a half-connection.

use core::ops::Range;

use super::early::Early;
use super::tokens::Tokens;
use super::{Ask, Claim, Clock, Proof, State};
use crate::id::{Incarnation, Slot, Stamp};

/// What one node holds to send to one peer: the numbers it asked for, the envelopes it holds, and the messages it has bound to
/// them. It is generic over the message, which this layer never looks at.
///
/// `sck <= hi`. Envelopes are `[e, sck)`, all of incarnation `r`; only while the numbers of early messages are not
/// granted is `e` above `sck`. A record lives from the first message until [`Sender::close`]; then one integer
/// remains, in the [`Clock`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender<T> {
    sck: Slot,
    hi: Slot,
    e: Slot,
    r: Option<Incarnation>,
    /// Every incarnation below this is known to be gone for good.
    dead: Incarnation,
    tokens: Tokens<T>,
    early: Early<T>,
}

/// The effect of a STATE, besides what it settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// `sck` has moved: there are new envelopes.
    pub granted: bool,
    /// Early messages that are tokens of this incarnation from now on: their bodies have to be sent (again).
    pub converted: Vec<(Slot, Incarnation)>,
}

impl<T> Sender<T> {
    /// `S{sck = hi = e = ck}`.
    pub fn open(clock: &Clock) -> Self {
        let (ck, dead) = (Slot(clock.ck()), Incarnation(0));
        Self { sck: ck, hi: ck, e: ck, r: None, dead, tokens: Tokens::new(), early: Early::none() }
    }

    /// `S{sck = ck, e = hi = ck + k}`: the first messages are bound at once, under the stamp `ts`. They may leave any number of
    /// times, with the same number and stamp, beside an ASK that bears `ts`. None if the clock does not have that many numbers
    /// yet.
    pub fn open_early(clock: &mut Clock, ts: Stamp, messages: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut this = Self::open(clock);
        this.early = Early::new(ts, this.e, messages);
        this.e = Slot(this.e.0.checked_add(this.early.len() as u64).filter(|e| *e <= clock.limit().0)?);
        this.hi = this.e;
        clock.asked(this.hi);
        Some(this)
    }

    /// A record as the journal has it. Its messages continue under their numbers. It holds no envelope, and since `clock` booted
    /// it has asked for nothing but the numbers of the `early` messages, which are open under `ts`. Both come in ascending order
    /// of numbers. Messages that an ASK has passed by its `l` are not among them: no STATE claims them any more, so the journal
    /// has their outcome first.
    pub fn recover(
        clock: &Clock,
        tokens: impl IntoIterator<Item = (Slot, Incarnation, T)>,
        ts: Stamp,
        early: impl IntoIterator<Item = (Slot, T)>,
    ) -> Self {
        let mut this = Self::open(clock);
        for (s, r, message) in tokens {
            this.tokens.push(s, r, message);
        }
        this.r = this.tokens.incarnation();
        this.early = Early::recover(ts, early);
        this.sck = this.early.first().unwrap_or(this.sck);
        this
    }

    /// `e`: the next number to be bound. Lower numbers were bound, or belonged to an incarnation that died.
    pub fn e(&self) -> Slot {
        self.e
    }

    /// `sck`: numbers below this were granted.
    pub fn sck(&self) -> Slot {
        self.sck
    }

    /// The highest number asked for.
    pub fn hi(&self) -> Slot {
        self.hi
    }

    /// `l`: no open message has, or will get, a number below this.
    pub fn frontier(&self) -> Slot {
        // An open early message lies at `sck` or above.
        self.tokens.first().unwrap_or(self.e).min(self.e).min(self.sck)
    }

    /// `[e, sck)`: how many messages could be bound now.
    pub fn envelopes(&self) -> u64 {
        self.sck.0.saturating_sub(self.e.0)
    }

    /// The envelope that [`Sender::bind`] would use next.
    pub fn next_envelope(&self) -> Option<(Slot, Incarnation)> {
        self.r.filter(|_| self.e < self.sck).map(|r| (self.e, r))
    }

    /// The incarnation of the envelopes, once the peer has granted any.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.r
    }

    /// How many messages are bound and not settled: O(holes among them).
    pub fn in_doubt(&self) -> u64 {
        self.tokens.len() + self.early.len() as u64
    }

    /// True when no message is bound and unsettled.
    pub fn is_idle(&self) -> bool {
        self.tokens.is_empty() && self.early.len() == 0
    }

    /// `hi - sck`: how many numbers were asked for and are not granted yet.
    pub fn ungranted(&self) -> u64 {
        self.hi.0 - self.sck.0
    }

    /// The stamp under which early messages are open; none if there are none.
    pub fn stamp(&self) -> Stamp {
        self.early.stamp()
    }

    /// The messages in doubt that have no incarnation yet, in ascending order.
    pub fn early(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.early.iter()
    }

    /// The message bound to `s`, and the incarnation under which it is bound.
    pub fn token(&self, s: Slot) -> Option<(Incarnation, &T)> {
        self.tokens.get(s)
    }

    /// The messages in doubt among the numbers of `run` under `r`, in ascending order: O(log + answers).
    pub fn tokens_in(&self, run: Range<u64>, r: Incarnation) -> impl Iterator<Item = (Slot, &T)> {
        self.tokens.within(run, r)
    }

    /// All messages in doubt that have an incarnation, in ascending order.
    pub fn tokens(&self) -> impl Iterator<Item = (Slot, Incarnation, &T)> {
        self.tokens.iter()
    }

    /// One step of *pump*: binds `message` to the next envelope. Gives the message back when there is none.
    ///
    /// A message is bound **before** anything further is asked for: from then on the frontier of an ASK covers it.
    pub fn bind(&mut self, message: T) -> Result<(Slot, Incarnation), T> {
        match self.r {
            Some(r) if self.e < self.sck => {
                let s = self.e;
                self.e = Slot(s.0 + 1);
                self.tokens.push(s, r, message);
                Ok((s, r))
            }
            _ => Err(message),
        }
    }

    /// As [`Sender::bind`], for several messages at once. Returns the slot of the first; the others have consecutive slots behind
    /// it. None, and nothing is bound, if there are fewer envelopes.
    pub fn bind_run(&mut self, messages: impl ExactSizeIterator<Item = T>) -> Option<(Slot, Incarnation)> {
        let n = messages.len() as u64;
        let (r, s) = (self.r.filter(|_| n <= self.envelopes())?, self.e);
        self.e = Slot(s.0 + n);
        self.tokens.push_run(s, r, messages);
        Some((s, r))
    }

    /// *renounce*: gives the envelopes up, as if each had been bound and its message abandoned. The receiver that granted them
    /// may be gone: messages bound to them would end Unknown.
    pub fn renounce(&mut self) {
        self.e = self.e.max(self.sck);
    }

    /// *ask*: asks for envelopes for `queued` messages and `standby` more. None if there is nothing to ask for.
    ///
    /// It never asks for a number that the clock has not made durable.
    pub fn ask(&mut self, clock: &mut Clock, queued: u64, standby: u64) -> Option<Ask> {
        let wanted = self.e.0.saturating_add(queued).saturating_add(standby).min(clock.limit().0);
        self.hi = self.hi.max(Slot(wanted));
        if self.early.len() == 0 {
            // Numbers below `e` are of no use any more. A recovered record may have very many.
            self.sck = self.sck.max(self.e);
        }
        clock.asked(self.hi);
        self.repeat()
    }

    /// The ASK for what has been asked for and is not granted.
    pub fn repeat(&self) -> Option<Ask> {
        let (s, n, l, ts) = (self.sck, self.hi.0 - self.sck.0, self.frontier(), self.stamp());
        (n > 0).then_some(Ask { s, n, l, ts })
    }

    /// *close*: drops the record if nothing is queued and nothing is bound. Every number asked for is passed, so none is used
    /// twice. None, and nothing changes, while a message is bound.
    pub fn close(record: &mut Option<Self>, clock: &mut Clock) -> Option<Ask> {
        let idle = record.take_if(|this| this.is_idle())?;
        clock.pass(idle.hi);
        Some(Ask::farewell(clock))
    }

    /// The application gives up the message in `s`: the token is forgotten, and its outcome is unknown.
    pub fn abandon(&mut self, s: Slot) -> Option<T> {
        self.tokens.take(s).map(|(_, message)| message).or_else(|| self.early.take(s))
    }

    /// *on VERDICT*: the application of the receiver has judged the message that is bound to `s` under `r`, which ends. The
    /// frontier passes the message, and the receiver then drops what it keeps of it. An early message has met no incarnation yet,
    /// and no other message ever had its number.
    pub fn on_verdict(&mut self, s: Slot, r: Incarnation) -> Option<T> {
        match self.tokens.get(s) {
            None => self.early.take(s),
            Some((under, _)) if under != r => None,
            Some(_) => self.tokens.take(s).map(|(_, message)| message),
        }
    }

    /// *on WITHDRAWN*: the messages bound to `run` under `r` were withdrawn, and are certainly not delivered. They end, in
    /// ascending order. An early message is not withdrawn: it has met no incarnation that this node could have named.
    pub fn on_withdrawn(&mut self, run: Range<u64>, r: Incarnation, settle: impl FnMut(Slot, T)) {
        self.tokens.take_ranges(r, core::iter::once(run), settle);
    }

    /// *on STATE*: settles what the STATE proves, and takes what it grants. `settle` gets None for the incarnation of a message
    /// that never had one here.
    pub fn on_state(
        &mut self,
        state: &State,
        mut settle: impl FnMut(Slot, Option<Incarnation>, T, Proof),
    ) -> Progress {
        self.judge(state, &mut |s, r, message, verdict| settle(s, Some(r), message, verdict));
        let converted = self.judge_early(state, settle);
        Progress { granted: self.take_grant(state), converted }
    }

    /// *on STAMP_REJECTED*: nothing was granted under `ts`, and nothing sent under it can ever be told from a copy. Such messages
    /// end Unknown.
    pub fn on_stamp_rejected(&mut self, ts: Stamp, mut settle: impl FnMut(Slot, T)) {
        if ts == self.early.stamp() {
            self.early.drain().for_each(|(s, message)| settle(s, message));
        }
    }

    /// *on REFUSED*: the receiver has accepted nothing under `ts`, and never will. So the early messages under `ts` are certainly
    /// not delivered if they have no record there.
    pub fn on_refused(&mut self, ts: Stamp, mut settle: impl FnMut(Slot, T)) {
        if self.early.stamp() == ts {
            self.early.drain().for_each(|(s, message)| settle(s, message));
        }
    }

    fn judge_early(
        &mut self,
        state: &State,
        mut settle: impl FnMut(Slot, Option<Incarnation>, T, Proof),
    ) -> Vec<(Slot, Incarnation)> {
        let (tokens, dead, mut converted) = (&mut self.tokens, self.dead, Vec::new());
        let settle = |s, message, verdict| settle(s, None, message, verdict);
        self.early.judge(state, dead, settle, |s, message| {
            tokens.insert(s, state.r, message)?;
            converted.push((s, state.r));
            Ok(())
        });
        converted
    }

    fn judge(&mut self, state: &State, settle: &mut impl FnMut(Slot, Incarnation, T, Proof)) {
        let live = state.live.as_ref().map(|_| state.r);
        if let Some(claim) = &state.live {
            // Only the part of the claim that concerns open tokens: a STATE may have hundreds of ranges because of one token.
            let open = self.tokens.span();
            let (lo, up) = (claim.lo.0.max(open.start), claim.hi.min(claim.up).0.min(open.end));
            let taken = claim.free.gaps(lo..up);
            self.tokens.take_ranges(state.r, taken, |s, m| settle(s, state.r, m, Proof::Delivered));
            if claim.closed {
                let free = claim.free.overlaps(lo..up);
                self.tokens.take_ranges(state.r, free, |s, m| settle(s, state.r, m, Proof::NotTaken));
            }
            let passed = claim.passed().0;
            if open.start < passed {
                let passed = core::iter::once(open.start..passed);
                self.tokens.take_ranges(state.r, passed, |s, m| settle(s, state.r, m, Proof::Unknown));
            }
        }
        self.tokens.take_below(state.b.max(state.r), live, |s, r, m| {
            let verdict = if r < state.b { Proof::Unknown } else { Proof::Delivered };
            settle(s, r, m, verdict);
        });
    }

    fn take_grant(&mut self, state: &State) -> bool {
        let live = state.live.as_ref();
        // A live record below `b` has outlived a rise of `b` that another peer's record has caused.
        let gone = live.map_or(state.b, |_| state.b.min(state.r));
        self.dead = self.dead.max(gone);
        if let Some(claim) = live.filter(|claim| claim.closed) {
            self.dead = self.dead.max(Incarnation(state.r.0.saturating_add(1)));
            self.pass_closed(state.r, claim);
        }
        if self.r.is_some_and(|r| r < self.dead) {
            self.e = self.e.max(self.sck); // envelopes of a dead incarnation
        }
        // An old STATE may grant under an incarnation that is dead by now: every message bound under it would end Unknown.
        let newest = self.r.unwrap_or_default().max(self.dead);
        let Some(claim) = live.filter(|_| state.r >= newest) else {
            return false;
        };
        let granted = self.within_asked(claim);
        if granted <= self.sck {
            return false;
        }
        if self.r != Some(state.r) {
            self.e = self.e.max(self.sck);
        }
        self.r = Some(state.r);
        self.sck = granted;
        // A sender that was put back to an earlier state binds nothing to the numbers that it has passed.
        let passed = claim.passed();
        self.e = self.e.max(passed.min(granted));
        true
    }

    /// How far the numbers of a claim count. An ASK begins at `sck`, so `sck` never lies above an open early message: a record
    /// that began there would seem to have delivered it.
    fn within_asked(&self, claim: &Claim) -> Slot {
        claim.hi.min(self.hi).min(self.early.first().unwrap_or(self.hi))
    }

    /// The numbers of a closed record are used up. What the sender asks for next lies above them, and the frontier passes the
    /// record, which waits for that.
    fn pass_closed(&mut self, r: Incarnation, claim: &Claim) {
        if self.r.is_none_or(|newest| newest <= r) {
            self.sck = self.sck.max(self.within_asked(claim));
            self.e = self.e.max(self.sck);
        }
    }
}
