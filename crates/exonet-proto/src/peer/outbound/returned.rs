//! Messages that a final STATE has shown not to be taken.

use super::Outbound;
use crate::account::Account;
use crate::id::Slot;
use crate::message::lane::Load;
use crate::message::{Letter, MessageKey, Store};
use crate::wire::Role;

impl Outbound {
    /// The peer has closed its record. The peer keeps the record until the frontier has passed it.
    pub(crate) fn pass_closed(&mut self) {
        (self.ask_due, self.frontier_due) = (true, true);
    }

    /// The message of `key`, which was bound to `s`, goes back to the head of its queue as if it had never left. `withdrawn`:
    /// this node has withdrawn it.
    pub(crate) fn take_back_letter(&mut self, store: &mut Store, s: Slot, key: MessageKey, withdrawn: bool) {
        self.lost.remove(s.0);
        self.caller.ended(s);
        let Some(letter) = store.get_mut(key) else {
            return debug_assert!(false, "what is bound is there");
        };
        let role = letter.role_of(key);
        if let Some(bundle) = letter.bundle_mut() {
            if !bundle.unbind(key.at) {
                return;
            }
            self.close_open(letter.lane, letter.pooled());
        } else {
            if letter.queued {
                self.queue.remove(letter.flow(), letter.lane, key);
                self.waiting.retain(|(_, other)| *other != key);
            }
            self.leave_ahead(letter);
            letter.unsafe_yet = false;
            self.bodies.give_back(u64::from(letter.counted));
            let was_open = if letter.bound.is_some() { letter.pooled() } else { Load::default() };
            self.close_open(letter.lane, was_open);
            (letter.bound, letter.halves, letter.fragments) = (None, None, None);
            (letter.acked, letter.queued, letter.counted) = (false, false, false);
        }
        self.unbound += 1;
        if let Role::Stream(mark) = role {
            return self.come_back(store, s, key, mark, withdrawn);
        }
        self.enqueue_first(key.first(), letter);
    }

    /// As [`Outbound::enqueue`], but before all other messages of its flow.
    fn enqueue_first(&mut self, key: MessageKey, letter: &mut Letter) {
        if letter.is_large() || letter.queued || letter.available() < letter.wire_len() {
            return self.enqueue(key, letter);
        }
        letter.queued = true;
        self.queue.push_front(letter.flow(), letter.lane, key);
    }
}
