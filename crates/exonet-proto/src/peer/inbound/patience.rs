//! How long the record of a silent peer is kept, and when the peer is reminded of it.

use core::time::Duration;

use super::{Delivered, Inbound, MAX_BACKOFF, MIN_BACKOFF, STATE_EVERY};
use crate::config::Config;
use crate::half::{Clock, Receiver};
use crate::time::Mono;

impl Inbound {
    /// Something authentic has come from the peer: the peer lives.
    pub(crate) fn heard(&mut self, now: Mono) {
        self.heard_at = now;
    }

    /// When the peer was last heard.
    pub(crate) const fn heard_at(&self) -> Mono {
        self.heard_at
    }

    /// The node was itself absent for `absence`: this does not count as silence of its peers.
    pub(crate) fn excuse(&mut self, now: Mono, absence: Duration) {
        self.heard_at = now.min(self.heard_at + absence);
    }

    /// The peer has asked or sent: the record is in use. `wait` is three probe timeouts.
    pub(crate) fn engaged(&mut self, now: Mono, wait: Duration) {
        let wait = wait.max(MIN_BACKOFF);
        self.reminding = false;
        self.remind_after.set(wait);
        self.remind_at = if self.receiver.is_some() { now + wait } else { Mono::NEVER };
    }

    /// Whether only calls, and at least one, may have come under the record. Once they have ended, it may be a caller's record.
    fn may_be_callers(&self) -> bool {
        match self.delivered {
            Delivered::Nothing => !self.partial.is_empty() || !self.pending.is_empty(),
            Delivered::Calls => true,
            Delivered::Messages => false,
        }
    }

    /// Whether the record belongs to a caller that may be gone: only calls have come under it, at least one, and each has ended
    /// here, except those that came in part. The node waits much longer for a peer that sends messages.
    pub(crate) fn is_callers(&self) -> bool {
        let calls = self.partial.len() == self.calls_in_part && self.pending.is_empty();
        self.receiver.is_some() && self.may_be_callers() && calls && self.server.is_empty()
    }

    /// How long the peer may be silent before its record is dropped.
    fn patience(&self, config: &Config) -> Duration {
        if self.is_callers() { config.caller_patience.min(config.dead_after) } else { config.dead_after }
    }

    /// The longest time between two reminders. The patience may shrink before the next reminder.
    pub(super) fn slowest(&self, config: &Config) -> Duration {
        let Config { dead_after, caller_patience, .. } = *config;
        let patience = if self.may_be_callers() { caller_patience.min(dead_after) } else { dead_after };
        (patience / 4).clamp(MIN_BACKOFF, MAX_BACKOFF)
    }

    /// Acts on the passing of time. True if the record died with its peer and was evicted.
    pub(crate) fn on_timeout(&mut self, now: Mono, clock: &mut Clock, config: &Config) -> bool {
        if self.remind_at <= now {
            self.owe_state(now);
            self.reminding = true;
            if self.is_closing() {
                self.remind_after.set(self.closed_again.max(STATE_EVERY));
            } else {
                self.remind_after.next(MIN_BACKOFF, self.slowest(config));
            }
            self.remind_at = now + self.remind_after.last();
        }
        self.drop_if_passed();
        let dead = self.receiver.is_some() && self.heard_at + self.patience(config) <= now;
        dead && self.evict(clock)
    }

    /// Drops a record that the sender has passed. A record that is only drained is kept: it knows that its messages were
    /// delivered, when `b` may not tell that any more. True if it was dropped.
    pub(crate) fn drop_if_passed(&mut self) -> bool {
        let passed = self.receiver.as_ref().is_some_and(Receiver::is_passed);
        if passed && !self.state_owed() {
            self.drop_record();
            return true;
        }
        false
    }

    fn drop_record(&mut self) {
        self.receiver = None;
        self.clear();
        self.remind_at = Mono::NEVER;
    }

    /// Forgets the record though slots are free. True if some were free; otherwise the record is dropped, and other peers are not
    /// affected.
    pub(crate) fn evict(&mut self, clock: &mut Clock) -> bool {
        let Some(record) = self.receiver.take() else {
            return false;
        };
        let drained = record.is_drained();
        if !drained {
            record.evict(&mut self.bound, clock);
        }
        self.drop_record();
        !drained
    }

    /// The peer has never proven that it is there: forgets everything that it asked for. True if a record was evicted.
    pub(crate) fn renounce(&mut self, clock: &mut Clock) -> bool {
        self.wants = None;
        self.state_sent();
        self.evict(clock)
    }

    /// When time next changes something. `connected`: STATEs that are owed can leave, and wait for other frames until
    /// `ride_until`.
    pub(crate) fn deadline(&self, config: &Config, connected: bool, ride_until: Mono) -> Mono {
        let may_leave = connected && !self.unsaid.is_mute();
        let owed = if may_leave { self.state_at.max(ride_until) } else { Mono::NEVER };
        let dead = if self.receiver.is_some() { self.heard_at + self.patience(config) } else { Mono::NEVER };
        owed.min(self.remind_at).min(dead).min(self.server.deadline())
    }

    /// Whether nothing is held for the peer, and nothing that could leave is owed to it.
    pub(crate) fn is_empty(&self, connected: bool) -> bool {
        self.receiver.is_none()
            && self.unsaid.is_empty()
            && self.wants.is_none()
            && self.server.is_empty()
            && !(connected && self.state_owed())
    }
}
