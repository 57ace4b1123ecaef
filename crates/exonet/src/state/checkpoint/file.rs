//! A checkpoint as one file: the load and the deed of one attempt, with a checksum.
//!
//! | Bytes | Content |
//! |---|---|
//! | 25 | `exonet-checkpoint-file-1` and a line feed |
//! | 32 | the id of the identity |
//! | 32 | the id of the node for which load and deed are sealed |
//! | 16 | the attempt |
//! | 8 + n | the length of the load, and the load |
//! | 8 + n | the length of the deed, and the deed |
//! | 32 | BLAKE2s of all bytes before |
//!
//! The load is written first, under another name, and is durable before the identity is ceded. Then the deed follows,
//! and the file gets its name. So a full disk is found out in time, and if the process dies after it has ceded the
//! identity, [`finish_file`] goes on.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_proto::NodeId;

use super::content::Take;
use super::{Attempt, Ceded, Deed, LONGEST, Load, ceded, deed};
use crate::state::error::StateError;
use crate::state::{SecretKey, StateDir, disk};

const FORMAT: &[u8; 25] = b"exonet-checkpoint-file-1\n";
/// The part of it that all versions share.
const KIND: &[u8; 23] = b"exonet-checkpoint-file-";
/// What precedes the load: format, identity, target, attempt, length.
const HEAD: usize = 25 + 32 + 32 + 16 + 8;
/// The longest deed, and the bytes of a load beside its content, are below this.
const ROOM: u64 = 1 << 16;

/// A file of a checkpoint that lacks the deed. It does not have its final name yet.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    part: PathBuf,
    file: File,
    digest: Blake2s256,
}

/// The content of a whole file.
pub(super) struct Sealed {
    pub(super) id: NodeId,
    pub(super) to: NodeId,
    pub(super) attempt: Attempt,
    pub(super) load: Vec<u8>,
    pub(super) deed: Vec<u8>,
}

impl Draft {
    /// Writes a load to a file that will be called `path`; it is durable when this returns. Only its owner may read it.
    ///
    /// # Errors
    /// [`StateError::CheckpointFile`]: there is a file of this name. [`StateError::Io`]: nothing is left behind.
    pub fn write(path: impl AsRef<Path>, load: &Load) -> Result<Self, StateError> {
        let path = path.as_ref();
        if disk::exists(path)? {
            return Err(bad(path, "there is a file of this name already: choose another name"));
        }
        let part = part_of(path);
        if disk::exists(&part)? {
            // The identity lives here, so what it left there was cut off before it was ceded.
            if head_of(&part)?.is_some_and(|head| head.id != load.id) {
                return Err(bad(&part, "it is the checkpoint of another identity, and is not finished"));
            }
            fs::remove_file(&part).map_err(StateError::io("remove", &part))?;
        }
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(FORMAT);
        head.extend_from_slice(&load.id.0);
        head.extend_from_slice(&load.to.0);
        head.extend_from_slice(&load.attempt.0);
        head.extend_from_slice(&(load.sealed.len() as u64).to_be_bytes());
        let written = || {
            let mut file = disk::create_new(&part)?;
            file.write_all(&head)?;
            file.write_all(&load.sealed)?;
            file.sync_all()?;
            Ok(file)
        };
        let synced = |file| disk::sync_dir(part.parent()).map(|()| file);
        let file = written().map_err(StateError::io("write", &part)).and_then(synced).inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })?;
        let digest = Blake2s256::new().chain_update(&head).chain_update(&load.sealed);
        Ok(Self { path: path.to_owned(), part, file, digest })
    }

    /// Adds the deed, and gives the file its name; it is durable when this returns.
    ///
    /// # Errors
    /// [`StateError::Io`]: [`finish_file`] goes on.
    pub fn finish(mut self, deed: &Deed) -> Result<(), StateError> {
        let mut end = Vec::with_capacity(8 + deed.0.len() + 32);
        end.extend_from_slice(&(deed.0.len() as u64).to_be_bytes());
        end.extend_from_slice(&deed.0);
        self.digest.update(&end);
        end.extend_from_slice(&self.digest.finalize());
        self.file
            .write_all(&end)
            .and_then(|()| self.file.sync_all())
            .map_err(StateError::io("write", &self.part))?;
        fs::rename(&self.part, &self.path).map_err(StateError::io("rename", &self.part))?;
        disk::sync_dir(self.path.parent())
    }

    /// Removes the file: the identity is not ceded.
    pub fn discard(self) {
        // If it stays, the next checkpoint replaces it.
        let _ = fs::remove_file(&self.part);
    }

    /// Continues the file of an identity that was ceded, from what the dead process has left.
    fn again(path: &Path, ceded: &Ceded) -> Result<Self, StateError> {
        let part = part_of(path);
        let lost = || bad(&part, "it is missing, or is not what was written before the identity was ceded");
        if !disk::exists(&part)? {
            return Err(lost());
        }
        let head = head_of(&part)?.filter(|head| head.attempt == ceded.attempt).ok_or_else(lost)?;
        let read = || {
            let mut file = OpenOptions::new().read(true).write(true).open(&part)?;
            let mut bytes = Vec::new();
            (&mut file).take(HEAD as u64 + head.load).read_to_end(&mut bytes)?;
            // A part of the deed may be there.
            file.set_len(bytes.len() as u64)?;
            file.seek(SeekFrom::End(0))?;
            Ok((file, bytes))
        };
        let (file, bytes) = read().map_err(StateError::io("read", &part))?;
        if bytes.len() as u64 != HEAD as u64 + head.load {
            return Err(lost());
        }
        let digest = Blake2s256::new().chain_update(&bytes);
        Ok(Self { path: path.to_owned(), part, file, digest })
    }
}

impl StateDir {
    /// Writes everything that the identity keeps and the state of `application` to one new file, sealed for the node
    /// `to`, and cedes the identity to it, for good. The file holds the identity: [`super::restore_file`] takes it in.
    ///
    /// # Errors
    /// The errors of [`Self::checkpoint`] and [`Draft::write`]: nothing has changed. [`StateError::Io`]: [`ceded`] tells
    /// whether the identity was ceded; if it was, [`finish_file`] goes on.
    pub fn checkpoint_file(
        self,
        to: &NodeId,
        application: &impl super::Checkpoint,
        file: impl AsRef<Path>,
    ) -> Result<Ceded, StateError> {
        let load = self.checkpoint(to, application)?;
        let draft = Draft::write(file, &load)?;
        let (place, attempt, generation) = (self.path.clone(), load.attempt, self.term.generation + 1);
        match self.cede(&load).or_else(|error| deed(&place).map_err(|_| error)) {
            Ok(deed) => draft.finish(&deed)?,
            Err(error) => {
                draft.discard();
                return Err(error);
            }
        }
        Ok(Ceded { attempt, to: *to, generation })
    }
}

/// Finishes the file of a checkpoint whose identity was ceded in `place` before the process died. It may be repeated.
///
/// # Errors
/// [`StateError::Missing`]: the identity was not ceded there. [`StateError::CheckpointFile`]: what was written of the
/// file is not there. [`StateError::Io`].
pub fn finish_file(place: impl AsRef<Path>, file: impl AsRef<Path>) -> Result<Ceded, StateError> {
    let (place, file) = (place.as_ref(), file.as_ref());
    let ceded = ceded(place)?.ok_or_else(|| StateError::Missing { path: place.into() })?;
    if disk::exists(file)? {
        return match Sealed::read(file)? {
            sealed if sealed.attempt == ceded.attempt => Ok(ceded),
            _ => Err(bad(file, "it is another checkpoint than the one by which the identity was ceded")),
        };
    }
    Draft::again(file, &ceded)?.finish(&deed(place)?)?;
    Ok(ceded)
}

impl Sealed {
    /// Reads a file, and checks that it is whole.
    pub(super) fn read(path: &Path) -> Result<Self, StateError> {
        let file = File::open(path).map_err(StateError::io("open", path))?;
        let mut bytes = Vec::new();
        let longest = HEAD as u64 + LONGEST + 2 * ROOM;
        file.take(longest + 1).read_to_end(&mut bytes).map_err(StateError::io("read", path))?;
        if !bytes.starts_with(FORMAT) {
            return Err(if bytes.starts_with(KIND) {
                StateError::Version { path: path.into() }
            } else {
                bad(path, "it is no checkpoint")
            });
        }
        let damaged = || bad(path, "it is damaged, or cut short: copy it again");
        let (content, digest) = bytes.split_last_chunk::<32>().ok_or_else(damaged)?;
        if Blake2s256::digest(content).as_slice() != digest {
            return Err(damaged());
        }
        let mut rest = Take(content);
        let fields = || -> Option<Self> {
            rest.array::<25>()?;
            let (id, to) = (NodeId(rest.array()?), NodeId(rest.array()?));
            let attempt = Attempt(rest.array()?);
            let (load, deed) = (rest.bytes()?.to_vec(), rest.bytes()?.to_vec());
            rest.0.is_empty().then_some(Self { id, to, attempt, load, deed })
        };
        ({ fields })().ok_or_else(damaged)
    }

    /// Fails unless the file is sealed for the node of `reader`.
    pub(super) fn is_for(&self, path: &Path, reader: &SecretKey) -> Result<(), StateError> {
        let reader = reader.node_id();
        if self.to == reader {
            return Ok(());
        }
        Err(StateError::OtherTarget { path: path.into(), to: self.to, reader })
    }
}

/// What precedes the load in a file.
struct Head {
    id: NodeId,
    attempt: Attempt,
    /// The length of the load.
    load: u64,
}

/// None: the file was cut off before.
fn head_of(part: &Path) -> Result<Option<Head>, StateError> {
    let mut bytes = Vec::new();
    File::open(part)
        .and_then(|file| file.take(HEAD as u64).read_to_end(&mut bytes))
        .map_err(StateError::io("read", part))?;
    let mut rest = Take(&bytes);
    let mut fields = || -> Option<Head> {
        (rest.array::<25>()? == *FORMAT).then_some(())?;
        let id = NodeId(rest.array()?);
        rest.array::<32>()?;
        Some(Head { id, attempt: Attempt(rest.array()?), load: rest.number()? })
    };
    Ok(fields())
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn bad(path: &Path, what: &'static str) -> StateError {
    StateError::CheckpointFile { path: path.into(), what }
}
