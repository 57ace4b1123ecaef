//! The state of a door on the disk.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use exonet::NodeId;
use exonet::state::{self, Arriving, Attempt, Landing, SecretKey, StateDir, Term};

use super::point;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::store::sync_directory;

/// The directory beside an identity that is to arrive. It has the door's own identity, and the data that has arrived.
pub(super) struct Vestibule {
    path: PathBuf,
    /// Where the identity will live.
    to: PathBuf,
    id: NodeId,
    landing: Mutex<Landing>,
    /// The load that has landed, opened. None: this process has not opened it yet.
    arriving: Mutex<Option<Arriving>>,
}

impl Vestibule {
    fn beside(of: &Path, id: NodeId) -> Self {
        let mut path = of.as_os_str().to_owned();
        path.push(".door");
        let landing = Mutex::new(Landing::beside(of));
        Self { path: path.into(), to: of.to_owned(), id, landing, arriving: Mutex::default() }
    }

    pub(super) fn open(of: &Path, id: NodeId) -> Result<Self, Failure> {
        let vestibule = Self::beside(of, id);
        let secret = crate::identity::fresh_secret()?;
        let opened = StateDir::open_or_create(vestibule.state(), || secret);
        drop(opened.map_err(|error| Failure::new("cannot open a door for the identity").because(&error))?);
        Ok(vestibule)
    }

    /// The vestibule of an identity that has arrived, if the former place may not have got the confirmation.
    pub(super) fn left(of: &Path, id: NodeId) -> Option<Self> {
        let vestibule = Self::beside(of, id);
        vestibule.path.join("deed").exists().then_some(vestibule)
    }

    pub(super) const fn id(&self) -> NodeId {
        self.id
    }

    /// Where the identity will live.
    pub(super) fn to(&self) -> &Path {
        &self.to
    }

    pub(super) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    pub(super) fn key(&self) -> Result<SecretKey, Failure> {
        Identity::Stored { name: "door".to_owned(), path: self.state() }.key()
    }

    fn landing(&self) -> MutexGuard<'_, Landing> {
        self.landing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arriving(&self) -> MutexGuard<'_, Option<Arriving>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The load that has landed, opened. None: none has landed.
    fn opened(&self, key: &SecretKey) -> Result<MutexGuard<'_, Option<Arriving>>, Failure> {
        let mut opened = self.arriving();
        if opened.is_none() {
            let load = self.kept("load")?.map(|load| state::open_load(&load, key));
            *opened = load.transpose().map_err(|error| cannot(&error))?;
        }
        Ok(opened)
    }

    /// Stores a piece that arrived ahead of the load. `is_latest` says whether no later move has begun: a piece of an earlier
    /// one would remove what the later one has brought.
    pub(super) fn ahead(&self, piece: &[u8], is_latest: impl FnOnce() -> bool) -> Result<(), Failure> {
        let mut landing = self.landing();
        if !is_latest() {
            return Err(superseded());
        }
        landing.ahead(piece).map_err(|error| cannot(&error))
    }

    /// Assembles all of the identity but its key. `is_latest`: see [`Self::ahead`].
    pub(super) fn land(&self, load: &[u8], is_latest: impl FnOnce() -> bool) -> Result<Attempt, Failure> {
        let key = self.key()?;
        // This is checked first: no data of another identity may reach the disk.
        let arriving = state::open_load(load, &key).map_err(|error| cannot(&error))?;
        if arriving.id != self.id {
            return Err(Failure::new("this door waits for another identity"));
        }
        // This check must come before the identity is ceded.
        arriving.application::<()>().map_err(|error| cannot(&error))?;
        point("door: load");
        // Held to the end, so that no other load comes in between.
        let mut opened = self.arriving();
        let mut landing = self.landing();
        if !is_latest() {
            return Err(superseded());
        }
        landing.land(&arriving).map_err(|error| cannot(&error))?;
        point("door: landed");
        self.keep("load", load)?;
        let attempt = arriving.attempt;
        *opened = Some(arriving);
        Ok(attempt)
    }

    /// Lets the identity live here, if the load and a deed have arrived. None: they have not.
    pub(super) fn finish(&self, deed: Option<&[u8]>) -> Result<Option<Term>, Failure> {
        let key = self.key()?;
        let kept = if deed.is_some() { None } else { self.kept("deed")? };
        let Some(bytes) = deed.or(kept.as_deref()) else { return Ok(None) };
        let mut opened = self.opened(&key)?;
        let Some(arriving) = &*opened else { return Ok(None) };
        if deed.is_some() {
            // A deed that does not match the load is not stored, since any node may send one.
            arriving.check_deed(bytes, &key).map_err(|error| cannot(&error))?;
            self.keep("deed", bytes)?;
            point("door: deed");
        }
        let restored = self.landing().restore::<()>(&key, arriving, bytes);
        let restored = restored.map_err(|error| cannot(&error))?;
        point("door: restored");
        *opened = None;
        Ok(Some(restored.term))
    }

    /// Whether `deed` belongs to the load that has landed. Only a node that acts for the identity has such a deed.
    pub(super) fn proves(&self, deed: &[u8]) -> Result<bool, Failure> {
        let key = self.key()?;
        let mut opened = self.opened(&key)?;
        let proves = opened.as_ref().is_some_and(|arriving| arriving.check_deed(deed, &key).is_ok());
        if proves {
            // The door remembers the caller, so the load is not needed again.
            *opened = None;
        }
        Ok(proves)
    }

    /// Removes the data of a former move, after which the identity has lived here and moved on as `generation`.
    pub(super) fn forget(&self, generation: u64) -> Result<(), Failure> {
        // A load that cannot be opened is of no use either.
        let is_later = match self.opened(&self.key()?).as_deref() {
            Ok(None) => return Ok(()),
            Ok(Some(arriving)) => arriving.generation > generation,
            Err(_) => false,
        };
        if is_later {
            return Ok(());
        }
        *self.arriving() = None;
        // The deed is removed first, because without it nothing happens.
        for name in ["deed", "load"] {
            match fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Failure::path("remove", &self.path.join(name), &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores `bytes` as the file `name`, atomically and durably.
    fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let written = || {
            let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|e| e.error)?;
            sync_directory(&self.path)
        };
        written().map_err(|error| Failure::path("write", &path, &error))
    }

    fn kept(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::path("read", &path, &error)),
        }
    }

    pub(super) fn clear(&self) {
        // Leftovers are useless: the load is encrypted for a key that is removed with it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn superseded() -> Failure {
    Failure::new("cannot accept the identity: a later move of it has begun")
}

fn cannot(error: &exonet::error::StateError) -> Failure {
    Failure::new("cannot accept the identity").because(error)
}
