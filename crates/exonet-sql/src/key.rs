//! The key of a message, for both databases.

use core::fmt;

use crate::Error;

/// The key of a message: a random UUID, which is made when the row of the message is inserted. The message carries
/// it, and the receiver's inbox recognizes the message by it.
///
/// It is random and not a number of a sequence: a database that was restored from a backup would repeat numbers, and
/// a new message would get the key of one that is already processed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// A new random key.
    ///
    /// # Errors
    /// [`Error::Random`]: the system gave no random numbers.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
        // Version 4, variant 1 of RFC 9562.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Self(bytes))
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            let dash = if matches!(n, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_as_a_uuid() {
        let key = Key(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef");
        assert_eq!(key.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
        let random = Key::random().unwrap().to_string();
        assert_eq!(random.as_bytes()[14], b'4', "{random} is a UUID of version 4");
    }
}
