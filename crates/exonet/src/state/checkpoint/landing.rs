//! Where a checkpoint is put together, beside the directory in which the identity will live.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest as _};
use exonet_proto::NodeId;
use exonet_proto::crypto::{SecretKey, sealed};
use zeroize::Zeroizing;

use super::ahead::Piece;
use super::content::{Carried, Content, Kept, Take};
use super::{
    Arriving, Attempt, Checkpoint, DEED, FOLDERS, Restored, arrived, checkpoint, fresh, left_as, lives,
};
use crate::state::clock;
use crate::state::error::StateError;
use crate::state::lock::{self, Lock};
use crate::state::{Term, disk, key, line, strays, term};

/// The file that names the attempt whose data has arrived completely, except for the key.
const ATTEMPT: &str = "attempt";
const ATTEMPT_LABEL: &str = "exonet-attempt-1";
/// The suffix of the directory of an identity that was ceded at the same place before.
const FORMER: &str = "former";
const LOCK: &str = lock::FILE;
/// How often a landing tries to lock a directory that other processes remove.
const TRIES: u32 = 16;

/// Beside the directory in which an identity will live: the place where the identity is put together. It can take
/// pieces [ahead](super::Ahead) of the load, then the load, and at last the deed.
///
/// Only one process at a time writes there: a landing holds a lock from its first write on.
pub struct Landing {
    /// The directory in which the identity will live.
    to: PathBuf,
    dir: PathBuf,
    /// The lock of the directory. It moves with the directory, and becomes the lock of the identity.
    lock: Option<Lock>,
    /// The attempt whose data this landing has written or found here.
    own: Option<Attempt>,
    /// The attempt to which the pieces belong that have come ahead.
    attempt: Option<Attempt>,
    files: BTreeMap<PathBuf, Come>,
}

#[derive(Debug, Default)]
struct Come {
    len: u64,
    digest: Blake2s256,
}

/// The place of a landing, which is free for an identity. No other process can open it while this exists.
pub(super) struct Ready {
    /// None: the directory does not exist.
    place: Option<(Lock, Before)>,
}

/// The content of the directory in which an identity will live.
enum Before {
    /// Nothing that could be lost.
    Unused,
    /// The same identity, which was ceded there before.
    Former,
}

impl Landing {
    /// Makes a landing beside the directory `path`. If `path` is a link, beside the directory that it names.
    pub fn beside(path: impl AsRef<Path>) -> Self {
        let to = plain(path.as_ref());
        let dir = sibling(&to, "arriving");
        Self { to, dir, lock: None, own: None, attempt: None, files: BTreeMap::new() }
    }

    /// The directory in which the identity will live.
    pub(super) fn place(&self) -> &Path {
        &self.to
    }

    /// Keeps a piece that was sent ahead; it is durable when this returns. If the piece belongs to another attempt
    /// than the pieces before, it replaces all of them.
    ///
    /// The caller must know that the piece comes from the holder of the identity.
    ///
    /// # Errors
    /// [`StateError::Checkpoint`]: the piece is damaged, or an earlier one is missing. [`StateError::Io`].
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
            // From here on, all blocks of the file are allocated, since the journal writes through a mapping.
            fill(&mut to, piece.at + piece.bytes.len() as u64, piece.len)?;
            to.sync_data()
        };
        written().map_err(StateError::io("write", &path))?;
        come.len += piece.bytes.len() as u64;
        come.digest.update(piece.bytes);
        Ok(())
    }

    /// Puts together what is in a load and what was sent ahead of it: the whole identity except its key. It is durable
    /// when this returns.
    ///
    /// # Errors
    /// [`StateError::Checkpoint`]: something that was sent ahead of the load is missing. [`StateError::Exists`]: an
    /// identity already lives here. [`StateError::Io`].
    pub fn land(&mut self, arriving: &Arriving) -> Result<(), StateError> {
        self.is_free_for(arriving)?;
        self.take_in(arriving)
    }

    /// Like [`super::restore`], for a load that may already have [landed](Self::land).
    ///
    /// # Errors
    /// The errors of [`super::restore`].
    pub fn restore<A: Checkpoint>(
        &mut self,
        reader: &SecretKey,
        arriving: &Arriving,
        deed: &[u8],
    ) -> Result<Restored<A>, StateError> {
        let secret = open_deed(deed, reader, arriving)?;
        let application = arriving.application()?;
        self.land(arriving)?;
        let term = self.term(arriving)?;
        let ready = self.ready(&arriving.id, arriving.generation)?;
        self.live(&secret, ready)?;
        Ok(Restored { id: arriving.id, place: self.to.clone(), term, application })
    }

    /// Fails if the place has content that could be lost.
    pub(super) fn is_free_for(&self, arriving: &Arriving) -> Result<(), StateError> {
        self.takes(&arriving.id, arriving.generation)
    }

    fn takes(&self, id: &NodeId, generation: u64) -> Result<(), StateError> {
        is_free_for(&self.to, id, generation)?;
        // `live` moves an identity that is at the place to the directory of the former one, and removes the former one.
        if is_there(&self.to)? { is_free_for(&sibling(&self.to, FORMER), id, generation) } else { Ok(()) }
    }

    /// Fails if this attempt has already brought the identity to the place.
    pub(super) fn has_not_arrived(&self, attempt: Attempt) -> Result<(), StateError> {
        if landed(&self.to)? == Some(attempt) && lives(&self.to)? {
            return Err(StateError::Arrived { path: self.to.clone() });
        }
        Ok(())
    }

    /// Checks that the place is free, and locks it.
    pub(super) fn ready(&mut self, id: &NodeId, generation: u64) -> Result<Ready, StateError> {
        self.hold()?;
        if !disk::exists(&self.to)? {
            return Ok(Ready { place: None });
        }
        // The first check comes before the lock, so that a directory with other content gets no lock file.
        self.takes(id, generation)?;
        let lock = Lock::acquire(&self.to)?;
        self.takes(id, generation)?;
        let before = if is_there(&self.to)? { Before::Former } else { Before::Unused };
        Ok(Ready { place: Some((lock, before)) })
    }

    /// Takes the lock, unless this landing already has it.
    fn hold(&mut self) -> Result<(), StateError> {
        if let Some(lock) = &self.lock {
            return lock.verify();
        }
        // The last holder of the lock may have removed the directory, and the lock with it.
        for _ in 0..TRIES {
            disk::create_dirs(&self.dir)?;
            let lock = match Lock::acquire(&self.dir) {
                Err(StateError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => continue,
                lock => lock?,
            };
            match lock.verify() {
                Err(StateError::LockLost { .. }) => {}
                verified => {
                    verified?;
                    self.lock = Some(lock);
                    return Ok(());
                }
            }
        }
        Err(StateError::Locked { path: self.dir.clone(), pid: None })
    }

    /// Fails if another attempt has brought an identity here: it may live nowhere else.
    fn keeps_no_other(&self) -> Result<(), StateError> {
        if disk::exists(&self.dir.join(key::FILE))? && (self.own.is_none() || landed(&self.dir)? != self.own)
        {
            return Err(StateError::Exists { path: self.dir.clone() });
        }
        Ok(())
    }

    /// Whether everything of this attempt except the key has landed.
    pub(super) fn has(&self, attempt: Attempt) -> Result<bool, StateError> {
        Ok(landed(&self.dir)? == Some(attempt))
    }

    /// Writes everything except the key, unless it has already landed. It is durable when this returns.
    pub(super) fn take_in(&mut self, arriving: &Arriving) -> Result<(), StateError> {
        self.hold()?;
        if self.has(arriving.attempt)? {
            self.own = Some(arriving.attempt);
            return Ok(());
        }
        self.write(&arriving.content)
    }

    /// The term of the identity that has landed.
    pub(super) fn term(&self, arriving: &Arriving) -> Result<Term, StateError> {
        let path = self.dir.join(term::FILE);
        if !disk::exists(&path)? {
            return Err(StateError::CorruptTerm { path, what: "it is missing" });
        }
        term::read(&path, arriving.content.fingerprint)
    }

    /// Removes everything that has arrived.
    ///
    /// # Errors
    /// [`StateError::Exists`]: another attempt has brought an identity there. [`StateError::Locked`]: another process
    /// writes there. [`StateError::Io`].
    pub fn clear(&mut self) -> Result<(), StateError> {
        (self.attempt, self.files) = (None, BTreeMap::new());
        if !disk::exists(&self.dir)? {
            return Ok(());
        }
        self.hold()?;
        self.keeps_no_other()?;
        self.empty()?;
        let lock = self.lock.take();
        // Some systems cannot remove a file while it is open.
        let lock = lock.filter(|_| cfg!(unix));
        clear(&self.dir)?;
        drop(lock);
        Ok(())
    }

    /// Removes everything here except the lock.
    fn empty(&self) -> Result<(), StateError> {
        // Removes the mark first: without it, nobody takes the rest for the whole.
        let mark = self.dir.join(ATTEMPT);
        if disk::exists(&mark)? {
            super::remove(&mark)?;
        }
        let entries: Result<Vec<_>, _> = fs::read_dir(&self.dir).and_then(Iterator::collect);
        for entry in entries.map_err(StateError::io("read", &self.dir))? {
            let path = entry.path();
            if entry.file_name() == *LOCK {
                continue;
            }
            let is_dir = entry.file_type().map_err(StateError::io("inspect", &path))?.is_dir();
            let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(StateError::io("remove", &path))?;
        }
        Ok(())
    }

    fn begin(&mut self, attempt: Attempt) -> Result<(), StateError> {
        (self.attempt, self.files) = (None, BTreeMap::new());
        self.hold()?;
        self.keeps_no_other()?;
        self.empty()?;
        self.own = Some(attempt);
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
        // Writes all files before it forces the first: the file system then forces most of them together.
        let mut written = Vec::with_capacity(content.files.len() + 3);
        for (name, file) in &content.files {
            let path = self.dir.join(name);
            let file = put(&path, file).map_err(StateError::io("write", &path))?;
            written.push((path, file));
        }
        // This has just overwritten what was sent ahead.
        (self.attempt, self.files) = (None, BTreeMap::new());
        // No process reads here before the mark exists. So these files need not be whole or absent at any moment, and
        // their names are forced together.
        let (own, term) = (content.fingerprint, Term { generation: content.generation, lineage: fresh()? });
        let (term, clock) = (term::encode(own, term), clock::encode(own, content.clock));
        for (file, text) in
            [(term::FILE, term.as_slice()), (clock::FILE, clock.as_slice()), (arrived::FILE, &[])]
        {
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
        // This comes last: once the mark exists, everything else is durable.
        disk::replace(&self.dir.join(ATTEMPT), &line::encode(ATTEMPT_LABEL, &content.attempt.0))
    }

    /// Removes files that were sent ahead and no longer belong to the identity.
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

    /// Gives the identity its key, and moves it to its directory.
    pub(super) fn live(&mut self, secret: &[u8; 32], ready: Ready) -> Result<(), StateError> {
        self.hold()?;
        let key_path = self.dir.join(key::FILE);
        disk::remove_leftover(&key_path)?;
        // An earlier attempt may have got this far.
        if !disk::exists(&key_path)? {
            key::create(&key_path, secret)?;
        }
        // Some systems cannot move a directory while a file in it is open.
        let held = |lock: Lock| Some(lock).filter(|_| cfg!(unix));
        let lock = self.lock.take().and_then(held);
        match ready.place {
            None => {}
            Some((place, Before::Former)) => {
                let place = held(place);
                let former = sibling(&self.to, FORMER);
                clear(&former)?;
                fs::rename(&self.to, &former).map_err(StateError::io("rename", &self.to))?;
                drop(place);
            }
            Some((place, Before::Unused)) => {
                let place = held(place);
                clear(&self.to)?;
                drop(place);
            }
        }
        fs::rename(&self.dir, &self.to).map_err(StateError::io("rename", &self.dir))?;
        disk::sync_dir(self.to.parent())?;
        drop(lock);
        Ok(())
    }
}

impl fmt::Debug for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Landing").field("to", &self.to).field("own", &self.own).finish_non_exhaustive()
    }
}

/// The attempt of which everything except the key is in `dir`.
fn landed(dir: &Path) -> Result<Option<Attempt>, StateError> {
    let path = dir.join(ATTEMPT);
    if !disk::exists(&path)? {
        return Ok(None);
    }
    let text = disk::read(&path, |_| Ok(()))?;
    Ok(line::decode::<16>(ATTEMPT_LABEL, &text).ok().map(|attempt| Attempt(*attempt)))
}

/// Fails if `path` has anything that could be lost. It may have nothing, or the same identity, which was ceded there
/// before.
fn is_free_for(path: &Path, id: &NodeId, generation: u64) -> Result<(), StateError> {
    if !is_there(path)? {
        return if disk::exists(path)? { is_unused(path) } else { Ok(()) };
    }
    match left_as(path)? {
        Some(left) if left < generation && id_in(path)? == *id => Ok(()),
        _ => Err(StateError::Exists { path: path.into() }),
    }
}

pub(super) fn open_deed(
    deed: &[u8],
    reader: &SecretKey,
    of: &Arriving,
) -> Result<Zeroizing<[u8; 32]>, StateError> {
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

/// Writes what a checkpoint has of a file after what was sent ahead. The caller forces the file.
fn put(path: &Path, file: &Kept) -> std::io::Result<File> {
    let mut to = OpenOptions::new().create(true).truncate(file.ahead.is_none()).write(true).open(path)?;
    let at = file.ahead.map_or(0, |ahead| ahead.len);
    to.seek(SeekFrom::Start(at))?;
    to.write_all(&file.bytes)?;
    // The end that was cut off consists of zeros.
    fill(&mut to, at + file.bytes.len() as u64, file.len)?;
    Ok(to)
}

/// Extends a file to this length with zeros. Its data reaches up to `from` or further.
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

fn id_in(path: &Path) -> Result<NodeId, StateError> {
    Ok(SecretKey::from_bytes(*key::read(&path.join(key::FILE))?).node_id())
}

/// The directory beside `path` with the suffix `mark`.
fn sibling(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(mark);
    name.into()
}

/// Removes a directory if it exists.
fn clear(path: &Path) -> Result<(), StateError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StateError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Fails if a directory has other content than a lock and sockets. A process leaves these if it finds no identity.
fn is_unused(path: &Path) -> Result<(), StateError> {
    let entries: Result<Vec<_>, _> = fs::read_dir(path).and_then(Iterator::collect);
    let entries = entries.map_err(StateError::io("read", path))?;
    if entries.iter().all(|entry| [LOCK, "control"].iter().any(|unused| entry.file_name() == **unused)) {
        return Ok(());
    }
    Err(StateError::Occupied { path: path.into() })
}

/// The directory `path` without links. It need not exist.
fn plain(path: &Path) -> PathBuf {
    if let Ok(plain) = fs::canonicalize(path) {
        return plain;
    }
    let Ok(whole) = std::path::absolute(path) else { return path.to_owned() };
    match (whole.parent().map(fs::canonicalize), whole.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        // This removes a slash at the end.
        _ => whole.components().collect(),
    }
}
