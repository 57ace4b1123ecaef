//! The key of a message, for both databases.

use core::fmt;

use crate::Error;

/// The key of a message: a UUID, which is made when the row of the message is inserted. The message carries it, and
/// the receiver's inbox recognizes the message by it.
///
/// It is no number of a sequence: a database that was restored from a backup would repeat numbers, and a new message
/// would get the key of one that is already processed.
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
        Ok(Self(bytes).of_version(4))
    }

    /// The key of a row that is inserted at this time, in milliseconds since 1970: the time, and then 74 random bits.
    /// So the rows of one time have neighbouring places in the indexes of both databases. Nothing depends on the
    /// clock: the random bits alone make the key unique.
    pub(crate) fn at(millis: u64) -> Result<Self, Error> {
        let Self(mut bytes) = Self::random()?;
        let [_, _, time @ ..] = millis.to_be_bytes();
        bytes[..6].copy_from_slice(&time);
        Ok(Self(bytes).of_version(7))
    }

    /// Sets the version, and variant 1, of RFC 9562.
    fn of_version(mut self, version: u8) -> Self {
        self.0[6] = self.0[6] & 0x0f | (version << 4);
        self.0[8] = self.0[8] & 0x3f | 0x80;
        self
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

    #[test]
    fn the_keys_of_rows_are_in_the_order_of_their_times() {
        let early = Key::at(0x0123_4567_89ab).unwrap();
        assert_eq!(early.to_string()[..15], *"01234567-89ab-7", "{early} is a UUID of version 7");
        assert!((0..100).all(|n| Key::at(n << 32 | 0xffff_ffff).unwrap() < Key::at((n + 1) << 32).unwrap()));
        assert_ne!(Key::at(7).unwrap(), Key::at(7).unwrap());
    }
}
