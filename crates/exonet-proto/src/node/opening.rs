//! The opening that this node has begun to a peer and that waits for its answer.

use core::net::SocketAddr;
use core::time::Duration;

use crate::crypto::{Cookie, Initiator, MAC_LEN, OpeningMac};
use crate::time::Mono;
use crate::wire::{self, ChannelIndex};

/// An opening is repeated after this, doubling up to the other.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(4);
/// RETRYs obeyed at most for a copy that leaves in its time: some may be forged by who has seen the opening.
const MAX_RETRIES: u8 = 3;

/// Noise message 1, encrypted once: every copy is the same to the byte, but for mac2.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) initiator: Initiator,
    pub(super) index: ChannelIndex,
    /// Our base of numbers in this epoch.
    pub(super) base: u64,
    datagram: Vec<u8>,
    mac1: [u8; MAC_LEN],
    attempts: u32,
    retries: u8,
    /// The next copy leaves for a RETRY's sake.
    obeying: bool,
    next_at: Mono,
    /// When the only copy left; None: there are several, and which of them was answered is not known.
    only_at: Option<Mono>,
    /// Where copies have gone, the latest last.
    sent_to: Vec<SocketAddr>,
}

impl Opening {
    /// `datagram` is the opening up to mac1.
    pub(super) fn new(
        now: Mono,
        initiator: Initiator,
        index: ChannelIndex,
        base: u64,
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
            datagram,
            mac1,
            attempts: 0,
            retries: 0,
            obeying: false,
            next_at: now,
            only_at: None,
            sent_to: Vec::new(),
        }
    }

    pub(super) const fn mac1(&self) -> &[u8; MAC_LEN] {
        &self.mac1
    }

    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.next_at <= now
    }

    pub(super) const fn next_at(&self) -> Mono {
        self.next_at
    }

    /// How long the answer that arrives at `now` took, as far as that is certain.
    pub(super) fn round_trip(&self, now: Mono) -> Option<Duration> {
        self.only_at.map(|left| now.since(left))
    }

    /// The address whose answer came from `remote`: that one if a copy went there, else the latest.
    pub(super) fn target_for(&self, remote: SocketAddr) -> Option<SocketAddr> {
        let known = self.sent_to.iter().find(|target| **target == remote);
        known.or(self.sent_to.last()).copied()
    }

    /// How often it has gone to each of `targets` addresses.
    pub(super) fn rounds(&self, targets: usize) -> u32 {
        self.attempts / u32::try_from(targets).unwrap_or(u32::MAX).max(1)
    }

    /// A copy for the next of the `targets`, which are tried in turn. `jitter` is random.
    pub(super) fn emit(
        &mut self,
        now: Mono,
        targets: &[SocketAddr],
        jitter: u8,
    ) -> Option<(SocketAddr, &[u8])> {
        let count = u32::try_from(targets.len()).ok().filter(|count| *count > 0)?;
        let target = targets.get((self.attempts % count) as usize)?;
        let round = (self.attempts / count).min(8);
        let wait = FIRST_RETRY.saturating_mul(1 << round).min(LAST_RETRY) / count;
        self.only_at = self.sent_to.is_empty().then_some(now);
        self.attempts = self.attempts.saturating_add(1);
        if !std::mem::take(&mut self.obeying) {
            self.retries = 0;
        }
        self.sent_to.retain(|known| known != target);
        self.sent_to.push(*target);
        self.next_at = now + wait + wait * u32::from(jitter) / 1_024;
        Some((*target, &self.datagram))
    }

    /// The receiver wants proof of address: the copies that follow bear it, the first at once.
    pub(super) fn obey(&mut self, now: Mono, cookie: &Cookie) {
        if self.retries >= MAX_RETRIES {
            return;
        }
        self.retries += 1;
        self.obeying = true;
        let body = self.datagram.len().saturating_sub(MAC_LEN);
        let mac2 = OpeningMac::mac2(cookie, self.datagram.get(..body).unwrap_or_default());
        self.datagram.truncate(body);
        self.datagram.extend_from_slice(&mac2);
        self.attempts = self.attempts.saturating_sub(1);
        self.next_at = now;
    }

    /// Try at once: the network may be back.
    pub(super) fn hurry(&mut self, now: Mono) {
        self.attempts = 0;
        self.next_at = self.next_at.min(now);
    }
}

/// The payload is padded so that the datagram has the least length of an opening.
pub(super) const PAYLOAD: usize = wire::MIN_OPENING_PAYLOAD;
