//! Keys and nonces, as the wire shows them.

use std::collections::BTreeMap;

use exonet_proto::NodeId;

use super::Breach;

const OPENING: u8 = 0x11;
const ANSWER: u8 = 0x12;
const DATA: u8 = 0x14;

/// Every datagram of every node, across crashes.
///
/// * Packet numbers rise strictly under every channel index: then none is used twice under a key, since an index
///   stands for one set of keys.
/// * An ephemeral key appears in one Noise message only, however often that is sent: then no two handshakes have
///   the same keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    numbers: BTreeMap<(NodeId, u32), Last>,
    ephemerals: BTreeMap<[u8; 32], u64>,
}

/// The last packet to an index.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: u32,
    /// Who was at the address that it went to. Two receivers may choose the same index.
    receiver: Option<usize>,
}

impl Keys {
    /// `receiver`: who is at the address that the datagram goes to, if anybody is.
    pub(crate) fn sees(&mut self, by: NodeId, receiver: Option<usize>, data: &[u8]) -> Option<Breach> {
        match *data.first()? {
            OPENING => self.noise(by, data.get(8..data.len().checked_sub(32)?)?, data),
            ANSWER => self.noise(by, data.get(12..data.len().checked_sub(16)?)?, data),
            DATA => self.packet(by, receiver, data),
            _ => None,
        }
    }

    fn packet(&mut self, by: NodeId, receiver: Option<usize>, data: &[u8]) -> Option<Breach> {
        let index = u32::from_be_bytes(*data.get(1..)?.first_chunk()?);
        let number = u32::from_be_bytes(*data.get(5..)?.first_chunk()?);
        let before = self.numbers.insert((by, index), Last { number, receiver })?;
        let same = receiver.is_none() || before.receiver.is_none() || receiver == before.receiver;
        let last = before.number;
        (same && number <= last).then_some(Breach::Nonce { by, index, number, last })
    }

    /// mac2 aside, copies of a Noise message are the same to the byte.
    fn noise(&mut self, by: NodeId, noise: &[u8], data: &[u8]) -> Option<Breach> {
        let ephemeral = *noise.first_chunk()?;
        let header = data.get(..8)?;
        let content = header.iter().chain(noise).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let before = self.ephemerals.insert(ephemeral, content)?;
        (before != content).then_some(Breach::Ephemeral { by })
    }
}
