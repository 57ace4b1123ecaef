//! Names of messages that are journaled before the messages leave.

use std::collections::BTreeMap;

use super::Outbound;
use crate::account::Account;
use crate::half::{Clock, Sender};
use crate::id::{Incarnation, LetterId, Slot, Stamp};
use crate::journal::{Binding, Place, Placed, Position};
use crate::message::{Letter, MessageKey, Store};
use crate::time::Mono;
use crate::wire::Role;

/// How much a large message counts for before it leaves: about one packet.
const PACKET: u64 = 1_200;

impl Outbound {
    /// Binds messages that `room` bytes can take soon. `journal` appends what a message is bound to.
    pub(crate) fn bind_ahead(
        &mut self,
        now: Mono,
        store: &mut Store,
        room: u64,
        mut journal: impl FnMut(Binding) -> Position,
    ) {
        while self.ahead_bytes < room && !self.has_lost() {
            let envelopes = self.may_bind();
            let Some(flow) = self.whose_turn(now, store, envelopes) else { return };
            let Some(key) = self.queue.front(flow) else { return };
            let Some(letter) = store.get_mut(key) else {
                self.queue.pop(flow);
                continue;
            };
            if letter.bound.is_some() {
                return;
            }
            self.bind(now, key, letter);
            let Some((s, _)) = letter.bound else { return };
            // A large message is charged as it leaves.
            let charged = if letter.is_large() { 0 } else { letter.wire_len() };
            self.queue.charge_lane(flow, charged);
            self.note_sent(flow, letter.lane, charged);
            self.queue.pop(flow);
            letter.queued = false;
            self.queue.charge(flow, usize::try_from(charged).unwrap_or(usize::MAX));
            let at = self.bound.pop().map_or(Position(0), &mut journal);
            self.hold(at, s, key, letter);
        }
    }

    /// `n` journaled messages, `letter` and those behind it, are bound.
    #[inline]
    pub(super) fn note_bound(&mut self, letter: &Letter, n: u32, s: Slot, r: Incarnation) {
        let Some(first) = letter.journaled else { return };
        self.note_binding(first, self.place_of(letter), n, s, r);
    }

    /// As [`Outbound::note_bound`], for messages that the journal has from `letter` on.
    #[inline]
    pub(super) fn note_binding(
        &mut self,
        letter: LetterId,
        place: Option<Place>,
        n: u32,
        s: Slot,
        r: Incarnation,
    ) {
        let follows = |last: &&mut Binding| place.is_none() && last.is_followed_by(letter, s, r);
        match self.bound.last_mut().filter(follows) {
            Some(last) => last.n += n,
            None => self.bound.push(Binding { letter, n, s, r, place }),
        }
    }

    /// The bindings since the last call, in order. They are journaled before any of these messages leaves.
    pub(crate) fn take_bound(&mut self) -> impl Iterator<Item = Binding> {
        self.bound.drain(..)
    }

    /// Holds the message of `key` until the journal is safe up to `at`, where it says that the message is bound to `s`.
    pub(super) fn hold(&mut self, at: Position, s: Slot, key: MessageKey, letter: &mut Letter) {
        letter.unsafe_yet = true;
        self.ahead_bytes += ahead_len(letter);
        self.ahead.push_back((at, s, key));
    }

    /// Messages whose names are safe may leave. The frontier may pass messages whose ends are safe.
    pub(crate) fn on_safe(&mut self, store: &mut Store, safe: impl Fn(Position) -> bool) {
        while let Some((at, s, key)) = self.ahead.front().copied()
            && safe(at)
        {
            self.ahead.pop_front();
            let Some(letter) = store.get_mut(key) else { continue };
            if letter.unsafe_yet && letter.bound.is_some_and(|(bound, _)| bound == s) {
                self.let_go(s, key, letter);
            }
        }
        let before = self.ends.len();
        self.ends.retain(|(at, _)| !safe(*at));
        if self.ends.len() < before {
            // An ASK may have said less than it could say now.
            (self.ask_due, self.frontier_due) = (true, true);
        }
    }

    fn let_go(&mut self, s: Slot, key: MessageKey, letter: &mut Letter) {
        self.leave_ahead(letter);
        letter.unsafe_yet = false;
        if letter.is_large() && !letter.is_cut() {
            letter.queued = true;
            self.queue.push_front(letter.flow(), letter.lane, key);
        } else {
            self.lost.insert(s.0..s.0 + 1);
        }
    }

    /// If the message waits for its name to be safe, it does not count as waiting any more.
    pub(super) fn leave_ahead(&mut self, letter: &Letter) {
        if letter.unsafe_yet {
            self.ahead_bytes.give_back(ahead_len(letter));
        }
    }

    /// The end of the message in `s` is journaled. It is safe once the journal is safe up to `at`.
    pub(crate) fn ends_at(&mut self, at: Position, s: Slot) {
        self.ends.push_back((at, s));
    }

    /// The lowest slot whose end is not safe.
    pub(super) fn first_unsafe_end(&self) -> Option<Slot> {
        self.ends.iter().map(|(_, s)| *s).min()
    }

    /// Continues with the messages of a journal, in the order of sending.
    pub(crate) fn recover(
        &mut self,
        now: Mono,
        clock: &Clock,
        store: &mut Store,
        placed: &[(MessageKey, Placed)],
    ) {
        if placed.is_empty() {
            return;
        }
        let (mut tokens, mut early, mut stamp) = (BTreeMap::new(), BTreeMap::new(), Stamp::NONE);
        for (key, place) in placed {
            match *place {
                Placed::Nowhere => {}
                Placed::Returned(kept) => self.keep_place(*key, kept),
                Placed::Bound(s, r) => drop(tokens.insert(s, (r, *key))),
                Placed::Early(s, ts) => {
                    stamp = ts;
                    early.insert(s, *key);
                }
            }
        }
        self.early_due = !early.is_empty();
        for (s, (_, key)) in &tokens {
            if let Some(letter) = store.get(*key).filter(|letter| matches!(letter.role, Role::Stream(_))) {
                self.writers.reopen(&letter.tag, *s);
            }
        }
        let tokens = tokens.into_iter().map(|(s, (r, key))| (s, r, key));
        self.sender = Some(Sender::recover(clock, tokens, stamp, early));
        placed.iter().for_each(|(key, place)| self.enter(now, store, *key, *place));
        self.ask_due = true;
    }

    /// Enters a message of the journal, which counts from now on and leaves (again).
    fn enter(&mut self, now: Mono, store: &mut Store, key: MessageKey, place: Placed) {
        let Some(letter) = store.get_mut(key) else { return };
        self.number(letter);
        self.join_lane(letter);
        self.letters += letter.open() as usize;
        self.bytes = self.bytes.saturating_add(letter.source.kept());
        self.largest = self.largest.max(letter.source.len());
        letter.bound = match place {
            Placed::Nowhere | Placed::Returned(_) => None,
            Placed::Bound(s, r) => Some((s, r)),
            Placed::Early(s, _) => Some((s, Incarnation::UNNAMED)),
        };
        if letter.bound.is_some() {
            letter.bound_at = now;
            self.note_open(letter.lane, letter.pooled());
        } else {
            self.unbound += u64::from(letter.open());
        }
        match place {
            Placed::Bound(s, _) if !letter.is_large() => self.lost.insert(s.0..s.0 + 1),
            Placed::Early(..) => {}
            _ => self.enqueue(key, letter),
        }
    }

    /// Whether something waits for the journal.
    pub(crate) fn waits_for_journal(&self) -> bool {
        !self.ahead.is_empty() || !self.ends.is_empty()
    }
}

fn ahead_len(letter: &Letter) -> u64 {
    if letter.is_large() { PACKET } else { letter.wire_len() }
}
