//! Tests of the half-connection: each rule by itself, the schedules that broke the published algorithm, and a random world that
//! checks the invariants on every step.

#![allow(clippy::cast_possible_truncation, clippy::single_range_in_vec_init)]

mod closing;
mod early;
mod ledger;
mod published;
mod receiver;
mod sender;
mod voids;
mod world;

use std::ops::Range;

use super::{
    Answer, Ask, Bound, Claim, Clock, EVERY, Far, Hull, IntervalSet, Mark, Proof, Receiver, Sender, Stamps,
    State, Taken,
};
use crate::id::{Incarnation, Slot, Stamp};

fn ask(s: u64, n: u64, l: u64) -> Ask {
    let (s, l) = (Slot(s), Slot(l));
    Ask { s, n, l, ts: Stamp::NONE }
}

/// *on ASK* of a sender without stamps.
fn meet(record: &mut Option<Receiver>, clock: &mut Clock, ask: Ask, grant: u64) {
    let wants = ask.n > 0 && ask.end().is_some();
    let answer = Receiver::on_ask(record, &mut Bound::default(), clock, ask, grant);
    assert_eq!(answer, if wants { Answer::State } else { Answer::Nothing });
}

fn retry(record: &mut Option<Receiver>, clock: &mut Clock, grant: u64) -> bool {
    Receiver::retry(record, &mut Bound::default(), clock, grant)
}

/// The STATE of a record, without stamps.
fn state_of(record: Option<&Receiver>, clock: &Clock) -> State {
    State::of(record, &Bound::default(), clock, Stamp::NONE)
}

/// An ephemeral clock that stands at `ck`.
fn clock_at(ck: u64) -> Clock {
    let mut clock = Clock::ephemeral();
    clock.asked(Slot(ck));
    clock.pass(Slot(ck));
    clock
}

fn set(runs: &[Range<u64>]) -> IntervalSet {
    let mut set = IntervalSet::new();
    for run in runs {
        set.insert(run.clone());
    }
    set
}

/// A STATE without a record.
fn gone(b: u64, ck: u64) -> State {
    State { b: Incarnation(b), r: Incarnation(ck), live: None, taken: None }
}

/// A STATE of a record that claims everything up to its grant frontier.
fn live(b: u64, r: u64, hi: u64, free: &[Range<u64>]) -> State {
    part(b, r, hi, 0..hi, free)
}

/// A STATE of a record that claims `within`.
fn part(b: u64, r: u64, hi: u64, within: Range<u64>, free: &[Range<u64>]) -> State {
    State {
        b: Incarnation(b),
        r: Incarnation(r),
        live: Some(Claim {
            hi: Slot(hi),
            lo: Slot(within.start),
            up: Slot(within.end),
            free: set(free),
            closed: false,
            part: within.start > 0,
        }),
        taken: None,
    }
}

/// The same STATE of a record whose sender has passed the slots below `l`.
fn passed(mut state: State, l: u64) -> State {
    let claim = state.live.as_mut().unwrap();
    (claim.lo, claim.part) = (Slot(l), false);
    state
}

/// Gives `state` to `sender`. Returns what was settled, as `(s, r, message, verdict)`, and whether `sck` moved.
fn hear(sender: &mut Sender<u32>, state: &State) -> (Vec<(u64, u64, u32, Proof)>, bool) {
    let mut settled = Vec::new();
    let progress = sender.on_state(state, |s, r, m, verdict| settled.push((s.0, r.unwrap().0, m, verdict)));
    assert!(progress.converted.is_empty());
    (settled, progress.granted)
}

/// The free slots of a record, one by one.
fn slots(record: &Option<Receiver>) -> Vec<u64> {
    let free = record.as_ref().map(|this| this.parts().2.iter().flatten());
    free.into_iter().flatten().collect()
}
