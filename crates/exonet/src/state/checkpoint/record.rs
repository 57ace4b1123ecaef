//! The latest checkpoint of each identity that a node has restored from a file. The node restores neither this one
//! again nor an older one: two places would then act as the identity.

use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_proto::NodeId;

use super::Attempt;
use super::content::Take;
use crate::state::error::StateError;
use crate::state::lock::Lock;
use crate::state::{disk, line};

/// The folder with a record for each identity. It is in the directory of the node that has restored them.
pub(in crate::state) const DIR: &str = "restored";
/// The folder with the lock that a process holds while it restores a file.
const LOCK: &str = "restoring";
const LABEL: &str = "exonet-restored-1";
/// The bytes of the payload: generation, attempt, hash of the place.
const PAYLOAD: usize = 8 + 16 + 32;

/// The record of one identity. While this exists, no other process restores a file for the same node.
pub(super) struct Record {
    path: PathBuf,
    id: NodeId,
    _lock: Lock,
}

/// What a record says: which checkpoint was restored, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) generation: u64,
    pub(super) attempt: Attempt,
    place: [u8; 32],
}

impl Entry {
    /// `place` is absolute and without links.
    pub(super) fn new(generation: u64, attempt: Attempt, place: &Path) -> Self {
        let place = Blake2s256::digest(place.as_os_str().as_encoded_bytes()).into();
        Self { generation, attempt, place }
    }
}

impl Record {
    /// Opens the record of the identity `id` in the directory `keeper` of a node.
    pub(super) fn open(keeper: &Path, id: NodeId) -> Result<Self, StateError> {
        let lock = keeper.join(LOCK);
        disk::create_dirs(&lock)?;
        let path = keeper.join(DIR).join(id.to_string());
        Ok(Self { path, id, _lock: Lock::acquire(&lock)? })
    }

    /// Fails if the checkpoint in `file` must not be restored. `landed`: everything except its key is already at the
    /// place.
    pub(super) fn admits(&self, file: &Path, entry: &Entry, landed: bool) -> Result<(), StateError> {
        match self.read()? {
            Some(last) if last.generation >= entry.generation && !(landed && last == *entry) => {
                let (id, last, generation) = (self.id, last.generation, entry.generation);
                Err(StateError::Restored { path: file.into(), id, last, generation })
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> Result<Option<Entry>, StateError> {
        if !disk::exists(&self.path)? {
            return Ok(None);
        }
        let corrupt = |what| StateError::CorruptRecord { path: self.path.clone(), what };
        let payload = line::read::<PAYLOAD>(&self.path, LABEL, corrupt)?;
        let mut rest = Take(payload.as_slice());
        let mut fields = || -> Option<Entry> {
            let (generation, attempt) = (rest.number()?, Attempt(rest.array()?));
            Some(Entry { generation, attempt, place: rest.array()? })
        };
        fields().map(Some).ok_or_else(|| corrupt("wrong length"))
    }

    /// Notes that this checkpoint is restored. The note is durable when this returns.
    pub(super) fn note(&self, entry: &Entry) -> Result<(), StateError> {
        let mut payload = [0; PAYLOAD];
        let fields = entry.generation.to_be_bytes().into_iter().chain(entry.attempt.0).chain(entry.place);
        payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        if let Some(dir) = self.path.parent() {
            disk::create_dirs(dir)?;
        }
        disk::replace(&self.path, &line::encode(LABEL, &payload))
    }
}
