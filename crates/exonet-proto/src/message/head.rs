//! What the head of a message says.

use crate::wire::{self, Head, Role};

/// The head in front of a message, what it makes of it, and where the body begins.
#[inline]
pub(crate) fn read_head(message: &[u8]) -> Result<(Head<'_>, Role, usize), wire::Malformed> {
    let (head, at) = Head::parse(message)?;
    Ok((head, Role::of(&head)?, at))
}
