//! The back-off of the probe timeout (RFC 9002, section 6.2), and a gentler one for paths with random loss: there two or three
//! timeouts in a row are likely, and each doubling would double the wait of a sender with little to send.

use core::time::Duration;

use super::loss::Cause;
use crate::Mono;

/// Halves of a probe timeout between timeouts, from the first on, on a path with random loss.
const GENTLE: [u32; 13] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];

/// The same for other paths. A timeout there says that the round trip has grown, or that a link or the peer has more than it can
/// take: if ten thousand senders all repeat themselves gently, each adds to it.
const DOUBLING: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// If an application waits, and there is no overload, probes come at least this often, or once in this many probe timeouts if
/// these are longer. A packet in four round trips does no harm. Where half of the packets are lost each way, one probe in four is
/// answered.
const SOON: Duration = Duration::from_millis(100);
const SOON_PTOS: u32 = 4;

/// The same for the first timeouts in a row on a path that has worked, and how many these are. A short outage, as of a radio
/// link that changes its cell, is then noticed within a 40th of a second after its end.
const BRISK: Duration = Duration::from_millis(25);
const BRISK_PTOS: u32 = 2;
const BRISK_TIMEOUTS: u32 = 16;

/// After this many consecutive timeouts, chance is no explanation any more: the path is down, or the peer is away. Where losses
/// come ten at a time each way, one silence in a hundred takes a hundred probes, since both bursts end only by the packets that
/// are sent into them.
const fn chances(cause: Cause) -> u32 {
    match cause {
        Cause::Chance => 96,
        Cause::Unknown => 48,
        Cause::Overload => 0,
    }
}

/// The longest wait after that many timeouts; and the longest wait in overload, or if no application waits. Neither is shorter
/// than one probe timeout.
const LATER: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(30);

/// Counts consecutive probe timeouts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pto {
    count: u32,
    /// As many of them as the wait for the next one backs off by.
    waits: u32,
    /// When the next one comes, if that is not by its wait.
    due: Option<Mono>,
    /// When the last ack-eliciting packet left, or when the last timeout came if no probe could leave.
    since: Mono,
    /// When the first of the consecutive timeouts came.
    first: Mono,
}

impl Pto {
    /// An ack-eliciting packet leaves: the timeout starts anew (RFC 9002, section 6.2.1).
    pub(super) fn on_sent(&mut self, now: Mono) {
        self.since = self.since.max(now);
    }

    /// Whether there were timeouts, and the first came although this packet, which is acknowledged now, had left before: its
    /// acknowledgement was late, not lost. None: there were no timeouts.
    pub(super) fn was_early(&self, sent_at: Mono) -> Option<bool> {
        (self.count > 0).then(|| sent_at < self.first)
    }

    /// Ack-eliciting packets were newly acknowledged: the path works.
    pub(super) fn on_progress(&mut self) {
        (self.count, self.waits, self.due) = (0, 0, None);
    }

    /// The network may be back: if there were timeouts in a row, the next one has come, and the waits begin anew.
    pub(super) fn hasten(&mut self, now: Mono) {
        if self.count > 0 {
            (self.waits, self.due) = (0, Some(now));
        }
    }

    /// A timeout has come. Returns how many there were in a row.
    pub(super) fn on_timeout(&mut self, now: Mono) -> u32 {
        if self.count == 0 {
            self.first = now;
        }
        self.count = self.count.saturating_add(1);
        self.waits = self.waits.saturating_add(1);
        (self.since, self.due) = (self.since.max(now), None);
        self.count
    }

    /// The number of timeouts by which the wait for the next one backs off.
    pub(super) fn waits(&self) -> u32 {
        self.waits
    }

    /// How many consecutive timeouts there were so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// When the next timeout comes: `wait` after the last packet or timeout.
    #[inline]
    pub(super) fn deadline(&self, wait: Duration) -> Mono {
        self.due.unwrap_or(self.since + wait)
    }
}

/// How long the next timeout takes after `timeouts` in a row: the first takes `tail`, the others multiples of `pto`. `awaited`:
/// an application waits for what is under way. `worked`: the path has brought an acknowledgement before.
#[inline]
pub(super) fn back_off(
    timeouts: u32,
    tail: Duration,
    pto: Duration,
    cause: Cause,
    awaited: bool,
    worked: bool,
) -> Duration {
    let Some(backed_off) = timeouts.checked_sub(1) else { return tail };
    let back_off: &[u32] = if cause == Cause::Chance { &GENTLE } else { &DOUBLING };
    let most = if cause == Cause::Overload || !awaited {
        PATIENT
    } else if timeouts > chances(cause) {
        LATER
    } else if worked && timeouts <= BRISK_TIMEOUTS {
        BRISK.max(pto.saturating_mul(BRISK_PTOS)).min(LATER)
    } else {
        SOON.max(pto.saturating_mul(SOON_PTOS)).min(LATER)
    };
    let at = usize::try_from(backed_off).unwrap_or(usize::MAX).min(back_off.len() - 1);
    let halves = back_off.get(at).copied().unwrap_or(2);
    (pto.saturating_mul(halves) / 2).min(most.max(pto))
}

#[cfg(test)]
mod tests;
