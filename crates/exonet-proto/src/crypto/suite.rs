//! The packet AEADs that a channel can use, by the suite byte of its opening.

/// The protection of the packets of a channel. The handshake itself always uses ChaCha20-Poly1305.
///
/// The limits are those of RFC 9001, section 6.6 and appendix B: past them an attacker's advantage exceeds 2^-57.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Suite {
    /// AES-128-GCM: the faster one where the processor has AES instructions.
    Aes128Gcm = 1,
    /// ChaCha20-Poly1305: the faster one elsewhere, and in constant time in pure software.
    ChaCha20Poly1305 = 2,
}

/// A suite byte that this version does not know. It is refused, never guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown suite {0}")]
pub struct UnknownSuite(pub u8);

/// Up to this packet size, RFC 9001 appendix B allows AES-GCM the larger of its two limits.
const SMALL_PACKET: usize = 1 << 11;

impl Suite {
    /// The suite of this byte, if there is one.
    pub const fn from_u8(byte: u8) -> Result<Self, UnknownSuite> {
        match byte {
            1 => Ok(Self::Aes128Gcm),
            2 => Ok(Self::ChaCha20Poly1305),
            other => Err(UnknownSuite(other)),
        }
    }

    /// The faster suite for a processor with or without AES instructions. In pure software, AES is many times slower, and hard to
    /// compute in constant time.
    pub const fn for_processor(has_aes: bool) -> Self {
        if has_aes { Self::Aes128Gcm } else { Self::ChaCha20Poly1305 }
    }

    /// The byte that names this suite on the wire.
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// How many packets of at most `largest` bytes one key may seal. Renew the key well before.
    pub const fn seal_limit(self, largest: usize) -> u64 {
        match self {
            Self::Aes128Gcm if largest <= SMALL_PACKET => 1 << 28,
            Self::Aes128Gcm => 1 << 23,
            // The packet numbers are the limit, not the cipher.
            Self::ChaCha20Poly1305 => crate::MAX_NUMBER,
        }
    }

    /// How many packets of at most `largest` bytes may fail to open under one key before it must never be used
    /// again.
    pub const fn forgery_limit(self, largest: usize) -> u64 {
        match self {
            Self::Aes128Gcm if largest <= SMALL_PACKET => 1 << 57,
            Self::Aes128Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }
}

impl TryFrom<u8> for Suite {
    type Error = UnknownSuite;

    fn try_from(byte: u8) -> Result<Self, UnknownSuite> {
        Self::from_u8(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_bytes_are_suites() {
        for byte in 0..=u8::MAX {
            match Suite::from_u8(byte) {
                Ok(suite) => assert_eq!(suite.as_u8(), byte),
                Err(unknown) => assert!(unknown == UnknownSuite(byte) && byte != 1 && byte != 2),
            }
        }
    }

    #[test]
    fn limits_are_those_of_rfc_9001() {
        assert_eq!(Suite::Aes128Gcm.seal_limit(2048), 1 << 28);
        assert_eq!(Suite::Aes128Gcm.seal_limit(2049), 1 << 23);
        assert_eq!(Suite::Aes128Gcm.forgery_limit(2048), 1 << 57);
        assert_eq!(Suite::Aes128Gcm.forgery_limit(2049), 1 << 52);
        assert_eq!(Suite::ChaCha20Poly1305.forgery_limit(1200), 1 << 36);
    }
}
