//! The mark of an identity that has come to a new place, and whose peers do not know the place yet.

use std::path::Path;

use crate::state::disk;
use crate::state::error::StateError;

pub(super) const FILE: &str = "arrived";

/// Whether the identity in `path` was restored there, and [`forget_arrival`] was not called since: its peers may not
/// know its address there.
///
/// # Errors
/// [`StateError::Io`].
pub fn has_arrived(path: impl AsRef<Path>) -> Result<bool, StateError> {
    disk::exists(&path.as_ref().join(FILE))
}

/// Notes that a node of the identity in `path` has [greeted](crate::Node::greet) its peers at its new place. Call
/// this after the node has done so.
///
/// # Errors
/// [`StateError::Io`]: the next run may greet the peers once more.
pub fn forget_arrival(path: impl AsRef<Path>) -> Result<(), StateError> {
    let path = path.as_ref();
    if has_arrived(path)? { super::remove(&path.join(FILE)) } else { Ok(()) }
}
