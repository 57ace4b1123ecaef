//! Messages that were queued together: they are bound together, as many as go into a packet.

use super::Outbound;
use crate::account::Account;
use crate::half::Sender;
use crate::id::{Incarnation, Slot};
use crate::message::lane::{LaneKey, Load};
use crate::message::{Flow, Letter, MessageKey, Store};
use crate::peer::piece::Room;
use crate::time::Mono;

/// What of a bundle goes on where a frame is open.
pub(crate) enum Followed<'a> {
    /// These entries, how many they are, and the last of them.
    Entries(&'a [u8], u32, MessageKey),
    /// The next does not fit, and there is nothing else to choose.
    Full,
    /// No bundle comes next, or not here.
    Nothing,
}

impl Outbound {
    /// Binds the next `n` messages of a bundle, for which there are envelopes. Gives the first.
    pub(super) fn bind_bundled(
        &mut self,
        now: Mono,
        flow: Flow,
        key: MessageKey,
        letter: &mut Letter,
        n: u32,
    ) -> Option<MessageKey> {
        let load = together(letter, n.into());
        let (journaled, lane, len) = (letter.journaled, letter.lane, load.bytes);
        let key = key.first().nth(letter.bundle()?.ready().start);
        let (s, r) = self.sender.as_mut()?.bind_run((0..n).map(|i| key.nth(i)))?;
        let mark = self.enter_stream_together(key, letter, s, n.into());
        let place = mark.map(|mark| self.place_at(&letter.tag, mark)).filter(|_| journaled.is_some());
        // Where nobody counts it, what leaves at several times is kept as one.
        let since = if letter.due == Mono::NEVER { Mono(0) } else { now };
        let bundle = letter.bundle_mut()?;
        bundle.bind(n, (s, r), since, mark);
        self.queue.charge_lane(flow, len);
        if bundle.unbound() == 0 {
            self.queue.pop(flow);
            letter.queued = false;
        }
        if let Some(first) = journaled {
            self.note_binding(first.nth(key.at), place, n, s, r);
        }
        self.unbound.give_back(u64::from(n));
        self.note_open(lane, load);
        self.queue.charge(flow, usize::try_from(len).unwrap_or(usize::MAX));
        Some(key)
    }

    /// As [`Outbound::follow`], where messages that were queued together come next: as many as would follow one by one, as
    /// they stand in a frame.
    pub(crate) fn follow_bundled<'a>(
        &mut self,
        now: Mono,
        store: &'a mut Store,
        flow: Flow,
        room: Room,
    ) -> Followed<'a> {
        if self.holds || !self.lost.is_empty() || self.must_ask() {
            return Followed::Nothing;
        }
        let Some(key) = self.queue.front(flow) else { return Followed::Nothing };
        let Some(letter) = store.get_mut(key) else { return Followed::Nothing };
        let len = letter.pooled().bytes;
        let Some(bundle) = letter.bundle() else { return Followed::Nothing };
        let lacks = room.left < bundle.stride() && self.queue.alone().is_some();
        let window = self.window_for(now, letter, len);
        if lacks && window > 0 && self.sender.as_ref().is_some_and(|s| s.envelopes() > 0) {
            return Followed::Full;
        }
        self.follow_in(now, flow, (key, letter), (len, window), room).unwrap_or(Followed::Nothing)
    }

    /// How many messages of `len` bytes the window takes that those of a letter have.
    fn window_for(&mut self, now: Mono, letter: &Letter, len: u64) -> u64 {
        if self.has_own_window(letter) {
            self.lanes.room(now, letter.lane, len)
        } else {
            self.plain_left(len)
        }
    }

    fn follow_in<'a>(
        &mut self,
        now: Mono,
        flow: Flow,
        (key, letter): (MessageKey, &'a mut Letter),
        (len, window): (u64, u64),
        room: Room,
    ) -> Option<Followed<'a>> {
        let (open, bundle) = (room.open?, letter.bundle()?);
        if letter.short_head().is_none() {
            // They follow one of theirs, whose head stands there.
            let before = room.behind.filter(|before| before.first() == key.first())?;
            self.is_alike(letter, before, open.1).then_some(())?;
        }
        let sender = self.sender.as_ref().filter(|sender| {
            let next: Option<(Slot, Incarnation)> = sender.next_envelope();
            next.is_some_and(|(s, r)| open == (r, s))
        });
        let granted = sender.map_or(0, Sender::envelopes).min(window);
        let fit = (room.left / bundle.stride().max(1)) as u64;
        let ready = self.go_together(key, letter);
        let n = fit.min(granted).min(self.queue.share(flow, len)).min(ready);
        let n = u32::try_from(n).ok().filter(|n| *n > 0)?;
        let first = self.bind_bundled(now, flow, key, letter, n)?;
        let entries = letter.bundle()?.entries(first.at..first.at + n);
        Some(Followed::Entries(entries, n, first.nth(n - 1)))
    }

    /// `n` messages of a bundle from `key` on leave this direction, `bound` from the first on or not at all.
    pub(crate) fn forget_bundled(
        &mut self,
        key: MessageKey,
        letter: &Letter,
        bound: Option<(Slot, Incarnation)>,
        n: u32,
    ) {
        let Some(bundle) = letter.bundle() else { return debug_assert!(false, "it is a bundle") };
        let messages = u64::from(n);
        match bound {
            Some((s, _)) => {
                self.lost.remove_range(s.0..s.0 + messages);
                if self.revokes() > 0 {
                    (s.0..s.0 + messages).for_each(|s| {
                        self.revoked(Slot(s));
                    });
                }
                self.leave_stream(letter, s, messages);
                self.close_open(letter.lane, together(letter, messages));
            }
            None => {
                self.unbound.give_back(messages);
                if letter.queued && bundle.unbound() <= n {
                    self.queue.remove(letter.flow(), letter.lane, key.first());
                }
            }
        }
        self.forget_places(key, n);
        self.letters.give_back(n as usize);
        let bytes = bundle.body_len() as u64 * messages;
        self.bytes.give_back(bytes);
        self.held += bytes;
    }

    /// A bundle of a lane is over, and the memory free that it has held.
    pub(crate) fn bundle_ended(&mut self, lane: LaneKey, held: u64) {
        self.held.give_back(held);
        if lane != LaneKey::PLAIN {
            self.lanes.leave(lane);
        }
    }

    /// As [`Outbound::abandon`], of a message of a bundle.
    pub(crate) fn abandon_bundled(&mut self, key: MessageKey, letter: &Letter) {
        if let Some((s, r)) = letter.slot_of(key) {
            self.give_up_place(letter, s);
            self.give_up(s, r, Some((letter.lane, letter.pooled())));
        }
    }
}

/// What `messages` of a bundle have open.
fn together(letter: &Letter, messages: u64) -> Load {
    Load { messages, bytes: letter.pooled().bytes * messages }
}
