//! What recovery lets the sender send now: how much, how large, and when.

use core::time::Duration;

use super::super::mtu::{BASE, ETHERNET};
use super::super::units::{SECOND, bytes_in, mul_div, nanos};
use super::Recovery;
use crate::Mono;
use crate::channel::retransmission::PathState;

/// After this many consecutive probe timeouts, datagrams are limited to the base size: larger ones may not pass any more.
const SHRINK: u32 = 3;

/// A datagram larger than what an Ethernet carries must not occupy the link for longer than this; nor does a train.
const HOLDS: Duration = Duration::from_millis(1);

/// A fast path takes more bytes per second than this: more than a gigabit link carries.
const FAST: u64 = 130_000_000;

/// Whether data may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// This many bytes may leave now, in one train.
    Bytes(u64),
    /// Pacing: not before.
    At(Mono),
    /// The window is full: not before an acknowledgement or a loss.
    Blocked,
}

impl Recovery {
    /// Whether a packet of `bytes` with data may leave now, while about `queued` bytes wait. ACKs, probes and challenges need not
    /// ask.
    pub fn allowance(&mut self, now: Mono, bytes: u16, queued: u64) -> Allowance {
        if self.config.reliable {
            return Allowance::Bytes(u64::MAX);
        }
        let bytes = u64::from(bytes);
        let room = self.congestion.window().saturating_sub(self.in_flight);
        if room < bytes {
            return Allowance::Blocked;
        }
        let rate = self.pacing_rate();
        self.pacer.set_rate(now, rate);
        match self.pacer.next_send(now, bytes, queued) {
            Some(at) => Allowance::At(at),
            None => Allowance::Bytes(room.min(self.pacer.allowance(now).max(bytes))),
        }
    }

    /// Whether packets that leave now are marked ECT(0). Probes are not: a path may have begun to drop marked packets.
    pub fn marks(&self) -> bool {
        self.config.ecn && !self.config.reliable && self.pto.count() == 0 && self.marking.marks()
    }

    /// Bytes per second.
    fn pacing_rate(&self) -> u64 {
        self.congestion.pacing_rate().unwrap_or_else(|| {
            let per_round = mul_div(self.congestion.window(), self.congestion.pacing_gain(), 100);
            mul_div(per_round, SECOND, nanos(self.rtt.smoothed()).max(1))
        })
    }

    /// There is nothing more to send although the window is open: the packets that follow say little about the path.
    pub fn on_app_limited(&mut self) {
        if self.in_flight < self.congestion.window() {
            self.rate.on_app_limited(self.in_flight);
        }
    }

    /// How long to wait before a copy of the packet that leaves now, with nothing behind it. None: the packet gets no copy.
    /// `again`: it carries something that was lost before.
    pub fn hedge(&mut self, now: Mono, again: bool) -> Option<Duration> {
        if self.config.reliable { None } else { self.policy.copy_after(now, &path_state!(self), again) }
    }

    /// Whether the path loses packets at a rate that matters.
    pub fn is_lossy(&self) -> bool {
        self.loss.is_lossy()
    }

    /// Whether the path loses packets by chance, so that data that is sent again soon is likely to arrive.
    pub fn is_random(&self) -> bool {
        self.loss.is_random()
    }

    /// Whether the path is so fast that the processor is the bottleneck, not the link.
    pub fn is_fast(&self) -> bool {
        self.congestion.bandwidth() >= FAST
    }

    /// Whether the window has room for a copy of `bytes`.
    pub fn has_room(&self, bytes: u16) -> bool {
        self.congestion.window().saturating_sub(self.in_flight) >= u64::from(bytes)
    }

    /// How large a datagram may be now.
    pub fn datagram_size(&self) -> u16 {
        match (self.config.reliable, self.pto.count() >= SHRINK) {
            (true, _) => self.config.max_datagram,
            (false, true) => BASE,
            (false, false) => self.mtu.current(),
        }
    }

    /// The size of a path MTU probe worth sending now: PING and PADDING, as a
    /// [`mtu_probe`](crate::channel::PacketInfo::mtu_probe).
    ///
    /// `most`: the number of bytes that wait. A size beyond that is not worth a probe, nor is one that would occupy the link for
    /// long; but the size that an Ethernet carries always is.
    pub fn mtu_probe(&mut self, now: Mono, most: usize) -> Option<u16> {
        let calm = !self.config.reliable && self.pto.count() == 0 && self.rtt.is_measured();
        let window = self.congestion.window();
        let room = window.saturating_sub(self.in_flight);
        // A full window never has room for a large probe, so the probe may exceed the window by a small part of it once.
        let fits = |size: &u16| u64::from(*size) <= room.max(window / 8);
        let brief = bytes_in(self.pacing_rate(), HOLDS);
        let of_use = |size: &u16| *size <= ETHERNET || usize::from(*size) < most && u64::from(*size) <= brief;
        if calm { self.mtu.probe(now).filter(fits).filter(of_use) } else { None }
    }
}
