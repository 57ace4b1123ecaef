//! Messages that leave beside an opening (PROTOCOL.md "Early messages").

use super::Outbound;
use crate::account::Account;
use crate::half::{Clock, Sender};
use crate::id::{Incarnation, Slot, Stamp};
use crate::journal::Position;
use crate::message::{Early, Flow, Letter, MessageKey, Store};
use crate::time::Mono;
use crate::wire::Role;

/// The most messages that leave with an opening.
const MAX_EARLY: usize = 32;

impl Outbound {
    /// Binds the first messages of the queue, as many as fit into `room` bytes, before anything is granted, if nothing else is
    /// under way. `all`: messages that leave the choice to the node may go too. Returns their number.
    pub(crate) fn bind_early(
        &mut self,
        now: Mono,
        clock: &mut Clock,
        store: &mut Store,
        ts: Stamp,
        all: bool,
        room: usize,
    ) -> u64 {
        let idle = |sender: &&Sender<_>| sender.is_idle() && self.ends.is_empty();
        let Some(sender) = self.sender.as_ref().filter(idle) else { return 0 };
        let keys = self.first(store, all, room as u64);
        let numbers = clock.limit().0.saturating_sub(clock.ck().max(sender.hi().0));
        if keys.is_empty() || numbers < keys.len() as u64 {
            return 0;
        }
        Sender::close(&mut self.sender, clock);
        self.sender = Sender::open_early(clock, ts, keys.iter().copied());
        let Some(sender) = self.sender.as_ref() else {
            self.sender = Some(Sender::open(clock));
            return 0;
        };
        let mut opened = Vec::new();
        for (s, key) in sender.early() {
            let Some(letter) = store.get_mut(*key) else { continue };
            self.queue.remove(letter.flow(), letter.lane, *key);
            letter.queued = false;
            letter.bound = Some((s, Incarnation::UNNAMED));
            letter.bound_at = now;
            if letter.role == Role::Call {
                self.caller.bound(s, *key);
            }
            opened.push((letter.lane, letter.pooled()));
        }
        opened.into_iter().for_each(|(lane, load)| self.note_open(lane, load));
        self.unbound.give_back(keys.len() as u64);
        keys.len() as u64
    }

    /// The first messages of the queue that may leave early and that fit into `room` bytes.
    fn first(&self, store: &Store, all: bool, mut room: u64) -> Vec<MessageKey> {
        let mut keys = Vec::new();
        for flow in (0..).map_while(Flow::at) {
            for key in self.queue.iter(flow) {
                let Some(letter) = store.get(key) else { continue };
                let may = match letter.early {
                    // A message with a deadline needs certainty, and a message that has left early is in doubt.
                    Early::AsNode => all && letter.deadline.is_none(),
                    Early::Yes => true,
                    Early::No => false,
                };
                let len = letter.wire_len().saturating_add(2);
                if !may
                    || matches!(letter.role, Role::Stream(_))
                    || letter.is_large()
                    || letter.bound.is_some()
                    || letter.bundle().is_some()
                    || len > room
                    || keys.len() == MAX_EARLY
                {
                    return keys;
                }
                room -= len;
                keys.push(key);
            }
        }
        keys
    }

    /// Early messages have met a live record: they are now tokens of it, and their bodies leave (again).
    pub(crate) fn on_converted(
        &mut self,
        store: &mut Store,
        converted: &[(Slot, Incarnation)],
        mut journal: impl FnMut(&Letter) -> Position,
    ) {
        for (s, r) in converted {
            let Some((key, letter)) = self.letter_of(store, *s, *r) else { continue };
            letter.bound = Some((*s, *r));
            let at = journal(letter);
            self.hold(at, *s, key, letter);
        }
    }

    /// The messages that left early were lost.
    pub(crate) fn send_early_again(&mut self) {
        let open = self.sender.as_ref().is_some_and(|sender| sender.stamp().is_some());
        self.ask_due |= open;
        self.early_due |= open;
    }
}
