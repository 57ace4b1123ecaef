//! The probe timeout's back-off (RFC 9002, section 6.2), and a gentler one for paths that lose at random: there two or
//! three in a row are likely, and each doubling would double the wait of a sender with little to send.

use core::time::Duration;

use super::loss::Cause;
use crate::Mono;

/// Halves of a probe timeout between timeouts, from the first on, on a path that loses by chance.
const GENTLE: [u32; 13] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];

/// The same elsewhere. A timeout there says that the round trip has grown, or that somebody has more than it can take: of
/// ten thousand senders that all repeat themselves gently, each adds to it.
const DOUBLING: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Where somebody waits, and there is no overload, probes come at least this often, or once in so many probe timeouts if these
/// are longer: half a packet a round trip harms nobody, and where half is lost each way, one probe in four is answered.
const SOON: Duration = Duration::from_millis(100);
const SOON_PTOS: u32 = 4;

/// After so many timeouts in a row, chance explains nothing any more: the path is down, or the peer is away. Where losses come
/// ten at a time, each way, one silence in a hundred takes a hundred probes: both bursts end only by what is sent into them.
const fn chances(cause: Cause) -> u32 {
    match cause {
        Cause::Chance => 96,
        Cause::Unknown => 48,
        Cause::Overload => 0,
    }
}

/// The longest wait then; and in overload, or where nobody waits. None is shorter than one probe timeout.
const LATER: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(30);

/// Counts probe timeouts in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pto {
    count: u32,
    /// The last ack-eliciting packet, or the last timeout if no probe could leave.
    since: Mono,
}

impl Pto {
    /// An ack-eliciting packet leaves: the timeout starts anew (RFC 9002, section 6.2.1).
    pub(super) fn on_sent(&mut self, now: Mono) {
        self.since = self.since.max(now);
    }

    /// Ack-eliciting packets were newly acknowledged: the path works.
    pub(super) fn on_progress(&mut self) {
        self.count = 0;
    }

    /// A timeout. Returns how many there were in a row.
    pub(super) fn on_timeout(&mut self, now: Mono) -> u32 {
        self.count = self.count.saturating_add(1);
        self.since = self.since.max(now);
        self.count
    }

    /// Timeouts in a row so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// When the next timeout comes, which is `wait` after the last packet or timeout.
    #[inline]
    pub(super) fn deadline(&self, wait: Duration) -> Mono {
        self.since + wait
    }
}

/// How long the next timeout takes after `timeouts` in a row: the first `tail`, the others multiples of `pto`. `awaited`: somebody
/// waits for what is under way.
#[inline]
pub(super) fn back_off(
    timeouts: u32,
    tail: Duration,
    pto: Duration,
    cause: Cause,
    awaited: bool,
) -> Duration {
    let Some(backed_off) = timeouts.checked_sub(1) else { return tail };
    let back_off: &[u32] = if cause == Cause::Chance { &GENTLE } else { &DOUBLING };
    let most = if cause == Cause::Overload || !awaited {
        PATIENT
    } else if timeouts > chances(cause) {
        LATER
    } else {
        SOON.max(pto.saturating_mul(SOON_PTOS)).min(LATER)
    };
    let at = usize::try_from(backed_off).unwrap_or(usize::MAX).min(back_off.len() - 1);
    let halves = back_off.get(at).copied().unwrap_or(2);
    (pto.saturating_mul(halves) / 2).min(most.max(pto))
}

#[cfg(test)]
mod tests;
