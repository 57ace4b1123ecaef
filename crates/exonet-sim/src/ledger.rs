//! The fate of every message, which must agree with its outcome.

use std::collections::BTreeMap;

use bytes::Bytes;
use exonet_proto::node::{FAILED, Gap, Outcome, Status};
use exonet_proto::{Incarnation, MessageId, Mono, NodeId, Slot};

use crate::body;
use crate::check::{Breach, Violation};
use crate::streams::{Disorder, Orders};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages sent.
    pub sent: u64,
    /// Messages taken by the receiving application.
    pub taken: u64,
    /// How many of the taken messages were calls.
    pub calls: u64,
    /// Calls that got their reply.
    pub replies: u64,
    /// Messages that ended Delivered, including calls with a reply.
    pub delivered: u64,
    /// Messages that ended Unknown.
    pub unknown: u64,
    /// Messages that ended Expired, Cancelled, Refused or Rejected.
    pub withdrawn: u64,
}

/// The process that took a message, as it was then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeper {
    /// How many times its node had died.
    pub(crate) boots: u32,
    /// How many replies it had forgotten.
    pub(crate) forgotten: u64,
}

/// Whether messages were taken under a record; and whether calls were, or may have arrived in part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    pub(crate) messages: bool,
    pub(crate) calls: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    to: NodeId,
    /// When the message was sent; later, when it was bound.
    since: Mono,
    bound: Option<(Incarnation, Slot)>,
    taken: u32,
    /// Whether its slot was consumed. The application gets the message once the journal is safe; a crash before loses
    /// it.
    handed: bool,
    /// Whether the application rejects it.
    rejected: bool,
    keeper: Option<Keeper>,
    outcome: Option<Outcome>,
    /// Whether an application gave it up, so that it may end Unknown.
    excused: bool,
    /// Whether its sender has withdrawn it, or withdraws it when its deadline passes.
    unwanted: bool,
    /// Whether its sender died, or the sender's core did, and no outcome was reported.
    orphaned: bool,
    call: bool,
    /// Whether it is a call that the receiver's application will not answer.
    dropped: bool,
    /// Whether it is a call that the death of its receiver interrupted, and that the journal passes to the next
    /// process.
    interrupted: bool,
}

/// The fate of every message, by a number that its body carries, and every guarantee that was broken.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<u64, Entry>,
    /// What came under each record, by receiver and incarnation.
    served: BTreeMap<(NodeId, Incarnation), Served>,
    /// The order of messages in streams.
    orders: Orders,
    violations: Vec<Violation>,
    open: usize,
    now: Mono,
    step: u64,
}

impl Ledger {
    /// Begins another step of the run.
    pub(crate) fn step(&mut self, now: Mono) {
        self.now = now;
        self.step += 1;
    }

    /// The number of steps so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Reports a broken guarantee.
    pub(crate) fn report(&mut self, breach: Breach) {
        self.violations.push(Violation { at: self.now, step: self.step, breach });
    }

    /// Records that a message was sent.
    pub(crate) fn sent(&mut self, message: u64, to: NodeId, call: bool) {
        let since = self.now;
        let entry = Entry {
            to,
            since,
            bound: None,
            taken: 0,
            rejected: false,
            handed: false,
            keeper: None,
            outcome: None,
            excused: false,
            unwanted: false,
            orphaned: false,
            call,
            dropped: false,
            interrupted: false,
        };
        self.entries.insert(message, entry);
        self.open += 1;
    }

    /// Records that a message was bound to a slot.
    pub(crate) fn bound(&mut self, message: u64, to: (Incarnation, Slot)) {
        let now = self.now;
        let Some(entry) = self.entries.get_mut(&message) else { return };
        entry.since = now;
        // A message that came back from a closed record without being taken is bound again.
        let anew = entry.bound.is_some_and(|(_, s)| s < to.1);
        if anew && entry.taken == 0 {
            entry.bound = Some(to);
        }
        self.called(message, to);
    }

    /// Checks the name that one end has for a message.
    fn called(&mut self, message: u64, called: (Incarnation, Slot)) {
        let Some(entry) = self.entries.get_mut(&message) else { return };
        let bound = *entry.bound.get_or_insert(called);
        // One end may not know the receiver's incarnation for a message that was sent early.
        let unnamed = [bound.0, called.0].contains(&Incarnation::UNNAMED);
        if bound.0 == Incarnation::UNNAMED {
            entry.bound = Some(called);
        }
        if bound.1 != called.1 || (bound.0 != called.0 && !unnamed) {
            self.report(Breach::Misnamed { message, bound, called });
        }
    }

    /// Notes that a node has consumed the slot of the message, and will hand the message out once its journal is
    /// safe.
    pub(crate) fn handed(&mut self, message: Option<u64>) {
        if let Some(entry) = message.and_then(|message| self.entries.get_mut(&message)) {
            entry.handed = true;
        }
    }

    /// Notes that the application of `by` took the message.
    pub(crate) fn taken(&mut self, message: Option<u64>, by: NodeId, keeper: Keeper, id: MessageId) {
        let entry = message.and_then(|message| Some((message, self.entries.get_mut(&message)?)));
        let Some((message, entry)) = entry.filter(|(_, entry)| entry.to == by) else {
            self.report(Breach::Forged);
            return;
        };
        entry.taken += 1;
        entry.keeper = Some(keeper);
        let served = self.served.entry((by, id.r)).or_default();
        served.calls |= entry.call;
        served.messages |= !entry.call;
        let (taken, outcome) = (entry.taken, entry.outcome);
        if taken > 1 {
            self.report(Breach::Duplicate(message));
        }
        if let Some(outcome) = outcome.filter(is_withdrawn) {
            self.report(Breach::FalseWithdrawn(message, outcome));
        }
        self.called(message, (id.r, id.s));
    }

    /// Notes that a message belongs to a stream: its sender, its receiver, its name.
    pub(crate) fn in_stream(&mut self, message: u64, stream: (NodeId, NodeId, Bytes)) {
        self.orders.sent(message, stream);
    }

    /// Notes that the sender of a message withdraws it, or will.
    pub fn unwanted(&mut self, message: u64) {
        if let Some(entry) = self.entries.get_mut(&message) {
            entry.unwanted = true;
        }
    }

    /// How many times an application was told that messages of a stream are missing.
    pub const fn missed(&self) -> u64 {
        self.orders.missed
    }

    /// Notes that the application has got a message of a stream, and this gap before it.
    pub(crate) fn had(&mut self, message: Option<u64>, gap: Gap) {
        let Some(message) = message else { return };
        let entries = &self.entries;
        let rejected = |message: u64| entries.get(&message).is_some_and(|entry| entry.rejected);
        // A gap may skip messages that certainly did not leave or were withdrawn, that died with their sender, that
        // the application itself rejected, or that the application got just before it died.
        let explains = |skipped: u64| {
            entries.get(&skipped).is_none_or(|entry| {
                let withdrawn = entry.outcome.is_some_and(|outcome| is_withdrawn(&outcome));
                entry.rejected || entry.handed || entry.orphaned || entry.unwanted || withdrawn
            })
        };
        match self.orders.had(message, gap, rejected, explains) {
            Some(Disorder::Late) => self.report(Breach::OutOfOrder(message)),
            Some(Disorder::Skipped(skipped)) => self.report(Breach::SilentGap(skipped)),
            None => {}
        }
    }

    /// Notes that the application has rejected a message.
    pub(crate) fn rejected(&mut self, message: Option<u64>) {
        match message.and_then(|message| self.entries.get_mut(&message)) {
            Some(entry) => entry.rejected = true,
            None => self.report(Breach::Forged),
        }
    }

    /// Notes that a message of an impostor in this slot was taken a second time.
    pub(crate) fn taken_from_foe_again(&mut self, slot: u64) {
        self.report(Breach::Duplicate(slot));
    }

    /// Whether an application has taken the message.
    pub fn is_taken(&self, message: u64) -> bool {
        self.entries.get(&message).is_some_and(|entry| entry.taken > 0 || entry.handed)
    }

    /// How many times an application has got the message, once its journal had it.
    pub fn times_taken(&self, message: u64) -> u32 {
        self.entries.get(&message).map_or(0, |entry| entry.taken)
    }

    /// Whether the application has rejected the message.
    pub fn is_rejected(&self, message: u64) -> bool {
        self.entries.get(&message).is_some_and(|entry| entry.rejected)
    }

    /// Whether the sender of the message died, and no outcome was reported.
    pub fn is_orphaned(&self, message: u64) -> bool {
        self.entries.get(&message).is_some_and(|entry| entry.orphaned)
    }

    /// Whether a record of the receiver has used up the slot of the message: an application has taken or rejected it.
    pub(crate) fn used_slot(&self, message: u64) -> bool {
        self.is_taken(message) || self.entries.get(&message).is_some_and(|entry| entry.rejected)
    }

    /// What `by` got under its record `r`.
    pub(crate) fn served(&self, by: NodeId, r: Incarnation) -> Served {
        self.served.get(&(by, r)).copied().unwrap_or_default()
    }

    /// The time of the last step.
    pub(crate) const fn now(&self) -> Mono {
        self.now
    }

    /// The process that has taken the message.
    pub(crate) fn keeper(&self, message: u64) -> Option<Keeper> {
        self.entries.get(&message)?.keeper
    }

    /// Since when the message has been in doubt; or when it was sent.
    pub(crate) fn since(&self, message: u64) -> Option<Mono> {
        self.entries.get(&message).map(|entry| entry.since)
    }

    /// Notes the outcome that the sender of a message got. `explained` says whether something happened that may make
    /// it Unknown.
    pub(crate) fn outcome(&mut self, message: u64, outcome: Outcome, id: Option<MessageId>, explained: bool) {
        let Some(entry) = self.entries.get_mut(&message) else {
            return;
        };
        let before = entry.outcome.replace(outcome);
        let Entry { to, call, taken, handed, excused, rejected, .. } = *entry;
        if let Some(before) = before {
            self.report(Breach::TwoOutcomes(message, before, outcome));
        } else {
            self.open -= 1;
        }
        match outcome {
            Outcome::Delivered | Outcome::Processed { .. } if taken == 0 && !handed => {
                self.report(Breach::FalseDelivered(message));
            }
            // A message that has left may still be refused with certainty (PROTOCOL.md, "Refusals"), or withdrawn.
            Outcome::Refused(_) | Outcome::Rejected { .. } | Outcome::Expired | Outcome::Cancelled
                if taken > 0 =>
            {
                self.report(Breach::FalseWithdrawn(message, outcome));
            }
            Outcome::Rejected { .. } if !rejected => {
                self.report(Breach::FalseWithdrawn(message, outcome));
            }
            Outcome::Unknown if !excused && !explained => self.report(Breach::FalseUnknown(message)),
            _ => {}
        }
        if let Some(id) = id {
            self.served.entry((to, id.r)).or_default().calls |= call;
            self.called(message, (id.r, id.s));
        }
    }

    /// Notes that the receiver's application drops a call.
    pub(crate) fn dropped(&mut self, call: u64) {
        if let Some(entry) = self.entries.get_mut(&call) {
            entry.dropped = true;
        }
    }

    /// Notes that the process of `by` dies. Its journal has the calls that it has taken.
    pub(crate) fn interrupt(&mut self, by: NodeId) {
        let taken = |entry: &&mut Entry| entry.call && entry.taken > 0 && entry.to == by;
        self.entries.values_mut().filter(taken).for_each(|entry| entry.interrupted = true);
    }

    /// Notes that a call has its reply, which carries this number.
    pub(crate) fn replied(&mut self, call: u64, status: u32, number: Option<u64>) {
        let entry = self.entries.get(&call).filter(|entry| entry.call);
        let dropped = entry.is_some_and(|entry| entry.dropped);
        let interrupted = entry.is_some_and(|entry| entry.interrupted);
        let fits = match status {
            0 => number == Some(body::answer_to(call)) && entry.is_some() && !dropped,
            FAILED => dropped || interrupted,
            _ => false,
        };
        if !fits {
            self.report(Breach::FalseReply(call));
        }
        self.outcome(call, Outcome::Delivered, None, false);
    }

    /// Notes that the core of the sender has stopped, so that it reports no more outcomes of these messages. A
    /// message that had not left never will; of the others nobody knows what happened to them.
    pub(crate) fn last_words(&mut self, messages: impl Iterator<Item = (u64, Status)>) {
        for (message, status) in messages {
            if let Some(entry) = self.entries.get_mut(&message) {
                entry.orphaned = true;
            }
            let (outcome, id) = match status {
                Status::Queued => (Outcome::Cancelled, None),
                Status::InDoubt { id, .. } => (Outcome::Unknown, Some(id)),
                Status::Settled => (Outcome::Unknown, None),
            };
            self.outcome(message, outcome, id, true);
        }
    }

    /// Lets every open message end Unknown from now on: if two processes have one identity, no guarantee holds.
    pub fn excuse_open(&mut self) {
        for entry in self.entries.values_mut().filter(|entry| entry.outcome.is_none()) {
            entry.excused = true;
        }
    }

    /// Lets this message end Unknown from now on, since an application gives it up.
    pub fn excuse(&mut self, message: u64) {
        if let Some(entry) = self.entries.get_mut(&message) {
            entry.excused = true;
        }
    }

    /// The outcome of a message; None while it is open.
    pub fn outcome_of(&self, message: u64) -> Option<Outcome> {
        self.entries.get(&message)?.outcome
    }

    /// Notes that the sender of these messages crashed: their outcomes will never be reported.
    pub(crate) fn orphan(&mut self, messages: impl IntoIterator<Item = u64>) {
        for message in messages {
            if let Some(entry) = self.entries.get_mut(&message) {
                self.open -= usize::from(entry.outcome.is_none());
                entry.outcome.get_or_insert(Outcome::Unknown);
                entry.orphaned = true;
            }
        }
    }

    /// Ends the run, since the world is quiet: a message without an outcome has vanished.
    pub fn close(&mut self) {
        let open = self.entries.iter().filter(|(_, entry)| entry.outcome.is_none());
        let open: Vec<u64> = open.map(|(message, _)| *message).collect();
        open.into_iter().for_each(|message| self.report(Breach::Vanished(message)));
    }

    /// The number of messages without an outcome.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The guarantees that were broken so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in self.entries.values() {
            totals.sent += 1;
            totals.taken += u64::from(entry.taken);
            totals.calls += u64::from(entry.call);
            totals.replies += u64::from(entry.call && entry.outcome == Some(Outcome::Delivered));
            match entry.outcome {
                Some(Outcome::Delivered | Outcome::Processed { .. }) => totals.delivered += 1,
                Some(Outcome::Unknown) => totals.unknown += 1,
                Some(outcome) => totals.withdrawn += u64::from(is_withdrawn(&outcome)),
                None => {}
            }
        }
        totals
    }
}

/// Whether the outcome says that the message was certainly not taken.
const fn is_withdrawn(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Expired | Outcome::Cancelled | Outcome::Refused(_) | Outcome::Rejected { .. })
}
