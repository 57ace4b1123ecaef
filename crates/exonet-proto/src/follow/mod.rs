//! The lives of single messages, step by step, for a person who wants to watch one.
//!
//! A *follower* follows messages, and keeps each *step* of them until it is asked. A node without followers keeps nothing: every
//! place that could note a step asks [`Followers::any`] first. Memory is bounded: [`MAX_FOLLOWERS`] followers, [`MAX_FOLLOWED`]
//! messages of each at once, and [`MAX_STEPS`] pending steps of each. Whatever does not fit is counted.
//!
//! Steps are noted while an input is processed, and get their time at its end.

mod step;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

pub use step::{Again, Carrier, Kind, Packet, Step, What};

use crate::id::{Incarnation, MessageId, NodeId, Slot};
use crate::message::{Letter, MessageKey, Store};
use crate::time::Mono;
use crate::wire::Role;

/// The most followers at once.
pub const MAX_FOLLOWERS: usize = 8;
/// The most messages that a follower follows at once.
pub const MAX_FOLLOWED: usize = 1_024;
/// The most steps that a follower keeps until it is asked for them.
pub const MAX_STEPS: usize = 8_192;

/// Which messages are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Messages that this node accepts, or that arrive, from now on: `most` of them.
    New {
        /// Only messages to and from this peer.
        peer: Option<NodeId>,
        /// How many messages in all.
        most: u32,
    },
    /// An unsettled message that this node was given.
    Open(MessageKey),
    /// The same by its name; or a message that another node sends to this one, from now on.
    Named(MessageId),
}

/// Why there is no follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// There are [`MAX_FOLLOWERS`] followers already.
    #[error("messages of this node are followed {MAX_FOLLOWERS} times already")]
    TooMany,
    /// The message is settled, or was never known.
    #[error("this node has no open message of that name")]
    NotOpen,
}

/// Names a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FollowerId(u64);

/// What a follower has missed since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Missed steps of messages that it follows.
    pub steps: u64,
    /// Messages that it does not follow, since it already followed [`MAX_FOLLOWED`].
    pub messages: u64,
}

/// All followers of a node.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    all: Vec<Follower>,
    next: u64,
}

#[derive(Debug)]
struct Follower {
    id: FollowerId,
    /// For new messages: only those to and from this peer.
    peer: Option<NodeId>,
    /// How many more new messages to follow.
    left: u32,
    /// How many messages were followed so far.
    numbered: u32,
    sent: BTreeMap<MessageKey, Sent>,
    /// The messages of `sent` that are bound, by the peer's place.
    bound: BTreeMap<(u32, Slot), MessageKey>,
    came: BTreeMap<MessageId, u32>,
    steps: VecDeque<Step>,
    /// How many of `steps` have their time.
    stamped: usize,
    missed: Missed,
}

/// A message of this node.
#[derive(Debug)]
struct Sent {
    n: u32,
    bound: Option<(u32, Slot, Incarnation)>,
    /// All bytes before this offset have left.
    left_to: u64,
    /// Why bytes that have left leave again, if they do.
    again: Option<Again>,
    /// It may have left before it was followed.
    before: bool,
}

/// A message that has arrived, as its head says.
pub(crate) struct Coming {
    pub(crate) id: MessageId,
    pub(crate) size: Option<u64>,
    pub(crate) tag: Bytes,
    pub(crate) kind: Kind,
}

/// Slots of messages to one peer, and a range of their bytes.
pub(crate) struct Carried {
    pub(crate) place: u32,
    pub(crate) slots: core::ops::Range<u64>,
    /// None: all bytes.
    pub(crate) bytes: Option<core::ops::Range<u64>>,
}

impl Followers {
    /// Whether anything is to be noted.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    pub(crate) fn begin(&mut self, peer: Option<NodeId>, most: u32) -> Result<FollowerId, FollowError> {
        if self.all.len() >= MAX_FOLLOWERS {
            return Err(FollowError::TooMany);
        }
        let id = FollowerId(self.next);
        self.next += 1;
        self.all.push(Follower {
            id,
            peer,
            left: most,
            numbered: 0,
            sent: BTreeMap::new(),
            bound: BTreeMap::new(),
            came: BTreeMap::new(),
            steps: VecDeque::new(),
            stamped: 0,
            missed: Missed::default(),
        });
        Ok(id)
    }

    pub(crate) fn end(&mut self, id: FollowerId) {
        self.all.retain(|follower| follower.id != id);
    }

    /// Moves the steps noted since the last call to `steps`.
    pub(crate) fn take(&mut self, now: Mono, id: FollowerId, steps: &mut Vec<Step>) -> Missed {
        self.stamp(now);
        let Some(follower) = self.all.iter_mut().find(|follower| follower.id == id) else {
            return Missed::default();
        };
        follower.stamped = 0;
        steps.extend(follower.steps.drain(..));
        core::mem::take(&mut follower.missed)
    }

    /// Sets the time of what was noted in this input to `now`.
    pub(crate) fn stamp(&mut self, now: Mono) {
        for follower in &mut self.all {
            let new = follower.steps.iter_mut().skip(follower.stamped);
            new.filter(|step| step.at == Mono::NEVER).for_each(|step| step.at = now);
            follower.stamped = follower.steps.len();
        }
    }

    // --- what this node sends ---

    /// `count` messages from `key` on were accepted.
    pub(crate) fn accepted(&mut self, peer: NodeId, key: MessageKey, count: u32, letter: &Letter) {
        for follower in self.all.iter_mut().filter(|follower| follower.wants(peer)) {
            for key in (0..count).map(|n| key.nth(n)) {
                if !follower.counts() {
                    break;
                }
                follower.follow(peer, key, letter, false);
            }
        }
    }

    /// Only `id` follows this open message from now on.
    pub(crate) fn take_up(&mut self, id: FollowerId, peer: NodeId, key: MessageKey, letter: &Letter) {
        if let Some(follower) = self.all.iter_mut().find(|follower| follower.id == id) {
            follower.follow(peer, key, letter, true);
        }
    }

    /// Notes the messages that were bound, or got their incarnation, since the last call.
    pub(crate) fn note_bound(&mut self, sender: NodeId, store: &Store) {
        for follower in &mut self.all {
            follower.note_bound(sender, store);
        }
    }

    /// A packet with these bytes leaves. `otherwise`: why bytes that have left leave again, if no other reason was noted.
    pub(crate) fn left(&mut self, store: &Store, carried: &Carried, packet: Packet, otherwise: Again) {
        for follower in &mut self.all {
            for key in follower.among(carried) {
                let Some(sent) = follower.sent.get_mut(&key) else { continue };
                let of = store.get(key).map_or(0, |letter| letter.wire_len_of(key));
                let bytes = carried.bytes.clone().unwrap_or(0..of);
                let otherwise = if sent.before { Again::Before } else { otherwise };
                let repeats = sent.before || bytes.start < sent.left_to;
                let again = repeats.then(|| sent.again.take().unwrap_or(otherwise));
                sent.left_to = sent.left_to.max(bytes.end);
                let n = sent.n;
                let whole = bytes == (0..of);
                let bytes = (!whole).then_some(bytes);
                follower.note(n, What::Left { packet, bytes, again }, false);
            }
        }
    }

    /// Bytes that have left may leave again, for this reason.
    pub(crate) fn again(&mut self, carried: &Carried, why: Again) {
        for follower in &mut self.all {
            for key in follower.among(carried) {
                if let Some(sent) = follower.sent.get_mut(&key) {
                    sent.again = Some(why);
                }
            }
        }
    }

    /// The packets that carried these bytes have this fate.
    pub(crate) fn fate(&mut self, carried: &Carried, what: &What) {
        for follower in &mut self.all {
            for key in follower.among(carried) {
                if let Some(n) = follower.sent.get(&key).map(|sent| sent.n) {
                    follower.note(n, what.clone(), false);
                }
            }
        }
    }

    /// Something has happened to `count` messages of this node from `key` on: to the `n`th, `what(n)`. `last`: nothing more will
    /// happen to them.
    pub(crate) fn sent(&mut self, key: MessageKey, count: u32, what: impl Fn(u32) -> What, last: bool) {
        for follower in &mut self.all {
            for (nth, key) in (0..count).map(|n| (n, key.nth(n))) {
                let Some(n) = follower.sent.get(&key).map(|sent| sent.n) else { continue };
                follower.note(n, what(nth), last);
                if last && let Some(Sent { bound: Some((place, s, _)), .. }) = follower.sent.remove(&key) {
                    follower.bound.remove(&(place, s));
                }
            }
        }
    }

    // --- what comes ---

    /// A message has arrived, and waits for the application.
    pub(crate) fn arrived(&mut self, coming: &Coming) {
        for follower in &mut self.all {
            let n = match follower.came.get(&coming.id).copied() {
                Some(n) => n,
                None if follower.wants(coming.id.sender) && follower.counts() => {
                    let n = follower.number();
                    follower.came.insert(coming.id, n);
                    n
                }
                None => continue,
            };
            let Coming { id, size, kind, .. } = *coming;
            follower.note(n, What::Arrived { id, size, kind, tag: coming.tag.clone() }, false);
        }
    }

    /// Only `id` waits for this message, which may come.
    pub(crate) fn await_named(&mut self, id: FollowerId, message: MessageId) {
        if let Some(follower) = self.all.iter_mut().find(|follower| follower.id == id) {
            let n = follower.number();
            follower.came.insert(message, n);
            follower.note(n, What::Awaited { id: message }, false);
        }
    }

    /// Something has happened to received messages. `last`: nothing more will happen to them.
    pub(crate) fn came(&mut self, first: MessageId, count: u64, what: &What, last: bool) {
        let end = MessageId { s: Slot(first.s.0.saturating_add(count)), ..first };
        for follower in &mut self.all {
            let these: Vec<(MessageId, u32)> =
                follower.came.range(first..end).map(|(id, n)| (*id, *n)).collect();
            for (id, n) in these {
                follower.note(n, what.clone(), last);
                if last {
                    follower.came.remove(&id);
                }
            }
        }
    }
}

impl Follower {
    /// Whether it follows a new message of this peer, if there is room.
    fn wants(&self, peer: NodeId) -> bool {
        self.left > 0 && self.peer.is_none_or(|wanted| wanted == peer)
    }

    /// Counts one more followed message, if there is room.
    fn counts(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.sent.len() + self.came.len() >= MAX_FOLLOWED {
            self.missed.messages += 1;
            return false;
        }
        self.left -= 1;
        true
    }

    fn number(&mut self) -> u32 {
        self.numbered = self.numbered.saturating_add(1);
        self.numbered
    }

    fn note(&mut self, message: u32, what: What, last: bool) {
        self.note_at(Mono::NEVER, message, what, last);
    }

    fn note_at(&mut self, at: Mono, message: u32, what: What, last: bool) {
        if self.steps.len() >= MAX_STEPS {
            self.missed.steps += 1;
            return;
        }
        self.steps.push_back(Step { message, at, what, last });
    }

    fn follow(&mut self, peer: NodeId, key: MessageKey, letter: &Letter, open: bool) {
        let n = self.number();
        let size = letter.bundle().map_or(letter.source.len(), |bundle| bundle.body_len() as u64);
        let kind = Kind::of(letter.role);
        self.note(n, What::Queued { peer, size, tag: letter.tag.clone(), kind, open }, false);
        if let Some(number) = letter.journaled.map(|first| first.nth(key.at)) {
            self.note(n, What::Journaled { number }, false);
        }
        let before = open && letter.slot_of(key).is_some();
        self.sent.insert(key, Sent { n, bound: None, left_to: 0, again: None, before });
    }

    fn note_bound(&mut self, sender: NodeId, store: &Store) {
        let mut noted = Vec::new();
        for (key, sent) in &mut self.sent {
            let Some(letter) = store.get(*key) else { continue };
            let Some((s, r)) = letter.slot_of(*key) else {
                if let Some((place, s, _)) = sent.bound.take() {
                    self.bound.remove(&(place, s));
                    noted.push((Mono::NEVER, sent.n, What::Returned));
                }
                continue;
            };
            let before = sent.bound.replace((letter.peer, s, r));
            let id = MessageId { sender, r, s };
            match before {
                Some((_, old, known)) if old == s && known == r => {}
                Some((_, old, _)) if old == s => noted.push((Mono::NEVER, sent.n, What::Named { id })),
                other => {
                    if let Some((place, old, _)) = other {
                        self.bound.remove(&(place, old));
                    }
                    self.bound.insert((letter.peer, s), *key);
                    // A bundle does not always know when it was bound.
                    let since = letter.bundle().map_or(letter.bound_at, |bundle| bundle.bound_at(key.at));
                    let since = if since == Mono(0) { Mono::NEVER } else { since };
                    noted.push((since, sent.n, What::Bound { id }));
                }
            }
        }
        for (at, n, what) in noted {
            self.note_at(at, n, what, false);
        }
    }

    /// The followed messages that have one of these slots.
    fn among(&self, carried: &Carried) -> Vec<MessageKey> {
        let (place, slots) = (carried.place, &carried.slots);
        if slots.is_empty() {
            return Vec::new();
        }
        let these = self.bound.range((place, Slot(slots.start))..(place, Slot(slots.end)));
        these.map(|(_, key)| *key).collect()
    }
}

impl Kind {
    pub(crate) const fn of(role: Role) -> Self {
        match role {
            Role::Call => Self::Call,
            Role::Stream(_) => Self::Stream,
            Role::Plain | Role::Reply { .. } => Self::Message,
        }
    }
}
