//! What is sent ahead of a checkpoint, while the node still runs.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_store::{Settled, Standing};

use super::content::{Carried, Kept, Take, is_ours, put};
use super::{Attempt, FOLDERS, LONGEST, checkpoint, fresh};
use crate::state::error::StateError;
use crate::state::{disk, journal, key};

/// The first bytes of a piece.
const PIECE: &[u8; 20] = b"exonet-ahead-000001\n";
/// The largest number of bytes of one piece.
const MOST: usize = 4 << 20;

/// Data of an identity that is sent ahead of its checkpoint. Meanwhile this process or another may write to the
/// identity. The settled part of the journal is sent piece by piece, and [assembled](super::Landing::ahead) where the
/// identity will live. The [checkpoint](crate::state::StateDir::checkpoint_after) then contains only what is left.
///
/// A segment of a journal is settled up to its last group, until it is used again. The checkpoint contains segments
/// that were used again in full.
#[derive(Debug)]
pub struct Ahead {
    attempt: Attempt,
    dir: PathBuf,
    tag: [u8; 32],
    files: BTreeMap<String, Progress>,
    /// What is still to be sent in this pass: the names, and the settled part of each.
    left: VecDeque<(String, Settled)>,
}

#[derive(Debug)]
struct Progress {
    settled: Settled,
    /// How many of these bytes were returned already.
    given: u64,
    digest: Blake2s256,
}

impl Ahead {
    /// Begins to send the identity in `path`, of which nothing has been sent yet.
    ///
    /// # Errors
    /// [`StateError::Missing`]; [`StateError::Io`].
    pub fn begin(path: impl AsRef<Path>) -> Result<Self, StateError> {
        let path = path.as_ref();
        if !disk::exists(&path.join(key::FILE))? {
            return Err(StateError::Missing { path: path.into() });
        }
        let tag = key::journal_tag(&*key::read(&path.join(key::FILE))?);
        let attempt = Attempt(fresh()?);
        let dir = path.join(journal::DIR);
        Ok(Self { attempt, dir, tag, files: BTreeMap::new(), left: VecDeque::new() })
    }

    /// Looks for data that has settled since the last look. Returns its number of bytes.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn look(&mut self) -> Result<u64, StateError> {
        self.left.clear();
        let mut found = BTreeMap::new();
        for name in names(&self.dir)? {
            let known = self.files.get(&name).map(|file| &file.settled);
            match exonet_store::standing(&self.dir, self.tag, &name, known) {
                Ok(Standing::Settled(settled)) => drop(found.insert(name, settled)),
                Ok(Standing::Spare | Standing::Loose) => {}
                // The owner of the identity has removed the file meanwhile.
                Err(_) if !disk::exists(&self.dir.join(&name))? => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.files.retain(|name, file| found.get(name).is_some_and(|it| it.head == file.settled.head));
        let mut bytes = 0;
        for (name, settled) in found {
            let given = self.files.get(&name).map_or(0, |file| file.given);
            bytes += settled.end.saturating_sub(given);
            self.left.push_back((name, settled));
        }
        Ok(bytes)
    }

    /// Returns the next piece of what the last look has found. None: there is no more.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, StateError> {
        while let Some((name, settled)) = self.left.front().cloned() {
            let given = self.files.get(&name).map_or(0, |file| file.given);
            if given >= settled.end {
                if let Some(file) = self.files.get_mut(&name) {
                    file.settled = settled;
                }
                self.left.pop_front();
                continue;
            }
            let path = self.dir.join(&name);
            let whole = fs::metadata(&path).map_or(settled.end, |about| about.len().max(settled.end));
            let len = usize::try_from(settled.end - given).unwrap_or(MOST).min(MOST);
            let Some(bytes) = read_at(&path, given, len).map_err(StateError::io("read", &path))? else {
                // The file is gone, or is another one now: the next look finds out.
                self.files.remove(&name);
                self.left.pop_front();
                continue;
            };
            let fresh = || Progress { settled: settled.clone(), given: 0, digest: Blake2s256::new() };
            let file = self.files.entry(name.clone()).or_insert_with(fresh);
            file.digest.update(&bytes);
            file.given += bytes.len() as u64;
            let mut piece = Vec::with_capacity(128 + bytes.len());
            piece.extend_from_slice(PIECE);
            piece.extend_from_slice(&self.attempt.0);
            put(&mut piece, Path::new(journal::DIR).join(&name).to_string_lossy().as_bytes());
            piece.extend_from_slice(&whole.to_be_bytes());
            piece.extend_from_slice(&given.to_be_bytes());
            put(&mut piece, &bytes);
            return Ok(Some(piece));
        }
        Ok(None)
    }

    pub(super) const fn attempt(&self) -> Attempt {
        self.attempt
    }
}

/// A piece, as its reader sees it.
pub(super) struct Piece<'a> {
    pub(super) attempt: Attempt,
    pub(super) name: PathBuf,
    /// The length of the file in bytes. What is not sent yet is zeros.
    pub(super) len: u64,
    pub(super) at: u64,
    pub(super) bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    pub(super) fn decode(piece: &'a [u8]) -> Result<Self, StateError> {
        let mut rest = Take(piece);
        if rest.array() != Some(*PIECE) {
            return Err(checkpoint("it was written by another version of Exonet"));
        }
        Self::fields(&mut rest).filter(|_| rest.0.is_empty()).ok_or_else(|| checkpoint("a piece is damaged"))
    }

    fn fields(rest: &mut Take<'a>) -> Option<Self> {
        let attempt = Attempt(rest.array()?);
        let name = PathBuf::from(String::from_utf8(rest.bytes()?.to_vec()).ok()?);
        is_ours(&name).then_some(())?;
        let (len, at) = (rest.number()?, rest.number()?);
        let bytes = rest.bytes()?;
        at.checked_add(bytes.len() as u64).filter(|end| *end <= len && len <= LONGEST)?;
        Some(Self { attempt, name, len, at, bytes })
    }
}

/// Reads all files of the identity in `of` that move, without the data that was sent ahead. No process writes to
/// them.
pub(super) fn read_files(
    of: &Path,
    tag: [u8; 32],
    ahead: Option<&Ahead>,
) -> Result<Vec<(PathBuf, Kept)>, StateError> {
    let (mut files, mut whole) = (Vec::new(), 0);
    for folder in FOLDERS {
        let dir = of.join(folder);
        for name in names(&dir)? {
            let kept = if folder == journal::DIR {
                let Some(kept) = of_journal(&dir, tag, &name, ahead)? else { continue };
                kept
            } else {
                entire(&dir.join(&name), 0, None)?
            };
            whole += kept.bytes.len() as u64;
            if whole > LONGEST {
                return Err(checkpoint("what the identity keeps has more than 4 GiB: let it settle first"));
            }
            files.push((Path::new(folder).join(name), kept));
        }
    }
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(files)
}

/// Reads a file of the journal. None: it contains nothing that counts.
fn of_journal(
    dir: &Path,
    tag: [u8; 32],
    name: &str,
    ahead: Option<&Ahead>,
) -> Result<Option<Kept>, StateError> {
    let carried = ahead.and_then(|ahead| ahead.files.get(name));
    let known = carried.map(|file| &file.settled);
    match exonet_store::standing(dir, tag, name, known)? {
        Standing::Spare => Ok(None),
        Standing::Loose => entire(&dir.join(name), 0, None).map(Some),
        Standing::Settled(settled) => {
            let carried =
                carried.filter(|file| file.settled.head == settled.head && file.given <= settled.end);
            let given = carried.map_or(0, |file| file.given);
            if given == 0 && settled.is_spare() {
                return Ok(None);
            }
            let ahead = carried
                .filter(|_| given > 0)
                .map(|file| Carried { len: given, digest: file.digest.clone().finalize().into() });
            let mut kept = entire(&dir.join(name), given, Some(settled.end))?;
            kept.ahead = ahead;
            Ok(Some(kept))
        }
    }
}

/// Reads a file from `from` to `to`, or to its end, without the zeros at its end.
fn entire(path: &Path, from: u64, to: Option<u64>) -> Result<Kept, StateError> {
    let read = || {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(to.unwrap_or(len).saturating_sub(from)).read_to_end(&mut bytes)?;
        Ok((len, bytes))
    };
    let (len, mut bytes) = read().map_err(StateError::io("read", path))?;
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    Ok(Kept { len, ahead: None, bytes })
}

/// Reads `len` bytes of a file. None: the file is gone, or is shorter.
fn read_at(path: &Path, at: u64, len: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(at))?;
    // What is forced now need not be forced when the journal is closed, during which the service stands still. Some
    // systems force only files that are open for writing.
    let _ = file.sync_data();
    let mut bytes = Vec::with_capacity(len);
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() == len))
}

/// The names of the files in a folder, in order. Empty if the folder does not exist.
fn names(folder: &Path) -> Result<Vec<String>, StateError> {
    if !disk::exists(folder)? {
        return Ok(Vec::new());
    }
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let entries = entries.map_err(StateError::io("read", folder))?;
    let mut names: Vec<_> = entries.into_iter().filter_map(|it| it.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}
