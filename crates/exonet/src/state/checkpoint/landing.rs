//! Where a checkpoint is put together, beside the place where the identity is to live.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_proto::crypto::{SecretKey, sealed};
use zeroize::Zeroizing;

use super::ahead::Piece;
use super::content::{Carried, Content, Kept, Take};
use super::{Arriving, Attempt, DEED, FOLDERS, Restored, checkpoint, fresh, left_as, open_load};
use crate::state::clock;
use crate::state::error::StateError;
use crate::state::{Term, disk, key, line, strays, term};

/// The file that says of which attempt all is there but the key.
const ATTEMPT: &str = "attempt";
const ATTEMPT_LABEL: &str = "exonet-attempt-1";

/// The place beside a directory where an identity is put together that is to live there: it may take pieces [ahead](super::Ahead) of
/// the load, then the load, and last the deed.
#[derive(Debug)]
pub struct Landing {
    /// Where the identity is to live.
    to: PathBuf,
    dir: PathBuf,
    /// What has come ahead, and of which attempt.
    attempt: Option<Attempt>,
    files: BTreeMap<PathBuf, Come>,
}

#[derive(Debug, Default)]
struct Come {
    len: u64,
    digest: Blake2s256,
}

impl Landing {
    /// Beside the directory `path`.
    pub fn beside(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self { to: path.to_owned(), dir: sibling(path, "arriving"), attempt: None, files: BTreeMap::new() }
    }

    /// Keeps a piece that came ahead: durable on return. One of another attempt than those before replaces all that they had.
    ///
    /// The caller knows that it comes from the holder of the identity.
    ///
    /// # Errors
    /// [`StateError::Checkpoint`]: it is damaged, or others are missing before it. [`StateError::Io`].
    pub fn ahead(&mut self, piece: &[u8]) -> Result<(), StateError> {
        let piece = Piece::decode(piece)?;
        if self.attempt != Some(piece.attempt) {
            self.begin(piece.attempt)?;
        }
        let path = self.dir.join(&piece.name);
        if piece.at == 0 {
            self.files.remove(&piece.name);
        }
        let come = self.files.entry(piece.name).or_default();
        if come.len != piece.at {
            return Err(checkpoint("a piece of it is missing"));
        }
        let written = || {
            let mut to = OpenOptions::new().create(true).truncate(piece.at == 0).write(true).open(&path)?;
            to.seek(SeekFrom::Start(piece.at))?;
            to.write_all(piece.bytes)?;
            // Its blocks are all there from now on: the journal writes where it is mapped.
            fill(&mut to, piece.at + piece.bytes.len() as u64, piece.len)?;
            to.sync_data()
        };
        written().map_err(StateError::io("write", &path))?;
        come.len += piece.bytes.len() as u64;
        come.digest.update(piece.bytes);
        Ok(())
    }

    /// Puts everything together that `load` has, and what came ahead of it: all of the identity but its key, durable on return.
    ///
    /// # Errors
    /// [`StateError::Checkpoint`]: it is for another node than that of `reader`, damaged, or not all of it came ahead.
    /// [`StateError::Exists`]: an identity lives here. [`StateError::Io`].
    pub fn land(&mut self, load: &[u8], reader: &SecretKey) -> Result<Arriving, StateError> {
        let arriving = open_load(load, reader)?;
        is_free_for(&self.to, &arriving)?;
        if landed(&self.dir)? != Some(arriving.attempt) {
            self.write(&arriving.content)?;
        }
        Ok(arriving)
    }

    /// As [`super::restore`], where the load may have [landed](Self::land).
    ///
    /// # Errors
    /// As [`super::restore`].
    pub fn restore(&mut self, reader: &SecretKey, load: &[u8], deed: &[u8]) -> Result<Restored, StateError> {
        let arriving = open_load(load, reader)?;
        let secret = open_deed(deed, reader, &arriving)?;
        is_free_for(&self.to, &arriving)?;
        if landed(&self.dir)? != Some(arriving.attempt) {
            self.write(&arriving.content)?;
        }
        self.live(&secret)?;
        let fingerprint = key::fingerprint(&secret);
        let term = term::read(&self.to.join(term::FILE), fingerprint)?;
        let application = Zeroizing::new(arriving.content.application);
        Ok(Restored { id: arriving.id, term, application })
    }

    /// Forgets what has come.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn clear(&mut self) -> Result<(), StateError> {
        (self.attempt, self.files) = (None, BTreeMap::new());
        // First: without it, what is left is not taken for all of it.
        let mark = self.dir.join(ATTEMPT);
        if disk::exists(&mark)? {
            super::remove(&mark)?;
        }
        clear(&self.dir)
    }

    fn begin(&mut self, attempt: Attempt) -> Result<(), StateError> {
        self.clear()?;
        for folder in FOLDERS {
            disk::create_dirs(&self.dir.join(folder))?;
        }
        self.attempt = Some(attempt);
        Ok(())
    }

    fn write(&mut self, content: &Content) -> Result<(), StateError> {
        if self.attempt != Some(content.attempt) {
            self.begin(content.attempt)?;
        }
        let came = |file: &Kept, name: &Path| match (file.ahead, self.files.get(name)) {
            (None, _) => true,
            (Some(ahead), Some(come)) => {
                ahead == Carried { len: come.len, digest: come.digest.clone().finalize().into() }
            }
            (Some(_), None) => false,
        };
        if !content.files.iter().all(|(name, file)| came(file, name)) {
            return Err(checkpoint("not all of it came that was to come ahead: begin the move again"));
        }
        for folder in FOLDERS {
            self.remove_others(folder, content)?;
        }
        // All are written before the first is forced: the file system then forces most of them at once.
        let mut written = Vec::with_capacity(content.files.len() + 2);
        for (name, file) in &content.files {
            let path = self.dir.join(name);
            let file = put(&path, file).map_err(StateError::io("write", &path))?;
            written.push((path, file));
        }
        // What came ahead is what was written over now.
        (self.attempt, self.files) = (None, BTreeMap::new());
        // Nobody looks here before the mark is made: these need not be whole or absent, and their names are forced together.
        let (own, term) = (content.fingerprint, Term { generation: content.generation, lineage: fresh()? });
        let (term, clock) = (term::encode(own, term), clock::encode(own, content.clock));
        for (file, text) in [(term::FILE, &term), (clock::FILE, &clock)] {
            let path = self.dir.join(file);
            let file = disk::put_plain(&path, text)?;
            written.push((path, file));
        }
        for (path, file) in &written {
            file.sync_all().map_err(StateError::io("sync", path))?;
        }
        for folder in FOLDERS {
            if content.files.iter().any(|(name, _)| name.starts_with(folder)) {
                disk::sync_dir(Some(&self.dir.join(folder)))?;
            }
        }
        if !content.strays.is_empty() {
            strays::Strays::read(self.dir.join(strays::FILE), own)?.store(&content.strays)?;
        }
        disk::sync_dir(Some(&self.dir))?;
        // Last: where this is, all the rest is durable.
        disk::replace(&self.dir.join(ATTEMPT), &line::encode(ATTEMPT_LABEL, &content.attempt.0))
    }

    /// Removes what came ahead and is not of the identity any more.
    fn remove_others(&self, folder: &str, content: &Content) -> Result<(), StateError> {
        let dir = self.dir.join(folder);
        let entries: Result<Vec<_>, _> = fs::read_dir(&dir).and_then(Iterator::collect);
        for entry in entries.map_err(StateError::io("read", &dir))? {
            let name = Path::new(folder).join(entry.file_name());
            if content.files.iter().all(|(ours, _)| *ours != name) {
                fs::remove_file(entry.path()).map_err(StateError::io("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// Gives what has landed its key, and its place.
    fn live(&self, secret: &[u8; 32]) -> Result<(), StateError> {
        let key_path = self.dir.join(key::FILE);
        disk::remove_leftover(&key_path)?;
        // A former try may have come so far.
        if !disk::exists(&key_path)? {
            key::create(&key_path, secret)?;
        }
        let former = sibling(&self.to, "former");
        if is_there(&self.to)? {
            clear(&former)?;
            fs::rename(&self.to, &former).map_err(StateError::io("rename", &self.to))?;
        } else if disk::exists(&self.to)? {
            clear_unused(&self.to)?;
        }
        fs::rename(&self.dir, &self.to).map_err(StateError::io("rename", &self.dir))?;
        disk::sync_dir(self.to.parent())
    }
}

/// Of which attempt all is in `dir` but the key.
fn landed(dir: &Path) -> Result<Option<Attempt>, StateError> {
    let path = dir.join(ATTEMPT);
    if !disk::exists(&path)? {
        return Ok(None);
    }
    let text = disk::read(&path, |_| Ok(()))?;
    Ok(line::decode::<16>(ATTEMPT_LABEL, &text).ok().map(|attempt| Attempt(*attempt)))
}

/// Fails unless nothing is at `path` that could be lost: no identity, or the same one, which was ceded before.
fn is_free_for(path: &Path, arriving: &Arriving) -> Result<(), StateError> {
    if !is_there(path)? {
        return Ok(());
    }
    match left_as(path)? {
        Some(left) if left < arriving.generation && id_in(path)? == arriving.id => Ok(()),
        _ => Err(StateError::Exists { path: path.into() }),
    }
}

/// Whether `deed` is that of this load, and both are for the node of `reader`.
///
/// # Errors
/// [`StateError::Checkpoint`]: it is not.
pub fn check_deed(load: &[u8], deed: &[u8], reader: &SecretKey) -> Result<(), StateError> {
    open_deed(deed, reader, &open_load(load, reader)?).map(drop)
}

fn open_deed(deed: &[u8], reader: &SecretKey, of: &Arriving) -> Result<Zeroizing<[u8; 32]>, StateError> {
    let opened = sealed::open(deed, reader)
        .map_err(|_| checkpoint("its deed is not whole, or sealed for another node"))?;
    let mut rest = Take(&opened);
    let fields = (|| Some((rest.array::<20>()?, rest.array::<16>()?, rest.array::<32>()?)))();
    let (format, attempt, secret) = fields.ok_or_else(|| checkpoint("its deed is cut short"))?;
    let secret = Zeroizing::new(secret);
    if format != *DEED {
        return Err(checkpoint("its deed was written by another version of Exonet"));
    }
    if attempt != of.attempt.0 || SecretKey::from_bytes(*secret).node_id() != of.id {
        return Err(checkpoint("its deed is of another checkpoint"));
    }
    if key::fingerprint(&secret) != of.content.fingerprint {
        return Err(checkpoint("it is damaged"));
    }
    Ok(secret)
}

/// Writes what a checkpoint has of a file behind what came ahead. The caller forces it.
fn put(path: &Path, file: &Kept) -> std::io::Result<File> {
    let mut to = OpenOptions::new().create(true).truncate(file.ahead.is_none()).write(true).open(path)?;
    let at = file.ahead.map_or(0, |ahead| ahead.len);
    to.seek(SeekFrom::Start(at))?;
    to.write_all(&file.bytes)?;
    // What was cut off at its end was zeros.
    fill(&mut to, at + file.bytes.len() as u64, file.len)?;
    Ok(to)
}

/// Gives a file this length: zeros are written where there is nothing yet, which begins at `from` or behind it.
fn fill(to: &mut File, from: u64, len: u64) -> std::io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut at = to.metadata()?.len().max(from);
    to.set_len(at.min(len))?;
    to.seek(SeekFrom::Start(at))?;
    while at < len {
        let some = usize::try_from(len - at).unwrap_or(ZEROS.len()).min(ZEROS.len());
        to.write_all(ZEROS.get(..some).unwrap_or(&ZEROS))?;
        at += some as u64;
    }
    Ok(())
}

// ---- directories

fn is_there(path: &Path) -> Result<bool, StateError> {
    Ok(disk::exists(&path.join(key::FILE))? || disk::exists(&path.join(clock::FILE))?)
}

fn id_in(path: &Path) -> Result<exonet_proto::NodeId, StateError> {
    Ok(SecretKey::from_bytes(*key::read(&path.join(key::FILE))?).node_id())
}

/// The directory beside `path` that has this mark behind its name.
fn sibling(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(mark);
    name.into()
}

/// Removes a directory, if it is there.
fn clear(path: &Path) -> Result<(), StateError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StateError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory in which there never was an identity, nor anything else.
fn clear_unused(path: &Path) -> Result<(), StateError> {
    let entries: Result<Vec<_>, _> = fs::read_dir(path).and_then(Iterator::collect);
    let entries = entries.map_err(StateError::io("read", path))?;
    if entries.iter().any(|entry| !["lock", "control"].iter().any(|unused| entry.file_name() == *unused)) {
        return Err(StateError::Exists { path: path.into() });
    }
    clear(path)
}
