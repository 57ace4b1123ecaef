//! Numbers that a peer chooses: near those in use, near every power of two, near the end.

use arbitrary::Arbitrary;
use exonet_proto::MAX_NUMBER;

/// A number, relative to one that has a meaning where it is used.
#[derive(Clone, Copy, Debug, Arbitrary)]
pub(crate) enum Number {
    /// Near that number.
    Near(i8),
    /// Below 2^62.
    Top(u8),
    /// Near a power of two, up to 2^63.
    Power { bits: u8, off: i8 },
    /// Any number.
    Any(u64),
}

impl Number {
    /// The number, with all 64 bits.
    pub(crate) const fn wide(self, near: u64) -> u64 {
        match self {
            Self::Near(off) => near.wrapping_add_signed(off as i64),
            Self::Top(below) => MAX_NUMBER - below as u64,
            Self::Power { bits, off } => (1_u64 << (bits % 64)).wrapping_add_signed(off as i64),
            Self::Any(x) => x,
        }
    }

    /// The number with the 62 bits that the wire can carry.
    pub(crate) const fn at(self, near: u64) -> u64 {
        self.wide(near) & MAX_NUMBER
    }
}
