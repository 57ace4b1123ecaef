//! The fate of what was sent, as the channel and HAVE report it.

use core::ops::Range;
use core::time::Duration;

use super::Outbound;
use crate::account::Account;
use crate::id::{Incarnation, Slot};
use crate::message::{Fragments, Letter, MessageKey, Store};
use crate::peer::epoch::Carried;
use crate::peer::piece::Piece;
use crate::time::Mono;

impl Outbound {
    /// Every message of `s..s+n` was carried whole under `r`, and the packet was acknowledged.
    pub(crate) fn on_acked(
        &mut self,
        now: Mono,
        store: &mut Store,
        r: Incarnation,
        s: Slot,
        n: u64,
        wait: Duration,
    ) {
        let mut run = s.0..s.0.saturating_add(n);
        self.lost.remove_range(run.clone());
        // Messages that a STATE has settled meanwhile, usually all, are passed over at once.
        let Some(sender) = self.sender.as_ref() else { return };
        let mut waits = false;
        while let Some((s, key)) = sender.tokens_in(run.clone(), r).next() {
            waits = true;
            let letter = store.get_mut(*key);
            let n = letter.map_or(1, |letter| letter.note_acked(*key, run.end - s.0));
            run.start = s.0 + u64::from(n);
        }
        if waits {
            self.arm_probe(now, wait);
        }
    }

    pub(crate) fn on_fragment_acked(
        &mut self,
        now: Mono,
        store: &mut Store,
        r: Incarnation,
        s: Slot,
        range: Range<u64>,
        wait: Duration,
    ) {
        let Some((_, letter)) = self.letter_of(store, s, r) else {
            return;
        };
        let whole_part = letter.halves.as_mut().is_some_and(|halves| halves.acked(&range));
        if !whole_part {
            let Some(fragments) = letter.parts_mut() else {
                return debug_assert!(false, "a part was sent of it");
            };
            fragments.acked(range);
        }
        if letter.is_spent() {
            letter.acked = true;
            self.arm_probe(now, wait);
        }
    }

    /// The application wrote to a message: perhaps more than there is room for, though everything sent has arrived.
    pub(crate) fn on_written(&mut self, now: Mono, letter: &mut Letter, wait: Duration) {
        letter.acked = letter.is_spent();
        if letter.acked {
            self.arm_probe(now, wait);
        }
    }

    pub(crate) fn on_lost(&mut self, store: &mut Store, r: Incarnation, s: Slot, n: u64) {
        for number in s.0..s.0.saturating_add(n) {
            let Some((key, letter)) = self.letter_of(store, Slot(number), r) else {
                continue;
            };
            if letter.is_acked(key) {
                continue;
            }
            if let Some(fragments) = letter.parts_mut() {
                fragments.lost(0..u64::MAX);
            }
            self.lost.insert(number..number + 1);
        }
    }

    /// A piece did not fit into the packet after all.
    pub(crate) fn take_back(&mut self, store: &mut Store, piece: &Piece) {
        match piece {
            Piece::Whole { s, r, .. } => self.on_lost(store, *r, *s, 1),
            Piece::Fragment { s, r, range, .. } => self.on_fragment_lost(store, *r, *s, range.clone()),
        }
    }

    pub(crate) fn on_fragment_lost(&mut self, store: &mut Store, r: Incarnation, s: Slot, range: Range<u64>) {
        let Some((_, letter)) = self.letter_of(store, s, r) else {
            return;
        };
        if letter.parts_mut().is_some_and(|fragments| fragments.lost(range)) {
            self.lost.insert(s.0..s.0 + 1);
        }
    }

    /// Copies what has waited longest into probes: as many messages as there are probes, from the oldest packets under way.
    pub(crate) fn probe(
        &mut self,
        store: &mut Store,
        packets: impl Iterator<Item = impl Iterator<Item = Carried>>,
        probes: u32,
    ) {
        for items in packets {
            self.send_again(store, items);
            if self.lost.count() >= u64::from(probes) {
                return;
            }
        }
    }

    /// Whether something was lost and has not been sent again.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Sends the messages of a packet again, unless they have arrived.
    pub(crate) fn send_again(&mut self, store: &mut Store, items: impl Iterator<Item = Carried>) {
        for item in items {
            match item {
                Carried::Messages { r, s, n } => self.on_lost(store, r, s, u64::from(n)),
                Carried::Fragment { r, s, offset, len } => {
                    self.on_fragment_lost(store, r, s, offset..offset + u64::from(len));
                }
                Carried::Ask => self.ask_due = true,
                _ => {}
            }
        }
    }

    /// Sends all messages again that are acknowledged and in doubt: the process that acknowledged them is gone, with all that its
    /// application had not taken. Probes would find that out too, but only for a few messages at a time. Large messages are left to
    /// them, since HAVE says from where such a message goes on.
    pub(super) fn send_acked_again(&mut self, store: &mut Store) {
        let Some(sender) = self.sender.as_ref() else { return };
        for (s, _, key) in sender.tokens() {
            let letter = store.get_mut(*key).filter(|letter| letter.is_acked(*key) && !letter.is_large());
            let Some(letter) = letter else { continue };
            letter.note_missed(*key);
            (letter.halves, letter.fragments) = (None, None);
            self.lost.insert(s.0..s.0 + 1);
        }
    }

    pub(super) fn letter_of<'a>(
        &self,
        store: &'a mut Store,
        s: Slot,
        r: Incarnation,
    ) -> Option<(MessageKey, &'a mut Letter)> {
        let (bound, key) = self.sender.as_ref()?.token(s)?;
        if bound != r { None } else { store.get_mut(*key).map(|letter| (*key, letter)) }
    }

    /// HAVE: the window of a large message, or the answer to a probe of an incomplete message.
    pub(crate) fn on_have(
        &mut self,
        now: Mono,
        store: &mut Store,
        (s, r): (Slot, Incarnation),
        (prefix, limit): (u64, u64),
        ranges: impl Iterator<Item = Range<u64>>,
        wait: Duration,
    ) -> Had {
        let token = self.sender.as_ref().and_then(|sender| sender.token(s));
        let Some(key) = token.filter(|(bound, _)| *bound == r).map(|(_, key)| *key) else {
            return Had::Nothing;
        };
        let Some(letter) = store.get_mut(key) else { return Had::Nothing };
        let back = letter.parts_mut().and_then(|fragments| fragments.given_back(now, prefix, wait));
        if let Some(certain) = back {
            return self.on_given_back(now, key, letter, s, certain, wait);
        }
        let head = letter.head_len();
        let probed = letter.is_acked(key);
        let mut ranges = ranges.peekable();
        if probed && prefix == 0 && ranges.peek().is_none() && !self.found_no_room(s) {
            return Had::Nothing;
        }
        letter.note_missed(key);
        let kept = letter.source.kept();
        let trial = letter.trial();
        let (mut again, mut passed) = (false, Vec::new());
        match letter.fragments.as_mut() {
            Some(fragments) => {
                if fragments.window(prefix, limit) {
                    self.no_room = false;
                }
                again = probed && fragments.have_only(prefix, ranges, trial) || fragments.has_lost();
                passed = letter.source.release(fragments.held().saturating_sub(head));
                letter.acked = letter.is_spent();
            }
            None => again |= probed,
        }
        self.bytes.give_back(kept - letter.source.kept());
        if again {
            self.lost.insert(s.0..s.0 + 1);
        }
        if letter.fragments.is_some() {
            self.enqueue(key, letter);
        }
        passed.into_iter().for_each(|chunk| store.let_go(chunk));
        Had::Progress(key)
    }

    /// The receiver no longer holds what it held: its application has given the message back.
    fn on_given_back(
        &mut self,
        now: Mono,
        key: MessageKey,
        letter: &mut Letter,
        s: Slot,
        certain: bool,
        wait: Duration,
    ) -> Had {
        if !certain {
            letter.acked = true;
            self.arm_probe(now, wait);
            return Had::Nothing;
        }
        if !letter.source.is_intact() {
            return Had::Gone(key);
        }
        letter.acked = false;
        letter.fragments = Some(Box::new(Fragments::new(letter.wire_len(), self.limits.body_window)));
        self.lost.remove(s.0);
        self.enqueue(key, letter);
        Had::Progress(key)
    }
}

/// The effect of a HAVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Had {
    Nothing,
    /// The window of this message may have moved.
    Progress(MessageKey),
    /// This message would have to be sent again from its start, which is not kept any more.
    Gone(MessageKey),
}
