//! An opening that this node has begun to a peer and that waits for its answer.

use core::net::SocketAddr;
use core::time::Duration;

use crate::channel::Pipe;
use crate::crypto::{Cookie, Initiator, MAC_LEN, OpeningMac};
use crate::id::Stamp;
use crate::time::Mono;
use crate::wire::{self, ChannelIndex};

/// Intervals between copies of an opening, doubling from the first to the last, if no message waits for the answer or the
/// receiver is loaded.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(4);
/// If messages wait for the answer, this many copies leave a round trip apart. A responder recognises a copy by its mac1, which
/// costs only a look-up. So copies may come soon, and on a path with much loss they have to.
const SOON: u32 = 12;
/// This many more copies leave two round trips apart. Where losses come ten at a time each way, one opening in a hundred needs
/// them all.
const OFTEN: u32 = 30;
/// How many round trips to wait after each further copy: the peer is away.
const LATER: [u32; 8] = [4, 6, 10, 15, 20, 30, 40, 80];
/// The least round trip that is assumed: a peer on a short path may merely be busy.
const LEAST_ROUND: Duration = Duration::from_millis(50);
/// How often news of the network may begin the waits anew.
const HASTENS: Duration = Duration::from_secs(10);
/// How many RETRYs are obeyed at most for each copy that leaves in its time: an observer of the opening may forge some.
const MAX_RETRIES: u8 = 3;

/// The least round trip that an answer to one of several copies shows.
const AMBIGUOUS: Duration = Duration::from_millis(25);

/// An opening. Noise message 1 is encrypted once: all copies are identical except for mac2.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) initiator: Initiator,
    pub(crate) index: ChannelIndex,
    /// The base of this node's numbers in this epoch.
    pub(crate) base: u64,
    /// The stamp of the early messages that it carries, or none.
    pub(crate) stamp: Stamp,
    /// When it was made: a node that answers it was alive after that.
    pub(crate) begun: Mono,
    datagram: Vec<u8>,
    mac1: [u8; MAC_LEN],
    attempts: u32,
    retries: u8,
    /// The next copy leaves because of a RETRY.
    obeying: bool,
    next_at: Mono,
    hastened_at: Option<Mono>,
    /// When the latest copy left.
    sent_at: Mono,
    /// The latest copy was not the first.
    again: bool,
    /// A RETRY came: the receiver has more openings than it can take.
    loaded: bool,
    /// Where copies have gone, the latest destination last.
    sent_to: Vec<Goal>,
}

/// The destination of a copy of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) remote: SocketAddr,
    /// The connection that takes the copy. None: the copy goes as a datagram.
    pub(crate) pipe: Option<Pipe>,
}

impl Opening {
    /// `datagram` is the opening up to mac1.
    pub(crate) fn new(
        now: Mono,
        initiator: Initiator,
        index: ChannelIndex,
        (base, stamp): (u64, Stamp),
        mut datagram: Vec<u8>,
        mac: &OpeningMac,
    ) -> Self {
        let mac1 = mac.mac1(&datagram);
        datagram.extend_from_slice(&mac1);
        datagram.extend_from_slice(&[0; MAC_LEN]);
        Self {
            initiator,
            index,
            base,
            stamp,
            begun: now,
            datagram,
            mac1,
            attempts: 0,
            retries: 0,
            obeying: false,
            next_at: now,
            hastened_at: None,
            sent_at: now,
            again: false,
            loaded: false,
            sent_to: Vec::new(),
        }
    }

    pub(crate) const fn mac1(&self) -> &[u8; MAC_LEN] {
        &self.mac1
    }

    pub(crate) fn is_due(&self, now: Mono) -> bool {
        self.next_at <= now
    }

    pub(crate) const fn next_at(&self) -> Mono {
        self.next_at
    }

    /// The address whose answer came from `from`: `from` itself if a copy went there, otherwise the latest that a datagram went
    /// to. None: this node has not sent a copy there, and the answer may itself be a copy.
    pub(crate) fn target_for(&self, from: Goal) -> Option<SocketAddr> {
        let known = self.sent_to.iter().find(|goal| **goal == from);
        let mut others = self.sent_to.iter().rev().filter(|goal| goal.pipe.is_none() && from.pipe.is_none());
        known.or_else(|| others.next()).map(|goal| goal.remote)
    }

    /// There is no path to the peer yet: the driver has been asked for one.
    pub(crate) fn postpone(&mut self, now: Mono) {
        let wait = FIRST_RETRY.saturating_mul(1 << self.attempts.min(8)).min(LAST_RETRY);
        self.attempts = self.attempts.saturating_add(1);
        self.next_at = now + wait;
    }

    /// There is another path to the peer: a copy leaves at once.
    pub(crate) fn widen(&mut self, now: Mono) {
        self.next_at = self.next_at.min(now);
    }

    /// How often the opening has gone to each of `targets` addresses.
    pub(crate) fn rounds(&self, targets: usize) -> u32 {
        self.attempts / u32::try_from(targets).unwrap_or(u32::MAX).max(1)
    }

    /// How long the answer that arrives at `now` took.
    pub(crate) fn round_trip(&self, now: Mono) -> Duration {
        round_trip(now.since(self.sent_at), self.again)
    }

    /// Emits a copy for the next of the `targets`, which are tried in turn. `jitter` is random. `eager`: messages wait for the
    /// answer, and this is the assumed round trip.
    pub(crate) fn emit(
        &mut self,
        now: Mono,
        targets: &[Goal],
        eager: Option<Duration>,
        jitter: u8,
    ) -> Option<(Goal, &[u8])> {
        let count = u32::try_from(targets.len()).ok().filter(|count| *count > 0)?;
        // A new connection that has had no copy yet goes first.
        let fresh = targets.iter().find(|goal| goal.pipe.is_some() && !self.sent_to.contains(goal));
        let target = fresh.or_else(|| targets.get((self.attempts % count) as usize))?;
        let round = self.attempts / count;
        // A connection loses no copies.
        let wait = match eager.filter(|_| !self.loaded && target.pipe.is_none()) {
            Some(rtt) => rtt.max(LEAST_ROUND).saturating_mul(eager_rounds(round)),
            None => FIRST_RETRY.saturating_mul(1 << round.min(8)),
        };
        let wait = wait.min(LAST_RETRY) / count;
        self.sent_at = now;
        self.again = !self.sent_to.is_empty();
        self.attempts = self.attempts.saturating_add(1);
        if !std::mem::take(&mut self.obeying) {
            self.retries = 0;
        }
        self.sent_to.retain(|known| known != target);
        self.sent_to.push(*target);
        self.next_at = now + wait + wait * u32::from(jitter) / 1_024;
        Some((*target, &self.datagram))
    }

    /// The receiver demands proof of address: the copies that follow carry it, the first of them at once.
    pub(crate) fn obey(&mut self, now: Mono, cookie: &Cookie) {
        if self.retries >= MAX_RETRIES {
            return;
        }
        self.retries += 1;
        self.loaded = true;
        self.obeying = true;
        let body = self.datagram.len().saturating_sub(MAC_LEN);
        let mac2 = OpeningMac::mac2(cookie, self.datagram.get(..body).unwrap_or_default());
        self.datagram.truncate(body);
        self.datagram.extend_from_slice(&mac2);
        self.attempts = self.attempts.saturating_sub(1);
        self.next_at = now;
    }

    /// The network may be back: tries again at once, or a round after the last copy. The waits begin anew, unless they have done so
    /// lately: the system may have news all the time.
    pub(crate) fn hasten(&mut self, now: Mono) {
        self.next_at = self.next_at.min(now.max(self.sent_at + LEAST_ROUND));
        if self.hastened_at.is_none_or(|last| now.since(last) >= HASTENS) {
            (self.hastened_at, self.attempts) = (Some(now), 0);
        }
    }

    /// Tries again at once: the network may be back.
    pub(crate) fn hurry(&mut self, now: Mono) {
        self.attempts = 0;
        self.next_at = self.next_at.min(now);
    }
}

/// The round trip from a handshake message to its answer. The latest copy of the message left `since` ago. If it left more than
/// once (`again`), the answer may belong to an earlier copy: then the round trip is assumed to be long enough that the node does
/// not probe at once in vain.
pub(crate) fn round_trip(since: Duration, again: bool) -> Duration {
    if again { since.max(AMBIGUOUS) } else { since }
}

/// How many round trips to wait after the copy of this round.
fn eager_rounds(round: u32) -> u32 {
    let Some(after) = round.checked_sub(SOON) else { return 1 };
    let Some(later) = after.checked_sub(OFTEN) else { return 2 };
    let at = usize::try_from(later).unwrap_or(usize::MAX).min(LATER.len() - 1);
    LATER.get(at).copied().unwrap_or(2)
}

/// The payload is padded so that the datagram has the least length of an opening.
pub(crate) const PAYLOAD: usize = wire::MIN_OPENING_PAYLOAD;
