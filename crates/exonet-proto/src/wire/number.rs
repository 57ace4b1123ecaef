//! Packet numbers: 62 bits, of which 32 travel.

use crate::MAX_NUMBER;

/// The full packet number whose low 32 bits are `truncated`: the one nearest to the number that is expected next, `largest + 1`.
/// RFC 9000, appendix A.3, for 32 bits.
///
/// `largest` is the largest number that was received and authenticated, if any. The result is at most [`MAX_NUMBER`]. It is wrong
/// only if the number lies more than 2^31 from the expected one; then authentication fails.
pub const fn expand(truncated: u32, largest: Option<u64>) -> u64 {
    const WINDOW: u64 = 1 << 32;
    const HALF: u64 = WINDOW / 2;
    let expected = match largest {
        Some(largest) if largest < MAX_NUMBER => largest + 1,
        Some(_) => MAX_NUMBER,
        None => 0,
    };
    let candidate = (expected & !(WINDOW - 1)) | truncated as u64;
    if candidate + HALF <= expected && candidate < MAX_NUMBER + 1 - WINDOW {
        candidate + WINDOW
    } else if candidate > expected + HALF && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}
