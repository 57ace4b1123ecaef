//! What a sender record asks the peer for: envelopes, and the fate of tokens.

use core::time::Duration;

use super::{MAX_BACKOFF, Outbound, PROBES, STANDBY, TRIALS};
use crate::half::{Ask, Clock, Sender};
use crate::id::{Incarnation, Slot, Stamp};
use crate::message::{MessageKey, Store};
use crate::time::Mono;

impl Outbound {
    /// How many envelopes on standby are wanted: twice the bandwidth-delay product in messages.
    fn standby(&self, window: u64) -> u64 {
        let mean = if self.letters == 0 { 512 } else { (self.bytes / self.letters as u64).clamp(32, 1_200) };
        (2 * window / mean).clamp(STANDBY.start, STANDBY.end)
    }

    /// The ASK to send now, if one is due. `window` is the congestion window in bytes.
    pub(crate) fn ask(&mut self, now: Mono, clock: &mut Clock, window: u64, pto: Duration) -> Option<Ask> {
        let standby = self.standby(window);
        let unbound = self.unbound;
        let sender = self.sender.as_mut()?;
        let ask = sender.ask(clock, unbound, standby);
        self.ask_due = false;
        self.early_due = ask.is_some_and(|ask| ask.ts.is_some());
        if ask.is_none() && std::mem::take(&mut self.frontier_due) {
            // There is nothing to ask for, but the peer need not keep some messages any more.
            let l = sender.frontier();
            self.ask_at = Mono::NEVER;
            return Some(self.within_safe(Ask { s: l, n: 0, l, ts: Stamp::NONE }));
        }
        self.frontier_due = false;
        if ask.is_some() {
            self.ask_at = now + self.ask_backoff.next(pto, self.most);
        } else {
            self.ask_at = Mono::NEVER;
        }
        ask.map(|ask| self.within_safe(ask))
    }

    /// Keeps an ASK from passing a slot whose end a crash could undo.
    fn within_safe(&self, ask: Ask) -> Ask {
        let l = self.first_unsafe_end().map_or(ask.l, |end| ask.l.min(end));
        Ask { l, ..ask }
    }

    /// Whether envelopes run low enough to ask for more. The node does not ask for what the clock does not allow: the same ASK
    /// would leave in every packet.
    pub(crate) fn wants_envelopes(&self, clock: &Clock, window: u64) -> bool {
        let more = |sender: &&Sender<MessageKey>| self.letters > 0 && sender.hi() < clock.limit();
        let Some(sender) = self.sender.as_ref().filter(more) else {
            return false;
        };
        let held = sender.envelopes().saturating_add(sender.ungranted());
        held < self.unbound.saturating_add(self.standby(window) / 2)
    }

    /// A STATE has been processed. `advanced`: it granted something.
    pub(crate) fn on_state(&mut self, now: Mono, advanced: bool, settled: bool, wait: Duration) {
        // The STATE may have ended the envelopes of an incarnation that does not exist any more.
        let starves =
            |sender: &Sender<MessageKey>| self.unbound > 0 && sender.envelopes() + sender.ungranted() == 0;
        self.ask_due |= self.sender.as_ref().is_some_and(starves);
        if advanced {
            self.ask_backoff.reset();
            let open = self.sender.as_ref().is_some_and(|sender| sender.ungranted() > 0);
            self.ask_at = if open { now + wait } else { Mono::NEVER };
        }
        if settled {
            self.no_room = false;
            self.probe_backoff.reset();
            let sender = self.sender.as_ref().filter(|sender| !sender.is_idle());
            self.probe_at = sender.map_or(Mono::NEVER, |_| now + wait);
            self.overdue_at = match sender {
                None => Mono::NEVER,
                // Later messages that settle put off the probe, but not that of a message that they have overtaken.
                Some(sender) if self.overdue_at != Mono::NEVER && sender.frontier() < self.overdue_below => {
                    self.overdue_at
                }
                Some(sender) => {
                    self.overdue_below = sender.e();
                    now + self.overdue_backoff.peek(wait, MAX_BACKOFF)
                }
            };
        }
    }

    /// The peer is another process now, or says so. The slots granted by the former process are given up: messages bound to them
    /// would end Unknown.
    pub(crate) fn renounce(&mut self) {
        self.no_room = false;
        if let Some(sender) = self.sender.as_mut() {
            sender.renounce();
            self.ask_due |= self.unbound > 0;
        }
    }

    /// The peer is another process now: asks at once for the fate of the tokens, and sends what the former process may have held.
    pub(crate) fn on_restart(&mut self, now: Mono, store: &mut Store) {
        self.renounce();
        self.send_acked_again(store);
        self.hasten(now);
    }

    /// What was asked and not answered is asked again at once.
    pub(crate) fn hasten(&mut self, now: Mono) {
        self.ask_backoff.reset();
        self.probe_backoff.reset();
        self.caller.hurry(now);
        self.revoke_soon(now);
        if self.sender.as_ref().is_some_and(|sender| !sender.is_idle()) {
            self.probe_at = now;
        }
    }

    pub(super) fn arm_probe(&mut self, now: Mono, wait: Duration) {
        if self.probe_at == Mono::NEVER {
            self.probe_at = now + self.probe_backoff.peek(wait, self.most_between_probes().max(wait));
        }
    }

    /// A peer without room is not asked more often on a path that loses: what it answers is not lost.
    fn most_between_probes(&self) -> Duration {
        if self.no_room { MAX_BACKOFF } else { self.most }
    }

    /// The peer has nothing of a message that it acknowledged: it had no room. True if the message may go again now. While the
    /// peer has room for none, few messages go between two probes, so that they do not load the path in vain.
    pub(super) fn found_no_room(&mut self, s: Slot) -> bool {
        self.no_room = true;
        let may = self.trials > 0;
        if may {
            self.trials -= 1;
            self.overdue_backoff.reset();
            // The next probe begins behind it: messages that never fit do not keep others from their turn.
            self.probe_from = Slot(s.0 + 1);
        }
        may
    }

    /// Acts on the passing of time. `wait` is two probe timeouts.
    pub(crate) fn on_timeout(&mut self, now: Mono, store: &Store, wait: Duration, most: Duration) {
        self.most = most.min(MAX_BACKOFF);
        self.caller.on_timeout(now, wait, self.most);
        self.revoke_again(now, store, wait);
        if self.ask_at <= now {
            self.ask_at = Mono::NEVER;
            self.ask_due = true;
        }
        if self.probe_at <= now {
            self.probe_at = Mono::NEVER;
            self.choose_probes(store, Slot(u64::MAX));
            if !self.probes.is_empty() {
                self.probe_at = now + self.probe_backoff.next(wait, self.most_between_probes());
            }
            // This round looks at all of them, those overtaken too.
            if self.overdue_at != Mono::NEVER {
                self.overdue_at = now + MAX_BACKOFF;
            }
        } else if self.overdue_at <= now {
            self.choose_probes(store, self.overdue_below);
            self.overdue_at = Mono::NEVER;
            if !self.probes.is_empty() {
                self.overdue_at = now + self.overdue_backoff.next(wait, MAX_BACKOFF);
            }
            // What is bound by now is overdue the next time.
            self.overdue_below = self.sender.as_ref().map_or(Slot(0), Sender::e);
        }
    }

    /// A request, or its answer, may be lost: asks now about tokens that are acknowledged and not claimed by a STATE,
    /// unless the peer has no room.
    pub(crate) fn ask_again(&mut self, now: Mono) {
        if self.probe_at != Mono::NEVER && !self.no_room {
            self.probe_at = self.probe_at.min(now);
        }
    }

    /// Chooses the next few tokens below `below`, in turn, that are acknowledged and that no STATE has claimed.
    fn choose_probes(&mut self, store: &Store, below: Slot) {
        self.probes.clear();
        self.trials = if self.no_room { TRIALS } else { PROBES };
        let Some(sender) = self.sender.as_ref() else {
            return;
        };
        let acked = |(_, _, key): &(Slot, Incarnation, &MessageKey)| {
            store.get(**key).is_some_and(|l| l.is_acked(**key))
        };
        let from = self.probe_from;
        let tokens = || sender.tokens().take_while(|(s, ..)| *s < below);
        let later = tokens().filter(|(s, ..)| *s >= from);
        let earlier = tokens().filter(|(s, ..)| *s < from);
        self.probes.extend(later.chain(earlier).filter(acked).take(PROBES).map(|(s, r, _)| (s, r)));
        self.probe_from = self.probes.back().map_or(Slot(0), |(s, _)| Slot(s.0 + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_find_no_room_take_turns() {
        let (mut out, store) = (Outbound::new(Mono(0), false), Store::default());
        assert!((0..20).all(|s| out.found_no_room(Slot(s))), "the first time, all go again");
        out.choose_probes(&store, Slot(u64::MAX));
        let tried = |out: &mut Outbound| (40..60).filter(|s| out.found_no_room(Slot(*s))).count();
        assert_eq!(
            (tried(&mut out), out.probe_from),
            (TRIALS, Slot(44)),
            "the next probe begins with the others"
        );
        assert_eq!(tried(&mut out), 0, "before that, none goes again");
        out.renounce();
        out.choose_probes(&store, Slot(u64::MAX));
        assert_eq!(tried(&mut out), 20, "another process may have room");
    }
}
