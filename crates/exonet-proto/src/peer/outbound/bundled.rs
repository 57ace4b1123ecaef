//! Messages that were queued together: they are bound together, as many as go into a packet.

use super::Outbound;
use crate::account::Account;
use crate::half::Sender;
use crate::id::{Incarnation, Slot};
use crate::message::lane::{LaneKey, Load};
use crate::message::{Flow, Letter, MessageKey, Store};
use crate::peer::piece::Room;

/// What of a bundle goes on where a frame is open.
pub(crate) enum Followed<'a> {
    /// These entries, and how many they are.
    Entries(&'a [u8], u32),
    /// The next does not fit, and there is nothing else to choose.
    Full,
    /// No bundle comes next, or not here.
    Nothing,
}

impl Outbound {
    /// Binds the next `n` messages of a bundle, for which there are envelopes. Gives the first.
    pub(super) fn bind_bundled(
        &mut self,
        flow: Flow,
        key: MessageKey,
        letter: &mut Letter,
        n: u32,
    ) -> Option<MessageKey> {
        let len = letter.wire_len() * u64::from(n);
        let journaled = letter.journaled;
        let bundle = letter.bundle_mut()?;
        let key = key.first().nth(bundle.ready().start);
        let (s, r) = self.sender.as_mut()?.bind_run((0..n).map(|i| key.nth(i)))?;
        bundle.bind(n, s, r);
        if bundle.unbound() == 0 {
            self.queue.pop(flow);
            letter.queued = false;
        }
        if let Some(first) = journaled {
            self.note_binding(first.nth(key.at), None, n, s, r);
        }
        self.unbound.give_back(u64::from(n));
        self.note_open(LaneKey::PLAIN, Load { messages: u64::from(n), bytes: len });
        self.queue.charge(flow, usize::try_from(len).unwrap_or(usize::MAX));
        Some(key)
    }

    /// As [`Outbound::follow`], where messages that were queued together come next: as many as would follow one by one, as
    /// they stand in a frame.
    pub(crate) fn follow_bundled<'a>(
        &mut self,
        store: &'a mut Store,
        flow: Flow,
        room: Room,
    ) -> Followed<'a> {
        if self.holds || !self.lost.is_empty() || self.must_ask() {
            return Followed::Nothing;
        }
        let Some(key) = self.queue.front(flow) else { return Followed::Nothing };
        let Some(letter) = store.get_mut(key) else { return Followed::Nothing };
        let len = letter.wire_len();
        let Some(bundle) = letter.bundle() else { return Followed::Nothing };
        let lacks = room.left < bundle.stride() && self.queue.alone().is_some();
        if lacks && len <= self.window_left() && self.sender.as_ref().is_some_and(|s| s.envelopes() > 0) {
            return Followed::Full;
        }
        self.follow_in(flow, key, letter, len, room).unwrap_or(Followed::Nothing)
    }

    fn follow_in<'a>(
        &mut self,
        flow: Flow,
        key: MessageKey,
        letter: &'a mut Letter,
        len: u64,
        room: Room,
    ) -> Option<Followed<'a>> {
        let (open, bundle) = (room.open?, letter.bundle()?);
        let sender = self.sender.as_ref().filter(|sender| {
            let next: Option<(Slot, Incarnation)> = sender.next_envelope();
            next.is_some_and(|(s, r)| open == (r, s))
        });
        let granted = sender.map_or(0, Sender::envelopes).min(self.plain_left(len));
        let fit = (room.left / bundle.stride().max(1)) as u64;
        let ready = bundle.ready().len() as u64;
        let n = fit.min(granted).min(self.queue.share(flow, len)).min(ready);
        let n = u32::try_from(n).ok().filter(|n| *n > 0)?;
        let first = self.bind_bundled(flow, key, letter, n)?;
        Some(Followed::Entries(letter.bundle()?.entries(first.at..first.at + n), n))
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
                self.close_open(LaneKey::PLAIN, Load { messages, bytes: letter.wire_len() * messages });
            }
            None => {
                self.unbound.give_back(messages);
                if letter.queued && bundle.unbound() <= n {
                    self.queue.remove(letter.flow(), letter.lane, key.first());
                }
            }
        }
        self.letters.give_back(n as usize);
        let bytes = bundle.body_len() as u64 * messages;
        self.bytes.give_back(bytes);
        self.held += bytes;
    }

    /// A bundle is over, and the memory free that it has held.
    pub(crate) fn bundle_ended(&mut self, held: u64) {
        self.held.give_back(held);
    }

    /// As [`Outbound::abandon`], of a message of a bundle.
    pub(crate) fn abandon_bundled(&mut self, key: MessageKey, letter: &Letter) {
        if let Some((s, r)) = letter.slot_of(key) {
            self.give_up(s, r, Some((LaneKey::PLAIN, letter.pooled())));
        }
    }
}
