//! An identity that moves: one cut of all that it keeps, sealed for the node that takes it over.
//!
//! A checkpoint has two parts. The [`Load`] is everything but the key: who has it cannot speak as the identity. The [`Deed`] is
//! the key: it exists only once the identity has been [ceded](StateDir::cede) here, durably and for good. So at any moment one place can
//! speak, or none: whoever holds the load before that waits for the deed, and what is left here does not open any more.
//!
//! Both are sealed for one node, and name one attempt. Where they are [restored](restore), the identity begins a new
//! [generation](super::Term), with numbers that no earlier one can have drawn; peers that have met it talk to no earlier one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use exonet_proto::crypto::sealed;
use exonet_proto::node::Far;
use exonet_proto::{MAX_NUMBER, NodeId, Stamp};
use zeroize::Zeroizing;

use super::clock::{self, Clock, ClockRecord};
use super::error::StateError;
use super::{SecretKey, StateDir, Term, disk, journal, key, line, strays, term};

/// What the content of a load, and of a deed, begins with.
const LOAD: &[u8; 20] = b"exonet-checkpoint-1\n";
const DEED: &[u8; 20] = b"exonet-deed-0000001\n";
/// The mark that the identity was ceded.
pub(super) const MARK: &str = "moved";
const MARK_LABEL: &str = "exonet-moved-1";
/// Fingerprint of the key, attempt, target, generation.
const MARK_PAYLOAD: usize = 4 + 16 + 32 + 8;
/// Numbers that a generation has for itself: those of the next lie above them.
const LANE: u32 = 48;
/// The folders whose files move, beside the small files.
const FOLDERS: [&str; 2] = [journal::DIR, "dead"];
/// The longest content of a load, in bytes.
const LONGEST: u64 = 4 << 30;

/// One try to move an identity: what is of another one does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(pub [u8; 16]);

/// All that an identity keeps but its key, sealed.
#[derive(Clone, Debug)]
pub struct Load {
    attempt: Attempt,
    to: NodeId,
    sealed: Vec<u8>,
}

/// The key of an identity that was ceded, sealed.
#[derive(Clone, Debug)]
pub struct Deed(Vec<u8>);

/// Where an identity was ceded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceded {
    /// In which attempt.
    pub attempt: Attempt,
    /// To which node.
    pub to: NodeId,
    /// The generation that lives there.
    pub generation: u64,
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// Which identity.
    pub id: NodeId,
    /// Where it lives now.
    pub term: Term,
    /// What the application had to say.
    pub application: Zeroizing<Vec<u8>>,
}

/// What a load is about, as its reader sees it before there is a deed.
#[derive(Debug)]
pub struct Arriving {
    /// Which identity.
    pub id: NodeId,
    /// In which attempt.
    pub attempt: Attempt,
    /// The generation that it will be.
    pub generation: u64,
    content: Content,
}

impl Load {
    /// Which attempt it is of.
    pub const fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The bytes to be carried to the node that it is for.
    pub fn as_bytes(&self) -> &[u8] {
        &self.sealed
    }
}

impl Deed {
    /// The bytes to be carried to the node that it is for.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl StateDir {
    /// Everything that the identity keeps, as one cut, for the node `to`, with what the `application` wants to find there. The identity
    /// goes on here until it is [ceded](Self::cede); nothing may change it between the two.
    ///
    /// # Errors
    /// [`StateError::Target`]: `to` is the id of no key, or the identity itself. [`StateError::Io`]. [`StateError::Exhausted`]: it has
    /// moved too often.
    pub fn checkpoint(&self, to: &NodeId, application: &[u8]) -> Result<Load, StateError> {
        self.lock.verify()?;
        let own = SecretKey::from_bytes(*self.secret);
        if own.node_id() == *to {
            return Err(StateError::Target { to: *to });
        }
        let generation = self.term.generation + 1;
        let clock = self.load();
        let exhausted = || StateError::Exhausted { path: self.path.join(clock::FILE) };
        let lane =
            generation.checked_shl(LANE).filter(|lane| lane >> LANE == generation && *lane < MAX_NUMBER);
        let lane = lane.ok_or_else(exhausted)?;
        let clock = ClockRecord { d: clock.d.max(lane), ..clock };
        let attempt = Attempt(fresh()?);
        let content = Content {
            id: own.node_id(),
            attempt,
            generation,
            clock,
            strays: self.strays.found().to_vec(),
            files: read_files(&self.path)?,
            application: application.to_vec(),
        };
        let sealed = sealed::seal(&content.encode(), to, &SecretKey::from_bytes(fresh()?));
        let sealed = sealed.ok_or(StateError::Target { to: *to })?;
        Ok(Load { attempt, to: *to, sealed })
    }

    /// Gives the identity away, to the node that `load` is for: durable on return, and for good. It does not open here any more.
    ///
    /// The caller knows that the load is safe where it is to be restored.
    ///
    /// # Errors
    /// [`StateError::Io`]: the identity may be ceded or not; [`ceded`] says.
    pub fn cede(self, load: &Load) -> Result<Deed, StateError> {
        self.lock.verify()?;
        let Load { attempt, to, .. } = load;
        let generation = self.term.generation + 1;
        let mut payload = [0; MARK_PAYLOAD];
        let fields = key::fingerprint(&self.secret).into_iter().chain(attempt.0).chain(to.0);
        let fields = fields.chain(generation.to_be_bytes());
        payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        disk::replace(&self.path.join(MARK), &line::encode(MARK_LABEL, &payload))?;
        deed_of(&self.secret, &Ceded { attempt: *attempt, to: *to, generation })
    }
}

/// Where the identity in `path` was ceded to. None: it lives there, or nothing is there.
///
/// # Errors
/// [`StateError::CorruptTerm`]: that cannot be read.
pub fn ceded(path: impl AsRef<Path>) -> Result<Option<Ceded>, StateError> {
    let mark = path.as_ref().join(MARK);
    if !disk::exists(&mark)? {
        return Ok(None);
    }
    let corrupt = |what| StateError::CorruptTerm { path: mark.clone(), what };
    let text = disk::read(&mark, |_| Ok(()))?;
    let payload = line::decode::<MARK_PAYLOAD>(MARK_LABEL, &text).map_err(|error| match error {
        line::LineError::Version => StateError::Version { path: mark.clone() },
        line::LineError::Malformed(what) => corrupt(what),
    })?;
    let mut rest = Take(payload.get(4..).unwrap_or_default());
    let read = || -> Option<Ceded> {
        Some(Ceded { attempt: Attempt(rest.array()?), to: NodeId(rest.array()?), generation: rest.number()? })
    };
    ({ read })().map(Some).ok_or_else(|| corrupt("wrong length"))
}

/// The deed of an identity that was ceded in `path`, again.
///
/// # Errors
/// [`StateError::Missing`]: it was not ceded there.
pub fn deed(path: impl AsRef<Path>) -> Result<Deed, StateError> {
    let path = path.as_ref();
    let ceded = ceded(path)?.ok_or_else(|| StateError::Missing { path: path.into() })?;
    let secret = key::read(&path.join(key::FILE))?;
    deed_of(&secret, &ceded)
}

/// Takes an identity back that was ceded in `path` and certainly lives nowhere: its checkpoint was lost, or never restored. It begins
/// a generation of its own, above the one that it was ceded as.
///
/// If it lives elsewhere all the same, two nodes have it: peers that meet both talk to this one.
///
/// # Errors
/// [`StateError::Missing`]: it was not ceded there.
pub fn take_back(path: impl AsRef<Path>) -> Result<Term, StateError> {
    let path = path.as_ref();
    let ceded = ceded(path)?.ok_or_else(|| StateError::Missing { path: path.into() })?;
    let lock = StateDir::lock_new(path)?;
    lock.verify()?;
    let secret = key::read(&path.join(key::FILE))?;
    let fingerprint = key::fingerprint(&secret);
    let generation = ceded.generation + 1;
    let mut clock = Clock::read(path.join(clock::FILE), fingerprint)?;
    let record = clock.durable();
    let lane = generation.checked_shl(LANE).filter(|lane| *lane < MAX_NUMBER);
    let lane = lane.ok_or_else(|| StateError::Exhausted { path: path.join(clock::FILE) })?;
    clock.store(ClockRecord { d: record.d.max(lane), ..record })?;
    let term = Term { generation, lineage: fresh()? };
    term::write(&path.join(term::FILE), fingerprint, term)?;
    remove(&path.join(MARK))?;
    Ok(term)
}

/// Reads a load that is for the node of `reader`.
///
/// # Errors
/// [`StateError::Checkpoint`]: it is for another node, damaged, or of another version.
pub fn open_load(load: &[u8], reader: &SecretKey) -> Result<Arriving, StateError> {
    let content =
        sealed::open(load, reader).map_err(|_| checkpoint("it is not whole, or sealed for another node"))?;
    let content = Content::decode(&content)?;
    Ok(Arriving { id: content.id, attempt: content.attempt, generation: content.generation, content })
}

/// Lets an identity live in `path` from now on: durable on return. Nothing is there that could be lost: no identity, or the
/// same one, which was ceded before.
///
/// # Errors
/// [`StateError::Checkpoint`]: load and deed do not belong together. [`StateError::Exists`]. [`StateError::Io`]: nothing has changed.
pub fn restore(
    path: impl AsRef<Path>,
    reader: &SecretKey,
    load: &[u8],
    deed: &[u8],
) -> Result<Restored, StateError> {
    let path = path.as_ref();
    let arriving = open_load(load, reader)?;
    let secret = open_deed(deed, reader, &arriving)?;
    if is_there(path)? {
        match ceded(path)? {
            Some(ceded) if ceded.generation < arriving.generation && id_in(path)? == arriving.id => {}
            _ => return Err(StateError::Exists { path: path.into() }),
        }
    }
    let term = Term { generation: arriving.generation, lineage: fresh()? };
    let beside = sibling(path, "arriving");
    clear(&beside)?;
    disk::create_dirs(&beside)?;
    write_identity(&beside, &secret, term, &arriving.content)?;
    let former = sibling(path, "former");
    if is_there(path)? {
        clear(&former)?;
        fs::rename(path, &former).map_err(StateError::io("rename", path))?;
    } else if disk::exists(path)? {
        clear_unused(path)?;
    }
    fs::rename(&beside, path).map_err(StateError::io("rename", &beside))?;
    disk::sync_dir(path.parent())?;
    let application = Zeroizing::new(arriving.content.application);
    Ok(Restored { id: arriving.id, term, application })
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
    Ok(secret)
}

fn deed_of(secret: &[u8; 32], ceded: &Ceded) -> Result<Deed, StateError> {
    let mut content = Zeroizing::new(Vec::with_capacity(DEED.len() + 16 + 32));
    content.extend_from_slice(DEED);
    content.extend_from_slice(&ceded.attempt.0);
    content.extend_from_slice(secret);
    let sealed = sealed::seal(&content, &ceded.to, &SecretKey::from_bytes(fresh()?));
    sealed.map(Deed).ok_or(StateError::Target { to: ceded.to })
}

fn write_identity(at: &Path, secret: &[u8; 32], term: Term, content: &Content) -> Result<(), StateError> {
    let fingerprint = key::fingerprint(secret);
    for (name, file) in &content.files {
        let path = at.join(name);
        if let Some(folder) = path.parent() {
            disk::create_dirs(folder)?;
        }
        let written = || {
            let mut to = File::create_new(&path)?;
            to.write_all(&file.bytes)?;
            // What was cut off at its end was zeros.
            to.set_len(file.len)?;
            to.sync_all()
        };
        written().map_err(StateError::io("write", &path))?;
    }
    for folder in FOLDERS.iter().map(|folder| at.join(folder)) {
        if disk::exists(&folder)? {
            disk::sync_dir(Some(&folder))?;
        }
    }
    term::write(&at.join(term::FILE), fingerprint, term)?;
    if !content.strays.is_empty() {
        strays::Strays::read(at.join(strays::FILE), fingerprint)?.store(&content.strays)?;
    }
    Clock::create(at.join(clock::FILE), fingerprint)?.store(content.clock)?;
    // Last: where there is a key, all the rest is durable.
    key::create(&at.join(key::FILE), secret)
}

// ---- the content of a load

/// A file, without the zeros at its end.
#[derive(Debug)]
struct Kept {
    len: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Content {
    id: NodeId,
    attempt: Attempt,
    generation: u64,
    clock: ClockRecord,
    strays: Vec<(NodeId, Far)>,
    files: Vec<(PathBuf, Kept)>,
    application: Vec<u8>,
}

impl Content {
    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let bodies: usize = self.files.iter().map(|(_, file)| file.bytes.len()).sum();
        let mut out = Zeroizing::new(Vec::with_capacity(1_024 + bodies + self.application.len()));
        out.extend_from_slice(LOAD);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.attempt.0);
        let ClockRecord { d, life, latest } = self.clock;
        for number in [self.generation, d, life, latest, self.strays.len() as u64] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for (id, far) in &self.strays {
            out.extend_from_slice(&id.0);
            out.extend_from_slice(&far.lo.0.to_be_bytes());
            out.extend_from_slice(&far.hi.0.to_be_bytes());
        }
        out.extend_from_slice(&(self.files.len() as u64).to_be_bytes());
        for (name, file) in &self.files {
            // Names are ours: they are plain.
            put(&mut out, name.to_string_lossy().as_bytes());
            out.extend_from_slice(&file.len.to_be_bytes());
            put(&mut out, &file.bytes);
        }
        put(&mut out, &self.application);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let mut rest = Take(bytes);
        if rest.array() != Some(*LOAD) {
            return Err(checkpoint("it was written by another version of Exonet"));
        }
        Self::fields(&mut rest).filter(|_| rest.0.is_empty()).ok_or_else(|| checkpoint("it is damaged"))
    }

    fn fields(rest: &mut Take<'_>) -> Option<Self> {
        let (id, attempt) = (NodeId(rest.array()?), Attempt(rest.array()?));
        let (generation, d, life, latest) = (rest.number()?, rest.number()?, rest.number()?, rest.number()?);
        let mut strays = Vec::new();
        for _ in 0..rest.number()? {
            let id = NodeId(rest.array()?);
            strays.push((id, Far { lo: Stamp(rest.number()?), hi: Stamp(rest.number()?) }));
        }
        let mut files = Vec::new();
        for _ in 0..rest.number()? {
            let name = PathBuf::from(String::from_utf8(rest.bytes()?.to_vec()).ok()?);
            is_ours(&name).then_some(())?;
            let len = rest.number()?;
            let bytes = rest.bytes()?.to_vec();
            (bytes.len() as u64 <= len).then_some(())?;
            files.push((name, Kept { len, bytes }));
        }
        let application = rest.bytes()?.to_vec();
        (d <= MAX_NUMBER && generation > 0).then_some(())?;
        let clock = ClockRecord { d, life, latest };
        Some(Self { id, attempt, generation, clock, strays, files, application })
    }
}

/// Whether a name leads to a file in one of the folders that move.
fn is_ours(name: &Path) -> bool {
    let mut parts = name.components();
    let folder =
        matches!(parts.next(), Some(Component::Normal(folder)) if FOLDERS.iter().any(|ours| folder == *ours));
    folder && matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none()
}

fn read_files(of: &Path) -> Result<Vec<(PathBuf, Kept)>, StateError> {
    let mut files = Vec::new();
    let mut whole = 0;
    for folder in FOLDERS {
        let path = of.join(folder);
        if !disk::exists(&path)? {
            continue;
        }
        let failed = StateError::io("read", &path);
        let entries: Result<Vec<_>, _> = fs::read_dir(&path).and_then(Iterator::collect);
        for entry in entries.map_err(failed)? {
            let path = entry.path();
            let mut bytes = fs::read(&path).map_err(StateError::io("read", &path))?;
            let len = bytes.len() as u64;
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(end);
            whole += end as u64;
            if whole > LONGEST {
                return Err(checkpoint("what the identity keeps has more than 4 GiB: let it settle first"));
            }
            files.push((Path::new(folder).join(entry.file_name()), Kept { len, bytes }));
        }
    }
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(files)
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// What is left to be read.
struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }
}

// ---- the directory

fn is_there(path: &Path) -> Result<bool, StateError> {
    Ok(disk::exists(&path.join(key::FILE))? || disk::exists(&path.join(clock::FILE))?)
}

fn id_in(path: &Path) -> Result<NodeId, StateError> {
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

/// Removes a file: durable on return.
fn remove(path: &Path) -> Result<(), StateError> {
    fs::remove_file(path).map_err(StateError::io("remove", path))?;
    disk::sync_dir(path.parent())
}

fn fresh<const N: usize>() -> Result<[u8; N], StateError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| checkpoint("the system gives no random numbers"))?;
    Ok(bytes)
}

const fn checkpoint(what: &'static str) -> StateError {
    StateError::Checkpoint { what }
}
