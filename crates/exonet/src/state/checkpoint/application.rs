//! The state of an application that moves with the identity of its node.

use std::error::Error;
use std::path::Path;

use super::StateError;

/// Why an application could not give its state, or could not take it in.
pub type ApplicationError = Box<dyn Error + Send + Sync>;

/// The state of an application that moves with the identity of its node. The application gives its state as bytes when
/// the checkpoint is made, and takes the bytes in when the identity is restored.
///
/// [`Node::checkpoint`](crate::Node::checkpoint), [`StateDir::checkpoint`](super::StateDir::checkpoint) and
/// [`StateDir::checkpoint_file`](super::StateDir::checkpoint_file) ask the application for its state.
/// [`restore_file`](super::restore_file), [`restore`](super::restore) and [`Landing::restore`](super::Landing::restore)
/// give the state back. The checkpoint is encrypted as a whole, with these bytes. An application without such state
/// gives `()`. An application that has its state as bytes gives a `Vec<u8>`.
///
/// The checkpoint is consistent. The node is frozen, so it gives the application nothing that could change the state.
/// The messages, calls and streams in the checkpoint belong to the same instant as the state.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use exonet::state::{self, ApplicationError, Checkpoint, StateDir};
/// use exonet::{Allow, Node};
///
/// struct Counter(AtomicU64);
///
/// impl Checkpoint for Counter {
///     fn checkpoint(&self) -> Result<Vec<u8>, ApplicationError> {
///         Ok(self.0.load(Ordering::Relaxed).to_be_bytes().to_vec())
///     }
///
///     fn restore(bytes: &[u8]) -> Result<Self, ApplicationError> {
///         Ok(Self(AtomicU64::new(u64::from_be_bytes(bytes.try_into()?))))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let world = tempfile::tempdir()?;
/// # let [here, there, machine, file] = ["here", "there", "machine", "file"].map(|name| world.path().join(name));
/// // The new machine has an identity of its own, for which the checkpoint is encrypted.
/// let target = StateDir::create(&machine, &[7; 32])?;
/// let to = state::SecretKey::from_bytes(**target.secret()).node_id();
///
/// // The old machine: the node stops, and its identity is in the file.
/// let node = Node::builder(Allow::anyone()).state_dir(&here).bind("127.0.0.1:0").build().await?;
/// let counter = Counter(AtomicU64::new(41));
/// node.checkpoint(Duration::from_secs(5), &to, &counter, &file).await?;
/// assert!(StateDir::open(&here).is_err());
///
/// // The new machine: the identity lives there, and the counter goes on.
/// let restored = state::restore_file::<Counter>(&file, &machine, &there, None).await?;
/// assert_eq!(restored.application.0.fetch_add(1, Ordering::Relaxed), 41);
/// let node = Node::builder(Allow::anyone()).state_dir(&there).bind("127.0.0.1:0").build().await?;
/// assert_eq!(node.id(), restored.id);
/// # Ok(())
/// # }
/// ```
pub trait Checkpoint: Sized {
    /// Returns the state. The node is frozen: it hands out no more messages or calls.
    ///
    /// # Errors
    /// The application cannot give its state now. The identity then stays where it is.
    fn checkpoint(&self) -> Result<Vec<u8>, ApplicationError>;

    /// Takes in the state that [`Self::checkpoint`] returned at the former place.
    ///
    /// # Errors
    /// The bytes are not the state of this application. The identity is then not restored.
    fn restore(bytes: &[u8]) -> Result<Self, ApplicationError>;
}

/// The application has no state.
impl Checkpoint for () {
    fn checkpoint(&self) -> Result<Vec<u8>, ApplicationError> {
        Ok(Vec::new())
    }

    fn restore(bytes: &[u8]) -> Result<Self, ApplicationError> {
        match bytes.len() {
            0 => Ok(()),
            len => Err(format!(
                "the checkpoint has {len} bytes of state of an application, which this program does not take: restore \
                 it with that application"
            )
            .into()),
        }
    }
}

/// The state as it is.
impl Checkpoint for Vec<u8> {
    fn checkpoint(&self) -> Result<Vec<u8>, ApplicationError> {
        Ok(self.clone())
    }

    fn restore(bytes: &[u8]) -> Result<Self, ApplicationError> {
        Ok(bytes.to_vec())
    }
}

/// Asks `application` for its state. The directory of its identity is `place`.
pub(super) fn state_of(application: &impl Checkpoint, place: &Path) -> Result<Vec<u8>, StateError> {
    let failed = |error| StateError::Application { path: Some(place.into()), doing: "given", error };
    application.checkpoint().map_err(failed)
}

/// Makes an application of this state.
pub(super) fn from_state<A: Checkpoint>(bytes: &[u8]) -> Result<A, StateError> {
    A::restore(bytes).map_err(|error| StateError::Application { path: None, doing: "taken in", error })
}
