//! A node's secret: its X25519 private key.

use core::fmt;
use std::sync::Arc;

use rand_core::RngCore;
use zeroize::Zeroizing;

use super::backend::X25519;
use crate::NodeId;

/// The secret key of a node. Its holder *is* the node.
///
/// It is wiped when the last handle to it is dropped, shows nothing in `Debug`, and is duplicated only explicitly.
pub struct SecretKey(Arc<Private>);

/// A private key with everything that is worth computing once: under load, an attacker chooses how many openings there are.
pub(super) struct Private {
    bytes: Zeroizing<[u8; 32]>,
    public: [u8; 32],
    // None only if the backend ran out of memory: in that case no Diffie-Hellman with this key succeeds.
    agreement: Option<X25519>,
}

impl Private {
    pub(super) fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        let agreement = X25519::new(&bytes);
        let public = agreement.as_ref().map_or([0; 32], |key| *key.public());
        Self { bytes, public, agreement }
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub(super) fn public(&self) -> &[u8; 32] {
        &self.public
    }

    pub(super) fn agreement(&self) -> Option<&X25519> {
        self.agreement.as_ref()
    }
}

impl SecretKey {
    /// A fresh key. `rng` must be cryptographically secure and well seeded: this is the node's identity.
    pub fn generate(rng: &mut impl RngCore) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        rng.fill_bytes(bytes.as_mut_slice());
        Self(Arc::new(Private::new(bytes)))
    }

    /// The key with these bytes. Any 32 bytes are a key (RFC 7748 clamps them); the caller wipes its own copy.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Arc::new(Private::new(Zeroizing::new(bytes))))
    }

    /// The bytes, only for the key store.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.bytes()
    }

    /// The node that has this key.
    pub fn node_id(&self) -> NodeId {
        NodeId(*self.0.public())
    }

    /// Another handle to the same secret; the bytes stay in one place.
    pub fn duplicate(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(super) fn private(&self) -> &Arc<Private> {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {:?})", self.node_id())
    }
}

/// Whether `id` is in the only form that names its key: below 2^255 - 19 and with the top bit clear.
///
/// X25519 ignores the top bit and reduces the rest. Otherwise each key would have several ids, and a refused peer could come back
/// under another id without a new key.
pub(super) fn is_canonical(id: &[u8; 32]) -> bool {
    let [low, middle @ .., high] = id;
    match high.cmp(&0x7f) {
        core::cmp::Ordering::Less => true,
        core::cmp::Ordering::Greater => false,
        core::cmp::Ordering::Equal => *low < 0xed || middle.iter().any(|byte| *byte != 0xff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_key_is_that_of_rfc_7748() {
        // RFC 7748, section 6.1: Alice.
        let key = SecretKey::from_bytes([
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
            0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ]);
        let expected = [
            0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e, 0xf7, 0x5a,
            0x0d, 0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e, 0xaa, 0x9b, 0x4e, 0x6a,
        ];
        assert_eq!(key.node_id(), NodeId(expected));
        assert_eq!(key.duplicate().node_id(), NodeId(expected));
    }

    #[test]
    fn debug_shows_no_byte_of_the_secret() {
        let key = SecretKey::from_bytes([0xab; 32]);
        let shown = format!("{key:?}");
        assert_eq!(shown, format!("SecretKey(of {:?})", key.node_id()));
    }

    #[test]
    fn one_key_has_one_id() {
        let mut p = [0xff; 32];
        (p[0], p[31]) = (0xed, 0x7f);
        assert!(!is_canonical(&p), "p itself");
        p[0] = 0xec;
        assert!(is_canonical(&p), "p - 1");
        (p[0], p[9]) = (0xff, 0xfe);
        assert!(is_canonical(&p), "below p in a middle byte");
        assert!(!is_canonical(&[0x80; 32]), "top bit");
        assert!(is_canonical(&SecretKey::from_bytes([3; 32]).node_id().0));
    }
}
