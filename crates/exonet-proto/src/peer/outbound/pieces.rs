//! Which piece of a message goes into a packet next.

use core::ops::Range;

use super::Outbound;
use crate::half::Sender;
use crate::id::{Incarnation, Slot};
use crate::message::{Flow, Fragments, Halves, Letter, MessageKey, Store};
use crate::peer::piece::{Next, Piece, Room};
use crate::time::Mono;

impl Outbound {
    /// The next piece for a packet with this much room. Binds a message only when a piece of it leaves now.
    pub(crate) fn next(&mut self, now: Mono, store: &mut Store, room: Room) -> Next {
        match self.next_lost(store, room) {
            Next::Nothing => self.next_new(now, store, room),
            found => found,
        }
    }

    fn next_lost(&mut self, store: &mut Store, room: Room) -> Next {
        while let Some(first) = self.lost.first() {
            let s = Slot(first);
            let token = self.sender.as_ref().and_then(|sender| sender.token(s));
            let Some((r, letter)) = token.and_then(|(r, key)| Some((r, (*key, store.get_mut(*key)?)))) else {
                self.lost.remove(first);
                continue;
            };
            let (key, letter) = letter;
            let len = letter.wire_len_of(key);
            if !letter.is_cut() && room.could_take_whole(len) {
                if room.takes_whole(len, s, r) {
                    self.lost.remove(first);
                    return Next::Piece(Piece::Whole { key, s, r });
                }
                if (self.lost.count() == 1 && self.queue.is_empty()) || room.fill(letter, s, r).is_none() {
                    return Next::PacketFull;
                }
            }
            match Self::cut_lost(letter, room, s, r) {
                Some(Some(range)) => return Next::Piece(Piece::Fragment { key, s, r, range }),
                Some(None) => return Next::PacketFull,
                None => self.lost.remove(first),
            };
        }
        Next::Nothing
    }

    /// The next lost fragment. `Some(None)`: this packet has no room for it. None: there is none.
    fn cut_lost(letter: &mut Letter, room: Room, s: Slot, r: Incarnation) -> Option<Option<Range<u64>>> {
        if letter.bundle().is_some() {
            return Some(None);
        }
        let (total, said) = (letter.wire_len(), letter.said_len());
        if !letter.is_cut() {
            let mut cut = Fragments::new(total, total);
            cut.sent(0..total);
            cut.lost(0..total);
            letter.fragments = Some(Box::new(cut));
        }
        let fragments = letter.parts_mut().filter(|fragments| fragments.has_lost())?;
        let Some(range) = room.cut(said, fragments.next(u64::MAX, total)?, s, r) else {
            return Some(None);
        };
        let range = range.start..range.start + letter.part_len(range);
        if let Some(fragments) = letter.fragments.as_mut() {
            fragments.sent(range.clone());
        }
        Some(Some(range))
    }

    fn next_new(&mut self, now: Mono, store: &mut Store, room: Room) -> Next {
        loop {
            if self.queue.has_lanes() {
                self.queue.set_quantum(room.empty);
            }
            let binds = self.may_bind() && !self.binds_ahead;
            let Some(flow) = self.whose_turn(now, store, binds) else {
                return Next::Nothing;
            };
            let Some(key) = self.queue.front(flow) else {
                return Next::Nothing;
            };
            let Some(letter) = store.get_mut(key) else {
                debug_assert!(false, "what ends leaves the queue");
                self.queue.pop(flow);
                continue;
            };
            self.foresee_place(key, letter);
            let whole = !letter.is_cut() && !letter.is_large() && room.could_take_whole(letter.wire_len());
            if letter.bound.is_none() && whole {
                let open = self.sender.as_ref().and_then(Sender::next_envelope);
                let Some((s, r)) = open else { return Next::Nothing };
                if room.takes_whole(letter.wire_len(), s, r) {
                    let Some(key) = self.send_whole(now, flow, key, letter) else { return Next::Nothing };
                    return Next::Piece(Piece::Whole { key, s, r });
                }
                // Cutting the last message of a flow would only put it into two packets instead of one.
                let fills = self.queue.has_more(flow).then(|| room.fill(letter, s, r)).flatten();
                let Some(halves) = fills.and_then(Halves::new) else { return Next::PacketFull };
                letter.halves = Some(halves);
                self.bind(now, key, letter);
                self.queue.charge(flow, usize::try_from(halves.at()).unwrap_or(usize::MAX));
                self.queue.charge_lane(flow, halves.at());
                self.note_sent(flow, letter.lane, halves.at());
                return Next::Piece(Piece::Fragment { key, s, r, range: 0..halves.at() });
            }
            match self.cut_new(now, key, letter, room) {
                Cut::Range(s, r, range) => {
                    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                    self.queue.charge(flow, len);
                    self.queue.charge_lane(flow, len as u64);
                    self.note_sent(flow, letter.lane, len as u64);
                    self.settle_turn(flow, letter);
                    return Next::Piece(Piece::Fragment { key, s, r, range });
                }
                Cut::NoRoom => return Next::PacketFull,
                Cut::Parked => {
                    letter.queued = false;
                    self.queue.pop(flow);
                }
            }
        }
    }

    fn send_whole(
        &mut self,
        now: Mono,
        flow: Flow,
        key: MessageKey,
        letter: &mut Letter,
    ) -> Option<MessageKey> {
        self.note_sent(flow, letter.lane, letter.wire_len());
        if letter.bundle().is_some() {
            return self.bind_bundled(now, flow, key, letter, 1);
        }
        self.bind(now, key, letter);
        self.queue.charge_lane(flow, letter.wire_len());
        self.queue.pop(flow);
        letter.queued = false;
        self.queue.charge(flow, usize::try_from(letter.wire_len()).unwrap_or(usize::MAX));
        Some(key)
    }

    /// As [`Outbound::next`], where `room.open` goes on: the next new message of the same flow as the last one, if it goes whole
    /// and under the next number, and there is nothing else to choose from.
    pub(crate) fn follow(
        &mut self,
        now: Mono,
        store: &mut Store,
        flow: Flow,
        room: Room,
    ) -> Option<MessageKey> {
        let (r, s) = room.open?;
        if self.holds
            || self.binds_ahead
            || !self.lost.is_empty()
            || !self.queue.goes_on(flow)
            || self.must_ask()
        {
            return None;
        }
        let key = self.queue.front(flow)?;
        let left = self.window_left();
        let letter = store.get_mut(key)?;
        self.foresee_place(key, letter);
        let len = letter.wire_len();
        let fits = if self.has_own_window(letter) {
            self.lanes.may_open(now, letter.lane, len)
        } else {
            len <= left
        };
        let lone = letter.bound.is_none() && !letter.is_cut() && letter.bundle().is_none();
        let whole = lone && fits && !letter.is_large();
        let open = self.sender.as_ref().and_then(Sender::next_envelope) == Some((s, r));
        if !whole || !open || !room.takes_whole(len, s, r) {
            return None;
        }
        self.send_whole(now, flow, key, letter)
    }

    /// Large messages of one flow take turns. A message that is sent in full leaves the queue.
    fn settle_turn(&mut self, flow: Flow, letter: &mut Letter) {
        if letter.is_sent() {
            letter.queued = false;
            self.queue.pop(flow);
        } else if flow.is_large() {
            self.queue.rotate(flow);
        }
    }

    fn cut_new(&mut self, now: Mono, key: MessageKey, letter: &mut Letter, room: Room) -> Cut {
        if letter.bundle().is_some() {
            return Cut::NoRoom;
        }
        let (total, said) = (letter.wire_len(), letter.said_len());
        let available = letter.available();
        let limit = if letter.is_large() { self.limits.body_window } else { total };
        if let (Some(halves), Some((s, r))) = (letter.halves.as_mut(), letter.bound) {
            let rest = halves.at()..total;
            match room.cut(said, rest.clone(), s, r) {
                None => return Cut::NoRoom,
                Some(range) if range == rest => {
                    halves.sent = true;
                    return Cut::Range(s, r, rest);
                }
                Some(_) => {}
            }
        }
        if !letter.is_cut() {
            letter.fragments = Some(Box::new(Fragments::new(total, limit)));
        }
        let place = letter.bound.or_else(|| self.sender.as_ref().and_then(Sender::next_envelope));
        let ready = letter.parts_mut().and_then(|fragments| fragments.next(u64::MAX, available));
        let (Some(ready), Some((s, r))) = (ready, place) else {
            return Cut::Parked;
        };
        let Some(range) = room.cut(said, ready, s, r) else {
            return Cut::NoRoom;
        };
        if letter.bound.is_none() {
            self.bind(now, key, letter);
        }
        let Some((s, r)) = letter.bound else {
            return Cut::Parked;
        };
        let range = range.start..range.start + letter.part_len(range);
        if let Some(fragments) = letter.fragments.as_mut() {
            fragments.sent(range.clone());
        }
        Cut::Range(s, r, range)
    }
}

enum Cut {
    Range(Slot, Incarnation, Range<u64>),
    NoRoom,
    Parked,
}
