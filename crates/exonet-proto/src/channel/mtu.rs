//! Path MTU discovery by probing (DPLPMTUD, RFC 8899): how large datagrams may be.
//!
//! Sizes are those of whole UDP payloads. The largest is tried first, as most paths carry it; then the interval
//! is halved. Where far more than an Ethernet carries may pass, that is tried before. Losses of large packets alone, with nothing large acknowledged since, mean that the path has
//! narrowed: back to the base.

use core::time::Duration;
use std::net::IpAddr;

use crate::Mono;

/// The size that every path must carry (RFC 9000, section 14).
pub const BASE: u16 = 1_200;

/// What an Ethernet of 1,500 bytes carries, whichever the family of addresses.
const ETHERNET: u16 = 1_452;

/// `MAX_PROBES` (RFC 8899, section 5.1.2).
const MAX_PROBES: u8 = 3;

/// `PMTU_RAISE_TIMER` (RFC 8899, section 5.1.1): when to look again whether the path has widened.
const RAISE: Duration = Duration::from_secs(600);

/// Large packets lost in a row, with none acknowledged that left later, which make a black hole.
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
    /// Known to pass.
    current: u16,
    /// The largest size not refuted in this search.
    ceiling: u16,
    probe: Option<Probe>,
    /// The search is over until then.
    resume: Option<Mono>,
    /// The newest large packet acknowledged left then.
    large_passed: Option<Mono>,
    large_lost: u8,
}

/// The size being tried.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    lost: u8,
    in_flight: bool,
}

impl MtuSearch {
    /// A path that carries [`BASE`]; nothing above `max` is tried.
    pub fn new(max: u16) -> Self {
        let max = max.max(BASE);
        Self {
            max,
            current: BASE,
            ceiling: max,
            probe: None,
            resume: None,
            large_passed: None,
            large_lost: 0,
        }
    }

    /// The largest datagram to send.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// Whether the search rests.
    pub fn is_done(&self) -> bool {
        self.current >= self.ceiling
    }

    /// The size of a probe to send now, if one is wanted: PING and PADDING, not counted in the pacing. Say
    /// [`on_probe_sent`](Self::on_probe_sent) if it leaves.
    pub fn probe(&mut self, now: Mono) -> Option<u16> {
        if self.resume.is_some_and(|at| at <= now) {
            self.resume = None;
            self.ceiling = self.max;
        }
        if self.is_done() || self.probe.is_some_and(|probe| probe.in_flight) {
            return None;
        }
        let (current, ceiling) = (self.current, self.ceiling);
        let next = || match () {
            () if current < ETHERNET && ceiling > 2 * ETHERNET => ETHERNET,
            () if ceiling == self.max => ceiling,
            () => current + (ceiling - current).div_ceil(2),
        };
        Some(self.probe.map_or_else(next, |probe| probe.size))
    }

    /// A probe of `size` leaves.
    pub fn on_probe_sent(&mut self, size: u16) {
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
            self.ceiling = size.saturating_sub(1).max(self.current);
            self.rest_if_done(now);
        }
    }

    /// A packet of `size` that left at `sent_at` was acknowledged.
    pub fn on_acked(&mut self, size: u16, sent_at: Mono) {
        if size > BASE && self.large_passed.is_none_or(|passed| sent_at > passed) {
            self.large_passed = Some(sent_at);
            self.large_lost = 0;
        }
    }

    /// A packet of `size` that left at `sent_at`, not a probe, was lost. True if the datagram size falls to
    /// [`BASE`].
    pub fn on_lost(&mut self, size: u16, sent_at: Mono) -> bool {
        if size <= BASE || self.large_passed.is_some_and(|passed| sent_at <= passed) {
            return false;
        }
        self.large_lost = self.large_lost.saturating_add(1);
        if self.large_lost < BLACK_HOLE || self.current == BASE {
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

#[cfg(test)]
mod tests;
