//! The checkpoint of a running node.

use std::path::Path;
use std::time::{Duration, Instant};

use exonet_proto::NodeId;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::application::state_of;
use super::file::is_free;
use super::{Ceded, Checkpoint};
use crate::node::Node;
use crate::state::StateDir;
use crate::state::error::StateError;

/// The longest time that an unfinished write may hold the directory, and the interval between two checks.
const HOLD: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(1);

impl Node {
    /// [Freezes](Self::freeze) the node, waiting for `timeout` at most, and writes its identity, with everything that is
    /// under way and the state of `application`, to one new file for the node `to`. When this method returns, the node
    /// has ended, and its identity lives in the file only: it cannot be opened here again.
    /// [`restore_file`](crate::state::restore_file) takes it in.
    ///
    /// If its future is dropped after the freeze has begun, the node ends, and its identity may still be ceded, as
    /// after an error.
    ///
    /// # Errors
    /// [`StateError`]. If the file has no place under its name, the node goes on. Otherwise it has ended. [`ceded`](crate::state::ceded) tells whether the identity lives in its
    /// directory still; if it does not, [`finish_file`](crate::state::finish_file) finishes the file.
    pub async fn checkpoint(
        &self,
        timeout: Duration,
        to: &NodeId,
        application: &impl Checkpoint,
        file: impl AsRef<Path>,
    ) -> Result<Ceded, StateError> {
        let place = self.shared().place.clone().ok_or(StateError::Temporary)?;
        let (aim, id) = (file.as_ref().to_owned(), self.id());
        blocking(move || is_free(&aim, &id)).await?;
        self.freeze(timeout).await;
        let state = state_of(application)?;
        let until = Instant::now() + HOLD;
        let (to, file) = (*to, file.as_ref().to_owned());
        let dir = loop {
            let place = place.clone();
            match blocking(move || StateDir::open(place)).await {
                Err(StateError::Locked { .. }) if Instant::now() < until => sleep(AGAIN).await,
                opened => break opened?,
            }
        };
        blocking(move || dir.checkpoint_file(&to, &state, file)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, StateError> {
    let ended = |_| super::checkpoint("the runtime has ended");
    spawn_blocking(work).await.map_err(ended)?
}
