//! An application that answers calls after some time.

use core::time::Duration;
use std::collections::BTreeMap;

use exonet_proto::node::{CallId, Node};
use exonet_proto::{Mono, Now};

use crate::check::Breach;
use crate::{Dice, Ledger, body};

/// How an application answers calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Serving {
    /// The longest time that an answer takes.
    pub within: Duration,
    /// The probability that a call is not answered until the application is told to drop it.
    pub never: f64,
    /// The probability that a call is dropped instead of answered.
    pub fails: f64,
    /// The size of a reply, in bytes, at least eight.
    pub size: usize,
}

/// A call, and its number in the ledger.
type Call = (CallId, u64);

/// The calls that an application has.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) serving: Serving,
    under_way: BTreeMap<(Mono, CallId), Call>,
    stuck: Vec<Call>,
}

impl Desk {
    /// Notes that the application has taken a call.
    pub(crate) fn take(&mut self, now: Now, call: CallId, number: u64, dice: &mut Dice) {
        if dice.chance(self.serving.never) {
            self.stuck.push((call, number));
            return;
        }
        let most = u64::try_from(self.serving.within.as_nanos()).unwrap_or(u64::MAX);
        let takes = if most == 0 { 0 } else { dice.below(most) };
        self.under_way.insert((Mono(now.mono.0 + takes), call), (call, number));
    }

    /// Answers all pending calls at once instead of later.
    pub(crate) fn hurry(&mut self, now: Mono) {
        let calls = std::mem::take(&mut self.under_way);
        self.under_way = calls.into_iter().map(|((at, id), call)| ((at.min(now), id), call)).collect();
    }

    /// When the next call is answered.
    pub(crate) fn next(&self) -> Option<Mono> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    /// Answers the calls that are due.
    pub(crate) fn answer(&mut self, now: Now, node: &mut Node, dice: &mut Dice, ledger: &mut Ledger) {
        while self.next().is_some_and(|at| at <= now.mono)
            && let Some((_, (call, number))) = self.under_way.pop_first()
        {
            if dice.chance(self.serving.fails) {
                ledger.dropped(number);
                answered(node.drop_call(now, call), number, ledger);
            } else {
                answered(node.reply(now, call, 0, body::reply(number, self.serving.size)), number, ledger);
            }
        }
    }

    /// Drops the calls that are never answered.
    pub(crate) fn drop_stuck(&mut self, now: Now, node: &mut Node, ledger: &mut Ledger) {
        for (call, number) in self.stuck.drain(..) {
            ledger.dropped(number);
            answered(node.drop_call(now, call), number, ledger);
        }
    }

    /// The number of calls that the application has.
    pub(crate) fn calls(&self) -> u64 {
        (self.under_way.len() + self.stuck.len()) as u64
    }

    /// Ends the process.
    pub(crate) fn clear(&mut self) {
        self.under_way.clear();
        self.stuck.clear();
    }
}

/// An application that has a call can answer it, whatever has happened to the caller.
fn answered(answered: bool, call: u64, ledger: &mut Ledger) {
    if !answered {
        ledger.report(Breach::Unanswerable(call));
    }
}
