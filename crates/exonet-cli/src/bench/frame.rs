//! Datagrams over a pipe, between a node and many peers in another process.
//!
//! ```text
//! frame = time (u64, ns) | number (u32) | count (u32) | count x (peer (u32) | length (u16) | datagram)
//! ```
//! All integers are big-endian. The two processes send frames in turn.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use exonet_proto::Mono;

/// One turn of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// To the peers: the time. From them: when they want to be called next.
    pub(super) time: Mono,
    /// To the peers: the number of peers to create now. From them: the number of messages that are not settled.
    pub(super) number: u32,
    /// From, or to, the peer of each number.
    pub(super) datagrams: Vec<(u32, Vec<u8>)>,
}

impl Frame {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
        to.write_all(&self.time.0.to_be_bytes())?;
        to.write_all(&self.number.to_be_bytes())?;
        to.write_all(&u32::try_from(self.datagrams.len()).map_err(too_long)?.to_be_bytes())?;
        for (peer, datagram) in &self.datagrams {
            to.write_all(&peer.to_be_bytes())?;
            to.write_all(&u16::try_from(datagram.len()).map_err(too_long)?.to_be_bytes())?;
            to.write_all(datagram)?;
        }
        to.flush()
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let time = Mono(u64::from_be_bytes(array(from)?));
        let number = u32::from_be_bytes(array(from)?);
        let count = u32::from_be_bytes(array(from)?);
        let mut datagrams = Vec::new();
        for _ in 0..count {
            let peer = u32::from_be_bytes(array(from)?);
            let mut datagram = vec![0; u16::from_be_bytes(array(from)?).into()];
            from.read_exact(&mut datagram)?;
            datagrams.push((peer, datagram));
        }
        Ok(Self { time, number, datagrams })
    }
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The port of the node and of all peers.
const PORT: u16 = 4_000;
/// Each peer has one loopback address, from this one on: loopback addresses are exempt from limits per prefix.
const FIRST: u32 = u32::from_be_bytes([127, 1, 0, 0]);

/// The address of a peer, as the node sees it.
pub(super) fn address_of(peer: u32) -> SocketAddr {
    (Ipv4Addr::from(FIRST.saturating_add(peer)), PORT).into()
}

/// The peer at an address.
pub(super) fn peer_at(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V4(v4) => u32::from(*v4.ip()).checked_sub(FIRST),
        SocketAddr::V6(_) => None,
    }
}

/// The address of the node, as its peers see it.
pub(super) fn node_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, PORT).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_round_trip(
            time: u64,
            number: u32,
            datagrams in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..50)), 0..20),
        ) {
            let frame = Frame { time: Mono(time), number, datagrams };
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            prop_assert_eq!(Frame::read(&mut bytes.as_slice()).unwrap(), frame);
        }

        #[test]
        fn a_peer_has_an_address_of_its_own(peer in 0_u32..1_000_000) {
            prop_assert_eq!(peer_at(address_of(peer)), Some(peer));
            prop_assert_ne!(address_of(peer), node_address());
        }
    }
}
