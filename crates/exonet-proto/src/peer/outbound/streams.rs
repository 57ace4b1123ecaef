//! The place of a message in its stream, which it gets with its slot.

use super::Outbound;
use bytes::Bytes;

use crate::half::{KeptPlace, Returned, Sender};
use crate::id::Slot;
use crate::journal::Place;
use crate::message::{Letter, MessageKey, Store};
use crate::wire::{Role, StreamEnd, StreamMark};

impl Outbound {
    /// What a message that is not bound says of its place in its stream: as if it were bound next, so that its length is right.
    pub(super) fn foresee_place(&self, key: MessageKey, letter: &mut Letter) {
        if let Role::Stream(mark) = letter.role
            && letter.bound.is_none()
            && let Some((s, _)) = self.sender.as_ref().and_then(Sender::next_envelope)
        {
            let kept = self.kept_place(first_unbound(key, letter));
            letter.set_mark(self.writers.mark(&letter.tag, s, kept, mark.end, mark.more));
        }
    }

    /// A message has just been bound to `s`.
    pub(super) fn enter_stream(&mut self, key: MessageKey, letter: &mut Letter, s: Slot) {
        if let Role::Stream(mark) = letter.role {
            let kept = self.kept_place(key);
            let mark = self.writers.mark(&letter.tag, s, kept, mark.end, mark.more);
            letter.set_mark(mark);
            self.writers.bind(&letter.tag, s, 1, mark, kept.is_some());
        }
    }

    /// `n` messages of a bundle, no more than [`Outbound::go_together`], are bound from `s` on. Gives the place of the first, if they are
    /// of a stream.
    pub(super) fn enter_stream_together(
        &mut self,
        key: MessageKey,
        letter: &Letter,
        s: Slot,
        n: u64,
    ) -> Option<StreamMark> {
        let Role::Stream(_) = letter.role else { return None };
        let kept = self.kept_place(key);
        let mark = self.writers.mark(&letter.tag, s, kept, StreamEnd::Open, false);
        self.writers.bind(&letter.tag, s, n, mark, kept.is_some());
        Some(mark)
    }

    /// How many messages of a bundle may be bound next in one run: their places follow each other.
    pub(super) fn go_together(&self, key: MessageKey, letter: &Letter) -> u64 {
        let ready = letter.bundle().map_or(0, |bundle| bundle.ready().len() as u64);
        if self.kept_places.is_empty() {
            return ready;
        }
        let first = first_unbound(key, letter);
        let kept = self.kept_place(first);
        let follows = |i: u64| {
            let at = u32::try_from(i).map_or(u32::MAX, |i| first.at.saturating_add(i));
            self.kept_place(MessageKey { at, ..first }) == kept.map(|kept| kept.nth(i))
        };
        (1..ready).find(|i| !follows(*i)).unwrap_or(ready)
    }

    /// The place that a message has kept since it came back.
    pub(crate) fn kept_place(&self, key: MessageKey) -> Option<KeptPlace> {
        // Mostly there are none.
        if self.kept_places.is_empty() { None } else { self.kept_places.get(&key).copied() }
    }

    /// A message has kept this place.
    pub(super) fn keep_place(&mut self, key: MessageKey, place: KeptPlace) {
        self.kept_places.insert(key, place);
    }

    /// `n` messages from `key` on have ended.
    pub(super) fn forget_places(&mut self, key: MessageKey, n: u32) {
        if !self.kept_places.is_empty() {
            for i in 0..n {
                self.kept_places.remove(&key.nth(i));
            }
        }
    }

    /// Whether the next message of a bundle is alike to one of its messages, which stands before it in a frame and in the slot before
    /// `s`.
    pub(super) fn is_alike(&self, letter: &Letter, before: MessageKey, s: Slot) -> bool {
        let Role::Stream(_) = letter.role else { return true };
        let mark = letter.bundle().and_then(|bundle| bundle.mark_of(before.at)?.nth(1));
        let kept = self.kept_place(first_unbound(before, letter));
        mark == Some(self.writers.mark(&letter.tag, s, kept, StreamEnd::Open, false))
    }

    /// Where a message that has just been bound stands in its stream, for the journal.
    pub(super) fn place_of(&self, letter: &Letter) -> Option<Place> {
        let Role::Stream(mark) = letter.role else { return None };
        Some(self.place_at(&letter.tag, mark))
    }

    /// The same of a message of this stream that has just got this place.
    pub(super) fn place_at(&self, name: &Bytes, mark: StreamMark) -> Place {
        Place { mark, name: name.clone(), begun: self.writers.begun_of(name) }
    }

    /// `n` messages of a letter that were bound from `s` on are open no more.
    pub(super) fn leave_stream(&mut self, letter: &Letter, s: Slot, n: u64) {
        if let Role::Stream(_) = letter.role {
            self.writers.settle(&letter.tag, s.0..s.0 + n);
        }
    }

    /// A message of a letter, bound to `s`, is given up.
    pub(super) fn give_up_place(&mut self, letter: &Letter, s: Slot) {
        if let Role::Stream(_) = letter.role {
            self.writers.give_up(&letter.tag, s);
        }
    }

    /// The message of `key`, which was bound to `s` at the place `mark`, goes back into its queue, before all that follow it in its
    /// stream. `withdrawn`: it does so to end there.
    pub(super) fn come_back(
        &mut self,
        store: &mut Store,
        s: Slot,
        key: MessageKey,
        mark: StreamMark,
        withdrawn: bool,
    ) {
        let Some(letter) = store.get_mut(key) else { return };
        let had_kept = self.kept_places.remove(&key).is_some();
        let why = match (withdrawn, had_kept) {
            (true, _) => Returned::Withdrawn,
            (false, true) => Returned::Kept,
            (false, false) => Returned::Again,
        };
        let kept = self.writers.give_back(&letter.tag, s, mark, why);
        self.kept_places.extend(kept.map(|kept| (key, kept)));
        // Others of its bundle may be there already, behind it.
        if std::mem::replace(&mut letter.queued, true) {
            return;
        }
        let key = key.first();
        let (flow, lane, order) = (letter.flow(), letter.lane, letter.order);
        let precedes = |other| store.get(other).is_some_and(|other| other.order < order);
        self.queue.push_behind(flow, lane, key, precedes);
    }
}

/// The message of a letter that is bound next.
fn first_unbound(key: MessageKey, letter: &Letter) -> MessageKey {
    letter.bundle().map_or(key, |bundle| key.first().nth(bundle.ready().start))
}
