//! Messages in doubt that the application has withdrawn: the peer is asked about them until they have their outcome.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::Outbound;
use crate::backoff::Backoff;
use crate::half::Sender;
use crate::id::{Incarnation, Slot};
use crate::message::{Letter, MessageKey, Outcome, Store};
use crate::time::Mono;
use crate::wire::{MAX_RUN, Role, StreamMark};

/// The most REVOKEs of runs of messages at once. Other runs take their turn behind them.
const AT_ONCE: usize = 32;

/// A REVOKE, or a REVOKE_STREAM.
#[derive(Debug)]
pub(crate) struct Revoke {
    pub(crate) r: Incarnation,
    /// The first slot, and how many slots.
    pub(crate) s: Slot,
    pub(crate) n: u64,
    /// The stream, and the place of the first message in it.
    pub(crate) place: Option<(Bytes, StreamMark)>,
}

impl Revoke {
    /// Whether the message of `key` is the next of this run.
    fn goes_on(&self, r: Incarnation, s: Slot, letter: &Letter, key: MessageKey) -> bool {
        let behind = self.r == r && self.s.0 + self.n == s.0 && self.n < MAX_RUN;
        behind
            && match (&self.place, letter.role_of(key)) {
                (None, Role::Plain) => true,
                (Some((name, first)), Role::Stream(mark)) => {
                    *name == letter.tag && first.nth(self.n) == Some(mark)
                }
                _ => false,
            }
    }
}

/// The messages that are withdrawn, and the REVOKEs to send for them.
#[derive(Debug)]
pub(super) struct Revoking {
    /// The outcome of each message if it is not delivered.
    wanted: BTreeMap<Slot, Outcome>,
    due: VecDeque<Revoke>,
    from: Slot,
    at: Mono,
    backoff: Backoff,
}

impl Default for Revoking {
    fn default() -> Self {
        let (wanted, due, backoff) = (BTreeMap::new(), VecDeque::new(), Backoff::default());
        Self { wanted, due, from: Slot(0), at: Mono::NEVER, backoff }
    }
}

impl Revoking {
    /// Chooses the next few runs, in turn, of messages whose names a crash keeps.
    fn choose(&mut self, sender: &Sender<MessageKey>, store: &Store) {
        self.due.clear();
        let later = self.wanted.range(self.from..).chain(self.wanted.range(..self.from));
        for (s, _) in later {
            let Some((r, key)) = sender.token(*s) else { continue };
            let Some(letter) = store.get(*key).filter(|letter| !letter.unsafe_yet) else { continue };
            let runs = self.due.len();
            match self.due.back_mut() {
                Some(last) if last.goes_on(r, *s, letter, *key) => last.n += 1,
                _ if runs == AT_ONCE => break,
                _ => {
                    let place = match letter.role_of(*key) {
                        Role::Stream(mark) => Some((letter.tag.clone(), mark)),
                        _ => None,
                    };
                    self.due.push_back(Revoke { r, s: *s, n: 1, place });
                }
            }
        }
        self.from = self.due.back().map_or(Slot(0), |last| Slot(last.s.0 + last.n));
    }
}

impl Outbound {
    /// The message in `s` is withdrawn: it ends with `outcome` if it is not delivered. The first outcome given for it counts.
    pub(crate) fn revoke(&mut self, now: Mono, s: Slot, outcome: Outcome) {
        self.revoking.wanted.entry(s).or_insert(outcome);
        self.revoke_soon(now);
    }

    /// A withdrawn message may have a name now: asks the peer at once.
    pub(crate) fn revoke_soon(&mut self, now: Mono) {
        if !self.revoking.wanted.is_empty() {
            self.revoking.backoff.reset();
            self.revoking.at = now;
        }
    }

    /// Whether the message in `s` is withdrawn.
    pub(crate) fn is_revoked(&self, s: Slot) -> bool {
        self.revoking.wanted.contains_key(&s)
    }

    /// The message in `s` has its outcome, or has come back. Returns the outcome for which it was withdrawn, if it was.
    #[inline]
    pub(crate) fn revoked(&mut self, s: Slot) -> Option<Outcome> {
        let wanted = &mut self.revoking.wanted;
        if wanted.is_empty() { None } else { wanted.remove(&s) }
    }

    /// When REVOKEs leave (again).
    pub(super) fn revoke_at(&self) -> Mono {
        if self.revoking.wanted.is_empty() { Mono::NEVER } else { self.revoking.at }
    }

    pub(super) fn revoke_again(&mut self, now: Mono, store: &Store, wait: Duration) {
        if self.revoke_at() > now {
            return;
        }
        let Self { revoking, sender, most, .. } = self;
        revoking.at = now + revoking.backoff.next(wait, (*most).max(wait));
        if let Some(sender) = sender {
            revoking.choose(sender, store);
        }
    }

    /// Whether a REVOKE could leave.
    pub(super) fn has_revokes(&self) -> bool {
        !self.revoking.due.is_empty()
    }

    /// The next REVOKE to send.
    pub(crate) fn next_revoke(&self) -> Option<&Revoke> {
        self.revoking.due.front()
    }

    /// The next REVOKE has left.
    pub(crate) fn revoke_left(&mut self) {
        self.revoking.due.pop_front();
    }

    /// How many withdrawn messages have no outcome.
    pub(crate) fn revokes(&self) -> usize {
        self.revoking.wanted.len()
    }
}
