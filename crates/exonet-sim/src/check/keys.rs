//! Keys and nonces, as they appear on the wire.

use std::collections::BTreeMap;

use exonet_proto::NodeId;

use super::Breach;

const OPENING: u8 = 0x11;
const ANSWER: u8 = 0x12;
const DATA: u8 = 0x14;

/// The packet numbers and keys of every node, across crashes.
///
/// * Packet numbers strictly increase under every channel index, from the Noise message that chose the index. So no
///   number is used twice under a key.
/// * An ephemeral key appears in one Noise message only, however many times that message is sent. So no two
///   handshakes have the same keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The last packet for each index and sending host.
    numbers: BTreeMap<(u32, usize), Last>,
    ephemerals: BTreeMap<[u8; 32], u64>,
}

/// The last packet to an index.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: u32,
    /// The host at the packet's destination. Two receivers may choose the same index.
    receiver: Option<usize>,
}

impl Keys {
    /// Checks a datagram that `host` sends. `receiver` is the host at its destination, if there is one.
    pub(crate) fn sees(
        &mut self,
        (host, by): (usize, NodeId),
        receiver: Option<usize>,
        data: &[u8],
    ) -> Option<Breach> {
        match *data.first()? {
            OPENING => self.noise((host, by), number(data, 4)?, data.get(8..data.len().checked_sub(32)?)?),
            ANSWER => self.noise((host, by), number(data, 8)?, data.get(12..data.len().checked_sub(16)?)?),
            DATA => self.packet((host, by), receiver, data),
            _ => None,
        }
    }

    fn packet(
        &mut self,
        (host, by): (usize, NodeId),
        receiver: Option<usize>,
        data: &[u8],
    ) -> Option<Breach> {
        let (index, number) = (number(data, 1)?, number(data, 5)?);
        let before = self.numbers.insert((index, host), Last { number, receiver })?;
        let same = receiver.is_none() || before.receiver.is_none() || receiver == before.receiver;
        let last = before.number;
        (same && number <= last).then_some(Breach::Nonce { by, index, number, last })
    }

    /// Copies of a Noise message are equal in every byte, except for mac2.
    fn noise(&mut self, (host, by): (usize, NodeId), index: u32, noise: &[u8]) -> Option<Breach> {
        let ephemeral = *noise.first_chunk()?;
        let content =
            index.to_be_bytes().iter().chain(noise).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let Some(before) = self.ephemerals.insert(ephemeral, content) else {
            // This is a new handshake. By chance, its index may have been in use before.
            let at_index = self.numbers.range_mut((index, 0)..=(index, usize::MAX));
            let here = |last: &Last| last.receiver.is_none_or(|receiver| receiver == host);
            let gone: Vec<_> = at_index.filter(|(_, last)| here(last)).map(|(key, _)| *key).collect();
            gone.iter().for_each(|key| {
                self.numbers.remove(key);
            });
            return None;
        };
        (before != content).then_some(Breach::Ephemeral { by })
    }
}

/// Four bytes of a header.
fn number(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}
