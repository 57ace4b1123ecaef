//! Moving an identity: a consistent copy of everything that it keeps, sealed for the node that takes it over.
//!
//! A checkpoint has two parts. The [`Load`] is everything except the key: its holder cannot act as the identity. The
//! [`Deed`] is the key: it exists only once the identity has been [ceded](StateDir::cede) here, durably and for good.
//! So at most one place can act as the identity at any time: the holder of the load needs the deed, and the original
//! cannot be opened once the deed exists.
//!
//! Both are sealed for one node, and belong to one attempt. Where they are [restored](restore), the identity begins a
//! new [generation](super::Term), with numbers that no earlier generation can have used. Peers that have met the new
//! generation do not talk to earlier ones.
//!
//! `exon move` carries load and deed one after the other. A [file](Draft) has both.

mod ahead;
mod application;
mod arrived;
mod content;
mod file;
mod freezing;
mod landing;
mod record;
mod restoring;

use std::fs;
use std::path::{Path, PathBuf};

use exonet_proto::crypto::sealed;
use exonet_proto::{MAX_NUMBER, NodeId};
use exonet_store::{Level, Options, Trust};
use zeroize::Zeroizing;

use super::clock::{self, Clock, ClockRecord};
use super::error::StateError;
use super::{SecretKey, StateDir, Term, disk, journal, key, line, pins, superseded, term};
use application::{from_state, state_of};
use content::{Content, Take};
use landing::open_deed;

pub use ahead::Ahead;
pub use application::{ApplicationError, Checkpoint};
pub use arrived::{forget_arrival, has_arrived};
pub use file::{Draft, finish_file};
pub use landing::Landing;
pub use restoring::{Arrival, RestoreError, restore_file};

/// The first bytes of the content of a deed.
const DEED: &[u8; 20] = b"exonet-deed-0000001\n";
/// The file that says that the identity was ceded.
pub(super) const MARK: &str = "moved";
const MARK_LABEL: &str = "exonet-moved-1";
/// The bytes of its payload: fingerprint of the key, attempt, target, generation.
const MARK_PAYLOAD: usize = 4 + 16 + 32 + 8;
/// How many bits the own numbers of a generation have. The numbers of the next generation are above them.
const LANE: u32 = 48;
/// The folders whose files move. The small files move too.
const FOLDERS: [&str; 4] = [journal::DIR, "dead", pins::DIR, record::DIR];
/// The longest content of a load, in bytes.
const LONGEST: u64 = 4 << 30;

/// Identifies one attempt to move an identity: parts of different attempts do not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(pub [u8; 16]);

/// Everything that an identity keeps except its key, sealed.
#[derive(Clone, Debug)]
pub struct Load {
    id: NodeId,
    /// The record to write when the identity is ceded with this load.
    mark: Ceded,
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
    /// The node to which it was ceded.
    pub to: NodeId,
    /// The generation in which the identity lives there.
    pub generation: u64,
}

/// What [`restore`] returns.
#[derive(Debug)]
pub struct Restored<A> {
    /// The id of the identity.
    pub id: NodeId,
    /// The directory in which the identity lives.
    pub place: PathBuf,
    /// The current term of the identity.
    pub term: Term,
    /// The application, with the state that it had at the cut.
    pub application: A,
}

/// What the reader of a load can see before there is a deed.
#[derive(Debug)]
pub struct Arriving {
    /// The id of the identity.
    pub id: NodeId,
    /// The attempt.
    pub attempt: Attempt,
    /// The generation that the identity will have.
    pub generation: u64,
    content: Content,
}

impl Arriving {
    /// The application, with the state that it had at the cut.
    ///
    /// # Errors
    /// [`StateError::Application`]: the application does not take in that state.
    pub fn application<A: Checkpoint>(&self) -> Result<A, StateError> {
        from_state(&self.content.application)
    }

    /// Checks that `deed` belongs to the load, and that it is for the node of `reader`.
    ///
    /// # Errors
    /// [`StateError::Checkpoint`]: it is not.
    pub fn check_deed(&self, deed: &[u8], reader: &SecretKey) -> Result<(), StateError> {
        open_deed(deed, reader, self).map(drop)
    }
}

impl Load {
    /// The attempt to which the load belongs.
    pub const fn attempt(&self) -> Attempt {
        self.mark.attempt
    }

    /// The generation in which the identity will live where the load is restored.
    pub const fn generation(&self) -> u64 {
        self.mark.generation
    }

    /// The bytes to send to the node for which the load is sealed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.sealed
    }
}

impl Deed {
    /// The bytes to send to the node for which the deed is sealed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl StateDir {
    /// Makes a consistent copy of everything that the identity keeps, and of the state of `application`, for the node
    /// `to`. The identity lives on here until it is [ceded](Self::cede). The caller must not change it before.
    ///
    /// # Errors
    /// [`StateError::Application`]: the application does not give its state.
    /// [`StateError::Target`]: `to` is not the id of a key, or is the identity itself. [`StateError::Io`].
    /// [`StateError::Exhausted`]: the identity has moved too often.
    pub fn checkpoint(&self, to: &NodeId, application: &impl Checkpoint) -> Result<Load, StateError> {
        self.checkpoint_after(to, application, None)
    }

    /// Like [`Self::checkpoint`], without what was sent [`Ahead`] of it.
    ///
    /// # Errors
    /// The errors of [`Self::checkpoint`].
    pub fn checkpoint_after(
        &self,
        to: &NodeId,
        application: &impl Checkpoint,
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
            application: Zeroizing::new(state_of(application, &self.path)?),
        };
        let (id, content) = (content.id, content.encode());
        if content.len() as u64 > LONGEST {
            return Err(checkpoint(
                "the identity and the state of the application are longer than 4 GiB: let the identity settle first",
            ));
        }
        let sealed = sealed::seal(&content, to, &SecretKey::from_bytes(fresh()?));
        let sealed = sealed.ok_or(StateError::Target { to: *to })?;
        Ok(Load { id, mark: Ceded { attempt, to: *to, generation }, sealed })
    }

    /// Closes the journal in order if the process that wrote it was killed: the machine to which the journal moves
    /// could not tell whether anything of it is missing.
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

    /// Cedes the identity to the node for which `load` is sealed, for good: it can no longer be opened here. This is
    /// durable when the method returns.
    ///
    /// The caller must know that the load is safe where it will be restored.
    ///
    /// # Errors
    /// [`StateError::Io`]: the identity was not ceded, or the disk does not say whether it was; [`ceded`] tells.
    pub fn cede(self, load: &Load) -> Result<Deed, StateError> {
        let mark = load.mark;
        // Made first, so that only the disk can fail after the step that cedes the identity.
        let deed = deed_of(&self.secret, &mark)?;
        self.mark(&mark).or_else(|error| match ceded(&self.path) {
            // The step that failed came after that one.
            Ok(Some(found)) if found == mark => disk::sync_dir(Some(&self.path)),
            _ => Err(error),
        })?;
        Ok(deed)
    }

    /// Writes the record that the identity was ceded; it is durable when this returns.
    fn mark(&self, ceded: &Ceded) -> Result<(), StateError> {
        self.lock.verify()?;
        let mut payload = [0; MARK_PAYLOAD];
        let fields = key::fingerprint(&self.secret).into_iter().chain(ceded.attempt.0).chain(ceded.to.0);
        let fields = fields.chain(ceded.generation.to_be_bytes());
        payload.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        disk::replace(&self.path.join(MARK), &line::encode(MARK_LABEL, &payload))
    }
}

/// Returns the record that the identity in `path` was ceded. None: it lives there, or there is none.
///
/// # Errors
/// [`StateError::CorruptTerm`]: the record cannot be read.
pub fn ceded(path: impl AsRef<Path>) -> Result<Option<Ceded>, StateError> {
    let mark = path.as_ref().join(MARK);
    if !disk::exists(&mark)? {
        return Ok(None);
    }
    let corrupt = |what| StateError::CorruptTerm { path: mark.clone(), what };
    let payload = line::read::<MARK_PAYLOAD>(&mark, MARK_LABEL, corrupt)?;
    let mut rest = Take(payload.get(4..).unwrap_or_default());
    let read = || -> Option<Ceded> {
        Some(Ceded { attempt: Attempt(rest.array()?), to: NodeId(rest.array()?), generation: rest.number()? })
    };
    ({ read })().map(Some).ok_or_else(|| corrupt("wrong length"))
}

/// Whether an identity lives in `path`: it was not ceded there, and nothing there says that it lives elsewhere.
///
/// # Errors
/// [`StateError::Io`]; [`StateError::CorruptTerm`].
pub fn lives(path: impl AsRef<Path>) -> Result<bool, StateError> {
    let path = path.as_ref();
    Ok(disk::exists(&path.join(key::FILE))? && left_as(path)?.is_none())
}

/// The generation that lives elsewhere; None if the identity lives in `path`.
fn left_as(path: &Path) -> Result<Option<u64>, StateError> {
    match ceded(path)? {
        Some(ceded) => Ok(Some(ceded.generation)),
        None => superseded::read(path),
    }
}

/// Makes the deed of an identity again that was ceded in `path`.
///
/// # Errors
/// [`StateError::Missing`]: the identity was not ceded there.
pub fn deed(path: impl AsRef<Path>) -> Result<Deed, StateError> {
    let path = path.as_ref();
    let ceded = ceded(path)?.ok_or_else(|| StateError::Missing { path: path.into() })?;
    let secret = key::read(&path.join(key::FILE))?;
    deed_of(&secret, &ceded)
}

/// Takes back an identity that was ceded in `path`, or of which `path` has a copy. Use it only if the identity
/// certainly lives nowhere, because its checkpoint was lost or never restored. The identity begins a new generation,
/// above the one under which it was ceded.
///
/// If it lives elsewhere nevertheless, two nodes have it: peers that meet both talk to this one.
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

/// Reads a load that is sealed for the node of `reader`.
///
/// # Errors
/// [`StateError::Checkpoint`]: the load is for another node, is damaged, or has another version.
pub fn open_load(load: &[u8], reader: &SecretKey) -> Result<Arriving, StateError> {
    let content =
        sealed::open(load, reader).map_err(|_| checkpoint("it is not whole, or sealed for another node"))?;
    let content = Content::decode(&content)?;
    Ok(Arriving { id: content.id, attempt: content.attempt, generation: content.generation, content })
}

/// Restores an identity to `path`; it is durable when this returns. `path` must have nothing that could be lost: it
/// has no identity, or the same one, which was ceded there before.
///
/// # Errors
/// [`StateError::Checkpoint`]: load and deed do not belong together. [`StateError::Application`]: the application does
/// not take its state in. [`StateError::Exists`]. [`StateError::Io`]: nothing has changed.
pub fn restore<A: Checkpoint>(
    path: impl AsRef<Path>,
    reader: &SecretKey,
    load: &[u8],
    deed: &[u8],
) -> Result<Restored<A>, StateError> {
    Landing::beside(path).restore(reader, &open_load(load, reader)?, deed)
}

fn deed_of(secret: &[u8; 32], ceded: &Ceded) -> Result<Deed, StateError> {
    let mut content = Zeroizing::new(Vec::with_capacity(DEED.len() + 16 + 32));
    content.extend_from_slice(DEED);
    content.extend_from_slice(&ceded.attempt.0);
    content.extend_from_slice(secret);
    let sealed = sealed::seal(&content, &ceded.to, &SecretKey::from_bytes(fresh()?));
    sealed.map(Deed).ok_or(StateError::Target { to: ceded.to })
}

/// Removes a file; this is durable when it returns.
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
