//! Frames as bytes, including frames that the core's own writer refuses to write.

use exonet_proto::MAX_NUMBER;
use exonet_proto::wire::varint_len;

/// The payload of a packet, byte by byte.
#[derive(Clone, Debug, Default)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// Appends a frame of type `kind` whose body is these varints.
    #[must_use]
    pub fn frame(mut self, kind: u8, numbers: &[u64]) -> Self {
        self.0.push(kind);
        self.numbers(numbers)
    }

    /// Appends varints, each in its shortest form.
    #[must_use]
    pub fn numbers(mut self, numbers: &[u64]) -> Self {
        for number in numbers {
            let number = (*number).min(MAX_NUMBER);
            let len = varint_len(number);
            let [first, rest @ ..] = (number << (64 - 8 * len)).to_be_bytes();
            let log: u8 = match len {
                1 => 0,
                2 => 1,
                4 => 2,
                _ => 3,
            };
            self.0.push(first | log << 6);
            self.0.extend(rest.iter().take(len - 1));
        }
        self
    }

    /// Appends bytes as they are.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}
