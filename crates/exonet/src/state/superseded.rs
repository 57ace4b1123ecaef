//! The mark that an identity lives elsewhere, though it was not ceded here: this is a copy of it, or was restored
//! from a backup.

use std::path::Path;

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "superseded";
const LABEL: &str = "exonet-superseded-1";
/// The bytes of the payload: fingerprint of the key, generation.
const PAYLOAD: usize = 4 + 8;

/// The generation that lives elsewhere. None: nothing in `of` says that the identity lives elsewhere.
pub(super) fn read(of: &Path) -> Result<Option<u64>, StateError> {
    let path = of.join(FILE);
    if !disk::exists(&path)? {
        return Ok(None);
    }
    let corrupt = |what| StateError::CorruptTerm { path: path.clone(), what };
    let payload = line::read::<PAYLOAD>(&path, LABEL, corrupt)?;
    let generation = payload.split_last_chunk::<8>().map(|(_, generation)| u64::from_be_bytes(*generation));
    Ok(generation)
}

/// Writes the mark; it is durable when this returns.
pub(super) fn write(of: &Path, key: [u8; 4], generation: u64) -> Result<(), StateError> {
    let mut payload = [0; PAYLOAD];
    payload.iter_mut().zip(key.into_iter().chain(generation.to_be_bytes())).for_each(|(to, from)| *to = from);
    disk::replace(&of.join(FILE), &line::encode(LABEL, &payload))
}
