//! The term of an identity: its stay at one place.

use std::path::Path;

use exonet_proto::{Generation, Lineage, MAX_NUMBER, Stay};
use zeroize::Zeroizing;

use super::error::StateError;
use super::{disk, line};

pub(super) const FILE: &str = "term";
const LABEL: &str = "exonet-term-1";
/// The bytes of the payload: fingerprint of the key, generation, lineage.
const PAYLOAD: usize = 4 + 8 + 8;

/// One stay of an identity at one place, from its arrival until it leaves.
///
/// The generation counts the moves. The lineage is random: it distinguishes two places that both claim the same
/// generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// How many times the identity has moved.
    pub generation: u64,
    /// Chosen at random at each arrival. All zero at the place where the identity was created.
    pub lineage: [u8; 8],
}

impl Term {
    /// The term in the form that peers see.
    pub(crate) const fn stay(self) -> Stay {
        let lineage = Lineage(u64::from_be_bytes(self.lineage) & MAX_NUMBER);
        Stay { generation: Generation(self.generation), lineage }
    }
}

/// Reads the term at `path`; the first one if there is no file.
pub(super) fn read(path: &Path, key: [u8; 4]) -> Result<Term, StateError> {
    if !disk::exists(path)? {
        return Ok(Term::default());
    }
    let corrupt = |what| StateError::CorruptTerm { path: path.into(), what };
    let payload = line::read::<PAYLOAD>(path, LABEL, corrupt)?;
    let (owner, rest) = payload.split_first_chunk::<4>().ok_or_else(|| corrupt("wrong length"))?;
    if *owner != key {
        return Err(StateError::Mismatch { path: path.into() });
    }
    let (generation, rest) = rest.split_first_chunk::<8>().ok_or_else(|| corrupt("wrong length"))?;
    let lineage = *rest.first_chunk::<8>().ok_or_else(|| corrupt("wrong length"))?;
    Ok(Term { generation: u64::from_be_bytes(*generation), lineage })
}

/// Writes `term` to `path`; it is durable when this returns.
pub(super) fn write(path: &Path, key: [u8; 4], term: Term) -> Result<(), StateError> {
    disk::replace(path, &encode(key, term))
}

/// The content of the file.
pub(super) fn encode(key: [u8; 4], term: Term) -> Zeroizing<Vec<u8>> {
    let mut payload = [0; PAYLOAD];
    let fields = key.into_iter().chain(term.generation.to_be_bytes()).chain(term.lineage);
    payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    line::encode(LABEL, &payload)
}
