//! Path MTU discovery by probing (DPLPMTUD, RFC 8899): how large datagrams may be.
//!
//! Sizes are those of whole UDP payloads. Up to the size that an Ethernet carries, the largest size is tried first, as most paths
//! carry it; then the interval is halved. Above that, the search climbs from plateau to plateau, and ends at the first that does
//! not pass: a path that carries no more costs only three lone packets. A size that the system refuses to send costs nothing, so
//! there the interval is halved again.
//!
//! If only large packets are lost, and none as large is acknowledged since, the path has narrowed: the size falls back to the
//! base.

use core::time::Duration;
use std::net::IpAddr;

use crate::Mono;

/// The size that every path must carry (RFC 9000, section 14).
pub const BASE: u16 = 1_200;

/// The UDP payload that an Ethernet of 1,500 bytes carries in either address family.
pub const ETHERNET: u16 = 1_452;

/// Sizes at which paths are likely to end: an Ethernet, the larger packets of some clouds, jumbo packets, and doublings up to
/// what UDP carries.
const PLATEAUS: [u16; 6] = [ETHERNET, 3_852, 8_952, 16_332, 32_716, 65_000];

/// A larger size is worth a probe if it exceeds the present one by this part of it.
const WORTH: u16 = 16;

/// `MAX_PROBES` (RFC 8899, section 5.1.2).
const MAX_PROBES: u8 = 3;

/// `PMTU_RAISE_TIMER` (RFC 8899, section 5.1.1): when to look again whether the path has widened.
const RAISE: Duration = Duration::from_secs(600);

/// This many consecutive losses of large packets, with no later one acknowledged, are a black hole.
const BLACK_HOLE: u8 = 6;

/// The largest payload that an Ethernet of 1,500 bytes carries to `remote`.
pub fn ethernet(remote: IpAddr) -> u16 {
    match remote {
        IpAddr::V4(_) => 1_472,
        IpAddr::V6(_) => 1_452,
    }
}

/// The search for the largest datagram of one path.
#[derive(Clone, Debug)]
pub struct MtuSearch {
    max: u16,
    /// The largest size that is known to pass.
    current: u16,
    /// The largest size not refuted in this search.
    ceiling: u16,
    /// The system refused larger sizes.
    refused: bool,
    probe: Option<Probe>,
    /// The search rests until then.
    resume: Option<Mono>,
    /// By plateau: when the newest acknowledged packet of a size up to that plateau left.
    passed: [Mono; PLATEAUS.len()],
    /// How many large packets were lost in a row, and the smallest plateau among them.
    lost: u8,
    lost_plateau: usize,
}

/// The size being tried.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    lost: u8,
    in_flight: bool,
}

impl MtuSearch {
    /// The search for a path that carries [`BASE`]; nothing above `max` is tried.
    pub fn new(max: u16) -> Self {
        let max = max.max(BASE);
        Self {
            max,
            current: BASE,
            ceiling: max,
            refused: false,
            probe: None,
            resume: None,
            passed: [Mono(0); PLATEAUS.len()],
            lost: 0,
            lost_plateau: 0,
        }
    }

    /// The largest datagram to send.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// Whether the search rests.
    pub fn is_done(&self) -> bool {
        self.next().is_none()
    }

    /// Whether the size that an Ethernet carries passes, and far larger sizes may.
    fn climbs(&self) -> bool {
        self.current >= ETHERNET && self.max > 2 * ETHERNET
    }

    /// The size to try next.
    fn next(&self) -> Option<u16> {
        let (current, ceiling) = (self.current, self.ceiling);
        let halfway = current + ceiling.saturating_sub(current).div_ceil(2);
        let next = match () {
            () if self.climbs() => {
                let plateau = PLATEAUS.into_iter().find(|plateau| *plateau > current).unwrap_or(ceiling);
                let next = if self.refused { halfway } else { plateau.min(ceiling) };
                if next.saturating_sub(current) < current / WORTH { current } else { next }
            }
            () if current < ETHERNET && ceiling > 2 * ETHERNET => ETHERNET,
            () if ceiling == self.max => ceiling,
            () => halfway,
        };
        (next > current).then_some(next)
    }

    /// The size of a probe to send now, if one is wanted: PING and PADDING, not counted by the pacer. Call
    /// [`on_probe_sent`](Self::on_probe_sent) if it leaves.
    pub fn probe(&mut self, now: Mono) -> Option<u16> {
        if self.resume.is_some_and(|at| at <= now) {
            self.resume = None;
            (self.ceiling, self.refused) = (self.max, false);
        }
        match self.probe {
            Some(probe) => (!probe.in_flight).then_some(probe.size),
            None => self.next(),
        }
    }

    /// A probe of `size` leaves. A probe that is no larger than what passes tests nothing.
    pub fn on_probe_sent(&mut self, size: u16) {
        if size <= self.current {
            return;
        }
        let lost = self.probe.filter(|probe| probe.size == size).map_or(0, |probe| probe.lost);
        self.probe = Some(Probe { size, lost, in_flight: true });
    }

    /// A probe of `size` was acknowledged. True if the datagram size has grown.
    pub fn on_probe_acked(&mut self, now: Mono, size: u16, sent_at: Mono) -> bool {
        self.on_acked(size, sent_at);
        if self.probe.is_some_and(|probe| probe.size <= size) {
            self.probe = None;
        }
        let grown = size > self.current && size <= self.max;
        if grown {
            self.current = size;
            self.ceiling = self.ceiling.max(size);
        }
        self.rest_if_done(now);
        grown
    }

    /// A probe of `size` was lost.
    pub fn on_probe_lost(&mut self, now: Mono, size: u16) {
        let Some(probe) = self.probe.as_mut().filter(|probe| probe.size == size) else {
            return;
        };
        probe.in_flight = false;
        probe.lost = probe.lost.saturating_add(1);
        if probe.lost >= MAX_PROBES {
            self.probe = None;
            let climbs = self.climbs();
            self.ceiling = if climbs { self.current } else { size.saturating_sub(1).max(self.current) };
            self.rest_if_done(now);
        }
    }

    /// The system refused to send a packet of `size`: it is too large for the first link. True if the datagram size falls to
    /// [`BASE`], since the packet was no probe.
    pub fn on_refused(&mut self, now: Mono, size: u16) -> bool {
        let fallen = size <= self.current && self.current > BASE;
        if fallen {
            *self = Self::new(self.max);
        }
        self.probe = None;
        self.ceiling = self.ceiling.min(size.saturating_sub(1)).max(self.current);
        self.refused = true;
        self.rest_if_done(now);
        fallen
    }

    /// A packet of `size` that left at `sent_at` was acknowledged.
    pub fn on_acked(&mut self, size: u16, sent_at: Mono) {
        let plateau = plateau(size);
        if size > BASE
            && let Some(passed) = self.passed.get_mut(plateau).filter(|passed| sent_at > **passed)
        {
            *passed = sent_at;
            if plateau >= self.lost_plateau {
                self.lost = 0;
            }
        }
    }

    /// A packet of `size` that left at `sent_at`, not a probe, was lost. True if the datagram size falls to
    /// [`BASE`].
    pub fn on_lost(&mut self, size: u16, sent_at: Mono) -> bool {
        let plateau = plateau(size);
        if size <= BASE || self.passed.iter().skip(plateau).any(|passed| sent_at <= *passed) {
            return false;
        }
        self.lost_plateau = if self.lost == 0 { plateau } else { plateau.min(self.lost_plateau) };
        self.lost = self.lost.saturating_add(1);
        if self.lost < BLACK_HOLE || self.current == BASE {
            return false;
        }
        *self = Self::new(self.max);
        true
    }

    /// When a search begins anew.
    pub fn resume_at(&self) -> Option<Mono> {
        self.resume
    }

    fn rest_if_done(&mut self, now: Mono) {
        if self.is_done() {
            self.probe = None;
            if self.current < self.max {
                self.resume = Some(now + RAISE);
            }
        }
    }
}

/// The plateau that `size` does not exceed.
fn plateau(size: u16) -> usize {
    PLATEAUS.partition_point(|plateau| *plateau < size).min(PLATEAUS.len() - 1)
}

#[cfg(test)]
mod tests;
