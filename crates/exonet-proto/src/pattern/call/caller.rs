//! Calls to one peer that have left, and the acknowledgements owed to it for its replies.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::COMPUTING_BACKOFF;
use crate::backoff::Backoff;
use crate::id::Slot;
use crate::message::MessageKey;
use crate::time::Mono;

/// The most REPLY_ACKs that are owed at once; a reply whose REPLY_ACK finds no room comes again.
pub(crate) const MAX_REPLY_ACKS: usize = 1_024;

/// A call that is bound: its letter waits for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pend {
    key: MessageKey,
    /// When the call is probed, once it is known to have been delivered.
    probe_at: Mono,
    wait: Backoff,
}

/// The `pend` entries of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pends: BTreeMap<Slot, Pend>,
    due: BTreeSet<(Mono, Slot)>,
    /// Calls to probe, in the next packet.
    probes: BTreeSet<Slot>,
    /// Replies that came, and when the peer has to be told.
    reply_acks: BTreeSet<Slot>,
    reply_ack_at: Option<Mono>,
}

impl Caller {
    /// A call is bound.
    pub(crate) fn bound(&mut self, s: Slot, key: MessageKey) {
        self.pends.insert(s, Pend { key, probe_at: Mono::NEVER, wait: Backoff::default() });
    }

    /// The call that waits under this number.
    pub(crate) fn get(&self, s: Slot) -> Option<MessageKey> {
        self.pends.get(&s).map(|pend| pend.key)
    }

    /// A call has ended.
    pub(crate) fn ended(&mut self, s: Slot) {
        if let Some(pend) = self.pends.remove(&s) {
            self.due.remove(&(pend.probe_at, s));
            self.probes.remove(&s);
        }
    }

    /// A call is known to have been delivered: from now on only its server knows what becomes of it.
    pub(crate) fn delivered(&mut self, now: Mono, s: Slot, wait: Duration) {
        let mut first = Backoff::default();
        first.set(wait);
        self.probe_at(s, now, first);
    }

    /// The server reports that there is no reply yet.
    pub(crate) fn computing(&mut self, now: Mono, s: Slot) {
        if let Some(Pend { mut wait, probe_at, .. }) = self.pends.get(&s).copied()
            && probe_at != Mono::NEVER
        {
            wait.next(Duration::ZERO, COMPUTING_BACKOFF);
            self.probe_at(s, now, wait);
        }
    }

    /// Schedules the next probe after the last wait of `wait`.
    fn probe_at(&mut self, s: Slot, now: Mono, wait: Backoff) {
        let Some(pend) = self.pends.get_mut(&s) else { return };
        self.due.remove(&(pend.probe_at, s));
        (pend.probe_at, pend.wait) = (now + wait.last(), wait);
        self.due.insert((pend.probe_at, s));
    }

    /// The peer is another process now: asks at once for the fate of the calls.
    pub(crate) fn hurry(&mut self, now: Mono) {
        let served: Vec<Slot> = self.due.iter().map(|(_, s)| *s).collect();
        served.into_iter().for_each(|s| self.probe_at(s, now, Backoff::default()));
    }

    /// Acts on the passing of time. `least` is the duration of a first wait.
    pub(crate) fn on_timeout(&mut self, now: Mono, least: Duration, most: Duration) {
        while let Some((_, s)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.probes.insert(s);
            let mut wait = self.pends.get(&s).map_or_else(Backoff::default, |pend| pend.wait);
            wait.next(least, most.max(wait.last()));
            self.probe_at(s, now, wait);
        }
    }

    pub(crate) fn next_probe(&mut self) -> Option<Slot> {
        self.probes.pop_first()
    }

    pub(crate) fn has_probes(&self) -> bool {
        !self.probes.is_empty()
    }

    /// A reply has come. Whether or not a call waits for it, the peer need not keep it, and is told so by the time `by`. Returns
    /// the call that waits.
    pub(crate) fn on_reply(&mut self, s: Slot, by: Mono) -> Option<MessageKey> {
        if self.reply_acks.len() < MAX_REPLY_ACKS {
            self.reply_acks.insert(s);
            self.reply_ack_at = Some(self.reply_ack_at.map_or(by, |at| at.min(by)));
        }
        self.get(s)
    }

    /// The server does not know such a call. Returns the call that ends because of this. Only a call that is known to have been
    /// delivered ends, since no other was probed.
    pub(crate) fn on_no_call(&self, s: Slot) -> Option<MessageKey> {
        let pend = self.pends.get(&s).filter(|pend| pend.probe_at != Mono::NEVER);
        pend.map(|pend| pend.key)
    }

    pub(crate) fn next_reply_ack(&mut self) -> Option<Slot> {
        let next = self.reply_acks.pop_first();
        if self.reply_acks.is_empty() {
            self.reply_ack_at = None;
        }
        next
    }

    /// Drops everything that is owed to the peer.
    pub(crate) fn owe_nothing(&mut self) {
        self.reply_acks.clear();
        self.reply_ack_at = None;
    }

    pub(crate) fn reply_acks_due(&self, now: Mono) -> bool {
        self.reply_ack_at.is_some_and(|at| at <= now)
    }

    /// How many calls are bound, and how many REPLY_ACKs are owed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.pends.len(), self.reply_acks.len())
    }

    /// When time next changes something. `connected`: what is owed can leave.
    pub(crate) fn deadline(&self, connected: bool) -> Mono {
        let reply_ack = self.reply_ack_at.filter(|_| connected).unwrap_or(Mono::NEVER);
        self.due.first().map_or(Mono::NEVER, |(at, _)| *at).min(reply_ack)
    }
}
