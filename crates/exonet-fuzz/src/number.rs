//! Numbers of a peer's choosing: near what is in use, near every power of two, near the end.

use arbitrary::Arbitrary;
use exonet_proto::MAX_NUMBER;

/// A number, told relative to one that means something where it is used.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Number {
    /// Around it.
    Near(i8),
    /// Below 2^62.
    Top(u8),
    /// Around a power of two, 2^63 included.
    Power { bits: u8, off: i8 },
    /// Whatever.
    Any(u64),
}

impl Number {
    /// All 64 bits of it.
    pub(crate) const fn wide(self, near: u64) -> u64 {
        match self {
            Self::Near(off) => near.wrapping_add_signed(off as i64),
            Self::Top(below) => MAX_NUMBER - below as u64,
            Self::Power { bits, off } => (1_u64 << (bits % 64)).wrapping_add_signed(off as i64),
            Self::Any(x) => x,
        }
    }

    /// As the wire could carry it: 62 bits.
    pub(crate) const fn at(self, near: u64) -> u64 {
        self.wide(near) & MAX_NUMBER
    }
}
