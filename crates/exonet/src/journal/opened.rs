//! The records that the former lives of a node have left.

use std::path::Path;

use exonet_proto::node::{Durability as Safety, Recovered, Shelf};
use exonet_store::{FoundGroup, Groups, Level, Options, Store, Trust};

use super::{Durability, Log};
use crate::state::{StateDir, StateError};

/// The journal of an identity, and its content.
pub(crate) struct Opened {
    pub(crate) log: Log,
    pub(crate) safety: Safety,
    pub(crate) found: Box<Recovered>,
}

/// Opens the journal of the identity in `dir`, or begins one. `journals` keeps it. Up to `in_memory` bytes of bodies that
/// wait stay in memory. None: this life keeps no journal.
///
/// # Errors
/// [`StateError`]: the journal cannot be read or written.
pub(crate) fn open(
    dir: &StateDir,
    journals: &dyn Store,
    durability: Durability,
    in_memory: usize,
) -> Result<Option<Opened>, StateError> {
    let level = match durability {
        Durability::Memory => {
            if dir.retire_journal()? {
                tracing::warn!(
                    path = %dir.journal().display(),
                    "this run keeps no journal: that of the last run is put aside, and what was open in it is forgotten"
                );
            }
            return Ok(None);
        }
        Durability::Process => Level::Process,
        Durability::Batched(_) => Level::Batched,
        Durability::Sync => Level::Sync,
    };
    let path = dir.journal();
    let options = || Options::new(dir.journal_tag(), level);
    let shelf = || shelf(&path, in_memory);
    let (mut storage, mut left) = journals.open(&path, options())?;
    let found = match left.trust {
        Trust::Trusted => {
            let found = read(&mut left.groups, shelf())?.finish(storage.lsn())?;
            if found.is_empty() || found.is_of(dir.load().life) {
                found
            } else {
                tracing::warn!(
                    path = %path.display(),
                    "the journal is older than the last run of its identity. It is put aside, and the node goes on \
                     without it: what was in doubt ends Unknown at its peers"
                );
                drop((storage, left));
                dir.retire_journal()?;
                (storage, _) = journals.open(&path, options())?;
                Recovered::on(shelf())
            }
        }
        Trust::Untrusted(why) => {
            tracing::warn!(
                path = %path.display(),
                "{why}. The node goes on without it: what was in doubt ends Unknown at its peers"
            );
            Recovered::on(shelf())
        }
    };
    let safety = if durability.is_forced() { Safety::Forced } else { Safety::Written };
    Ok(Some(Opened { log: Log::new(storage, durability), safety, found: Box::new(found) }))
}

/// Reads these groups, until one is missing.
pub(crate) fn read(groups: &mut Groups, shelf: Shelf) -> Result<Recovered, StateError> {
    let mut found = Recovered::on(shelf);
    while let Some(FoundGroup { lsn, kept, bytes }) = groups.next_found()? {
        if kept { found.add_kept(lsn, bytes) } else { found.add_group(lsn, bytes) }?;
    }
    Ok(found)
}

/// Where bodies beyond `in_memory` bytes wait: in files beside the journal.
#[cfg(unix)]
fn shelf(dir: &Path, in_memory: usize) -> Shelf {
    Shelf::new(std::sync::Arc::new(Beside(exonet_store::Shelf::new(dir))), in_memory as u64)
}

/// The store for waiting bodies: memory, since this system has no files without a name.
#[cfg(not(unix))]
fn shelf(_: &Path, _: usize) -> Shelf {
    Shelf::default()
}

#[cfg(unix)]
struct Beside(exonet_store::Shelf);

#[cfg(unix)]
impl exonet_proto::node::Keep for Beside {
    fn keep(&self, body: &[u8]) -> Option<bytes::Bytes> {
        let kept = self.0.keep(body);
        let kept = kept.inspect_err(|error| tracing::debug!(%error, "a body that waits stays in memory"));
        kept.ok().map(bytes::Bytes::from_owner)
    }
}
