//! Reads the head of a message.

use crate::wire::{self, Head, Role};

/// The head of a message, the role that it gives the message, and where the body begins.
#[inline]
pub(crate) fn read_head(message: &[u8]) -> Result<(Head<'_>, Role, usize), wire::Malformed> {
    let (head, at) = Head::parse(message)?;
    Ok((head, Role::of(&head)?, at))
}
