//! An identity that moves: a consistent copy of everything that it keeps, sealed for the node that takes it over.
//!
//! A checkpoint has two parts. The [`Load`] is everything but the key: its holder cannot act as the identity. The
//! [`Deed`] is the key: it exists only once the identity has been [ceded](StateDir::cede) here, durably and for good.
//! So at any moment at most one place can act as the identity: a holder of the load waits for the deed, and once the
//! deed exists, the original no longer opens.
//!
//! Both are sealed for one node, and name one attempt. Where they are [restored](restore), the identity begins a new
//! [generation](super::Term), with numbers that no earlier generation can have drawn. Peers that have met it talk to no
//! earlier one.

mod ahead;
mod content;
mod landing;

use std::fs;
use std::path::Path;

use exonet_proto::crypto::sealed;
use exonet_proto::{MAX_NUMBER, NodeId};
use exonet_store::{Level, Options, Trust};
use zeroize::Zeroizing;

use super::clock::{self, Clock, ClockRecord};
use super::error::StateError;
use super::{SecretKey, StateDir, Term, disk, journal, key, line, pins, superseded, term};
use content::{Content, Take};

pub use ahead::Ahead;
pub use landing::{Landing, check_deed};

/// The first bytes of the content of a deed.
const DEED: &[u8; 20] = b"exonet-deed-0000001\n";
/// The file that marks that the identity was ceded.
pub(super) const MARK: &str = "moved";
const MARK_LABEL: &str = "exonet-moved-1";
/// Fingerprint of the key, attempt, target, generation.
const MARK_PAYLOAD: usize = 4 + 16 + 32 + 8;
/// The number of bits of a generation's own numbers: those of the next generation lie above them.
const LANE: u32 = 48;
/// The folders whose files move, besides the small files.
const FOLDERS: [&str; 3] = [journal::DIR, "dead", pins::DIR];
/// The longest content of a load, in bytes.
const LONGEST: u64 = 4 << 30;

/// Identifies one attempt to move an identity: parts of different attempts do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(pub [u8; 16]);

/// Everything that an identity keeps but its key, sealed.
#[derive(Clone, Debug)]
pub struct Load {
    attempt: Attempt,
    to: NodeId,
    sealed: Vec<u8>,
}

/// The key of an identity that was ceded, sealed.
#[derive(Clone, Debug)]
pub struct Deed(Vec<u8>);

/// The record that an identity was ceded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceded {
    /// The attempt.
    pub attempt: Attempt,
    /// The node that it was ceded to.
    pub to: NodeId,
    /// The generation that lives there.
    pub generation: u64,
}

/// The result of a restoration.
#[derive(Debug)]
pub struct Restored {
    /// The id of the identity.
    pub id: NodeId,
    /// Its current term.
    pub term: Term,
    /// The data of the application.
    pub application: Zeroizing<Vec<u8>>,
}

/// The content of a load, as its reader sees it before there is a deed.
#[derive(Debug)]
pub struct Arriving {
    /// The id of the identity.
    pub id: NodeId,
    /// The attempt.
    pub attempt: Attempt,
    /// The generation that it will have.
    pub generation: u64,
    content: Content,
}

impl Load {
    /// The attempt that it belongs to.
    pub const fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The bytes to send to the node that it is for.
    pub fn as_bytes(&self) -> &[u8] {
        &self.sealed
    }
}

impl Deed {
    /// The bytes to send to the node that it is for.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl StateDir {
    /// A consistent copy of everything that the identity keeps, for the node `to`, with data of the `application` for
    /// that node. The identity goes on here until it is [ceded](Self::cede); nothing may change it between the two.
    ///
    /// # Errors
    /// [`StateError::Target`]: `to` is not the id of a key, or is the identity itself. [`StateError::Io`].
    /// [`StateError::Exhausted`]: it has moved too often.
    pub fn checkpoint(&self, to: &NodeId, application: &[u8]) -> Result<Load, StateError> {
        self.checkpoint_after(to, application, None)
    }

    /// Like [`Self::checkpoint`], without the data that was sent [`Ahead`] of it.
    ///
    /// # Errors
    /// As for [`Self::checkpoint`].
    pub fn checkpoint_after(
        &self,
        to: &NodeId,
        application: &[u8],
        ahead: Option<&Ahead>,
    ) -> Result<Load, StateError> {
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
        let attempt = match ahead {
            Some(ahead) => ahead.attempt(),
            None => Attempt(fresh()?),
        };
        self.end_journal()?;
        let content = Content {
            id: own.node_id(),
            attempt,
            generation,
            fingerprint: key::fingerprint(&self.secret),
            clock,
            strays: self.strays.found().to_vec(),
            files: ahead::read_files(&self.path, self.journal_tag(), ahead)?,
            application: application.to_vec(),
        };
        let sealed = sealed::seal(&content.encode(), to, &SecretKey::from_bytes(fresh()?));
        let sealed = sealed.ok_or(StateError::Target { to: *to })?;
        Ok(Load { attempt, to: *to, sealed })
    }

    /// Closes the journal cleanly if the process that wrote it was killed: the machine that it goes to could not tell
    /// that nothing of it is missing.
    fn end_journal(&self) -> Result<(), StateError> {
        let options = || Options::new(self.journal_tag(), Level::Sync);
        let path = self.journal();
        if exonet_store::is_clean(&path, options())? {
            return Ok(());
        }
        // A journal that is not trusted here is not trusted there either.
        if !matches!(exonet_store::read(&path, options())?, Some((Trust::Trusted, _))) {
            return Ok(());
        }
        let (storage, found) = exonet_store::open(&path, options())?;
        drop(found);
        Ok(storage.close()?)
    }

    /// Cedes the identity to the node that `load` is for: durably on return, and for good. It no longer opens here.
    ///
    /// The caller must know that the load is safe at the place where it will be restored.
    ///
    /// # Errors
    /// [`StateError::Io`]: the identity may be ceded or not; [`ceded`] tells.
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

/// The record that the identity in `path` was ceded. None: it lives there, or there is none.
///
/// # Errors
/// [`StateError::CorruptTerm`]: the mark cannot be read.
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

/// Whether there is an identity in `path` that was neither ceded there nor, as far as is known there, lives elsewhere.
///
/// # Errors
/// [`StateError::Io`]; [`StateError::CorruptTerm`].
pub fn lives(path: impl AsRef<Path>) -> Result<bool, StateError> {
    let path = path.as_ref();
    Ok(disk::exists(&path.join(key::FILE))? && left_as(path)?.is_none())
}

/// The generation that lives elsewhere, if the identity in `path` does not live there.
fn left_as(path: &Path) -> Result<Option<u64>, StateError> {
    match ceded(path)? {
        Some(ceded) => Ok(Some(ceded.generation)),
        None => superseded::read(path),
    }
}

/// Makes the deed of an identity that was ceded in `path` again.
///
/// # Errors
/// [`StateError::Missing`]: the identity was not ceded there.
pub fn deed(path: impl AsRef<Path>) -> Result<Deed, StateError> {
    let path = path.as_ref();
    let ceded = ceded(path)?.ok_or_else(|| StateError::Missing { path: path.into() })?;
    let secret = key::read(&path.join(key::FILE))?;
    deed_of(&secret, &ceded)
}

/// Takes back an identity that was ceded in `path`, or was a copy there, and that certainly lives nowhere: its
/// checkpoint was lost, or never restored. It begins a new generation, above the one that it was ceded as.
///
/// If it lives elsewhere after all, two nodes have it: peers that meet both talk to this one.
///
/// # Errors
/// [`StateError::Missing`]: the identity was not ceded there.
pub fn take_back(path: impl AsRef<Path>) -> Result<Term, StateError> {
    let path = path.as_ref();
    let left = left_as(path)?.ok_or_else(|| StateError::Missing { path: path.into() })?;
    let lock = StateDir::lock_new(path)?;
    lock.verify()?;
    let secret = key::read(&path.join(key::FILE))?;
    let fingerprint = key::fingerprint(&secret);
    let generation = left + 1;
    let mut clock = Clock::read(path.join(clock::FILE), fingerprint)?;
    let record = clock.durable();
    let lane = generation.checked_shl(LANE).filter(|lane| *lane < MAX_NUMBER);
    let lane = lane.ok_or_else(|| StateError::Exhausted { path: path.join(clock::FILE) })?;
    clock.store(ClockRecord { d: record.d.max(lane), ..record })?;
    let term = Term { generation, lineage: fresh()? };
    term::write(&path.join(term::FILE), fingerprint, term)?;
    for mark in [superseded::FILE, MARK].map(|mark| path.join(mark)) {
        if disk::exists(&mark)? {
            remove(&mark)?;
        }
    }
    Ok(term)
}

/// Reads a load that is for the node of `reader`.
///
/// # Errors
/// [`StateError::Checkpoint`]: it is for another node, or damaged, or has another version.
pub fn open_load(load: &[u8], reader: &SecretKey) -> Result<Arriving, StateError> {
    let content =
        sealed::open(load, reader).map_err(|_| checkpoint("it is not whole, or sealed for another node"))?;
    let content = Content::decode(&content)?;
    Ok(Arriving { id: content.id, attempt: content.attempt, generation: content.generation, content })
}

/// Restores an identity to `path`: durable on return. `path` must have nothing that could be lost: no identity, or the
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
    Landing::beside(path).restore(reader, load, deed)
}

fn deed_of(secret: &[u8; 32], ceded: &Ceded) -> Result<Deed, StateError> {
    let mut content = Zeroizing::new(Vec::with_capacity(DEED.len() + 16 + 32));
    content.extend_from_slice(DEED);
    content.extend_from_slice(&ceded.attempt.0);
    content.extend_from_slice(secret);
    let sealed = sealed::seal(&content, &ceded.to, &SecretKey::from_bytes(fresh()?));
    sealed.map(Deed).ok_or(StateError::Target { to: ceded.to })
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
