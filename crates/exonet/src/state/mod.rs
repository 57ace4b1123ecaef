//! The directory of one node identity: the minimum that a node keeps.
//!
//! | File | Holds | Changes |
//! |---|---|---|
//! | `lock` | the pid of the process that runs this identity, which holds the lock | at every start |
//! | `key` | the X25519 secret, which defines the node's identity | never |
//! | `clock` | [`ClockRecord`]: the numbers and stamps that may already be in use | once per block; every few seconds of first contacts |
//! | `journal` | a folder: the records of messages that the node has not settled yet (see [`Durability`](crate::Durability)) | with each message |
//! | `dead` | a folder: the messages that the node has rejected (see [`dead`](crate::dead)) | with each such message |
//! | `moved` | the node to which the identity was ceded; it can no longer be opened here | once |
//! | `attempt` | the checkpoint by which the identity came here; present if it ever moved | at each move |
//! | `arrived` | nothing: the file exists if the identity was [restored](restore) here, and its peers may not know the new address yet ([`has_arrived`]) | once per move |
//! | `pins` | a folder: the node that was found under each [name](crate::naming) | with each new name |
//! | `restored` | a folder: for each identity that this node has [restored](restore_file) from a file, the latest checkpoint | with each such checkpoint |
//! | `restoring` | a folder: the lock of a process that restores a file that is sealed for this node | with each such file |
//! | `superseded` | the mark that the identity lives elsewhere, though it was not ceded here: this is a copy | once |
//! | `term` | [`Term`]: how many times the identity has moved; present if it ever moved | at each move |
//! | `strays` | the stamps of senders whose clocks are far ahead; present if there ever was such a sender | with each such sender |
//! | `early` | the early messages that a node without a journal took, for the next life if the process dies; never forced | with each first message |
//!
//! Exactly-once delivery requires that `clock` never goes back as long as peers know `key`. So this module
//! guarantees:
//!
//! * Only one process at a time runs an identity: the owner of a [`StateDir`] holds the lock, and [`StateDir::store`]
//!   fails if the lock file was removed or replaced meanwhile.
//! * A damaged or missing file is an error that says what to do. This module never replaces such a file silently,
//!   since a new `clock` under an old `key` would use numbers twice.
//! * A record that [`StateDir::store`] has stored survives a crash of the process or of the machine, and every later
//!   record is at least as large.
//! * All calls wait for the disk. Call them from a thread that may block.
//!
//! The rest is up to the user: this module cannot tell a copied or rolled-back directory from the original. The user
//! may restore `key` from a backup, since it never changes, but not `clock`.

mod checkpoint;
mod clock;
pub(crate) mod disk;
mod error;
mod journal;
mod key;
mod line;
mod lock;
mod notes;
mod outbox;
mod pins;
mod place;
mod sessions;
mod strays;
mod superseded;
mod term;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use exonet_proto::NodeId;
use exonet_proto::node::{Far, Notes};
use zeroize::Zeroizing;

pub use checkpoint::{
    Ahead, ApplicationError, Arrival, Arriving, Attempt, Ceded, Checkpoint, Deed, Draft, Landing, Load,
    RestoreError, Restored, ceded, deed, finish_file, forget_arrival, has_arrived, lives, open_load, restore,
    restore_file, take_back,
};
pub use clock::ClockRecord;
pub use error::StateError;
pub use exonet_proto::crypto::SecretKey;
pub use outbox::{KeptDelivery, KeptMessage, Outbox};
pub use sessions::KeptSession;

use crate::dead::{DeadLetters, Folder};
use crate::naming::Name;
use clock::Clock;
use lock::Lock;
pub(crate) use lock::is_same;
use notes::NotesFile;
use strays::Strays;
pub use term::Term;

/// The open and locked directory of one identity. Dropping it releases the lock.
pub struct StateDir {
    path: PathBuf,
    lock: Lock,
    secret: Zeroizing<[u8; 32]>,
    clock: Mutex<Clock>,
    strays: Strays,
    term: Term,
    notes: Mutex<NotesFile>,
}

impl StateDir {
    /// Opens the identity in `path` and locks it.
    ///
    /// # Errors
    /// [`StateError::Missing`] if no identity was ever created there. [`StateError::Locked`] while another process,
    /// or another `StateDir` of this process, has it. See [`StateError`] for damage.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StateError> {
        let path = path.as_ref();
        // Checked first, so that a wrong path gets no lock file.
        if !disk::exists(&path.join(key::FILE))? && !disk::exists(&path.join(clock::FILE))? {
            return Err(StateError::Missing { path: path.into() });
        }
        let lock = Lock::acquire(path)?;
        Self::load_locked(path, lock)?.map_err(|_| StateError::Missing { path: path.into() })
    }

    /// Reads the secret of the identity in `path`, while another process may run it. That is enough to know the id,
    /// but not to run the node.
    ///
    /// # Errors
    /// [`StateError::Missing`] if there is no key; otherwise an error about the key.
    pub fn peek(path: impl AsRef<Path>) -> Result<Zeroizing<[u8; 32]>, StateError> {
        let key = path.as_ref().join(key::FILE);
        if !disk::exists(&key)? {
            return Err(StateError::Missing { path: path.as_ref().into() });
        }
        key::read(&key)
    }

    /// Reads the term of the identity in `path`, while another process may run it.
    ///
    /// # Errors
    /// The errors of [`StateDir::peek`].
    pub fn peek_term(path: impl AsRef<Path>) -> Result<Term, StateError> {
        let secret = Self::peek(&path)?;
        term::read(&path.as_ref().join(term::FILE), key::fingerprint(&secret))
    }

    /// Makes `path` the directory of a new identity with this X25519 secret, and opens it. Creates missing
    /// directories, which only the owner may enter.
    ///
    /// # Errors
    /// [`StateError::Exists`] if there is an identity already. It stays as it was.
    pub fn create(path: impl AsRef<Path>, secret: &[u8; 32]) -> Result<Self, StateError> {
        let path = path.as_ref();
        let lock = Self::lock_new(path)?;
        match Self::load_locked(path, lock)? {
            Ok(_) => Err(StateError::Exists { path: path.into() }),
            Err(lock) => Self::create_locked(path, lock, secret),
        }
    }

    /// The messages that nodes of this identity have rejected.
    pub fn dead_letters(&self) -> DeadLetters {
        Self::dead_letters_of(&self.path)
    }

    /// The dead letters of the identity in `path`, while another process may run it: each letter is a file of its
    /// own.
    pub fn dead_letters_of(path: impl AsRef<Path>) -> DeadLetters {
        DeadLetters::in_folder(Folder::new(path.as_ref().join("dead")))
    }

    /// Opens the identity in `path`. If there is none, creates it with a secret from `secret`.
    ///
    /// # Errors
    /// The errors of [`StateDir::open`] and [`StateDir::create`]. A damaged identity is an error, and is not created anew.
    pub fn open_or_create(
        path: impl AsRef<Path>,
        secret: impl FnOnce() -> Zeroizing<[u8; 32]>,
    ) -> Result<Self, StateError> {
        let path = path.as_ref();
        let lock = Self::lock_new(path)?;
        match Self::load_locked(path, lock)? {
            Ok(dir) => Ok(dir),
            Err(lock) => Self::create_locked(path, lock, &secret()),
        }
    }

    /// Where the identity called `name` lives: in `$EXONET_STATE/name` if that is set. Otherwise it lives where the
    /// platform keeps such data: `$XDG_STATE_HOME/exonet`, by default `~/.local/state/exonet`; `~/Library/Application
    /// Support/exonet` on macOS; `%LOCALAPPDATA%\exonet` on Windows.
    ///
    /// # Errors
    /// [`StateError::Name`] unless `name` is 1 to 64 of `A-Z a-z 0-9 . _ -`, begins with a letter or digit, and
    /// does not end with `.arriving`, `.former` or `.door`;
    /// [`StateError::NoHome`] if the environment names no such place.
    pub fn named(name: &str) -> Result<PathBuf, StateError> {
        place::named(name)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The node's X25519 secret. The caller should keep copies in a [`Zeroizing`] buffer too.
    pub fn secret(&self) -> &Zeroizing<[u8; 32]> {
        &self.secret
    }

    /// The durable record: the one that was found when the directory was opened, or the one last stored.
    pub fn load(&self) -> ClockRecord {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).durable()
    }

    /// Stores `record`; it is durable when this returns.
    ///
    /// # Errors
    /// [`StateError::Backwards`] if a field is smaller than one that was stored, or that may have been stored;
    /// [`StateError::Exhausted`] beyond [`exonet_proto::MAX_NUMBER`]; [`StateError::LockLost`]; [`StateError::Io`].
    ///
    /// After an error, either the previous record or this one is on disk, and no other. A node that cannot store must
    /// stop, or wait with what depends on the record and store the same again, as nodes do for want of room.
    pub fn store(&self, record: ClockRecord) -> Result<(), StateError> {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock.verify()?;
        clock.store(record)
    }

    /// The path of the identity's journal. It exists if the identity keeps one.
    pub fn journal(&self) -> PathBuf {
        self.path.join(journal::DIR)
    }

    /// A tag that distinguishes the journal of this identity from others. It is derived from the secret, and does not
    /// reveal it.
    pub(crate) fn journal_tag(&self) -> [u8; 32] {
        key::journal_tag(&self.secret)
    }

    /// Puts the journal of a former life aside, since it would be out of date from now on. Returns false if there is
    /// none.
    pub(crate) fn retire_journal(&self) -> Result<bool, StateError> {
        self.lock.verify()?;
        journal::retire(&self.path)
    }

    /// The current term of the identity.
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Notes that the identity lives elsewhere, as `generation`: it can no longer be opened here. The note is durable
    /// when this returns.
    ///
    /// # Errors
    /// The errors of [`StateDir::store`].
    pub fn supersede(&self, generation: u64) -> Result<(), StateError> {
        self.lock.verify()?;
        superseded::write(&self.path, key::fingerprint(&self.secret), generation)
    }

    /// The nodes that were found under each name.
    pub(crate) fn pins(&self) -> Result<BTreeMap<Name, NodeId>, StateError> {
        pins::read(&self.path)
    }

    /// Stores the nodes of all names; they are durable when this returns.
    pub(crate) fn store_pins(&self, pins: &BTreeMap<Name, NodeId>) -> Result<(), StateError> {
        self.lock.verify()?;
        pins::write(&self.path, pins)
    }

    /// The senders whose clocks are far ahead of this node's, as found when the directory was opened, with the
    /// refused stamps of each.
    pub fn strays(&self) -> &[(NodeId, Far)] {
        self.strays.found()
    }

    /// Stores `strays` in place of the previous ones; they are durable when this returns.
    ///
    /// # Errors
    /// The errors of [`StateDir::store`].
    pub fn store_strays(&self, strays: &[(NodeId, Far)]) -> Result<(), StateError> {
        self.lock.verify()?;
        self.strays.store(strays)
    }

    /// The notes of the previous life about early messages. None: some of them may be lost, for example because
    /// the machine has restarted.
    pub fn notes(&self) -> Option<Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).found().cloned()
    }

    /// Writes notes that survive the death of the process, but perhaps not that of the machine. The first write of a
    /// life replaces the previous notes by a summary, their hull.
    ///
    /// # Errors
    /// [`StateError::Io`]: the previous notes are still there, but they are incomplete. The node must stop.
    pub fn note(&self, notes: &Notes) -> Result<(), StateError> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).write(notes)
    }

    fn lock_new(path: &Path) -> Result<Lock, StateError> {
        disk::create_dirs(path)?;
        Lock::acquire(path)
    }

    /// Reads the identity under its lock. `Ok(Err(lock))`: there is none.
    fn load_locked(path: &Path, lock: Lock) -> Result<Result<Self, Lock>, StateError> {
        let (key_path, clock_path) = (path.join(key::FILE), path.join(clock::FILE));
        disk::remove_leftover(&key_path)?;
        if let Some(ceded) = checkpoint::ceded(path)? {
            return Err(StateError::Moved { path: path.into(), to: ceded.to });
        }
        if let Some(generation) = superseded::read(path)? {
            return Err(StateError::Superseded { path: path.into(), generation });
        }
        disk::remove_leftover(&clock_path)?;
        match (disk::exists(&key_path)?, disk::exists(&clock_path)?) {
            (false, false) => Ok(Err(lock)),
            // A creation writes the clock first. So this one was cut short, and the identity was never used.
            (false, true) if clock::is_unused(&clock_path)? => Ok(Err(lock)),
            (false, true) => Err(StateError::KeyLost { path: path.into() }),
            (true, false) => Err(StateError::ClockLost { path: path.into() }),
            (true, true) => {
                let secret = key::read(&key_path)?;
                let clock = Clock::read(clock_path, key::fingerprint(&secret))?;
                let last = clock.durable().life;
                let notes = NotesFile::read(path.join(notes::FILE), key::fingerprint(&secret), last);
                let (clock, notes) = (Mutex::new(clock), Mutex::new(notes));
                let strays = Strays::read(path.join(strays::FILE), key::fingerprint(&secret))?;
                let term = term::read(&path.join(term::FILE), key::fingerprint(&secret))?;
                Ok(Ok(Self { path: path.into(), lock, secret, clock, strays, notes, term }))
            }
        }
    }

    fn create_locked(path: &Path, lock: Lock, secret: &[u8; 32]) -> Result<Self, StateError> {
        // The key is written last: if there is a key, its clock is durable.
        let clock = Mutex::new(Clock::create(path.join(clock::FILE), key::fingerprint(secret))?);
        let strays = Strays::read(path.join(strays::FILE), key::fingerprint(secret))?;
        let notes = Mutex::new(NotesFile::read(path.join(notes::FILE), key::fingerprint(secret), 0));
        key::create(&path.join(key::FILE), secret)?;
        let (secret, term) = (Zeroizing::new(*secret), Term::default());
        Ok(Self { path: path.into(), lock, secret, clock, strays, notes, term })
    }
}

impl fmt::Debug for StateDir {
    /// Shows the directory and its record, but never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateDir")
            .field("path", &self.path)
            .field("clock", &self.load())
            .finish_non_exhaustive()
    }
}
