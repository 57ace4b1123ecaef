//! Variable-length integers: RFC 9000, section 16.

use crate::MAX_NUMBER;

/// How many bytes `value` takes on the wire: 1, 2, 4 or 8. A value above [`MAX_NUMBER`] is written as [`MAX_NUMBER`], in 8.
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// The two top bits of the first byte hold the logarithm of the length.
const PREFIX_2: u64 = 1 << 14;
const PREFIX_4: u64 = 2 << 30;
const PREFIX_8: u64 = 3 << 62;

/// The longest encoding, right-aligned; the last [`varint_len`] bytes are those to send.
pub(super) const fn encode(value: u64) -> [u8; 8] {
    let coded = match varint_len(value) {
        1 => value,
        2 => value | PREFIX_2,
        4 => value | PREFIX_4,
        _ if value > MAX_NUMBER => MAX_NUMBER | PREFIX_8,
        _ => value | PREFIX_8,
    };
    coded.to_be_bytes()
}

/// Appends a varint to `to`.
pub(crate) fn put_varint(to: &mut Vec<u8>, value: u64) {
    let coded = encode(value);
    to.extend_from_slice(coded.get(8 - varint_len(value)..).unwrap_or_default());
}

/// Largest length `n` such that `n` bytes behind the varint of `n` take at most `room` bytes.
pub(super) fn prefixed_room(room: usize) -> usize {
    let longest = |prefix: usize, max: usize| room.saturating_sub(prefix).min(max);
    longest(1, 0x3f).max(longest(2, 0x3fff)).max(longest(4, 0x3fff_ffff))
}
