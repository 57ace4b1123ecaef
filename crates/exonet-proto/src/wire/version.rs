//! The answer to a version that a node does not know.
//!
//! It is only a hint: nothing in it is authenticated, and its receiver at most tries the channel in another version that both
//! nodes know.

use super::cursor::Take;
use super::{MIN_OPENING, Malformed, VERSION};

/// Bytes 1 to 7 of the datagram that is answered, so that its sender recognises it.
const ECHO: usize = 7;

/// A node's hint at the versions that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionAnswer<'a> {
    /// Bytes 1 to 7 of the datagram that was not understood.
    pub echo: &'a [u8; ECHO],
    /// The versions, in no order; at least one.
    pub versions: &'a [u8],
}

pub(super) fn parse(datagram: &[u8]) -> Result<VersionAnswer<'_>, Malformed> {
    let mut rest = Take(datagram);
    rest.byte()?;
    let echo = rest.array()?;
    let count = rest.byte()?;
    let versions = rest.bytes(usize::from(count))?;
    if count == 0 {
        return Err(Malformed::Count);
    }
    if rest.is_empty() { Ok(VersionAnswer { echo, versions }) } else { Err(Malformed::Length) }
}

/// The answer to `question`, if one is due. `question` must have an unknown version and at least [`MIN_OPENING`] bytes, so that
/// the answer is far smaller. It must not be a version answer itself, so that two nodes cannot keep answering each other.
pub fn version_answer(question: &[u8]) -> Option<[u8; 10]> {
    let [first, rest @ ..] = question.first_chunk::<8>()?;
    let due = first >> 4 != VERSION && first & 0xf != 0xf && question.len() >= MIN_OPENING;
    let [a, b, c, d, e, f, g] = *rest;
    due.then_some([VERSION << 4 | 0xf, a, b, c, d, e, f, g, 1, VERSION])
}
