//! Restores an identity from the file of a checkpoint.

use std::fmt;
use std::path::{Path, PathBuf};

use exonet_proto::NodeId;
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::file::Sealed;
use super::landing::{Landing, open_deed};
use super::record::{Entry, Record};
use super::{Checkpoint, Restored, open_load};
use crate::naming::{Naming, NamingError};
use crate::state::error::StateError;
use crate::state::{SecretKey, StateDir, Term};

/// Why the file of a checkpoint was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file or the place cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The name service does not let the identity live there.
    #[error("the identity does not live in {}: {error}", place.display())]
    Naming {
        /// The directory in which it was to live.
        place: PathBuf,
        /// The error of the name service.
        error: NamingError,
    },
    /// The runtime has ended.
    #[error("the runtime has ended")]
    Ended,
}

/// Restores the identity in a file of [`Node::checkpoint`](crate::Node::checkpoint) to the directory `place`. The
/// identity is durable there when this returns. The file is sealed for the identity whose directory is `keeper`. A
/// process may be running that identity.
///
/// A record in `keeper` says which checkpoint was restored. The same file, or an older one, is refused after that, at
/// any place. If `naming` is an authority, this function claims the identity there before the identity lives here. So if
/// the file is restored at two places, the identity lives at one of them.
///
/// # Errors
/// [`StateError::Arrived`]: an earlier call has restored this file to `place`, and the identity lives there. Nothing has
/// changed. Any other [`RestoreError`]: the identity does not live here, and nothing is left behind, with two exceptions.
/// If the name service did not answer, or if `place` was taken meanwhile, everything except the key stays beside `place`,
/// and the same call goes on.
pub async fn restore_file<A: Checkpoint + Send + 'static>(
    file: impl AsRef<Path>,
    keeper: impl AsRef<Path>,
    place: impl AsRef<Path>,
    naming: Option<&dyn Naming>,
) -> Result<Restored<A>, RestoreError> {
    let arrival = Arrival::read(file, keeper, place).await?;
    let arrival = match naming {
        Some(naming) => arrival.claim(naming).await?,
        None => arrival,
    };
    arrival.live().await
}

/// An identity whose data, except the key, is durable beside its place. It has the steps of [`restore_file`] one by one,
/// for a name service that wants the key of the identity.
pub struct Arrival<A> {
    id: NodeId,
    term: Term,
    application: A,
    record: Record,
    entry: Entry,
    landing: Landing,
    secret: Zeroizing<[u8; 32]>,
}

impl<A: Checkpoint + Send + 'static> Arrival<A> {
    /// Reads `file`, checks that it may be restored, and writes everything except the key beside `place`.
    ///
    /// # Errors
    /// [`RestoreError::State`]: nothing has changed.
    pub async fn read(
        file: impl AsRef<Path>,
        keeper: impl AsRef<Path>,
        place: impl AsRef<Path>,
    ) -> Result<Self, RestoreError> {
        let [file, keeper, place] = [file.as_ref(), keeper.as_ref(), place.as_ref()].map(Path::to_owned);
        blocking(move || Self::land(&file, &keeper, place).map_err(|error| about(&file, error))).await
    }

    fn land(file: &Path, keeper: &Path, place: PathBuf) -> Result<Self, StateError> {
        let sealed = Sealed::read(file)?;
        let reader = SecretKey::from_bytes(*StateDir::peek(keeper)?);
        sealed.is_for(file, &reader)?;
        let arriving = open_load(&sealed.load, &reader)?;
        let secret = open_deed(&sealed.deed, &reader, &arriving)?;
        if sealed.id != arriving.id || sealed.attempt != arriving.attempt {
            return Err(super::checkpoint("its head belongs to another checkpoint"));
        }
        let application = arriving.application()?;
        let record = Record::open(keeper, arriving.id)?;
        let mut landing = Landing::beside(place);
        let entry = Entry::new(arriving.generation, arriving.attempt, landing.place());
        landing.has_not_arrived(arriving.attempt)?;
        record.admits(file, &entry, landing.has(arriving.attempt)?)?;
        landing.is_free_for(&arriving)?;
        if let Err(error) = landing.take_in(&arriving) {
            // If this fails too, the caller still gets the first error.
            let _ = landing.clear();
            return Err(error);
        }
        let term = landing.term(&arriving)?;
        Ok(Self { id: arriving.id, term, application, record, entry, landing, secret })
    }

    /// The id of the identity.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The key of the identity, for a name service that wants a proof by it.
    pub fn key(&self) -> SecretKey {
        SecretKey::from_bytes(*self.secret)
    }

    /// Claims at the name service that the identity lives here. A service that is no authority is not asked.
    ///
    /// # Errors
    /// [`RestoreError::Naming`]: the identity does not live here. With [`NamingError::Superseded`] it lives elsewhere, and
    /// nothing is left here.
    pub async fn claim(self, naming: &dyn Naming) -> Result<Self, RestoreError> {
        if !naming.is_authority() {
            return Ok(self);
        }
        let error = match naming.claim(&self.id, self.term).await {
            Ok(()) => return Ok(self),
            Err(error) => error,
        };
        // With any other error, the service may have granted the claim. It granted that to the lineage that has landed,
        // so everything stays.
        let place = self.landing.place().to_owned();
        if matches!(error, NamingError::Superseded { .. }) {
            let Self { mut landing, .. } = self;
            blocking(move || landing.clear()).await?;
        }
        Err(RestoreError::Naming { place, error })
    }

    /// Lets the identity live at its place. It is durable there when this returns.
    ///
    /// # Errors
    /// [`RestoreError::State`]: it does not live there.
    pub async fn live(self) -> Result<Restored<A>, RestoreError> {
        blocking(move || {
            let Self { id, term, application, record, entry, mut landing, secret } = self;
            // After the note, the checkpoint can be restored at no other place. So the steps that can fail come first.
            let ready = landing.ready(&id, entry.generation)?;
            record.note(&entry)?;
            landing.live(&secret, ready)?;
            Ok(Restored { id, place: landing.place().to_owned(), term, application })
        })
        .await
    }
}

impl<A> fmt::Debug for Arrival<A> {
    /// Shows the identity, but never its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("id", &self.id).field("term", &self.term).finish_non_exhaustive()
    }
}

/// Names the file in an error about the bytes of its checkpoint.
fn about(file: &Path, error: StateError) -> StateError {
    let path = file.to_owned();
    match error {
        StateError::Checkpoint { what } => StateError::CheckpointFile { path, what },
        StateError::Application { path: None, doing, error } => {
            StateError::Application { path: Some(path), doing, error }
        }
        error => error,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, RestoreError> {
    Ok(spawn_blocking(work).await.map_err(|_| RestoreError::Ended)??)
}
