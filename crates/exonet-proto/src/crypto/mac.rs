//! The MACs at the end of an opening: a receiver checks them first, before any public-key work.
//!
//! mac1 shows that the sender knows the identity of the receiver; mac2 shows that the sender receives at its address. Neither is
//! part of the Noise transcript, so the same opening can be sent again with a mac2 added.

use super::cookie::Cookie;
use super::hash::{hash, mac, mac_matches};
use crate::NodeId;

/// The length of either MAC in bytes.
pub const MAC_LEN: usize = 16;

/// Computes and checks mac1 on openings to one receiver, and mac2.
#[derive(Clone)]
pub struct OpeningMac {
    key: [u8; 32],
}

impl OpeningMac {
    /// The key for openings to `receiver`. It is as public as the receiver's id.
    pub fn new(receiver: &NodeId) -> Self {
        Self { key: hash(&[b"exonet mac1", &receiver.0]) }
    }

    /// mac1 of an opening: over the datagram up to mac1.
    pub fn mac1(&self, datagram: &[u8]) -> [u8; MAC_LEN] {
        mac(&self.key, &[datagram])
    }

    /// Whether `claimed` is mac1 of the datagram up to mac1. Constant time.
    pub fn verify_mac1(&self, datagram: &[u8], claimed: &[u8; MAC_LEN]) -> bool {
        mac_matches(&self.key, &[datagram], claimed)
    }

    /// mac2 of an opening: over the datagram up to mac2, mac1 included, under the cookie of a RETRY.
    pub fn mac2(cookie: &Cookie, datagram: &[u8]) -> [u8; MAC_LEN] {
        cookie.mac2(datagram)
    }
}

impl core::fmt::Debug for OpeningMac {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OpeningMac(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hex;

    const RECEIVER: NodeId = NodeId([7; 32]);

    #[test]
    fn mac1_bytes_are_fixed_by_the_protocol() {
        let mac1 = OpeningMac::new(&RECEIVER).mac1(b"an opening");
        assert_eq!(hex::encode(&mac1), "05c2fa9296b4e82ccdf4439294e7af8c");
    }

    #[test]
    fn mac1_is_for_one_receiver_and_one_datagram() {
        let mac = OpeningMac::new(&RECEIVER);
        let mac1 = mac.mac1(b"an opening");
        assert!(mac.verify_mac1(b"an opening", &mac1));
        assert!(!mac.verify_mac1(b"an openinh", &mac1));
        assert!(!OpeningMac::new(&NodeId([8; 32])).verify_mac1(b"an opening", &mac1));
        for bit in 0..128 {
            let mut changed = mac1;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!mac.verify_mac1(b"an opening", &changed));
        }
    }
}
