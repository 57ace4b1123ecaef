//! Sees every datagram. It keeps a fingerprint of the run, a recording for replays, and the number of bytes sent to
//! unproven addresses.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use exonet_proto::Mono;

/// A datagram as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it left.
    pub at: Mono,
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// Its content.
    pub data: Vec<u8>,
}

/// The bytes that nodes received from an address without a node, and that they sent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflected {
    /// Bytes received from the address.
    pub taken: u64,
    /// Bytes sent to the address.
    pub given: u64,
    /// Whether, at any time, more than three times as many bytes had been sent to it as were received from it.
    pub amplified: bool,
}

/// Sees every datagram that leaves a node.
#[derive(Debug)]
pub struct Wiretap {
    hash: u64,
    /// Whether it keeps copies.
    pub recording: bool,
    /// The copies.
    pub recorded: Vec<Recorded>,
    /// The bytes of each address without a node.
    pub reflected: BTreeMap<SocketAddr, Reflected>,
}

impl Default for Wiretap {
    fn default() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            recording: false,
            recorded: Vec::new(),
            reflected: BTreeMap::new(),
        }
    }
}

impl Wiretap {
    /// FNV-1a of every datagram: its time, source, destination and content.
    pub const fn fingerprint(&self) -> u64 {
        self.hash
    }

    pub(crate) fn sees(&mut self, at: Mono, from: SocketAddr, to: SocketAddr, data: &[u8]) {
        self.mix(&at.0.to_be_bytes());
        self.mix(&from.port().to_be_bytes());
        self.mix(&to.port().to_be_bytes());
        self.mix(data);
        if let Some(reflected) = self.reflected.get_mut(&to) {
            reflected.given += data.len() as u64;
            reflected.amplified |= reflected.given > reflected.taken * 3;
        }
        if self.recording {
            self.recorded.push(Recorded { at, from, to, data: data.to_vec() });
        }
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
