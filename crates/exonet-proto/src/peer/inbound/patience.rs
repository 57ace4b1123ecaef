//! How long a record is kept whose peer is silent, and when the peer is reminded of it.

use core::time::Duration;

use super::{Delivered, Inbound, MAX_BACKOFF, MIN_BACKOFF, STATE_EVERY};
use crate::config::Config;
use crate::half::{Clock, Receiver};
use crate::time::Mono;

impl Inbound {
    /// Something authentic has come from the peer: it lives.
    pub(crate) fn heard(&mut self, now: Mono) {
        self.heard_at = now;
    }

    /// When the peer was last heard.
    pub(crate) const fn heard_at(&self) -> Mono {
        self.heard_at
    }

    /// The node was not there itself for so long: that was no silence of its peers.
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

    /// Nothing but calls may have come under the record, one at least: it may be a caller's when they are over.
    fn may_be_callers(&self) -> bool {
        match self.delivered {
            Delivered::Nothing => !self.partial.is_empty() || !self.pending.is_empty(),
            Delivered::Calls => true,
            Delivered::Messages => false,
        }
    }

    /// The record is that of a caller that may be gone: nothing but calls has come under it, at least one, and each has
    /// ended here but for those that came in part. A peer that sends messages is waited for much longer.
    pub(crate) fn is_callers(&self) -> bool {
        let calls = self.partial.len() == self.calls_in_part && self.pending.is_empty();
        self.receiver.is_some() && self.may_be_callers() && calls && self.server.is_empty()
    }

    /// How long the peer may be silent before its record goes.
    fn patience(&self, config: &Config) -> Duration {
        if self.is_callers() { config.caller_patience.min(config.dead_after) } else { config.dead_after }
    }

    /// The longest time between two reminders. Patience may shrink before the next.
    pub(super) fn slowest(&self, config: &Config) -> Duration {
        let Config { dead_after, caller_patience, .. } = *config;
        let patience = if self.may_be_callers() { caller_patience.min(dead_after) } else { dead_after };
        (patience / 4).clamp(MIN_BACKOFF, MAX_BACKOFF)
    }

    /// What time alone brings about. True when the record died with its peer and was evicted.
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

    /// Drops a record that the sender has passed. One that is only drained stays: it knows that its messages were
    /// delivered, when `b` may not tell any more. True when it did.
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

    /// Forgets the record though slots are free. True when some were: else it is dropped, and others need not feel it.
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

    /// The peer has never proven to be there: whatever it asked for is forgotten. True when a record was evicted.
    pub(crate) fn renounce(&mut self, clock: &mut Clock) -> bool {
        self.wants = None;
        self.state_sent();
        self.evict(clock)
    }

    /// `connected`: what is owed can leave, and waits for company until `ride_until`.
    pub(crate) fn deadline(&self, config: &Config, connected: bool, ride_until: Mono) -> Mono {
        let may_leave = connected && !self.unsaid.is_mute();
        let owed = if may_leave { self.state_at.max(ride_until) } else { Mono::NEVER };
        let dead = if self.receiver.is_some() { self.heard_at + self.patience(config) } else { Mono::NEVER };
        owed.min(self.remind_at).min(dead).min(self.server.deadline())
    }

    /// Nothing is held for the peer, and nothing is owed that could leave.
    pub(crate) fn is_empty(&self, connected: bool) -> bool {
        self.receiver.is_none()
            && self.unsaid.is_empty()
            && self.wants.is_none()
            && self.server.is_empty()
            && !(connected && self.state_owed())
    }
}
