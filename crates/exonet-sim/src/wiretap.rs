//! Sees every datagram: a fingerprint of the run, a recording for replays, and what unproven addresses get.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use exonet_proto::Mono;

/// A datagram as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it left.
    pub at: Mono,
    /// From here.
    pub from: SocketAddr,
    /// To here.
    pub to: SocketAddr,
    /// What it is.
    pub data: Vec<u8>,
}

/// Bytes that nodes took from an address that is nobody's, and sent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflected {
    /// From it.
    pub taken: u64,
    /// To it.
    pub given: u64,
    /// At some time more than thrice as much went to it as had come from it.
    pub amplified: bool,
}

/// Sees every datagram that leaves a node.
#[derive(Debug)]
pub struct Wiretap {
    hash: u64,
    /// Keeps copies while true.
    pub recording: bool,
    /// The copies.
    pub recorded: Vec<Recorded>,
    /// By address that is nobody's.
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
    /// FNV-1a of every datagram: when, whence, whither, what.
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
