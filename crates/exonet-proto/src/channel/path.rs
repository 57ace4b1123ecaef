//! A path to a peer: a pair of addresses, and how much may be sent there before the address is proven.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use crate::Mono;

/// How many bytes may go to an unproven address for each byte that came from it (RFC 9000, section 8.1).
pub const AMPLIFICATION: u64 = 3;

/// A connection that carries packets in order until it breaks, as TCP does. The driver opens it, closes it and maps it to its
/// number; a number is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pipe(pub u32);

/// Where packets come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathAddr {
    /// The peer's address.
    pub remote: SocketAddr,
    /// This node's address, if the system reports it.
    pub local: Option<IpAddr>,
    /// The connection that carries the packets. None: they are datagrams.
    pub pipe: Option<Pipe>,
}

impl PathAddr {
    /// Whether both are the same path. An unknown local address matches any.
    pub fn same(&self, other: &Self) -> bool {
        self.remote == other.remote && self.pipe == other.pipe && self.same_local(other)
    }

    /// Whether both lead between the same hosts, whatever the ports. As far as the node can tell, they use the same links, as
    /// when a NAT gave a new port.
    pub fn same_hosts(&self, other: &Self) -> bool {
        self.remote.ip() == other.remote.ip() && self.pipe == other.pipe && self.same_local(other)
    }

    fn same_local(&self, other: &Self) -> bool {
        match (self.local, other.local) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        }
    }
}

/// A path, and whether the peer was proven to receive there.
///
/// Until then, at most [`AMPLIFICATION`] times the bytes received from it may be sent to it, whatever they contain.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    addr: PathAddr,
    validated: bool,
    received: u64,
    sent: u64,
}

impl Path {
    /// A path that is not proven: an address that a datagram claims to come from.
    pub const fn unproven(addr: PathAddr) -> Self {
        Self { addr, validated: false, received: 0, sent: 0 }
    }

    /// A path that needs no proof: this node chose the address, or a cookie proved it.
    pub const fn proven(addr: PathAddr) -> Self {
        Self { addr, validated: true, received: 0, sent: 0 }
    }

    /// The addresses.
    pub fn addr(&self) -> PathAddr {
        self.addr
    }

    /// Whether the peer was proven to receive here.
    pub fn is_validated(&self) -> bool {
        self.validated
    }

    /// The peer was proven to receive here: it answered a challenge, or used keys that only message 2, which was sent here, could
    /// give it.
    pub fn validate(&mut self) {
        self.validated = true;
    }

    /// A datagram of `bytes` came from here.
    pub fn on_received(&mut self, bytes: u64) {
        self.received = self.received.saturating_add(bytes);
    }

    /// How many bytes may be sent here now.
    pub fn allowance(&self) -> u64 {
        if self.validated {
            u64::MAX
        } else {
            self.received.saturating_mul(AMPLIFICATION).saturating_sub(self.sent)
        }
    }

    /// A datagram of `bytes` goes here. Ask [`allowance`](Self::allowance) first.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }
}

/// A challenge under way (RFC 9000, section 8.2): sent again every probe timeout until it expires.
#[derive(Clone, Copy, Debug)]
pub struct PathValidator {
    data: [u8; 8],
    interval: Duration,
    next: Mono,
    expires: Mono,
}

impl PathValidator {
    /// A challenge with eight unpredictable bytes, due at once, that expires after three of the probe
    /// timeout `pto` (RFC 9000, section 8.2.4).
    pub fn new(now: Mono, data: [u8; 8], pto: Duration) -> Self {
        Self { data, interval: pto, next: now, expires: now + pto.saturating_mul(3) }
    }

    /// The bytes to send, if a challenge is due. Call [`on_sent`](Self::on_sent) if it leaves.
    pub fn due(&self, now: Mono) -> Option<[u8; 8]> {
        (self.next <= now && now < self.expires).then_some(self.data)
    }

    /// A challenge leaves.
    pub fn on_sent(&mut self, now: Mono) {
        self.next = now + self.interval;
    }

    /// Continues to challenge the only path.
    pub fn renew(&mut self, now: Mono) {
        self.next = now;
        self.expires = now + self.interval.saturating_mul(3);
    }

    /// Whether a response answers this challenge.
    pub fn is_answer(&self, data: [u8; 8]) -> bool {
        self.data == data
    }

    /// When the challenge fails.
    pub fn expires(&self) -> Mono {
        self.expires
    }

    /// When the challenge is sent again.
    pub fn next(&self) -> Mono {
        self.next
    }
}

#[cfg(test)]
mod tests;
