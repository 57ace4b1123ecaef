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
//! The load is written first, under another name, with room for the deed behind it. That is durable before the identity
//! is ceded. Then the deed follows, and the file gets its name. So a full disk is found out in time, and if the process
//! dies after it has ceded the identity, [`finish_file`] goes on.
//!
//! Whoever writes or removes the file under its first name holds a lock on it, and looks for the final name under this
//! lock. So of two identities that are to have one file, one gets it, and the other is not ceded.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_proto::NodeId;
use fs4::{FileExt, TryLockError};

use super::content::Take;
use super::{Attempt, Ceded, Deed, LONGEST, Load, ceded, deed};
use crate::state::error::StateError;
use crate::state::{SecretKey, StateDir, disk, is_same};

const FORMAT: &[u8; 25] = b"exonet-checkpoint-file-1\n";
/// The part of it that all versions share.
const KIND: &[u8; 23] = b"exonet-checkpoint-file-";
/// What precedes the load: format, identity, target, attempt, length.
const HEAD: usize = 25 + 32 + 32 + 16 + 8;
/// The room for what follows the load.
const ROOM: usize = 1 << 12;
/// The longest file. What is not content, mostly the tags of the load, has the last 16 MiB.
const LONGEST_FILE: u64 = LONGEST + (16 << 20);
/// How often a process tries to create a file that others remove.
const TRIES: u32 = 16;

const BUSY: &str = "another process writes it: choose another name";
const FOREIGN: &str = "it is something else, and would be replaced: move it away, or choose another name";

/// A file of a checkpoint that lacks the deed. It does not have its final name yet.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    part: Part,
    /// Where the load ends.
    at: u64,
    digest: Blake2s256,
}

/// The file under its first name, locked.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
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
    /// [`StateError::CheckpointFile`]: there is a file of this name, or another process writes one.
    /// [`StateError::Io`]: nothing is left behind.
    pub fn write(path: impl AsRef<Path>, load: &Load) -> Result<Self, StateError> {
        let path = path.as_ref();
        if !fits(load.sealed.len() as u64) {
            return Err(bad(path, "it would have more than 4 GiB"));
        }
        let first = part_of(path);
        for _ in 0..TRIES {
            is_free(path, &load.id)?;
            if let Some(part) = Part::replace(&first, &load.id)? {
                let written = Self::write_to(path, &part, load);
                let (at, digest) = written.inspect_err(|_| part.remove())?;
                return Ok(Self { path: path.to_owned(), part, at, digest });
            }
        }
        Err(bad(&first, BUSY))
    }

    fn write_to(path: &Path, part: &Part, load: &Load) -> Result<(u64, Blake2s256), StateError> {
        // From here on, nobody gives another file this name who holds to the lock.
        is_absent(path)?;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(FORMAT);
        head.extend_from_slice(&load.id.0);
        head.extend_from_slice(&load.to.0);
        head.extend_from_slice(&load.attempt.0);
        head.extend_from_slice(&(load.sealed.len() as u64).to_be_bytes());
        let written = || {
            let mut file = &part.file;
            file.write_all(&head)?;
            file.write_all(&load.sealed)?;
            let at = file.stream_position()?;
            file.write_all(&[0; ROOM])?;
            file.sync_all()?;
            Ok(at)
        };
        let at = written().map_err(StateError::io("write", &part.path))?;
        disk::sync_dir(part.path.parent())?;
        Ok((at, Blake2s256::new().chain_update(&head).chain_update(&load.sealed)))
    }

    /// Adds the deed, and gives the file its name; it is durable when this returns.
    ///
    /// # Errors
    /// [`StateError::CheckpointFile`]: there is a file of this name now. [`StateError::Io`]. [`finish_file`] goes on.
    pub fn finish(mut self, deed: &Deed) -> Result<(), StateError> {
        let mut end = Vec::with_capacity(8 + deed.0.len() + 32);
        end.extend_from_slice(&(deed.0.len() as u64).to_be_bytes());
        end.extend_from_slice(&deed.0);
        self.digest.update(&end);
        end.extend_from_slice(&self.digest.finalize());
        let written = || {
            let mut file = &self.part.file;
            file.seek(SeekFrom::Start(self.at))?;
            file.write_all(&end)?;
            file.set_len(self.at + end.len() as u64)?;
            file.sync_all()
        };
        written().map_err(StateError::io("write", &self.part.path))?;
        self.part.publish(&self.path)
    }

    /// Removes the file: the identity is not ceded.
    pub fn discard(self) {
        self.part.remove();
    }

    /// Continues the file of an identity that was ceded, from what the dead process has left.
    fn again(path: &Path, ceded: &Ceded) -> Result<Self, StateError> {
        let first = part_of(path);
        let lost = || bad(&first, "it is missing, or is not what was written before the identity was ceded");
        let part = Part::open(&first)?.ok_or_else(lost)?;
        let head = part.head()?.ok().filter(|head| head.attempt == ceded.attempt && fits(head.load));
        let at = HEAD as u64 + head.ok_or_else(lost)?.load;
        let read = || {
            let mut file = &part.file;
            file.rewind()?;
            let mut bytes = Vec::new();
            file.take(at).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(StateError::io("read", &first))?;
        if bytes.len() as u64 != at {
            return Err(lost());
        }
        let digest = Blake2s256::new().chain_update(&bytes);
        Ok(Self { path: path.to_owned(), part, at, digest })
    }
}

impl Part {
    /// Opens and locks the file. None: there is none.
    fn open(path: &Path) -> Result<Option<Self>, StateError> {
        if !disk::exists(path)? {
            return Ok(None);
        }
        // The opening of a pipe would wait for its other end.
        let about = fs::symlink_metadata(path).map_err(StateError::io("inspect", path))?;
        if !about.is_file() {
            return Err(bad(path, FOREIGN));
        }
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Self::lock(path, file),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StateError::io("open", path)(error)),
        }
    }

    /// None: the file is gone, or has its final name.
    fn lock(path: &Path, file: File) -> Result<Option<Self>, StateError> {
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(bad(path, BUSY)),
            Err(TryLockError::Error(error)) => return Err(StateError::io("lock", path)(error)),
        }
        let part = Self { path: path.to_owned(), file };
        let held = part.file.metadata().map_err(StateError::io("inspect", path))?;
        match fs::symlink_metadata(path) {
            Ok(there) => Ok(Some(part).filter(|_| is_same(&held, &there))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StateError::io("inspect", path)(error)),
        }
    }

    /// Creates the file, in place of what the identity has left there before. None: another process was first.
    fn replace(path: &Path, id: &NodeId) -> Result<Option<Self>, StateError> {
        if let Some(old) = Self::open(path)? {
            old.is_left_by(id)?;
            fs::remove_file(path).map_err(StateError::io("remove", path))?;
        }
        match disk::create_new(path) {
            Ok(file) => Self::lock(path, file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(StateError::io("write", path)(error)),
        }
    }

    /// Fails unless the identity `id`, which lives, has left the file before it was ceded, or anybody before its load
    /// was there.
    fn is_left_by(&self, id: &NodeId) -> Result<(), StateError> {
        match self.head()? {
            Ok(head) if head.id == *id => Ok(()),
            Ok(_) => Err(bad(&self.path, "it is the checkpoint of another identity, and is not finished")),
            Err(start) if start.len() < HEAD && start.iter().zip(FORMAT).all(|(is, ours)| is == ours) => {
                Ok(())
            }
            Err(_) => Err(bad(&self.path, FOREIGN)),
        }
    }

    /// What precedes the load. `Ok(Err(start))`: the file was cut off before, or is no checkpoint.
    fn head(&self) -> Result<Result<Head, Vec<u8>>, StateError> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.rewind()
            .and_then(|()| file.take(HEAD as u64).read_to_end(&mut bytes))
            .map_err(StateError::io("read", &self.path))?;
        Ok(Head::decode(&bytes).ok_or(bytes))
    }

    /// Gives the file its final name, but replaces no other.
    fn publish(self, path: &Path) -> Result<(), StateError> {
        // This makes a link, since a rename would replace a file.
        match fs::hard_link(&self.path, path) {
            Ok(()) => fs::remove_file(&self.path).map_err(StateError::io("remove", &self.path))?,
            Err(_) if disk::exists(path)? => {
                return Err(bad(path, "a file of this name has appeared: move it away, and repeat"));
            }
            // The file system may have no links.
            Err(_) => fs::rename(&self.path, path).map_err(StateError::io("rename", &self.path))?,
        }
        disk::sync_dir(path.parent())
    }

    fn remove(&self) {
        // If it stays, the next checkpoint replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A process that another thread has forked, and that has not yet reached its exec, shares the lock.
        let _ = FileExt::unlock(&self.file);
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
            sealed if sealed.attempt == ceded.attempt => {
                // The process may have died before it removed the first name.
                if let Ok(Some(part)) = Part::open(&part_of(file))
                    && part.head()?.is_ok_and(|head| head.attempt == ceded.attempt)
                {
                    part.remove();
                }
                Ok(ceded)
            }
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
        file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(StateError::io("read", path))?;
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

impl Head {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Take(bytes);
        (rest.array::<25>()? == *FORMAT).then_some(())?;
        let id = NodeId(rest.array()?);
        rest.array::<32>()?;
        Some(Self { id, attempt: Attempt(rest.array()?), load: rest.number()? })
    }
}

/// Fails if a checkpoint of the identity `id` can certainly not be written to `path`.
pub(super) fn is_free(path: &Path, id: &NodeId) -> Result<(), StateError> {
    is_absent(path)?;
    Part::open(&part_of(path))?.map_or(Ok(()), |part| part.is_left_by(id))
}

fn is_absent(path: &Path) -> Result<(), StateError> {
    if disk::exists(path)? {
        return Err(bad(path, "there is a file of this name already: choose another name"));
    }
    Ok(())
}

/// Whether a file with a load of this length can be read again.
const fn fits(load: u64) -> bool {
    load <= LONGEST_FILE - HEAD as u64 - ROOM as u64
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn bad(path: &Path, what: &'static str) -> StateError {
    StateError::CheckpointFile { path: path.into(), what }
}

#[cfg(test)]
mod tests {
    use exonet_proto::crypto::sealed;

    use super::*;

    #[test]
    fn the_longest_content_fits_when_it_is_sealed() {
        let [to, from] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]));
        let content = vec![7; 1 << 20];
        let more = sealed::seal(&content, &to.node_id(), &from).unwrap().len() - content.len();
        assert!(fits(LONGEST + more as u64 * (LONGEST >> 20)));
        assert!(!fits(LONGEST_FILE));
    }
}
