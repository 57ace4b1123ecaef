//! The head of every message.

/// Bytes of the head, and so of the smallest message.
pub(crate) const HEAD: usize = 16;

/// The name of a message: `number (u64) | actor (u32) | check (u32)`, all big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Counts from 0, without gaps.
    pub(crate) number: u64,
    /// The actor that asks, and is answered.
    pub(crate) actor: u32,
}

impl Stamp {
    /// Writes the head of a message of `HEAD` bytes or more; the rest stays as it is.
    pub(crate) fn write(self, message: &mut [u8]) {
        let length = message.len();
        let mut head = [0; HEAD];
        let (number, rest) = head.split_at_mut(8);
        let (actor, check) = rest.split_at_mut(4);
        number.copy_from_slice(&self.number.to_be_bytes());
        actor.copy_from_slice(&self.actor.to_be_bytes());
        check.copy_from_slice(&self.check(length).to_be_bytes());
        if let Some(to) = message.get_mut(..HEAD) {
            to.copy_from_slice(&head);
        }
    }

    /// The head of a message. None: it is damaged.
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let number = u64::from_be_bytes(message.get(..8)?.try_into().ok()?);
        let actor = u32::from_be_bytes(message.get(8..12)?.try_into().ok()?);
        let check = u32::from_be_bytes(message.get(12..HEAD)?.try_into().ok()?);
        let stamp = Self { number, actor };
        (check == stamp.check(message.len())).then_some(stamp)
    }

    /// The check of the head and the length.
    fn check(self, length: usize) -> u32 {
        let mix = self.number ^ (u64::from(self.actor) << 32) ^ (length as u64);
        let mixed = mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0;
        u32::try_from(mixed >> 32).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { number: 1 << 40, actor: 7 };
        let mut message = [0x5a; 64];
        stamp.write(&mut message);
        assert_eq!(Stamp::read(&message), Some(stamp));
    }

    #[test]
    fn damage_is_seen() {
        let mut message = [0x5a; 64];
        Stamp { number: 9, actor: 7 }.write(&mut message);
        assert_eq!(Stamp::read(&message[..63]), None, "it is shorter than it was");
        assert_eq!(Stamp::read(&message[..HEAD - 1]), None);
        for byte in 0..HEAD {
            let mut damaged = message;
            damaged[byte] ^= 1;
            assert_eq!(Stamp::read(&damaged), None, "byte {byte}");
        }
    }
}
