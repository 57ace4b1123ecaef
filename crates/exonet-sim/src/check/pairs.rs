//! Checks invariants A to D of the half-connection (PROTOCOL.md, "Half-connection"), and those of early messages, in
//! the whole node, in every step.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use exonet_proto::half::{Bound, IntervalSet, Receiver, Sender, Taken};
use exonet_proto::node::{Config, MessageKey, Records};
use exonet_proto::{Incarnation, MessageId, Mono, NodeId, Slot, Stamp};

use super::Breach;
use crate::Ledger;
use crate::host::Host;

/// The history of every half-connection, across crashes of either end.
///
/// The node's additions to the algorithm weaken the invariants in these ways only:
///
/// * The receive queue comes before the slot test: a message that waits there is undelivered, and its slot is still
///   free. The slot is consumed when the application takes the message, or by the sender's frontier.
/// * A crash of the sender takes its record: then `sck` is its clock. A crash of the receiver, or an eviction, takes
///   `R`: then B holds since `r < b`. An identity that is gone has neither `R` nor `b`, and A to C do not apply.
/// * If the core got a message without the world's knowledge, the ledger has no entry for it. Whether it was
///   delivered is not known, so B is not checked for its token.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    /// Every record that ever existed, by receiver and incarnation.
    records: BTreeMap<(NodeId, Incarnation), Record>,
}

/// One half-connection.
#[derive(Debug, Default)]
struct Pair {
    /// C: the highest number that the sender has ever asked for.
    asked: Slot,
    /// D: every number below it was bound, or never will be.
    next: Slot,
    /// `R` as it was seen last.
    seen: Option<(Incarnation, IntervalSet)>,
    /// When the receiver had last heard from the sender at the time when `R` was seen last. None: the sender had not
    /// proven that it was there.
    heard: Option<Mono>,
    /// The stamps of the numbers that were sent early.
    early: BTreeMap<Slot, Stamp>,
    /// The sender's stamps that the receiver has refused.
    refused: BTreeSet<Stamp>,
}

/// A receiver record.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The process of the receiver that made the record.
    boot: u32,
    ended: bool,
    /// Whether it ended, and the amnesia frontier rose past it in the same step.
    evicted: bool,
    /// Whether it ended with its node, after the sender had learned which of its slots were free, so that no message
    /// is in doubt.
    told: bool,
}

/// One look at a half-connection.
struct Look<'a> {
    from: &'a Host,
    to: NodeId,
    sender: Option<&'a Sender<MessageKey>>,
    receiver: Option<&'a Receiver>,
    /// When the receiver last heard from the sender, if the sender has proven that it is there.
    heard: Option<Mono>,
    /// The receiver's amnesia frontier; None: its identity is gone.
    b: Option<Incarnation>,
    /// The receiver's bound on the sender's stamps.
    bound: Bound,
}

impl Pairs {
    /// Checks the half-connection from `from` to `to`. If `host` is None, the identity `to` is gone.
    pub(crate) fn look(&mut self, from: &Host, to: NodeId, host: Option<&Host>, ledger: &mut Ledger) {
        let id = from.node.id();
        let sender = from.node.records(&to).and_then(|records: Records<'_>| records.sender);
        let records = host.and_then(|host| host.node.records(&id));
        let receiver = records.and_then(|records| records.receiver);
        // The receiver may still know the stamps of a sender that it has otherwise forgotten.
        let bound = host.map(|host| host.node.bound(&id)).unwrap_or_default();
        let pair = self.pairs.entry((id, to)).or_default();
        pair.refused.extend(records.map(|records| records.rejected).filter(|ts| ts.is_some()));
        if sender.is_none() && receiver.is_none() && pair.seen.is_none() {
            return;
        }
        let b = host.map(|host| host.node.clock().b());
        let heard = records.filter(|records| !records.tentative).map(|records| records.heard);
        let look = Look { from, to, sender, receiver, heard, b, bound };
        look.bindings(pair, ledger);
        if let Some(host) = host {
            look.changes(pair, ledger);
            look.record(pair, &mut self.records, host, ledger);
            look.slots(pair, ledger);
            look.early(pair, host, ledger);
        }
    }

    /// Whether what is known explains that the message `id`, which `host` has bound, ended Unknown.
    ///
    /// * The process that made the record has died since. An orderly end does not count if the sender had learned
    ///   what the process took.
    /// * The record was evicted.
    /// * The record was dropped when all of its slots were used up, which implies that the message had been
    ///   delivered; then another record was evicted, and the amnesia frontier passed both.
    /// * The message was early, and its own stamp was rejected; or a lost record took its slot, or a higher one,
    ///   early.
    ///
    /// `taken`: an application has taken the message; `used`: it has taken or rejected the message.
    ///
    /// `Look::hasty` checks separately whether a record was dropped that its sender might still need.
    pub(crate) fn explain_unknown(&self, id: MessageId, host: &Host, [taken, used]: [bool; 2]) -> bool {
        if id.r == Incarnation::UNNAMED {
            let pair = self.pairs.get(&(id.sender, host.node.id()));
            let Some((pair, ts)) = pair.and_then(|pair| Some((pair, *pair.early.get(&id.s)?))) else {
                return false;
            };
            let end = host.node.clock().stamps().forgotten(&host.node.bound(&id.sender), ts);
            // The highest of the slots that a lost record used up was certainly used up.
            let ran = used || id.s.0 + 1 != end.0;
            return id.s < end && ran || pair.refused.contains(&ts);
        }
        let Some(record) = self.records.get(&(host.node.id(), id.r)) else {
            return false;
        };
        let passed = id.r < host.node.clock().b();
        if record.told {
            return false;
        }
        record.boot < host.boots || (passed && record.ended && (record.evicted || taken))
    }
}

/// The largest distance over which numbers are checked one by one.
const FAR: u64 = 1 << 20;

impl Look<'_> {
    fn breach(&self, ledger: &mut Ledger, name: &'static str, seen: String) {
        ledger.report(Breach::Invariant { name, from: self.from.node.id(), to: self.to, seen });
    }

    fn ensure(&self, ledger: &mut Ledger, name: &'static str, holds: bool, seen: impl FnOnce() -> String) {
        if !holds {
            self.breach(ledger, name, seen());
        }
    }

    /// The number of the message in the ledger.
    fn number(&self, key: MessageKey) -> Option<u64> {
        self.from.waiting.get(&key).map(|waiting| waiting.number)
    }

    /// Checks **D**, and that a sender record stays within its durable limit.
    fn bindings(&self, pair: &mut Pair, ledger: &mut Ledger) {
        let Some(sender) = self.sender else { return };
        let (e, sck, hi, limit) = (sender.e(), sender.sck(), sender.hi(), self.from.node.clock().limit());
        let ordered = e <= hi && sck <= hi && hi <= limit;
        self.ensure(ledger, "order", ordered, || format!("e {e:?}, sck {sck:?}, hi {hi:?}, D {limit:?}"));
        let again = e < pair.next;
        self.ensure(ledger, "D", !again, || format!("{e:?} is bound next, {:?} came before", pair.next));
        let from = pair.next.max(first(sender));
        // A message that comes from a journal has a number far below the next ones.
        let far = e.0.saturating_sub(from.0) > FAR;
        let all = sender.tokens().map(|(s, ..)| s.0).filter(|s| far && *s >= from.0);
        for s in (if far { 0..0 } else { from.0..e.0 }).chain(all).map(Slot) {
            if let Some((r, number)) = sender.token(s).and_then(|(r, key)| Some((r, self.number(*key)?))) {
                ledger.bound(number, (r, s));
                let holds = |record: &&Receiver| record.incarnation() == r && record.parts().2.contains(s.0);
                let held = self.receiver.as_ref().is_some_and(holds);
                let backed = held || self.b.is_none_or(|b| r < b) || ledger.is_taken(number);
                self.ensure(ledger, "B", backed, || format!("{s:?} of {r:?} is bound without a slot"));
            }
        }
        pair.next = pair.next.max(e);
        pair.asked = pair.asked.max(hi);
    }

    /// Checks **B** for tokens: a slot that is no longer in `R` was delivered, or belongs to a forgotten incarnation.
    fn changes(&self, pair: &Pair, ledger: &mut Ledger) {
        let (Some((r, before)), Some(sender)) = (&pair.seen, self.sender) else { return };
        let now = self.receiver.filter(|record| record.incarnation() == *r);
        let frontier = first(sender).0;
        let Some((_, _, free)) = now.map(Receiver::parts) else {
            for (s, _, key) in sender.tokens().filter(|(_, bound, _)| bound == r) {
                self.settled(ledger, s, *r, *key);
            }
            return;
        };
        if free == before {
            return;
        }
        for run in before.iter() {
            for s in free.gaps(run.start.max(frontier)..run.end).flatten().map(Slot) {
                if let Some((_, key)) = sender.token(s).filter(|(bound, _)| bound == r) {
                    self.settled(ledger, s, *r, *key);
                }
            }
        }
    }

    fn settled(&self, ledger: &mut Ledger, s: Slot, r: Incarnation, key: MessageKey) {
        let forgotten =
            self.b.is_none_or(|b| r < b) && self.receiver.is_none_or(|now| now.incarnation() != r);
        let Some(number) = self.number(key).filter(|_| !forgotten) else { return };
        let delivered = ledger.is_taken(number);
        self.ensure(ledger, "B", delivered, || format!("token {s:?} of {r:?} lost its slot undelivered"));
    }

    /// Checks the life of records, and that each incarnation names only one record.
    fn record(
        &self,
        pair: &mut Pair,
        records: &mut BTreeMap<(NodeId, Incarnation), Record>,
        host: &Host,
        ledger: &mut Ledger,
    ) {
        let before = pair.seen.as_ref().map(|(r, _)| *r);
        let now = self.receiver.map(Receiver::incarnation);
        if before != now {
            if let Some(record) = before.and_then(|r| records.get_mut(&(self.to, r))) {
                record.ended = true;
                record.evicted = record.boot == host.boots && before < self.b;
                record.told = host.ending && record.boot == host.boots && !record.evicted;
                let missed = before.filter(|r| record.boot == host.boots && self.misses(*r));
                let hasty = missed.and_then(|r| self.hasty(pair, r, host, ledger));
                self.ensure(ledger, "patience", hasty.is_none(), || format!("{before:?} goes {hasty:?}"));
            }
            if let Some(r) = now {
                let born = Record { boot: host.boots, ended: false, evicted: false, told: false };
                let before = records.insert((self.to, r), born);
                // A process with a journal continues a record if the previous process had not yet forced its removal
                // to the disk.
                let journaled = host.disk.as_ref().is_some_and(|disk| disk.journal.is_some());
                let twice = before.is_some_and(|before| !journaled || before.boot == host.boots);
                self.ensure(ledger, "incarnation", !twice, || format!("{r:?} is handed out twice"));
            }
        }
        pair.heard = self.heard;
        match (self.receiver, &mut pair.seen) {
            (Some(record), Some((r, free))) => {
                let now = record.parts().2;
                *r = record.incarnation();
                if *free != *now {
                    free.clone_from(now);
                }
            }
            (record, seen) => *seen = record.map(|record| (record.incarnation(), record.parts().2.clone())),
        }
    }

    /// Whether messages of incarnation `r` are in doubt, or would be bound under it.
    fn misses(&self, r: Incarnation) -> bool {
        self.sender.is_some_and(|sender| {
            let envelopes = sender.incarnation() == Some(r) && sender.envelopes() > 0;
            envelopes || sender.tokens().any(|(_, bound, _)| bound == r)
        })
    }

    /// Whether a call is in doubt under incarnation `r`.
    fn calls(&self, r: Incarnation) -> bool {
        let is_call = |key: &MessageKey| self.from.waiting.get(key).is_some_and(|waiting| waiting.call);
        self.sender.is_some_and(|sender| sender.tokens().any(|(_, bound, key)| bound == r && is_call(key)))
    }

    /// Checks **patience**: returns how long the sender had been silent when a record that it needs was dropped, and
    /// how long the receiver must wait. The latter is `dead_after`, unless only calls were taken under the record, or
    /// may have arrived in part. None: the receiver waited long enough, the record made room for another, or the
    /// sender had not proven that it was there.
    fn hasty(&self, pair: &Pair, r: Incarnation, host: &Host, ledger: &Ledger) -> Option<[Duration; 2]> {
        let Config { dead_after, caller_patience, limits, .. } = &host.config;
        let full = host.node.peer_count() >= limits.peers;
        let served = ledger.served(self.to, r);
        let caller = !served.messages && (served.calls || self.calls(r));
        let patience = if caller { *caller_patience.min(dead_after) } else { *dead_after };
        let silence = host.life.clock.read(ledger.now()).mono.since(pair.heard.filter(|_| !full)?);
        (silence < patience).then_some([silence, patience])
    }

    /// Checks **A**, **B** for envelopes and for tokens that were just bound, and **C**.
    fn slots(&self, pair: &Pair, ledger: &mut Ledger) {
        let clock = Slot(self.from.node.clock().ck());
        let sck = self.sender.map_or(clock, |sender| sender.sck().max(sender.e()));
        if let Some(record) = self.receiver {
            let (hi, _, free) = record.parts();
            let backed = hi <= sck || free.covers(sck.0..hi.0);
            self.ensure(ledger, "A", backed, || format!("[{sck:?}, {hi:?}) is not free: {free:?}"));
            let asked = pair.asked;
            self.ensure(ledger, "C", hi <= asked, || format!("{hi:?} is granted, {asked:?} asked for"));
            let within = free.end().is_none_or(|end| end <= hi.0);
            self.ensure(ledger, "grants", within, || format!("{free:?} is free, {hi:?} granted"));
        }
        let Some((sender, r)) = self.sender.and_then(|sender| Some((sender, sender.incarnation()?))) else {
            return;
        };
        let (e, sck) = (sender.e().0, sender.sck().0);
        let backed = match self.receiver.filter(|record| record.incarnation() == r) {
            Some(record) => e >= sck || record.parts().2.covers(e..sck),
            None => e >= sck || self.b.is_none_or(|b| r < b),
        };
        self.ensure(ledger, "B", backed, || format!("envelopes [{e}, {sck}) of {r:?} have no slots"));
    }
}

impl Look<'_> {
    /// Checks early messages. An ASK never begins above an open early message. A slot may wait for an early message
    /// only if its stamp is not above the bound that the record has for the sender. The receiver knows which early
    /// messages were delivered, or knows that it has forgotten.
    fn early(&self, pair: &mut Pair, host: &Host, ledger: &mut Ledger) {
        let Some(sender) = self.sender.filter(|sender| sender.stamp().is_some()) else { return };
        let (ts, sck, stamps) = (sender.stamp(), sender.sck(), host.node.clock().stamps());
        for (s, key) in sender.early() {
            pair.early.insert(s, ts);
            self.ensure(ledger, "early", sck <= s, || format!("{sck:?} is above the early {s:?}"));
            let record = self.receiver.map(Receiver::parts).filter(|(hi, ..)| s < *hi);
            let free = record.is_some_and(|(_, _, free)| free.contains(s.0));
            let known = !free || !stamps.is_new(&self.bound, ts);
            self.ensure(ledger, "early", known, || format!("{s:?} has a slot, and {ts:?} is new"));
            let marked = self.receiver.is_some_and(|record| record.marked(s).is_some());
            let said = Taken::of(self.receiver, &self.bound, host.node.clock(), ts);
            let told = (record.is_some() && !free) || marked || said.is_some_and(|said| s < said.end);
            let taken = self.number(*key).is_some_and(|number| ledger.is_taken(number));
            self.ensure(ledger, "early", told || !taken, || format!("{s:?} was taken, and nobody knows"));
        }
    }
}

/// The first number that is bound or may be, whatever frontier the record has.
fn first(sender: &Sender<MessageKey>) -> Slot {
    let first = sender.tokens().next().map_or(sender.e(), |(s, ..)| s);
    sender.early().next().map_or(first, |(s, _)| first.min(s))
}
