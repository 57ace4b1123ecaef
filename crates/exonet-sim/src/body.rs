//! Bodies that carry the number of their message, which also determines the rest of their content.

use bytes::Bytes;

/// The size of the number in bytes.
const NUMBER: usize = 8;

/// The tag and the body of message `number`. If the body is too short for the number, the tag has the number. No
/// other tag has the length of a number.
pub(crate) fn message(number: u64, size: usize) -> (Bytes, Bytes) {
    if size < NUMBER {
        (Bytes::copy_from_slice(&number.to_be_bytes()), part(number, NUMBER, size))
    } else {
        (Bytes::new(), part(number, 0, size))
    }
}

/// `len` bytes of the body of `number`, starting at `at`.
pub(crate) fn part(number: u64, at: usize, len: usize) -> Bytes {
    let [.., salt] = number.wrapping_mul(31).to_be_bytes();
    let byte = |i: usize| match number.to_be_bytes().get(i) {
        Some(byte) => *byte,
        None => salt.wrapping_add(i.to_le_bytes()[0]),
    };
    (at..at + len).map(byte).collect()
}

/// The body that answers call `number`.
pub(crate) fn reply(number: u64, size: usize) -> Bytes {
    part(answer_to(number), 0, size.max(NUMBER))
}

/// The number in the reply to call `number`.
pub(crate) const fn answer_to(number: u64) -> u64 {
    !number
}

/// The number of a message that arrived unchanged.
pub(crate) fn number_of(tag: &[u8], body: &Bytes) -> Option<u64> {
    let tagged = tag.len() == NUMBER;
    let front: &[u8] = if tagged { tag } else { body };
    let number = u64::from_be_bytes(*front.first_chunk()?);
    let at = if tagged { NUMBER } else { 0 };
    (*body == part(number, at, body.len())).then_some(number)
}
