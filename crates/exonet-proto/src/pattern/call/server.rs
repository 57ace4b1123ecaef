//! The calls of one peer that run here or whose reply the peer may not have, and the replies of a node.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::MAX_BACKOFF;
use crate::backoff::Backoff;
use crate::id::Slot;
use crate::message::MessageKey;
use crate::time::Mono;

#[cfg(test)]
mod tests;

/// The most answers to PROBEs that are owed at once; a PROBE whose answer finds no room comes again.
pub(crate) const MAX_ANSWERS: usize = 1_024;
/// The memory that a reply takes beside its bytes.
const ENTRY: u64 = 160;

/// The form in which a reply is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// A frame, repeated until REPLY_ACK.
    Frame { status: u32, body: Bytes },
    /// A message, whose outcome serves as the REPLY_ACK. The body is kept, shared with the message, since a reply may be sent
    /// twice.
    Message { key: MessageKey, status: u32, body: Bytes },
}

/// A call that has been delivered here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Entry {
    /// The application has the call since then.
    Computing {
        since: Mono,
    },
    Replying(Replying),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replying {
    form: Form,
    /// The place of the reply among the replies of the node, by age.
    age: u64,
    bytes: u64,
    /// When the reply is forgotten.
    until: Mono,
    /// When the node next looks at the reply: at `until` at the latest.
    at: Mono,
    wait: Backoff,
}

/// The entries of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    entries: BTreeMap<Slot, Entry>,
    computing: usize,
    /// Entries with a reply, the oldest first.
    ages: BTreeMap<u64, Slot>,
    due: BTreeSet<(Mono, Slot)>,
    /// Replies for the next packet.
    ready: BTreeSet<Slot>,
    /// Answers to PROBEs: whether the call is known.
    answers: BTreeMap<Slot, bool>,
}

impl Server {
    /// A call has been delivered.
    pub(crate) fn begin(&mut self, now: Mono, s: Slot) {
        self.entries.insert(s, Entry::Computing { since: now });
        self.computing += 1;
    }

    pub(crate) fn is_computing(&self, s: Slot) -> bool {
        matches!(self.entries.get(&s), Some(Entry::Computing { .. }))
    }

    /// Whether a call that came at `since` or later has no reply yet.
    pub(crate) fn computes_since(&self, since: Mono) -> bool {
        let came = |entry: &Entry| matches!(entry, Entry::Computing { since: came } if *came >= since);
        self.computing > 0 && self.entries.values().rev().any(came)
    }

    /// The application has answered: the reply is kept until `until` at most.
    pub(crate) fn reply(&mut self, s: Slot, form: Form, age: u64, bytes: u64, until: Mono) {
        let replying = Replying { form, age, bytes, until, at: until, wait: Backoff::default() };
        if let Some(Entry::Computing { .. }) = self.entries.insert(s, Entry::Replying(replying)) {
            self.computing -= 1;
        }
        self.ages.insert(age, s);
        self.due.insert((until, s));
        self.again(s);
    }

    /// Keeps a reply for longer.
    pub(crate) fn prolong(&mut self, s: Slot, until: Mono) {
        if let Some(Entry::Replying(replying)) = self.entries.get_mut(&s) {
            self.due.remove(&(replying.at, s));
            (replying.at, replying.until) = (until, until);
            self.due.insert((until, s));
        }
    }

    /// The form of a reply.
    pub(crate) fn form(&mut self, s: Slot) -> Option<&mut Form> {
        match self.entries.get_mut(&s)? {
            Entry::Computing { .. } => None,
            Entry::Replying(replying) => Some(&mut replying.form),
        }
    }

    /// Ends a reply that is not needed any more, or not kept any longer. A call that is being computed stays.
    pub(crate) fn end(&mut self, s: Slot) -> Option<(Form, u64, u64)> {
        if self.is_computing(s) {
            return None;
        }
        let Some(Entry::Replying(replying)) = self.entries.remove(&s) else { return None };
        self.ages.remove(&replying.age);
        self.due.remove(&(replying.at, s));
        self.ready.remove(&s);
        Some((replying.form, replying.age, replying.bytes))
    }

    /// The reply that has been kept longest.
    pub(crate) fn oldest(&self) -> Option<Slot> {
        self.ages.first_key_value().map(|(_, s)| *s)
    }

    /// Notes what to say about a call: its reply, or whether it is known.
    pub(crate) fn probe(&mut self, s: Slot) {
        self.again(s);
        if !self.ready.contains(&s) && self.answers.len() < MAX_ANSWERS {
            self.answers.insert(s, self.entries.contains_key(&s));
        }
    }

    pub(crate) fn next_answer(&mut self) -> Option<(Slot, bool)> {
        self.answers.pop_first()
    }

    pub(crate) fn owes_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The next reply to send.
    pub(crate) fn next_reply(&self) -> Option<(Slot, u32, &Bytes)> {
        let s = self.ready.first()?;
        match self.entries.get(s)? {
            Entry::Replying(Replying { form: Form::Frame { status, body }, .. }) => Some((*s, *status, body)),
            _ => None,
        }
    }

    /// A reply was sent. It is sent again after a while; `least` is the duration of a first wait.
    pub(crate) fn sent(&mut self, now: Mono, s: Slot, least: Duration) {
        self.ready.remove(&s);
        if let Some(Entry::Replying(replying)) = self.entries.get_mut(&s) {
            self.due.remove(&(replying.at, s));
            replying.at = replying.until.min(now + replying.wait.next(least, MAX_BACKOFF.max(least)));
            self.due.insert((replying.at, s));
        }
    }

    /// Sends a reply again if it is a frame.
    pub(crate) fn again(&mut self, s: Slot) {
        if matches!(self.form(s), Some(Form::Frame { .. })) {
            self.ready.insert(s);
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Acts on the passing of time. Returns a reply whose time has passed; call again while there is one.
    pub(crate) fn on_timeout(&mut self, now: Mono) -> Option<Slot> {
        while let Some((at, s)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(Entry::Replying(replying)) = self.entries.get_mut(&s) else {
                self.due.remove(&(at, s));
                continue;
            };
            if replying.until <= now {
                return Some(s);
            }
            self.due.remove(&(at, s));
            replying.at = replying.until;
            self.due.insert((replying.at, s));
            self.again(s);
        }
        None
    }

    pub(crate) fn deadline(&self) -> Mono {
        self.due.first().map_or(Mono::NEVER, |(at, _)| *at)
    }

    /// The calls that are known.
    pub(crate) fn calls(&self) -> impl Iterator<Item = Slot> {
        self.entries.keys().copied()
    }

    /// Whether no call of the peer is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the application has calls of the peer.
    pub(crate) const fn computes(&self) -> bool {
        self.computing > 0
    }

    /// How many calls are being computed, replies are kept, and answers are owed.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.computing, self.ages.len(), self.answers.len())
    }

    /// How many calls are being computed and replies are kept, and the bytes of the replies: a fresh count.
    pub(crate) fn recount(&self) -> (usize, usize, u64) {
        let (mut computing, mut replying, mut bytes) = (0, 0, 0);
        for entry in self.entries.values() {
            match entry {
                Entry::Computing { .. } => computing += 1,
                Entry::Replying(reply) => {
                    replying += 1;
                    bytes += reply.bytes;
                }
            }
        }
        (computing, replying, bytes)
    }
}

/// All replies of a node, by age, and the memory that they take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Replies {
    /// How many calls of all peers are being computed.
    pub(crate) computing: usize,
    by_age: BTreeMap<u64, (u32, Slot)>,
    bytes: u64,
    next: u64,
}

impl Replies {
    /// Enters a reply of a peer. Returns its age and its bytes.
    pub(crate) fn enter(&mut self, peer: u32, s: Slot, body: usize) -> (u64, u64) {
        let (age, bytes) = (self.next, ENTRY + body as u64);
        self.next += 1;
        self.by_age.insert(age, (peer, s));
        self.bytes += bytes;
        (age, bytes)
    }

    pub(crate) fn leave(&mut self, age: u64, bytes: u64) {
        if self.by_age.remove(&age).is_some() {
            self.bytes -= bytes;
        }
    }

    /// Whether the replies take more than `limit`.
    #[inline]
    pub(crate) const fn exceed(&self, limit: u64) -> bool {
        self.bytes > limit
    }

    /// The oldest reply, if the replies take more than `limit`. A single reply may take any amount.
    pub(crate) fn beyond(&self, limit: u64) -> Option<(u32, Slot)> {
        let beyond = self.exceed(limit) && self.by_age.len() > 1;
        self.by_age.first_key_value().filter(|_| beyond).map(|(_, oldest)| *oldest)
    }

    /// How many replies there are, and how many bytes they take.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.by_age.len(), self.bytes)
    }
}
