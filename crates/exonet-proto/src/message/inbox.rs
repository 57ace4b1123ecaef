//! Complete messages that wait for the application: the queue comes before the slot test.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::arrived::{Arrived, ArrivedBody, Front};
use super::rows::Rows;
use super::waiting::Waiting;
use crate::id::Slot;
use crate::message::lane::Lane;
use crate::message::run::{Run, View};
use crate::message::{DeliveryKey, POOLED};
use crate::time::Mono;
use crate::wire::Role;

/// The queue is swept once this share of it is stale, so that each stale message costs this many looks.
const STALE_SHARE: usize = 8;

/// How many messages that came together are taken out at once to make room.
const EVICTED: usize = 8;

/// What the application is told about the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Messages wait. This is told once until the application has asked for them all.
    Readable,
    /// The first call of this method waits.
    Called { method: Bytes },
}

/// The receive queue of a node, and the messages that have been handed out and not yet taken.
///
/// Bounded by the pool of each peer and the slots that the node grants.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    ready: VecDeque<Waiting>,
    /// How many messages are in `ready`.
    len: usize,
    /// The calls that the application has to answer, by method, and then in the order in which they came.
    calls: BTreeMap<(Bytes, i64), Arrived>,
    /// The messages of streams, and their number.
    rows: Rows,
    in_rows: usize,
    /// The lowest and the highest place of a call, both free.
    places: (i64, i64),
    /// The messages that were handed out, each with the time of that.
    handed: BTreeMap<DeliveryKey, (Mono, Arrived)>,
    next_key: u64,
    /// The messages that were handed out and are to be handed out again, and when.
    later: BTreeSet<(Mono, DeliveryKey)>,
    /// The application has been told that messages wait.
    said: bool,
    /// How many waiting messages are not wanted any more.
    stale: usize,
    /// Stale messages are swept at once, without waiting for more of them.
    sweeps_now: bool,
}

impl Inbox {
    /// Queues a message. Returns what the application should be told. With `serves`, calls wait apart.
    pub(crate) fn push(&mut self, arrived: Arrived, serves: bool) -> Option<Notice> {
        if serves && arrived.role == Role::Call {
            self.places.1 += 1;
            return self.push_call(arrived, self.places.1);
        }
        if let Role::Stream(_) = arrived.role {
            self.push_row(arrived.peer, arrived.into());
            return None;
        }
        self.enqueue(Waiting::One(arrived))
    }

    /// As [`Inbox::push`], for messages that came together, none of which is a call. They wait together with the messages that
    /// came right before them.
    pub(crate) fn push_run(&mut self, run: Run) -> Option<Notice> {
        let messages = run.len();
        if run.stream().is_some() {
            self.push_row(run.peer, run.into());
            return None;
        }
        let run = match self.ready.back_mut() {
            Some(Waiting::Run(last)) => last.join(run),
            _ => Some(run),
        };
        if let Some(run) = run {
            return self.enqueue(Waiting::Run(run));
        }
        self.len += messages;
        self.say()
    }

    fn enqueue(&mut self, waiting: Waiting) -> Option<Notice> {
        self.len += waiting.messages();
        self.ready.push_back(waiting);
        self.say()
    }

    fn say(&mut self) -> Option<Notice> {
        (!std::mem::replace(&mut self.said, true)).then_some(Notice::Readable)
    }

    fn push_call(&mut self, arrived: Arrived, place: i64) -> Option<Notice> {
        let method = arrived.tag.clone();
        let first = self.first_call(&method).is_none();
        self.calls.insert((method.clone(), place), arrived);
        first.then_some(Notice::Called { method })
    }

    // --- streams ---

    /// Queues messages of a stream. Its peer decides whether the first message of a row may be taken.
    fn push_row(&mut self, peer: u32, waiting: Waiting) {
        self.in_rows += waiting.messages();
        self.rows.push(peer, waiting);
    }

    /// The first waiting message of a stream.
    pub(crate) fn first_of(&self, peer: u32, name: &Bytes) -> Option<&Waiting> {
        self.rows.first(peer, name)
    }

    /// As [`Inbox::first_of`], if the application has not been told about it.
    pub(crate) fn untold(&self, peer: u32, name: &Bytes) -> Option<&Waiting> {
        self.rows.untold(peer, name)
    }

    /// Notes whether the application has been told about the first message of a stream.
    pub(crate) fn say_of(&mut self, peer: u32, name: &Bytes, said: bool) {
        self.rows.say(peer, name, said);
    }

    /// Takes out the first message of a stream.
    pub(crate) fn pop_of(&mut self, peer: u32, name: &Bytes) -> Option<Arrived> {
        let first = self.rows.pop(peer, name);
        self.in_rows -= usize::from(first.is_some());
        first
    }

    /// Takes out a few of the last messages of a stream that lie behind `s`, to make room for a message before them.
    pub(crate) fn evict_behind(&mut self, peer: u32, name: &Bytes, s: Option<Slot>) -> Vec<Arrived> {
        let gone = self.rows.evict(peer, name, s);
        self.in_rows -= gone.len();
        gone
    }

    /// The streams of a peer that have waiting messages.
    pub(crate) fn streams_of(&self, peer: u32) -> impl Iterator<Item = &Bytes> {
        self.rows.names(peer)
    }

    // --- calls ---

    fn first_call(&self, method: &Bytes) -> Option<i64> {
        let its = self.calls.range((method.clone(), i64::MIN)..=(method.clone(), i64::MAX));
        its.map(|((_, place), _)| *place).next()
    }

    /// The next call of a method.
    pub(crate) fn pop_call(&mut self, method: &Bytes) -> Option<Arrived> {
        let place = self.first_call(method)?;
        self.calls.remove(&(method.clone(), place))
    }

    /// The next call of the method that comes first in order.
    pub(crate) fn pop_any_call(&mut self) -> Option<Arrived> {
        self.calls.pop_first().map(|(_, arrived)| arrived)
    }

    /// The next message.
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        let next = match self.ready.front_mut()? {
            Waiting::Run(run) if run.len() > 1 => run.pop(),
            _ => match self.ready.pop_front()? {
                Waiting::One(arrived) => Some(arrived),
                Waiting::Run(mut run) => run.pop(),
            },
        };
        self.left(1);
        next
    }

    /// The next messages, if they came together: at most `most`, as for [`Inbox::front`].
    pub(crate) fn pop_run(&mut self, most: usize) -> Option<Run> {
        let run = match self.ready.front_mut()? {
            Waiting::One(_) => return None,
            // The sender wants to be told the outcome of each.
            Waiting::Run(run) if run.confirms() => return None,
            Waiting::Run(run) if run.len() > most => run.split_to(most)?,
            Waiting::Run(_) => match self.ready.pop_front()? {
                Waiting::Run(run) => run,
                Waiting::One(_) => return None,
            },
        };
        self.left(run.len());
        Some(run)
    }

    /// Takes out a few of the last pooled messages of a peer that wait in a lane, to make room for others.
    pub(crate) fn evict(&mut self, peer: u32, lane: &Lane) -> Vec<Arrived> {
        let pooled = |one: &Arrived| one.peer == peer && one.held() > 0 && one.wire_len <= POOLED;
        if let Lane::Method(method) = lane {
            let its = (method.clone(), i64::MIN)..=(method.clone(), i64::MAX);
            let last = self.calls.range(its).rev().find(|(_, call)| pooled(call));
            if let Some(call) = last.map(|(at, _)| at.clone()).and_then(|at| self.calls.remove(&at)) {
                return vec![call];
            }
        }
        if let Lane::Stream(name) = lane {
            return self.evict_behind(peer, name, None);
        }
        let alike = |waiting: &Waiting| match waiting {
            Waiting::One(one) => pooled(one) && one.lane() == *lane,
            Waiting::Run(run) => run.peer == peer && *lane == Lane::Plain,
        };
        let Some(at) = self.ready.iter().rposition(alike) else { return Vec::new() };
        let gone: Vec<_> = match self.ready.get_mut(at) {
            Some(Waiting::Run(run)) if run.len() > EVICTED => {
                let Some(kept) = run.split_to(run.len() - EVICTED) else { return Vec::new() };
                let mut last = std::mem::replace(run, kept);
                std::iter::from_fn(|| last.pop()).collect()
            }
            _ => match self.ready.remove(at) {
                Some(Waiting::Run(mut run)) => std::iter::from_fn(|| run.pop()).collect(),
                Some(Waiting::One(one)) => vec![one],
                None => Vec::new(),
            },
        };
        self.left(gone.len());
        gone
    }

    fn left(&mut self, messages: usize) {
        self.len -= messages;
        if self.ready.is_empty() {
            self.said = false;
            if self.ready.capacity() > 65_536 {
                self.ready.shrink_to(1_024);
            }
        }
    }

    /// `messages` messages of the queue have become stale: they are not wanted any more.
    pub(crate) fn note_stale(&mut self, messages: usize) {
        self.stale += messages;
    }

    /// As [`Inbox::note_stale`], but the memory of these messages is wanted back at once.
    pub(crate) fn note_withdrawn(&mut self, messages: usize) {
        self.note_stale(messages);
        self.sweeps_now |= messages > 0;
    }

    /// Whether some messages of the queue are stale.
    #[inline]
    pub(crate) const fn has_stale(&self) -> bool {
        self.stale > 0
    }

    /// A stale message has left the queue.
    pub(crate) fn stale_left(&mut self) {
        self.stale = self.stale.saturating_sub(1);
    }

    /// Takes out the messages that are not wanted any more, once they are an eighth of the queue, or some of them were withdrawn.
    pub(crate) fn sweep(&mut self, waited_for: impl Fn(&Front) -> bool) -> Vec<Arrived> {
        let mut gone = Vec::new();
        let few = self.stale * STALE_SHARE < self.len() && !self.sweeps_now;
        if self.stale == 0 || few {
            return gone;
        }
        (self.stale, self.sweeps_now) = (0, false);
        for waiting in std::mem::take(&mut self.ready) {
            match waiting {
                Waiting::One(one) if waited_for(&one.front()) => self.ready.push_back(Waiting::One(one)),
                Waiting::One(one) => gone.push(one),
                Waiting::Run(run) => sift(run, &waited_for, &mut self.ready, &mut gone),
            }
        }
        self.len -= gone.len();
        self.said &= !self.ready.is_empty();
        let calls = std::mem::take(&mut self.calls).into_iter();
        let (kept, stale): (BTreeMap<_, _>, BTreeMap<_, _>) =
            calls.partition(|(_, call)| waited_for(&call.front()));
        self.calls = kept;
        gone.extend(stale.into_values());
        let rows = self.rows.sweep(&waited_for);
        self.in_rows -= rows.len();
        gone.extend(rows);
        gone
    }

    /// The next message, and up to `most` that came with it.
    pub(crate) fn front(&self, most: usize) -> Option<Front> {
        self.ready.front().map(|waiting| match waiting {
            Waiting::Run(run) => run.front(most),
            Waiting::One(_) => waiting.first(),
        })
    }

    /// How many messages in one piece have arrived and have not been taken.
    pub(crate) fn pieces(&self) -> usize {
        let apart = self.apart().filter(|arrived| arrived.held() > 0).count();
        apart + self.waiting().map(|waiting| waiting.held().0).sum::<usize>()
    }

    /// Bytes of memory of everything that has arrived and has not been taken.
    pub(crate) fn held(&self) -> u64 {
        let apart: u64 = self.apart().map(Arrived::held).sum();
        apart + self.waiting().map(|waiting| waiting.held().1).sum::<u64>()
    }

    fn apart(&self) -> impl Iterator<Item = &Arrived> {
        self.calls.values().chain(self.handed.values().map(|(_, arrived)| arrived))
    }

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.ready.iter().chain(self.rows.iter())
    }

    pub(crate) fn len(&self) -> usize {
        self.len + self.calls.len() + self.in_rows
    }

    /// Whether neither messages nor calls wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a message waits, or seems to.
    pub(crate) fn has_messages(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Hands out the message that was handed out under `key` again at `at`.
    pub(crate) fn wait_until(&mut self, key: DeliveryKey, at: Mono) {
        if self.handed.contains_key(&key) {
            self.later.insert((at, key));
        }
    }

    /// When the next message is handed out again.
    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.later.first().map(|(at, _)| *at)
    }

    /// A message that is due to be handed out again.
    pub(crate) fn due(&mut self, now: Mono) -> Option<DeliveryKey> {
        self.later.first().filter(|(at, _)| *at <= now)?;
        self.later.pop_first().map(|(_, key)| key)
    }

    pub(crate) fn hand_out(&mut self, now: Mono, arrived: Arrived) -> DeliveryKey {
        let key = DeliveryKey(self.next_key);
        self.next_key += 1;
        self.handed.insert(key, (now, arrived));
        key
    }

    pub(crate) fn handed(&self, key: DeliveryKey) -> Option<&Arrived> {
        self.handed.get(&key).map(|(_, arrived)| arrived)
    }

    pub(crate) fn take_back(&mut self, key: DeliveryKey) -> Option<Arrived> {
        self.handed.remove(&key).map(|(_, arrived)| arrived)
    }

    /// Puts a message back at the head of the queue. Returns what the application should be told.
    pub(crate) fn give_back(&mut self, arrived: Arrived, serves: bool) -> Option<Notice> {
        if serves && arrived.role == Role::Call {
            self.places.0 -= 1;
            return self.push_call(arrived, self.places.0);
        }
        if let Role::Stream(_) = arrived.role {
            self.push_row(arrived.peer, arrived.into());
            return None;
        }
        self.len += 1;
        self.ready.push_front(Waiting::One(arrived));
        self.say()
    }

    /// Shows everything that has arrived and has not been taken: first the messages that were handed out, then those that wait,
    /// in order.
    pub(crate) fn look(&self, mut at: impl FnMut(Seen<'_>)) {
        let later: BTreeMap<DeliveryKey, Mono> = self.later.iter().map(|(at, key)| (*key, *at)).collect();
        for (key, (since, arrived)) in &self.handed {
            let stand = Place::Handed { key: *key, since: *since, again: later.get(key).copied() };
            at(Seen::one(arrived, stand));
        }
        for waiting in self.ready.iter() {
            Seen::each(waiting, &mut at);
        }
        self.calls.values().for_each(|arrived| at(Seen::one(arrived, Place::Waits)));
        self.rows.iter().for_each(|waiting| Seen::each(waiting, &mut at));
    }
}

/// Keeps those messages of a run that are still wanted.
pub(super) fn sift(
    mut run: Run,
    waited_for: &impl Fn(&Front) -> bool,
    kept: &mut VecDeque<Waiting>,
    gone: &mut Vec<Arrived>,
) {
    while run.len() > 0 {
        if waited_for(&run.front(usize::MAX)) {
            return kept.push_back(Waiting::Run(run));
        }
        let first = (1..run.len()).take_while(|most| waited_for(&run.front(*most))).count();
        match first {
            0 => gone.extend(run.pop()),
            some => kept.extend(run.split_to(some).map(Waiting::Run)),
        }
    }
}

/// A message that has not been taken, for an observer.
pub(crate) struct Seen<'a> {
    pub(crate) peer: u32,
    pub(crate) view: View<'a>,
    pub(crate) role: Role,
    /// The length of a body that is read as it comes, if its sender has declared it.
    pub(crate) len: Option<u64>,
    pub(crate) place: Place,
}

impl<'a> Seen<'a> {
    fn each(waiting: &'a Waiting, at: &mut impl FnMut(Self)) {
        match waiting {
            Waiting::One(arrived) => at(Seen::one(arrived, Place::Waits)),
            Waiting::Run(run) => run.views().zip(run.roles()).for_each(|(view, role)| {
                at(Seen { peer: run.peer, view, role, len: None, place: Place::Waits });
            }),
        }
    }

    fn one(arrived: &'a Arrived, place: Place) -> Self {
        let (body, len) = match &arrived.body {
            ArrivedBody::Whole(body) => (Some(&body[..]), None),
            ArrivedBody::Stream { len } => (None, *len),
        };
        let view = View { id: arrived.id, tag: &arrived.tag, priority: arrived.priority, body };
        Self { peer: arrived.peer, view, role: arrived.role, len, place }
    }
}

/// Where a message that has not been taken is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the queue.
    Waits,
    /// At the application since then; or put off until it is handed out `again`.
    Handed { key: DeliveryKey, since: Mono, again: Option<Mono> },
}
