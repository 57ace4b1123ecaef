//! The directory of one node identity: the minimum that a node keeps.
//!
//! | File | Holds | Changes |
//! |---|---|---|
//! | `lock` | the pid of the process that runs this identity, which holds the lock | at every start |
//! | `key` | the X25519 secret: the node *is* this key | never |
//! | `clock` | [`ClockRecord`]: the numbers and stamps that may already be in use | once per block; every few seconds of first contacts |
//! | `journal` | a folder: the records of messages that the node has not settled yet (see [`Durability`](crate::Durability)) | with each message |
//! | `dead` | a folder: the messages that the node has rejected (see [`dead`](crate::dead)) | with each such message |
//! | `moved` | the node that the identity was ceded to: it no longer opens here | once |
//! | `attempt` | the checkpoint by which the identity came here; present if it ever has moved | at each move |
//! | `pins` | a folder: the node that was met under each [name](crate::naming) | with each new name |
//! | `superseded` | the mark that the identity lives elsewhere, though it was not ceded here: this is a copy | once |
//! | `term` | [`Term`]: how often the identity has moved; present if it ever has | at each move |
//! | `strays` | the stamps of senders whose clocks are far ahead; present if there ever was such a sender | with each such sender |
//! | `early` | the early messages that a node without a journal took, for the life after the death of the process; never forced | with each first message |
//!
//! Exactly-once delivery requires that `clock` never goes back under a `key` that peers know. Hence the contract:
//!
//! * One process per identity: the owner of a [`StateDir`] holds the lock, and [`StateDir::store`] fails once
//!   the lock file was replaced behind its back.
//! * A damaged or missing file is an error that says what to do. It is never replaced silently, because a
//!   fresh `clock` under an old `key` would use numbers twice.
//! * A record that [`StateDir::store`] has stored survives a crash of the process or of the machine, and every later
//!   record is at least as large.
//! * All calls block on the disk: make them from a thread that may block.
//!
//! The rest is up to the user: a copied or rolled-back directory cannot be told from the original. `key` may be
//! restored from a backup, since it never changes; `clock` may not.

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
    Ahead, Arriving, Attempt, Ceded, Deed, Landing, Load, Restored, ceded, check_deed, deed, lives,
    open_load, restore, take_back,
};
pub use clock::ClockRecord;
pub use error::StateError;
pub use exonet_proto::crypto::SecretKey;
pub use outbox::{KeptDelivery, KeptMessage, Outbox};

use crate::dead::{DeadLetters, Folder};
use crate::naming::Name;
use clock::Clock;
use lock::Lock;
pub(crate) use lock::is_same;
use notes::NotesFile;
use strays::Strays;
pub use term::Term;

/// The open, locked directory of one identity. Dropping it releases the lock.
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
    /// [`StateError::Missing`] if no identity was ever created there, [`StateError::Locked`] while another process (or
    /// another `StateDir` of this process) has it; see [`StateError`] for damage.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StateError> {
        let path = path.as_ref();
        // Checked first, so that opening a wrong path leaves no lock file there.
        if !disk::exists(&path.join(key::FILE))? && !disk::exists(&path.join(clock::FILE))? {
            return Err(StateError::Missing { path: path.into() });
        }
        let lock = Lock::acquire(path)?;
        Self::load_locked(path, lock)?.map_err(|_| StateError::Missing { path: path.into() })
    }

    /// Reads the secret of the identity in `path`, which another process may be running: enough to know the id, but not
    /// to run the node.
    ///
    /// # Errors
    /// [`StateError::Missing`] if there is no key; else the error of the key.
    pub fn peek(path: impl AsRef<Path>) -> Result<Zeroizing<[u8; 32]>, StateError> {
        let key = path.as_ref().join(key::FILE);
        if !disk::exists(&key)? {
            return Err(StateError::Missing { path: path.as_ref().into() });
        }
        key::read(&key)
    }

    /// Reads the term of the identity in `path`, which another process may be running.
    ///
    /// # Errors
    /// As for [`StateDir::peek`].
    pub fn peek_term(path: impl AsRef<Path>) -> Result<Term, StateError> {
        let secret = Self::peek(&path)?;
        term::read(&path.as_ref().join(term::FILE), key::fingerprint(&secret))
    }

    /// Makes `path` the directory of a new identity with this X25519 secret, and opens it. Directories that do
    /// not exist are created, closed to group and others.
    ///
    /// # Errors
    /// [`StateError::Exists`] if an identity is there already; it stays as it was.
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

    /// The dead letters of the identity in `path`, which another process may be running: each is in a whole file.
    pub fn dead_letters_of(path: impl AsRef<Path>) -> DeadLetters {
        DeadLetters::in_folder(Folder::new(path.as_ref().join("dead")))
    }

    /// Opens the identity in `path`, or creates it with a secret from `secret` if there is none.
    ///
    /// # Errors
    /// As for [`StateDir::open`] and [`StateDir::create`]. A damaged identity is an error, and is not created anew.
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

    /// Where the identity called `name` lives: `$EXONET_STATE/name` if that is set, otherwise below the place
    /// for such data on this platform (`$XDG_STATE_HOME/exonet`, by default `~/.local/state/exonet`;
    /// `~/Library/Application Support/exonet` on macOS; `%LOCALAPPDATA%\exonet` on Windows).
    ///
    /// # Errors
    /// [`StateError::Name`] unless `name` is 1 to 64 of `A-Z a-z 0-9 . _ -`, beginning with a letter or digit;
    /// [`StateError::NoHome`] if the environment names no such place.
    pub fn named(name: &str) -> Result<PathBuf, StateError> {
        place::named(name)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The node's X25519 secret. A copy should stay in a [`Zeroizing`] buffer too.
    pub fn secret(&self) -> &Zeroizing<[u8; 32]> {
        &self.secret
    }

    /// The durable record: the one found on opening, or the last one stored.
    pub fn load(&self) -> ClockRecord {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).durable()
    }

    /// Makes `record` durable on return.
    ///
    /// # Errors
    /// [`StateError::Backwards`] if a field is smaller than one that was stored, or may have been;
    /// [`StateError::Exhausted`] beyond [`exonet_proto::MAX_NUMBER`]; [`StateError::LockLost`]; [`StateError::Io`].
    /// After an error, either the previous record or this one is on disk, and no other: a node that cannot store must
    /// stop.
    pub fn store(&self, record: ClockRecord) -> Result<(), StateError> {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock.verify()?;
        clock.store(record)
    }

    /// The path of the identity's journal, if it keeps one.
    pub fn journal(&self) -> PathBuf {
        self.path.join(journal::DIR)
    }

    /// The tag that tells this identity's journal from others: it is derived from the secret, and does not reveal it.
    pub(crate) fn journal_tag(&self) -> [u8; 32] {
        key::journal_tag(&self.secret)
    }

    /// Puts the journal of a former life aside, since it would be out of date from now on. False: there is none.
    pub(crate) fn retire_journal(&self) -> Result<bool, StateError> {
        self.lock.verify()?;
        journal::retire(&self.path)
    }

    /// The term of the identity: its current stay.
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Marks that the identity lives elsewhere as `generation`: it no longer opens here. The mark is durable on return.
    ///
    /// # Errors
    /// As for [`StateDir::store`].
    pub fn supersede(&self, generation: u64) -> Result<(), StateError> {
        self.lock.verify()?;
        superseded::write(&self.path, key::fingerprint(&self.secret), generation)
    }

    /// The nodes that were met under each name.
    pub(crate) fn pins(&self) -> Result<BTreeMap<Name, NodeId>, StateError> {
        pins::read(&self.path)
    }

    /// Makes these pins durable.
    pub(crate) fn store_pins(&self, pins: &BTreeMap<Name, NodeId>) -> Result<(), StateError> {
        self.lock.verify()?;
        pins::write(&self.path, pins)
    }

    /// The senders, as found on opening, whose clocks are far ahead of this node's, each with its refused stamps.
    pub fn strays(&self) -> &[(NodeId, Far)] {
        self.strays.found()
    }

    /// Makes `strays` durable, in place of the previous ones.
    ///
    /// # Errors
    /// As for [`StateDir::store`].
    pub fn store_strays(&self, strays: &[(NodeId, Far)]) -> Result<(), StateError> {
        self.lock.verify()?;
        self.strays.store(strays)
    }

    /// The notes of the previous life about early messages, if the machine has run since and nothing is lost.
    pub fn notes(&self) -> Option<Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).found().cloned()
    }

    /// Writes notes that survive the death of the process, though not of the machine. The first write of a life
    /// replaces the previous notes with their hull.
    ///
    /// # Errors
    /// [`StateError::Io`]: the previous notes are still there, but are incomplete. The node must stop.
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
            // A creation writes the clock first, so this one was cut short; the identity was never used.
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
        // The key comes last: where there is a key, its clock is durable.
        let clock = Mutex::new(Clock::create(path.join(clock::FILE), key::fingerprint(secret))?);
        let strays = Strays::read(path.join(strays::FILE), key::fingerprint(secret))?;
        let notes = Mutex::new(NotesFile::read(path.join(notes::FILE), key::fingerprint(secret), 0));
        key::create(&path.join(key::FILE), secret)?;
        let (secret, term) = (Zeroizing::new(*secret), Term::default());
        Ok(Self { path: path.into(), lock, secret, clock, strays, notes, term })
    }
}

impl fmt::Debug for StateDir {
    /// Shows the directory and its record, never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateDir")
            .field("path", &self.path)
            .field("clock", &self.load())
            .finish_non_exhaustive()
    }
}
