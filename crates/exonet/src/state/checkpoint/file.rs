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
//! A process first writes the load to a file with another name, the first name, and leaves room for the deed. It makes
//! both durable, and only then cedes the identity. Then it adds the deed, and gives the file its final name. So the
//! process notices a full disk before it cedes the identity. If it dies after that, [`finish_file`] goes on.
//!
//! A process locks the file before it writes or removes it under its first name. While it holds the lock, it checks
//! whether the final name exists. If two identities are to go to the same file, one is ceded, and the other is not.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_proto::NodeId;
use exonet_proto::crypto::sealed;
use fs4::{FileExt, TryLockError};

use super::content::Take;
use super::{Attempt, Ceded, Deed, LONGEST, Load, ceded, deed, fresh};
use crate::state::error::StateError;
use crate::state::{SecretKey, StateDir, disk, is_same};

const FORMAT: &[u8; 25] = b"exonet-checkpoint-file-1\n";
/// The start of the format, which all versions share.
const KIND: &[u8; 23] = b"exonet-checkpoint-file-";
/// The length of the head: format, identity, target, attempt, length of the load.
const HEAD: usize = 25 + 32 + 32 + 16 + 8;
/// The room for everything after the load.
const ROOM: usize = 1 << 12;
/// The longest file: the longest content, and 16 MiB for the rest, mostly the tags of the load.
const LONGEST_FILE: u64 = LONGEST + (16 << 20);
/// How often a process tries to create a file that other processes remove.
const TRIES: u32 = 16;

const BUSY: &str = "another process is writing it: repeat this when that process has ended";
const NOT_A_FILE: &str = "it is not a regular file: move it away, or choose another name";
const FOREIGN: &str = "this file is not the start of a checkpoint: move it away, or choose another name";

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
    /// Checks that a process can write a checkpoint of the identity `id` for the node `to` to a file with the name
    /// `path`. It creates a file beside it, and removes that again. If the disk is full or another process takes the name,
    /// [`Self::write`] may still fail.
    ///
    /// # Errors
    /// [`StateError::Target`]: `to` is the identity itself, or not the id of a node. [`StateError::CheckpointFile`]: the name is not free, or does
    /// not name a file in a directory. [`StateError::Io`]: the process cannot write there.
    pub fn check(path: impl AsRef<Path>, id: &NodeId, to: &NodeId) -> Result<(), StateError> {
        let path = path.as_ref();
        // Nothing can be sealed for an id that is not the key of a node.
        if id == to || sealed::seal(&[], to, &SecretKey::from_bytes(fresh()?)).is_none() {
            return Err(StateError::Target { to: *to });
        }
        let folder = folder_of(path).ok_or_else(|| bad(path, "this is not the name of a file"))?;
        match fs::metadata(folder) {
            Ok(about) if about.is_dir() => {}
            Ok(_) => return Err(bad(path, "its parent is not a directory")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(bad(path, "its directory does not exist"));
            }
            Err(error) => return Err(StateError::io("inspect", folder)(error)),
        }
        is_absent(path)?;
        if let Some(part) = Part::open(&part_of(path))? {
            part.is_left_by(id)?;
        }
        // The probe has a random name, since another process may be writing to the first name of the file.
        let probe = folder.join(format!(".exonet-{:016x}", u64::from_be_bytes(fresh()?)));
        let probed = disk::create_new(&probe).and_then(|_| fs::remove_file(&probe));
        probed.map_err(StateError::io("write in", folder))
    }

    /// Writes a load to a file that will get the name `path`. The file is durable when this returns. Only its owner may
    /// read it.
    ///
    /// # Errors
    /// [`StateError::CheckpointFile`]: a file with this name exists, or another process is writing one.
    /// [`StateError::Io`]: nothing is left behind.
    pub fn write(path: impl AsRef<Path>, load: &Load) -> Result<Self, StateError> {
        let path = path.as_ref();
        if !fits(load.sealed.len() as u64) {
            return Err(bad(path, "it would be longer than 4 GiB"));
        }
        let first = part_of(path);
        for _ in 0..TRIES {
            is_absent(path)?;
            if let Some(part) = Part::replace(&first, &load.id)? {
                let written = Self::write_to(path, &part, load);
                let (at, digest) = written.inspect_err(|_| part.remove())?;
                return Ok(Self { path: path.to_owned(), part, at, digest });
            }
        }
        Err(bad(&first, BUSY))
    }

    fn write_to(path: &Path, part: &Part, load: &Load) -> Result<(u64, Blake2s256), StateError> {
        // This process has the lock now. Other processes need it before they give a file this name.
        is_absent(path)?;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(FORMAT);
        head.extend_from_slice(&load.id.0);
        head.extend_from_slice(&load.mark.to.0);
        head.extend_from_slice(&load.mark.attempt.0);
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

    /// Adds the deed, and gives the file its final name. The file is durable when this returns.
    ///
    /// # Errors
    /// [`StateError::CheckpointFile`]: a file with this name exists now. [`StateError::Io`]. After either error,
    /// [`finish_file`] goes on.
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

    /// Removes the file. For an identity that is not ceded.
    pub fn discard(self) {
        self.part.remove();
    }

    /// Continues the file that a process left when it died after it had ceded the identity.
    fn again(path: &Path, ceded: &Ceded) -> Result<Self, StateError> {
        let first = part_of(path);
        let lost = || StateError::OtherFile { path: path.into() };
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
    /// Opens and locks the file. None: it does not exist.
    fn open(path: &Path) -> Result<Option<Self>, StateError> {
        if !disk::exists(path)? {
            return Ok(None);
        }
        // Checked first: to open a pipe would wait for its other end.
        let about = fs::symlink_metadata(path).map_err(StateError::io("inspect", path))?;
        if !about.is_file() {
            return Err(bad(path, NOT_A_FILE));
        }
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Self::lock(path, file),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StateError::io("open", path)(error)),
        }
    }

    /// Locks the file. None: the file was removed, or has its final name now.
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

    /// Creates the file, and replaces one that the identity has left there. None: another process created it first.
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

    /// Fails unless this process may replace the file. It may if the file belongs to the identity `id`, which still lives
    /// here, or if the file ends before its load.
    fn is_left_by(&self, id: &NodeId) -> Result<(), StateError> {
        match self.head()? {
            Ok(head) if head.id == *id => Ok(()),
            Ok(_) => Err(bad(
                &self.path,
                "it is an unfinished checkpoint of another identity: choose another name",
            )),
            Err(start) if start.len() < HEAD && start.iter().zip(FORMAT).all(|(is, ours)| is == ours) => {
                Ok(())
            }
            Err(_) => Err(bad(&self.path, FOREIGN)),
        }
    }

    /// Reads the head. `Ok(Err(start))`: the file has only a part of it, or is no checkpoint.
    fn head(&self) -> Result<Result<Head, Vec<u8>>, StateError> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.rewind()
            .and_then(|()| file.take(HEAD as u64).read_to_end(&mut bytes))
            .map_err(StateError::io("read", &self.path))?;
        Ok(Head::decode(&bytes).ok_or(bytes))
    }

    /// Gives the file its final name. Replaces no other file.
    fn publish(self, path: &Path) -> Result<(), StateError> {
        // This makes a link, since a rename would replace a file.
        match fs::hard_link(&self.path, path) {
            Ok(()) => fs::remove_file(&self.path).map_err(StateError::io("remove", &self.path))?,
            Err(_) if disk::exists(path)? => {
                return Err(bad(path, "another file has this name now: move it away, and repeat"));
            }
            // Some file systems have no links.
            Err(_) => fs::rename(&self.path, path).map_err(StateError::io("rename", &self.path))?,
        }
        disk::sync_dir(path.parent())
    }

    fn remove(&self) {
        // If this fails, the next checkpoint replaces the file.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Another thread may have forked a process that has not reached its exec. That process shares the lock.
        let _ = FileExt::unlock(&self.file);
    }
}

impl StateDir {
    /// Writes everything that the identity keeps, and the state of `application`, to one new file that is sealed for the
    /// node `to`. Cedes the identity to that node, for good. From then on only the file has the identity:
    /// [`super::restore_file`] restores it.
    ///
    /// # Errors
    /// The errors of [`Self::checkpoint`] and [`Draft::write`]: nothing has changed. [`StateError::Io`]: [`ceded`] tells
    /// whether the identity was ceded. If it was, [`finish_file`] goes on.
    pub fn checkpoint_file(
        self,
        to: &NodeId,
        application: &impl super::Checkpoint,
        file: impl AsRef<Path>,
    ) -> Result<Ceded, StateError> {
        let load = self.checkpoint(to, application)?;
        let draft = Draft::write(file, &load)?;
        let place = self.path.clone();
        match self.cede(&load) {
            Ok(deed) => draft.finish(&deed)?,
            Err(error) => {
                // If the disk does not say that the identity still lives there, the file may be all that is left of it.
                if matches!(ceded(place), Ok(None)) {
                    draft.discard();
                }
                return Err(error);
            }
        }
        Ok(load.mark)
    }
}

/// Finishes a file after its process has ceded the identity in `place` and died. A caller may repeat this.
///
/// # Errors
/// [`StateError::Missing`]: the identity was not ceded there. [`StateError::OtherFile`]: the identity was not ceded to
/// this file, or the file that the process began is missing. [`StateError::CheckpointFile`], [`StateError::Io`].
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
            _ => Err(StateError::OtherFile { path: file.into() }),
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

/// The head of a file: everything before the load.
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

/// The directory of the file `path`. None: the path ends with a separator or a dot, and so names a directory.
fn folder_of(path: &Path) -> Option<&Path> {
    let name = path.file_name()?.as_encoded_bytes();
    let folder = path.parent().filter(|_| path.as_os_str().as_encoded_bytes().ends_with(name))?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

fn is_absent(path: &Path) -> Result<(), StateError> {
    if disk::exists(path)? {
        return Err(bad(path, "a file with this name already exists: choose another name"));
    }
    Ok(())
}

/// Whether [`Sealed::read`] can read a file with a load of this length.
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
